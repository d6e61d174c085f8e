"""Contradictions between a transfer's packets and its description, each as a sentence.

Faults of the captures themselves belong to suspect_captures.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owlt.captures.accounting.goodput import rate_over
from owlt.captures.frames.columns import Columns
from owlt.captures.matches.clocks import ClockRelation
from owlt.captures.matches.delivery import Delivery

MORE_THAN_ALL = 1.02
"""A link's rate as people know it is true to about that."""
_FEWEST_PACKETS = 10
"""Of fewer the rate is that of the clock that timed them."""
_CLOCK_NS = 2_000
"""What two timestamps of a microsecond may take from a delay."""
_ROUNDED = 0.999
"""A delay as people write it is true to about that."""


@dataclass(frozen=True)
class Claims:
    """The description of a transfer; None for what is not given. The rate is the forward channel's, the delays are the
    channel's, one way."""

    file_size_bytes: int | None = None
    rate_bps: float | None = None
    forward_delay_ns: int | None = None
    reverse_delay_ns: int | None = None

    @property
    def delays_ns(self) -> tuple[float, float] | None:
        """Both delays; None unless both are given."""
        there, back = self.forward_delay_ns, self.reverse_delay_ns
        return None if there is None or back is None else (float(there), float(back))


def contradictions(
    at_sender: Columns,
    at_receiver: Columns,
    deliveries: tuple[Delivery, Delivery],
    claims: Claims,
    carried_file_bytes: int | None,
    clocks: ClockRelation | None,
) -> list[str]:
    """The reasons to believe that captures and claims do not belong together; `clocks` is None if one clock took
    both captures."""
    forward, _ = deliveries
    sent_bytes = int(at_sender.wire_bytes[forward.near].sum(dtype=np.int64))
    return [
        *too_few_bytes(claims.file_size_bytes, carried_file_bytes, sent_bytes, "were sent by the sender"),
        *too_fast(at_receiver, forward.far, claims.rate_bps),
        *_missing_sessions(at_sender, at_receiver, deliveries),
        *_wrong_order(at_sender, at_receiver, deliveries, claims, clocks),
        *(_too_early(clocks, claims) if clocks is not None else ()),
    ]


def too_few_bytes(
    file_size_bytes: int | None, carried_file_bytes: int | None, frame_bytes: int, verb: str
) -> Iterator[str]:
    """If fewer bytes were transferred than the file has: different bytes of it in messages, or all bytes of frames.
    `verb` is what happened to the frames: "were sent by the sender"."""
    if file_size_bytes is None:
        return
    reason = (
        f"of a file of {file_size_bytes} bytes: the file size is wrong, or the transfer or the capture is incomplete"
    )
    if carried_file_bytes is not None and carried_file_bytes < file_size_bytes:
        yield f"the messages carry {carried_file_bytes} bytes {reason}"
    elif frame_bytes < file_size_bytes:
        yield f"{frame_bytes} bytes in total {verb}, {reason}"


def too_fast(capture: Columns, rows: NDArray[np.int64], rate_bps: float | None) -> Iterator[str]:
    """Where the packets of these rows, of a capture behind the channel, came faster than its rate lets them."""
    if rate_bps is None or len(rows) < _FEWEST_PACKETS:
        return
    times_ns = capture.time_ns[rows]
    first = int(np.argmin(times_ns))
    behind_the_first = int(capture.wire_bytes[rows].sum(dtype=np.int64)) - int(capture.wire_bytes[rows[first]])
    arrival_bps = rate_over(behind_the_first, int(times_ns[first]), int(times_ns.max()))
    if arrival_bps is not None and arrival_bps > MORE_THAN_ALL * rate_bps:
        yield (
            f"the sender's packets arrived at {arrival_bps / 1e3:.6g} kbit/s, faster than the channel's "
            f"{rate_bps / 1e3:.6g} kbit/s: the rate is wrong"
        )


def _missing_sessions(at_sender: Columns, at_receiver: Columns, deliveries: tuple[Delivery, Delivery]) -> Iterator[str]:
    forward, reverse = deliveries
    for capture, rows in (
        (at_sender, (forward.near, reverse.far)),
        (at_receiver, (forward.far, reverse.near)),
    ):
        if not len(capture):
            yield f"{capture.path.name} is empty: it has no frames"
        elif not any(map(len, rows)):
            yield f"{capture.path.name} has no packet of the session: are the session's ports and addresses right?"
    is_in_both = any(len(way.near) and len(way.far) for way in deliveries)
    if is_in_both and not any(len(way.sent) for way in deliveries):
        yield (
            "the captures have no packet in common: they are of different transfers, or addresses were rewritten "
            "between the ports"
        )


def _wrong_order(
    at_sender: Columns,
    at_receiver: Columns,
    deliveries: tuple[Delivery, Delivery],
    claims: Claims,
    clocks: ClockRelation | None,
) -> Iterator[str]:
    if at_sender.path.exists() and at_receiver.path.exists() and at_sender.path.samefile(at_receiver.path):
        yield "both captures are the same file: give one capture for each port"
        return
    there, back = (way.delay_ns[way.first_copies] for way in deliveries)
    if clocks is not None:
        if clocks.least_round_trip_ns is not None and clocks.least_round_trip_ns < -2 * clocks.error_ns:
            yield "packets return before they were sent: the files look swapped; give the sender's first"
        return
    delays = np.concatenate([there, back])
    claimed = (claims.forward_delay_ns, claims.reverse_delay_ns)
    if not len(delays):
        return
    if not delays.any() and claimed != (0, 0):
        yield "all delays are 0: both files contain the same capture"
        return
    ahead = [bool(np.median(way) < 0) for way in (there, back) if len(way)]
    if len(ahead) == 2 and all(ahead):
        yield "packets arrive before they are sent in both directions: the files look swapped; give the sender's first"
    elif len(ahead) == 1 and all(ahead):
        yield (
            "packets arrive before they are sent: the files are swapped (give the sender's first), or were taken with "
            "two clocks (use --clocks two)"
        )
    elif any(ahead):
        yield (
            "packets in one direction arrive before they are sent: the captures were taken with two clocks; "
            "use --clocks two"
        )
    else:
        for name, way, claimed_ns in (("forward", there, claimed[0]), ("reverse", back, claimed[1])):
            if claimed_ns is not None and len(way) and way.min() < _ROUNDED * claimed_ns - _CLOCK_NS:
                yield (
                    f"the smallest {name} one-way delay is {way.min() / 1e6:.3f} ms, less than the channel's "
                    f"{claimed_ns / 1e6:g} ms: the delay is wrong, or the captures were taken with two clocks (use "
                    f"--clocks two)"
                )


def _too_early(clocks: ClockRelation, claims: Claims) -> Iterator[str]:
    """If packets took less time than the claimed delays: the clocks' offset cancels in the round trip."""
    claimed_ns, measured_ns = claims.delays_ns, clocks.least_round_trip_ns
    if claimed_ns is None or measured_ns is None or measured_ns < 0:
        return
    if measured_ns < _ROUNDED * sum(claimed_ns) - 2 * _CLOCK_NS:
        yield (
            f"with corrected clocks the smallest round trip is {measured_ns / 1e6:.3f} ms, less than the channel's "
            f"{sum(claimed_ns) / 1e6:g} ms: the delay is wrong, or a clock was set during the capture"
        )

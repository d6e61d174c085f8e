"""What the packets of a transfer say against what is told of it: figures that cannot be, each as a sentence.

What is wrong with captures by themselves is suspicion.py's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captures.accounting.measures import rate_over
from captures.frames.columns import Columns
from captures.matches.clocks import ClockRelation
from captures.matches.matching import Delivery

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
    """What is said of a transfer; None where nothing is. The rate is that of the channel to the receiver, the delays
    are of the channel, one way."""

    file_size_bytes: int | None = None
    rate_bps: float | None = None
    forward_delay_ns: int | None = None
    reverse_delay_ns: int | None = None

    @property
    def delays_ns(self) -> tuple[float, float] | None:
        """Both delays; None unless both are said."""
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
    """The reasons to believe that captures and claims do not belong together; `clocks` is None where one clock took
    both captures."""
    forward, _ = deliveries
    sent_bytes = int(at_sender.wire_bytes[forward.near].sum(dtype=np.int64))
    return [
        *too_few_bytes(claims.file_size_bytes, carried_file_bytes, sent_bytes, "the sender sent"),
        *too_fast(at_receiver, forward.far, claims.rate_bps),
        *_missing_sessions(at_sender, at_receiver, deliveries),
        *_wrong_order(at_sender, at_receiver, deliveries, claims, clocks),
        *(_too_early(clocks, claims) if clocks is not None else ()),
    ]


def too_few_bytes(
    file_size_bytes: int | None, carried_file_bytes: int | None, frame_bytes: int, who: str
) -> Iterator[str]:
    """Where less went than the file has: different bytes of it in messages, or whole frames. `who` did what with the
    frames: "the sender sent"."""
    if file_size_bytes is None:
        return
    why = (
        f"of a file of {file_size_bytes} bytes: it has another size, or did not go as a whole, or was not all captured"
    )
    if carried_file_bytes is not None and carried_file_bytes < file_size_bytes:
        yield f"the messages carry {carried_file_bytes} bytes {why}"
    elif frame_bytes < file_size_bytes:
        yield f"{who} {frame_bytes} bytes in all, {why}"


def too_fast(capture: Columns, rows: NDArray[np.int64], rate_bps: float | None) -> Iterator[str]:
    """Where the packets of these rows, of a capture behind the channel, came faster than its rate lets them."""
    if rate_bps is None or len(rows) < _FEWEST_PACKETS:
        return
    times_ns = capture.time_ns[rows]
    first = int(np.argmin(times_ns))
    behind_the_first = int(capture.wire_bytes[rows].sum(dtype=np.int64)) - int(capture.wire_bytes[rows[first]])
    came_bps = rate_over(behind_the_first, int(times_ns[first]), int(times_ns.max()))
    if came_bps is not None and came_bps > MORE_THAN_ALL * rate_bps:
        yield (
            f"the sender's packets came out at {came_bps / 1e3:.6g} kbit/s, of a channel of {rate_bps / 1e3:.6g} "
            f"kbit/s: its rate is another"
        )


def _missing_sessions(at_sender: Columns, at_receiver: Columns, deliveries: tuple[Delivery, Delivery]) -> Iterator[str]:
    forward, reverse = deliveries
    for capture, rows in (
        (at_sender, (forward.near, reverse.far)),
        (at_receiver, (forward.far, reverse.near)),
    ):
        if not len(capture):
            yield f"{capture.path.name} is empty: it holds no frame at all"
        elif not any(map(len, rows)):
            yield f"{capture.path.name} holds no packet of the session: are its ports and addresses right?"
    is_in_both = any(len(way.near) and len(way.far) for way in deliveries)
    if is_in_both and not any(len(way.sent) for way in deliveries):
        yield (
            "no packet of one capture is in the other: they are not of the same transfer, or addresses were rewritten "
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
        yield "both captures are the same file: the two ports have a capture each"
        return
    there, back = (way.delay_ns[way.first_copies] for way in deliveries)
    if clocks is not None:
        if clocks.least_round_trip_ns is not None and clocks.least_round_trip_ns < 0:
            yield "packets come back before they went: the files look swapped: give the sender's first"
        return
    delays = np.concatenate([there, back])
    told = (claims.forward_delay_ns, claims.reverse_delay_ns)
    if not len(delays):
        return
    if not delays.any() and told != (0, 0):
        yield "all delays are 0: both files hold the same capture"
        return
    ahead = [bool(np.median(way) < 0) for way in (there, back) if len(way)]
    if len(ahead) == 2 and all(ahead):
        yield "packets arrive before they are sent, both ways: the files look swapped: give the sender's first"
    elif len(ahead) == 1 and all(ahead):
        yield (
            "packets arrive before they are sent: the files are swapped (give the sender's first), or were taken on "
            "two clocks (say --clocks two)"
        )
    elif any(ahead):
        yield "packets of one way arrive before they are sent: the captures were taken on two clocks; say --clocks two"
    else:
        for name, way, told_ns in (("forward", there, told[0]), ("reverse", back, told[1])):
            if told_ns is not None and len(way) and way.min() < _ROUNDED * told_ns - _CLOCK_NS:
                yield (
                    f"the least one-way delay {name} is {way.min() / 1e6:.3f} ms, of a channel with {told_ns / 1e6:g} "
                    f"ms: its delay is another, or the captures were taken on two clocks (say --clocks two)"
                )


def _too_early(clocks: ClockRelation, claims: Claims) -> Iterator[str]:
    """Where packets took less than the delays that are told: of there and back together the clocks' offset is none."""
    told_ns, found_ns = claims.delays_ns, clocks.least_round_trip_ns
    if told_ns is None or found_ns is None or found_ns < 0:
        return
    if found_ns < _ROUNDED * sum(told_ns) - 2 * _CLOCK_NS:
        yield (
            f"by the corrected clocks the way there and back takes {found_ns / 1e6:.3f} ms at least, of a channel with "
            f"{sum(told_ns) / 1e6:g} ms: its delay is another, or a clock was set while the captures were taken"
        )

"""Reasons to doubt the captures of a run, or the record of its transfer, each as a sentence to act on.

Faults of the captures show in the captures themselves, in tcpdump's counters and in those of the emulator. Captures and
the description of a transfer may also contradict each other: then they do not belong together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owlt.captures.accounting.measures import CapturedFrames, DirectionCounters, rate_over
from owlt.captures.files.blocks import ETHERNET_BYTES
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.session import Host
from owlt.captures.matches.clocks import ClockRelation
from owlt.captures.matches.delivery import Crossing, Delivery, OneWay, without
from owlt.captures.matches.directions import content_key
from owlt.results.record import CaptureCounters

MORE_THAN_ALL = 1.02
"""The precision of a link's rate as users state it."""
_FEWEST_PACKETS = 10
"""The fewest packets that show a rate: with fewer the precision of their times dominates."""
_CLOCK_NS = 2_000
"""How much two timestamps with a resolution of 1 µs may shorten a delay."""
_ROUNDED = 0.999
"""The precision of a delay as users state it."""

_COPY_NS, _MANY_COPIES, _NEARLY_ALL = 1_000_000, 10, 0.9
_TAGS_BYTES = 8
"""Two VLAN tags, which any frame may have if some frames are not plain Ethernet."""


@dataclass(frozen=True)
class Expected:
    """Facts from other sources to compare the captures with; None if not known: tcpdump's counters of each capture, the
    MTU of the test path, the emulator's counters of each direction, the bytes of data that the receiver of a run for a
    duration reports, and why the sender may have sent nothing ("" if it was running to the end).
    """

    sender_counters: CaptureCounters | None = None
    receiver_counters: CaptureCounters | None = None
    mtu_bytes: int = 1500
    received_bytes: int | None = None
    forward: DirectionCounters | None = None
    reverse: DirectionCounters | None = None
    why_silent: str = ""


NOTHING_EXPECTED = Expected()


@dataclass(frozen=True)
class Claims:
    """The description of a transfer; None for values that are not given. The rate is the forward channel's, the delays
    are the channel's, one way."""

    file_size_bytes: int | None = None
    rate_bps: float | None = None
    forward_delay_ns: int | None = None
    reverse_delay_ns: int | None = None

    @property
    def delays_ns(self) -> tuple[float, float] | None:
        """Both delays; None unless both are given."""
        there, back = self.forward_delay_ns, self.reverse_delay_ns
        return None if there is None or back is None else (float(there), float(back))


def suspect_capture(capture: Columns, counters: CaptureCounters | None, mtu_bytes: int) -> Iterator[str]:
    """The faults of one capture: damage, packets that it missed, frames that no link carries."""
    name = capture.path.name
    if capture.damage:
        yield f"{name}: {capture.damage}"
    if counters and not counters.complete:
        yield (
            f"{name} is not complete: {counters.captured} of {counters.received_by_filter} packets captured, "
            f"{counters.dropped_by_kernel} dropped by the kernel, "
            f"{counters.dropped_by_interface} by the interface, {counters.lost_by_tcpdump} lost by tcpdump"
        )
    if counters and counters.captured != len(capture):
        yield f"{name} has {len(capture)} packets, but tcpdump counted {counters.captured}"
    if capture.dropped:
        yield f"{name} records that {capture.dropped} packets were dropped during the capture"
    if capture.untimed_frames:
        yield f"{name}: {capture.untimed_frames} frames have no timestamp"
    header_bytes = ETHERNET_BYTES + (_TAGS_BYTES if capture.slow_frames else 0)
    too_long = np.count_nonzero(capture.wire_bytes > mtu_bytes + header_bytes)
    if too_long:
        yield (
            f"{name}: {too_long} frames longer than the MTU of {mtu_bytes} bytes allows, the longest "
            f"{capture.wire_bytes.max()} bytes: is segmentation offload on?"
        )


def order_notes(capture: Columns) -> Iterator[str]:
    """A note if frames are not in the order of their times, for example because the card has several queues."""
    times_ns = capture.time_ns[capture.time_ns != 0]
    if (np.diff(times_ns) >= 0).all():
        return
    late = np.count_nonzero(times_ns < np.maximum.accumulate(times_ns))
    yield (
        f"{capture.path.name}: {late} of {len(capture)} frames have an earlier time than a frame before them in the "
        f"file; they were sorted by time (frame numbers are those of the file)"
    )


def suspect_copies(capture: Columns, rows: Mapping[Host, NDArray[np.int64]]) -> Iterator[str]:
    """A reason if the capture contains most packets of a host twice; `rows` are the rows of each host's packets.

    A copy follows its packet within a millisecond. A protocol may send IPv4 packets without an identification, and
    IPv6 packets, twice. They count as copies if their frames differ in the headers that interfaces and routers change,
    or if the capture contains nearly all packets of both hosts twice, or of the only host that sends. If one host only
    sends, many equal packets are a constant payload, not copies.
    """
    rows = {host: of_host[capture.time_ns[of_host] != 0] for host, of_host in rows.items()}
    counts = {host: _count_copies(capture, of_host) for host, of_host in rows.items() if len(of_host)}
    shares = [of_any / (len(rows[host]) - of_any) for host, (_, of_any) in counts.items()]
    are_many = sum(of_any for _, of_any in counts.values()) >= _MANY_COPIES
    nearly_all = are_many and min(shares) >= _NEARLY_ALL and (len(shares) > 1 or max(shares) <= 1)
    copies = {host: of_any if nearly_all else certain for host, (certain, of_any) in counts.items()}
    named = [
        f"{count} of {len(rows[host])} packets from the {host}"
        for host, count in copies.items()
        if count and 2 * count >= len(rows[host]) - count
    ]
    if named:
        yield (
            f"{capture.path.name}: {' and '.join(named)} are copies of a packet captured less than "
            f"{_COPY_NS // 1_000_000} ms earlier, so the counts are too high: the capture was taken on two interfaces, "
            f"at a mirror port, or behind a link that duplicates packets; keep the packets of one interface, or remove "
            f"the copies (editcap -D 100 IN OUT)"
        )


def _count_copies(capture: Columns, rows: NDArray[np.int64]) -> tuple[int, int]:
    """The number of rows that are certainly a copy of a row shortly before, and the number that may be one."""
    keys = content_key(capture, rows)
    order = np.lexsort((capture.time_ns[rows], keys))
    rows, keys = rows[order], keys[order]
    first, second = rows[:-1], rows[1:]
    is_copy = (keys[:-1] == keys[1:]) & (capture.time_ns[second] - capture.time_ns[first] <= _COPY_NS)
    is_certain = (capture.identification[second] > 0) | (capture.header_hash[first] != capture.header_hash[second])
    return int(np.count_nonzero(is_copy & is_certain)), int(np.count_nonzero(is_copy))


def suspect_arrivals(
    way: OneWay, unrecognised: NDArray[np.int64], clock_error_ns: float | None = None
) -> Iterator[str]:
    """Contradictions in the frames from the host's side: arrivals without a departure or before it.

    `clock_error_ns` is how far the delays may be wrong that were corrected for two clocks; None: there is one clock.

    Frames outside the session may have been in flight when the near capture began. `unrecognised` arrivals are copies
    of packets, it is not known of which.
    """
    near, far, delivery, host = way.near, way.far, way.delivery, way.host
    yield from _suspect_packets(delivery, unrecognised, host, clock_error_ns)
    background = delivery.background
    if background is None or not len(delivery.delay_ns):
        return
    arrived_ns = far.time_ns[without(background.unexplained, unrecognised)]
    missed = np.count_nonzero(arrived_ns >= near.time_ns.min() + delivery.delay_ns.min())
    if missed:
        yield (
            f"{missed} background frames from the {host}'s side arrived but are not in the capture at its port: "
            f"that capture missed them"
        )


def _suspect_packets(
    delivery: Delivery, unrecognised: NDArray[np.int64], host: Host, clock_error_ns: float | None
) -> Iterator[str]:
    unexplained = len(without(delivery.unexplained, unrecognised))
    if unexplained:
        yield (
            f"{unexplained} packets from the {host} arrived but are not in the capture at its port: "
            f"that capture missed them"
        )
    early = np.count_nonzero(delivery.delay_ns < -(clock_error_ns or 0))
    if early:
        question = (
            "were the captures taken with two clocks?"
            if clock_error_ns is None
            else "the offset and drift of the two clocks do not explain this"
        )
        yield (
            f"{early} packets of the {host} were delivered before they were sent, by up to "
            f"{-delivery.delay_ns.min()} ns: {question}"
        )


def suspect_counts(captured: CapturedFrames, counters: DirectionCounters, host: Host) -> Iterator[str]:
    """Contradictions between the captures of frames from the host's side and the emulator's counters. Each frame of
    unknown direction may explain a difference of one.
    """
    uncaptured = max((counters.entered or 0) - captured.entered - captured.undirected, 0)
    if uncaptured:
        yield (
            f"the emulator received {counters.entered} frames from the {host}, but the capture at its port has "
            f"{captured.entered}: that capture began too late, or missed {uncaptured}"
        )
    expected = captured.expected_missing(counters)
    unrecorded = captured.missing - expected
    if unrecorded > captured.uncounted(counters):
        yield (
            f"{captured.missing} frames from the {host} did not arrive, but the emulator dropped or held {expected}: "
            f"the capture at the other port missed {unrecorded}, or something besides the emulator drops packets"
        )
    if -unrecorded > uncaptured + captured.undirected:
        yield (
            f"the emulator dropped or held {expected} frames from the {host}, but only {captured.missing} did not "
            f"arrive: some frames were matched to the wrong packets"
        )
    yield from _suspect_copies(captured, counters, host)
    yield from _suspect_marks(captured, counters, host)


def _suspect_marks(captured: CapturedFrames, counters: DirectionCounters, host: Host) -> Iterator[str]:
    """Contradictions about marked packets. Some that the emulator marked may have been lost or damaged afterwards."""
    if counters.marked is None:
        return
    gone = counters.not_delivered + captured.corrupted + captured.unrecognised + captured.undirected
    if not counters.marked - gone <= captured.marked <= counters.marked + captured.uncounted(counters):
        yield (
            f"{captured.marked} packets from the {host} arrived with the mark CE, but the emulator marked "
            f"{counters.marked}: another queue marks packets, or some frames were matched to the wrong packets"
        )


def _suspect_copies(captured: CapturedFrames, counters: DirectionCounters, host: Host) -> Iterator[str]:
    if counters.duplicates is not None:
        least = counters.duplicates - counters.losses_behind_errors - counters.waiting
        if not least - captured.undirected <= captured.duplicated <= counters.duplicates:
            yield (
                f"{captured.duplicated} duplicates of frames from the {host} arrived, but the emulator made "
                f"{counters.duplicates}: is there another path around it?"
            )
    if counters.corrupted_by_netem is not None:
        least, most = counters.corrupted_copies
        elsewhere = captured.unseen + captured.unrecognised + captured.undirected
        if not least - elsewhere <= captured.corrupted <= most:
            damaged = f"{least}" if least == most else f"{least} to {most}"
            yield (
                f"{captured.corrupted} frames from the {host} arrived damaged, but the emulator damaged {damaged}: "
                f"some frames were matched to the wrong packets"
            )


def contradictions(
    crossing: Crossing, claims: Claims, carried_file_bytes: int | None, clocks: ClockRelation | None
) -> list[str]:
    """The reasons why captures and claims do not belong together; `clocks` is None if one clock took both captures."""
    forward = crossing.forward
    sent_bytes = int(crossing.at_sender.wire_bytes[forward.near].sum(dtype=np.int64))
    return [
        *too_few_bytes(claims.file_size_bytes, carried_file_bytes, sent_bytes, "were sent by the sender"),
        *too_fast(crossing.at_receiver, forward.far, claims.rate_bps),
        *_missing_sessions(crossing),
        *_wrong_order(crossing, claims, clocks),
        *(_too_early(clocks, claims) if clocks is not None else ()),
    ]


def too_few_bytes(
    file_size_bytes: int | None, carried_file_bytes: int | None, frame_bytes: int, verb: str
) -> Iterator[str]:
    """A reason if fewer bytes were transferred than the file has: different bytes of it in messages, or all bytes of
    frames. `verb` is what happened to the frames: "were sent by the sender"."""
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
    """A reason if the packets in these rows, of a capture after the channel, arrived faster than its rate permits."""
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


def _missing_sessions(crossing: Crossing) -> Iterator[str]:
    forward, reverse = crossing.forward, crossing.reverse
    for capture, rows in (
        (crossing.at_sender, (forward.near, reverse.far)),
        (crossing.at_receiver, (forward.far, reverse.near)),
    ):
        if not len(capture):
            yield f"{capture.path.name} is empty: it has no frames"
        elif not any(map(len, rows)):
            yield f"{capture.path.name} has no packet of the session: are the session's ports and addresses right?"
    is_in_both = any(len(way.near) and len(way.far) for way in (forward, reverse))
    if is_in_both and not any(len(way.sent) for way in (forward, reverse)):
        yield (
            "the captures have no packet in common: they are of different transfers, or addresses were rewritten "
            "between the ports"
        )


def _wrong_order(crossing: Crossing, claims: Claims, clocks: ClockRelation | None) -> Iterator[str]:
    at_sender, at_receiver = crossing.captures
    if at_sender.path.exists() and at_receiver.path.exists() and at_sender.path.samefile(at_receiver.path):
        yield "both captures are the same file: give one capture for each port"
        return
    there, back = (way.delay_ns[way.first_copies] for way in (crossing.forward, crossing.reverse))
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
    """A reason if packets took less time than the claimed delays: the clocks' offset cancels in the round trip."""
    claimed_ns, measured_ns = claims.delays_ns, clocks.least_round_trip_ns
    if claimed_ns is None or measured_ns is None or measured_ns < 0:
        return
    if measured_ns < _ROUNDED * sum(claimed_ns) - 2 * _CLOCK_NS:
        yield (
            f"with corrected clocks the smallest round trip is {measured_ns / 1e6:.3f} ms, less than the channel's "
            f"{sum(claimed_ns) / 1e6:g} ms: the delay is wrong, or a clock was set during the capture"
        )

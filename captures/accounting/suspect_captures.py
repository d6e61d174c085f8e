"""Reasons not to trust the captures of a run, each as a sentence that a person can act on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owlt.captures.accounting.crossing import Crossing
from owlt.captures.accounting.stages import DirectionCounters
from owlt.captures.files.tcpdump_command import CaptureCounters
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.decoding import ETHERNET_BYTES
from owlt.captures.matches.crossing import content_key
from owlt.captures.matches.delivery import Delivery, without
from owlt.captures.session.session import Host

_COPY_NS, _MANY_COPIES, _NEARLY_ALL = 1_000_000, 10, 0.9
_TAGS_BYTES = 8
"""Two VLAN tags, which any frame may have where some are not plain Ethernet."""


@dataclass(frozen=True)
class Expected:
    """What is known of the captures from elsewhere, to hold them against; None if it is not known.

    tcpdump's counters of each, the MTU of the test path, of each way what the emulator counted, and of a run for a
    duration the bytes of data that the receiver reports.
    """

    sender_counters: CaptureCounters | None = None
    receiver_counters: CaptureCounters | None = None
    mtu_bytes: int = 1500
    received_bytes: int | None = None
    forward: DirectionCounters | None = None
    reverse: DirectionCounters | None = None


NOTHING_EXPECTED = Expected()


def suspect_capture(capture: Columns, counters: CaptureCounters | None, mtu_bytes: int) -> Iterator[str]:
    """What is wrong with one capture: damage, packets that it missed, frames that no link carries."""
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
    near: Columns,
    far: Columns,
    delivery: Delivery,
    unrecognised: NDArray[np.int64],
    host: Host,
    clock_error_ns: float | None = None,
) -> Iterator[str]:
    """What cannot be in the frames that came from the host's side: arrived without departure or before it.

    `clock_error_ns` is how far the delays may be wrong that were corrected for two clocks; None: there is one clock.

    Other frames than the session's may have been under way when the near capture began. `unrecognised` arrivals are
    copies of packets, it is not known of which.
    """
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


def suspect_counts(crossing: Crossing, counters: DirectionCounters, host: Host) -> Iterator[str]:
    """Where the captures of what came from the host's side and the emulator's counters contradict each other.

    A frame of which it is not known whether it came from there makes good a difference of one.
    """
    uncaptured = max((counters.entered or 0) - crossing.entered - crossing.undirected, 0)
    if uncaptured:
        yield (
            f"the emulator received {counters.entered} frames from the {host}, but the capture at its port has "
            f"{crossing.entered}: that capture began too late, or missed {uncaptured}"
        )
    expected = crossing.expected_missing(counters)
    unrecorded = crossing.missing - expected
    if unrecorded > crossing.uncounted(counters):
        yield (
            f"{crossing.missing} frames from the {host} did not arrive, but the emulator dropped or held {expected}: "
            f"the capture at the other port missed {unrecorded}, or something besides the emulator drops packets"
        )
    if -unrecorded > uncaptured + crossing.undirected:
        yield (
            f"the emulator dropped or held {expected} frames from the {host}, but only {crossing.missing} did not "
            f"arrive: some frames were matched to the wrong packets"
        )
    yield from _suspect_copies(crossing, counters, host)


def _suspect_copies(crossing: Crossing, counters: DirectionCounters, host: Host) -> Iterator[str]:
    if counters.duplicates is not None:
        least = counters.duplicates - counters.losses_behind_errors - counters.waiting
        if not least - crossing.undirected <= crossing.duplicated <= counters.duplicates:
            yield (
                f"{crossing.duplicated} duplicates of frames from the {host} arrived, but the emulator made "
                f"{counters.duplicates}: is there another path around it?"
            )
    if counters.corrupted_by_netem is not None:
        least, most = counters.corrupted_copies
        elsewhere = crossing.unseen + crossing.unrecognised + crossing.undirected
        if not least - elsewhere <= crossing.corrupted <= most:
            damaged = f"{least}" if least == most else f"{least} to {most}"
            yield (
                f"{crossing.corrupted} frames from the {host} arrived damaged, but the emulator damaged {damaged}: "
                f"some frames were matched to the wrong packets"
            )

"""Reasons not to trust what the captures of a run say, each as a sentence that a person can act on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captures.accounting.crossing import Crossed
from captures.accounting.stages import Counted
from captures.files.tcpdump import CaptureCounters
from captures.frames.columns import ETHERNET_BYTES, Columns
from captures.matches.matching import Delivery, without
from captures.session import Host

_TAGS_BYTES = 8
"""Two VLAN tags, which any frame may have where some are not plain Ethernet."""


@dataclass(frozen=True)
class Expected:
    """What is known of the captures from elsewhere, to hold them against; None where it is not known.

    tcpdump's counters of each, the MTU of the test path, and of each way what the emulator counted.
    """

    sender_counters: CaptureCounters | None = None
    receiver_counters: CaptureCounters | None = None
    mtu_bytes: int = 1500
    forward: Counted | None = None
    reverse: Counted | None = None


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
            f"{counters.dropped_by_interface} by the interface"
        )
    if counters and counters.captured != len(capture):
        yield f"{name} holds {len(capture)} packets, and tcpdump counted {counters.captured}"
    if capture.dropped:
        yield f"{name} says that {capture.dropped} packets were dropped when it was taken"
    if capture.untimed_frames:
        yield f"{name}: {capture.untimed_frames} frames have no time"
    header_bytes = ETHERNET_BYTES + (_TAGS_BYTES if capture.slow_frames else 0)
    too_long = np.count_nonzero(capture.wire_bytes > mtu_bytes + header_bytes)
    if too_long:
        yield (
            f"{name}: {too_long} frames longer than the MTU of {mtu_bytes} bytes allows, the longest "
            f"{capture.wire_bytes.max()} bytes: is segmentation offload on?"
        )


def suspect_arrivals(
    near: Columns, far: Columns, delivery: Delivery, unrecognised: NDArray[np.int64], host: Host
) -> Iterator[str]:
    """What cannot be in the frames that came from the host's side: arrived without departure or before it.

    Other frames than the session's may have been under way when the near capture began. `unrecognised` arrivals are
    copies of packets, it is not known of which.
    """
    yield from _suspect_packets(delivery, unrecognised, host)
    background = delivery.background
    if background is None or not len(delivery.delay_ns):
        return
    arrived_ns = far.time_ns[without(background.unexplained, unrecognised)]
    missed = np.count_nonzero(arrived_ns >= near.time_ns.min() + delivery.delay_ns.min())
    if missed:
        yield (
            f"{missed} frames beside the session's that came from the {host} were never seen as sent: "
            f"the capture at its port missed them"
        )


def _suspect_packets(delivery: Delivery, unrecognised: NDArray[np.int64], host: Host) -> Iterator[str]:
    unexplained = len(without(delivery.unexplained, unrecognised))
    if unexplained:
        yield (
            f"{unexplained} packets delivered from the {host} were never seen as sent: "
            f"the capture at its port missed them"
        )
    early = np.count_nonzero(delivery.delay_ns < 0)
    if early:
        yield (
            f"{early} packets of the {host} were delivered before they were sent, by up to "
            f"{-delivery.delay_ns.min()} ns: do the captures come from two clocks?"
        )


def suspect_counts(crossed: Crossed, counters: Counted, host: Host) -> Iterator[str]:
    """Where the captures of what came from the host's side and the emulator's counters contradict each other.

    A frame of which it is not known whether it came from there makes good a difference of one.
    """
    uncaptured = max((counters.entered or 0) - crossed.entered - crossed.undirected, 0)
    if uncaptured:
        yield (
            f"the emulator took in {counters.entered} frames from the {host}, and the capture at its port has "
            f"{crossed.entered} of them: it began too late, or missed {uncaptured}"
        )
    expected = crossed.expected_missing(counters)
    by_nobody = crossed.missing - expected
    if by_nobody > crossed.uncounted(counters):
        yield (
            f"{crossed.missing} frames from the {host} did not arrive, of which the emulator dropped or held "
            f"{expected}: the capture behind the channel missed {by_nobody}, or something else drops packets"
        )
    if -by_nobody > uncaptured + crossed.undirected:
        yield (
            f"the emulator dropped or held {expected} frames from the {host}, and only {crossed.missing} did not "
            f"arrive: some frames in the captures are no copies of those they were taken for"
        )
    yield from _suspect_copies(crossed, counters, host)


def _suspect_copies(crossed: Crossed, counters: Counted, host: Host) -> Iterator[str]:
    if counters.duplicates is not None:
        least = counters.duplicates - counters.losses_behind_errors - counters.waiting
        if not least <= crossed.duplicated <= counters.duplicates:
            yield (
                f"{crossed.duplicated} frames from the {host} arrived once more, and the emulator doubled "
                f"{counters.duplicates}: is there another way around it?"
            )
    if counters.corrupted_by_netem is not None:
        least, most = counters.corrupted_copies
        if not least - crossed.unseen - crossed.unrecognised <= crossed.corrupted <= most:
            damaged = f"{least}" if least == most else f"{least} to {most}"
            yield (
                f"{crossed.corrupted} frames from the {host} arrived damaged, and the emulator damaged {damaged}: "
                f"some frames in the captures are no copies of those they were taken for"
            )

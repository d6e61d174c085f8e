"""Reasons not to trust what the captures of a run say, each as a sentence that a person can act on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from captures.columns import ETHERNET_BYTES, Columns
from captures.matching import Delivery
from captures.session import Host
from captures.tcpdump import CaptureCounters


@dataclass(frozen=True)
class Expected:
    """What is known of the captures from elsewhere, to hold them against; None where it is not known.

    tcpdump's counters of each, the MTU of the test path, and of each way how many packets the emulator says
    that it dropped or still held at the end.
    """

    sender_counters: CaptureCounters | None = None
    receiver_counters: CaptureCounters | None = None
    mtu_bytes: int = 1500
    forward_dropped: int | None = None
    reverse_dropped: int | None = None


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
    too_long = np.count_nonzero(capture.wire_bytes > mtu_bytes + ETHERNET_BYTES)
    if too_long:
        yield (
            f"{name}: {too_long} frames longer than the MTU of {mtu_bytes} bytes allows, the longest "
            f"{capture.wire_bytes.max()} bytes: is segmentation offload on?"
        )


def suspect_delivery(delivery: Delivery, host: Host, dropped: int | None) -> Iterator[str]:
    """What cannot be in the packets that the host sent: arrived without departure or before it, lost by nobody."""
    lost = len(delivery.lost)
    if dropped is not None and lost > dropped:
        yield f"{lost} packets of the {host} were lost, of which the emulator dropped or held {dropped} at most"
    unexplained = len(delivery.unexplained)
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

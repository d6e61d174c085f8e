"""The tcpdump command for captures without losses, and tcpdump's counters.

The caller starts and stops the process: wait for `READY_LINE` on stderr; at the end send SIGUSR1, at which it
writes its counters there, until they are `drained`; then end it with SIGINT.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import ceil

from owlt.results.record import CaptureCounters

WHOLE_FRAMES = 2_048
"""A snapshot length, in bytes, that leaves the frames of an MTU of 1500 complete.

Not larger, because each packet takes this much of the ring if packets are delivered one by one: with tcpdump's own
262,144 on a port with segmentation offload, libpcap makes room for 64 KiB a packet, and 32 MiB hold 512 packets
(measured)."""

_LINK_LAYER_BYTES = WHOLE_FRAMES - 1500
"""Room for the headers of a frame, in addition to the MTU."""

READY_LINE = re.compile(r"^tcpdump: listening on (?P<interface>\S+), link-type EN10MB\b", re.MULTILINE)
"""The stderr line after which every frame is captured; it does not match on a link that is not Ethernet."""

_COUNTER = re.compile(
    r"\b(?P<count>\d+) packets? (?P<name>captured|received by filter|dropped by kernel|dropped by interface)\b"
)

ONE_BY_ONE = ("--immediate-mode",)
"""tcpdump is woken for each packet; a ring of `ring_bytes_of` keeps it from losing packets when it has to wait."""
IN_BLOCKS = ()
"""tcpdump is woken when a block of its ring is full, or a second after its first packet."""
IN_BLOCKS_RING_BYTES = 4 << 20
"""Enough if no time passes while tcpdump works."""
STALL_S = 0.1
"""A ring holds the packets of this time, while tcpdump does not get a processor or waits for the disk."""
PACKET_BYTES = 1000
"""The mean size of packets that the ring is made for."""
SLOT_BYTES = 128
"""The space of a packet in the ring in addition to the snapshot length (struct tpacket2_hdr, sockaddr_ll, padding)."""
LEAST_RING_BYTES, MOST_RING_BYTES = 16 << 20, 256 << 20
"""The least holds a burst: a sender may be faster than the channel for a while."""


def ring_bytes_of(rate_bps: float, snaplen_bytes: int) -> int:
    """The size of tcpdump's ring, in whole KiB, for packets that come at this rate one by one.

    Each takes a slot for the snapshot length, however short it is (packet_mmap in the kernel's documentation).
    """
    packets = rate_bps / 8 * STALL_S / PACKET_BYTES
    ring_bytes = min(max(packets * (snaplen_bytes + SLOT_BYTES), LEAST_RING_BYTES), MOST_RING_BYTES)
    return ceil(ring_bytes / 1024) * 1024


def snaplen_bytes_of(mtu_bytes: int) -> int:
    """The snapshot length that leaves the frames of a test path with this MTU complete."""
    return max(WHOLE_FRAMES, mtu_bytes + _LINK_LAYER_BYTES)


HOST_STAMPS = "host"
"""Time stamps that the kernel takes of a packet, by the host's clock."""
CARD_STAMPS = ("adapter", "adapter_unsynced")
"""Time stamps that the card takes, by its own clock, which the first kind keeps equal to the host's
(pcap-tstamp(7))."""


def best_stamps(listing: str) -> str:
    """The time stamps to use of those that `tcpdump -J` lists for an interface: the card's if it has them."""
    offered = re.findall(r"^\s+(\w+) \(", listing, re.MULTILINE)
    return next((kind for kind in CARD_STAMPS if kind in offered), HOST_STAMPS)


def stamps_command(interface: str) -> list[str]:
    """The tcpdump call that lists the time stamps of `interface`."""
    return ["tcpdump", "-i", interface, "-J"]


def capture_command(
    interface: str,
    path: str,
    snaplen_bytes: int = WHOLE_FRAMES,
    delivery: Sequence[str] = ONE_BY_ONE,
    stamps: str = HOST_STAMPS,
    ring_bytes: int = LEAST_RING_BYTES,
) -> list[str]:
    """The tcpdump call that writes `interface` to `path`, the first `snaplen_bytes` of each frame.

    `delivery` is ONE_BY_ONE or IN_BLOCKS: how packets reach tcpdump, through a ring of `ring_bytes`. Packets that are
    in it when SIGINT arrives are lost, so `CaptureCounters.drained` must be true first. `-Z root` keeps Debian's
    tcpdump from becoming user tcpdump, who may not write to the run's folder. `stamps`: HOST_STAMPS, or what
    `best_stamps` found.
    """
    if snaplen_bytes < 1:
        raise ValueError(
            f"snaplen_bytes for {interface}: expected at least 1, got {snaplen_bytes}: "
            f"remove it to capture complete frames"
        )
    options = f"--time-stamp-precision=nano -nn -s {snaplen_bytes} -Z root"
    by_card = [] if stamps == HOST_STAMPS else ["-j", stamps]
    return [
        "tcpdump",
        "-i",
        interface,
        *delivery,
        "-B",
        str(ring_bytes // 1024),
        *options.split(),
        *by_card,
        "-w",
        path,
    ]


def parse_counters(stderr_text: str) -> CaptureCounters:
    """The last counters in what tcpdump wrote to stderr; ValueError if there are none.

    "dropped by interface" is printed only when it is not zero.
    """
    counts = {match["name"]: int(match["count"]) for match in _COUNTER.finditer(stderr_text)}
    missing = {"captured", "received by filter", "dropped by kernel"} - counts.keys()
    if missing:
        raise ValueError(
            f"tcpdump's stderr: no line with packets {', '.join(sorted(missing))}; it ends with "
            f"{stderr_text.strip()[-200:]!r}; was tcpdump stopped with a signal other than SIGINT or SIGTERM?"
        )
    captured, received, dropped = (counts[name] for name in ("captured", "received by filter", "dropped by kernel"))
    return CaptureCounters(
        captured=captured,
        received_by_filter=received,
        dropped_by_kernel=dropped,
        dropped_by_interface=counts.get("dropped by interface", 0),
        lost_by_tcpdump=max(received - captured - dropped, 0),
    )

"""The settings of a Saratoga transfer, and the values that follow from them for both sides."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from owlt.agents.endpoint.command_line import count, not_negative, option
from owlt.agents.endpoint.event_loop import sending_s
from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.endpoint.udp import LARGEST_PAYLOAD_BYTES
from owlt.agents.saratoga import version0, version1
from owlt.agents.saratoga.packets import CODES, TIMESTAMP_BYTES, Data, Metadata, Packet, Request, Status

LARGEST_HEADER_BYTES = 4 + 4 + TIMESTAMP_BYTES + 8
"""The header of a DATA packet with a timestamp and 64-bit offsets."""

DESCRIPTOR_BITS = (16, 32, 64)


def _descriptor(text: str) -> int | None:
    if text == "auto":
        return None
    if text not in map(str, DESCRIPTOR_BITS):
        expected = f"auto or one of {', '.join(map(str, DESCRIPTOR_BITS))}"
        raise argparse.ArgumentTypeError(f"got {text!r}, expected {expected}")
    return int(text)


STUCK_SILENCES = 10
"""The time in which two sides may exchange packets without progress, in limits of silence. This is 100 rounds of
request and answer: at PER 0.5 both ways, 3 of 10^13 transfers that still make progress would be given up."""


class Codec(NamedTuple):
    """The wire format of a version."""

    pack: Callable[[Request | Metadata | Data | Status], bytes]
    read: Callable[[bytes], Packet]


_CODECS = {0: Codec(version0.pack, version0.read), 1: Codec(version1.pack, version1.read)}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that must be equal on both sides."""

    rate_bps: float = option("pacing rate in bit/s of layer-2 bytes; 0: no pacing", not_negative)
    rtt_s: float = option("round-trip time, for the timers", not_negative)
    version: int = option("version of the protocol", int, 1, choices=[0, 1])
    transfer: str = option(
        "put: the sender begins; get: the receiver begins", default="put", choices=["put", "get"], required=True
    )
    start: str = option(
        "start of a put: at once, or after the receiver has agreed", default="blind", choices=["blind", "asked"]
    )
    segment_bytes: int = option("bytes of file data per packet", count, 1000)
    descriptor_bits: int | None = option(
        "bits of offsets and sizes: auto, 16, 32 or 64; default: auto", _descriptor, None
    )
    checksum: str | None = option(
        "checksum of the file, in its metadata; version 0 has none; default: md5", default=None, choices=CODES
    )
    timestamps: str = option("16 bytes in each DATA packet, returned in STATUS", default="off", choices=["off", "on"])
    status_packets: int = option("DATA packets per requested STATUS; 0: only at the end", count, 500)
    voluntary_s: float = option("interval of unrequested STATUS packets, from the start; 0: none", not_negative, 0.0)
    timer_margin_s: float = option("margin of the timers, in addition to the round trip", not_negative, 0.1)
    poll_s: float = option(
        "interval at which the sender requests a STATUS after its last DATA; 0: a timer", not_negative, 0.0
    )
    idle_limit_s: float | None = option(
        "silence of the peer that ends a run; default: 30 and 10 timers", not_negative, None
    )

    over_ipv6: bool = False
    """Whether the test path has IPv6, whose frames are longer."""

    def __post_init__(self) -> None:
        largest = LARGEST_PAYLOAD_BYTES - LARGEST_HEADER_BYTES
        if not 1 <= self.segment_bytes <= largest:
            raise Unsupported(f"segments of {self.segment_bytes} bytes; a UDP datagram holds 1 to {largest}")
        if self.version == 0:
            self._refuse_what_came_later()

    def _refuse_what_came_later(self) -> None:
        later = {
            "a put": self.transfer == "put",
            "a checksum": self.checksum not in (None, "none"),
            "timestamps": self.timestamps == "on",
            f"offsets of {self.descriptor_bits} bits": self.descriptor_bits not in (None, version0.DESCRIPTOR_BITS),
        }
        for what in (name for name, wanted in later.items() if wanted):
            raise Unsupported(f"{what}; version 0 has none; use version 1")

    @property
    def codec(self) -> Codec:
        """How packets become datagrams and back."""
        return _CODECS[self.version]

    @property
    def checksum_kind(self) -> str:
        """The checksum of the complete file, in METADATA."""
        return self.checksum or ("md5" if self.version else "none")

    def descriptor_bits_for(self, file_bytes: int) -> int:
        """Bits of offsets and sizes: as configured, or the fewest that the file needs.

        Raises Unsupported if none are enough.
        """
        chosen = version0.DESCRIPTOR_BITS if self.version == 0 else self.descriptor_bits
        for bits in (chosen,) if chosen else DESCRIPTOR_BITS:
            if file_bytes < 1 << bits:
                return bits
        raise Unsupported(f"a file of {file_bytes} bytes; offsets of {bits} bits reach {(1 << bits) - 1}")

    def answers(self, end: int) -> int:
        """The value of "in response to" for DATA that end before `end`: version 0 names the last byte itself."""
        return end if self.version else max(0, end - 1)

    def holes_per_status(self, descriptor_bits: int) -> int:
        """How many holes fit into a STATUS that is no longer than a DATA packet."""
        room = self._longest_packet_bytes - 8 - TIMESTAMP_BYTES - descriptor_bits // 4
        return max(1, room // (descriptor_bits // 4))

    @cached_property
    def timer_s(self) -> float:
        """How long to wait for an answer before a packet is sent again: the propagation delay both ways, the
        transmission time of two longest packets, and the margin."""
        packet_s = sending_s(self._longest_packet_bytes, self.rate_bps, self.over_ipv6)
        return self.rtt_s + 2 * packet_s + self.timer_margin_s

    @property
    def request_again_s(self) -> float:
        """How long the sender waits for a STATUS before it requests one again."""
        return self.poll_s or self.timer_s

    @property
    def longest_wait_s(self) -> float:
        """The longest time that either side waits for an answer."""
        return max(self.timer_s, self.poll_s)

    @cached_property
    def silence_limit_s(self) -> float:
        """How long the peer may be silent while an answer is due. The draft leaves this to the user."""
        return self.idle_limit_s if self.idle_limit_s is not None else 30 + 10 * self.longest_wait_s

    @property
    def stuck_limit_s(self) -> float:
        """How long the peer may send without progress: after that, the two sides do not agree on the file."""
        return STUCK_SILENCES * self.silence_limit_s

    @property
    def _longest_packet_bytes(self) -> int:
        return LARGEST_HEADER_BYTES + max(64, self.segment_bytes)

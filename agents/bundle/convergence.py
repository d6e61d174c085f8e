"""Convergence layers, which carry bundles: green parts of LTP (RFC 5326, CCSDS 734.1-B-1), or UDP, a bundle in a
datagram (RFC 7122).

Neither retransmits; custody transfer does.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Protocol

from owlt.agents.bundle.blocks import Malformed
from owlt.agents.endpoint.event_loop import frame_bytes
from owlt.agents.endpoint.udp import LARGEST_PAYLOAD_BYTES
from owlt.agents.ltp import green, segments

BUNDLE_PROTOCOL = 1
"""LTP's client service id of the Bundle Protocol."""

SEGMENT_HEADER_BYTES = 18
"""The longest header before the data of a green segment: type, engine, extensions and client 1 each, session number and
offset 5 each, length 3, and one to spare."""

LARGEST_SEGMENT_BYTES = LARGEST_PAYLOAD_BYTES - segments.LARGEST_DATA_HEADER_BYTES
LARGEST_BLOCK_BYTES = 16 << 20
"""The largest block; several of them fit into a reassembly's memory."""


class Convergence(StrEnum):
    """Convergence layers by name."""

    LTP = "ltp"
    UDP = "udp"


class Carrier(Protocol):
    """A convergence layer of one node."""

    def datagrams_of(self, bundle: bytes) -> Iterator[bytes]:
        """The datagrams that carry a bundle, in order."""

    def take(self, datagram: bytes) -> bytes | None:
        """The bundle that a datagram completes. Raises Malformed on a datagram of something else."""


class LtpGreen:
    """A bundle is a block, all green, in a session of its own."""

    def __init__(self, engine_id: int, segment_bytes: int) -> None:
        self._engine_id = engine_id
        self._segment_bytes = segment_bytes
        self._sessions = 0
        self._reassembly = green.Reassembly()

    def datagrams_of(self, bundle: bytes) -> Iterator[bytes]:
        self._sessions += 1
        made = green.segments_of(bundle, self._sessions, self._engine_id, BUNDLE_PROTOCOL, self._segment_bytes)
        return map(segments.encode, made)

    def take(self, datagram: bytes) -> bytes | None:
        try:
            segment = segments.decode(datagram)
        except segments.Malformed as error:
            raise Malformed(str(error)) from error
        if not isinstance(segment, segments.DataSegment) or segment.red or segment.client_service != BUNDLE_PROTOCOL:
            raise Malformed("an LTP segment that is not green data of a bundle")
        return self._reassembly.take(segment)


class Udp:
    """A bundle is a datagram."""

    def datagrams_of(self, bundle: bytes) -> Iterator[bytes]:
        yield bundle

    def take(self, datagram: bytes) -> bytes:
        return datagram


def largest_bundle_bytes(convergence: Convergence) -> int:
    """The largest bundle on this layer: a datagram, or as much as a reassembly holds."""
    return LARGEST_PAYLOAD_BYTES if convergence is Convergence.UDP else LARGEST_BLOCK_BYTES


def carrier(convergence: Convergence, engine_id: int, segment_bytes: int) -> Carrier:
    """The convergence layer of a node, whose number is its LTP engine's too."""
    return Udp() if convergence is Convergence.UDP else LtpGreen(engine_id, segment_bytes)


def channel_bytes(bundle_bytes: int, convergence: Convergence, segment_bytes: int, over_ipv6: bool) -> int:
    """Layer-2 bytes that a bundle of this length takes, or a few less."""
    if convergence is Convergence.UDP:
        return frame_bytes(bundle_bytes, over_ipv6)
    full, left_bytes = divmod(bundle_bytes, segment_bytes)
    last = frame_bytes(left_bytes + SEGMENT_HEADER_BYTES, over_ipv6) if left_bytes else 0
    return full * frame_bytes(segment_bytes + SEGMENT_HEADER_BYTES, over_ipv6) + last

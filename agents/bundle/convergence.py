"""Convergence layers, which carry bundles: green parts of LTP (RFC 5326, CCSDS 734.1-B-1), or UDP, a bundle in a
datagram (RFC 7122).

Neither retransmits; custody transfer does. A green block is sent once, and delivered completely or lost (RFC 5326,
section 2). Files are sent by `agents.ltp.sending`.
"""

from collections import OrderedDict
from collections.abc import Iterator
from enum import StrEnum
from typing import Protocol

from owlt.agents.bundle.blocks import Malformed
from owlt.agents.endpoint.event_loop import frame_bytes
from owlt.agents.endpoint.intervals import Intervals
from owlt.agents.endpoint.udp import LARGEST_PAYLOAD_BYTES
from owlt.agents.ltp import segments
from owlt.agents.ltp.segments import DataSegment, SessionId

_PIECE_COST_BYTES = 256
"""The memory that a piece of a block needs in addition to its data."""


def segments_of(
    block: bytes, session_number: int, engine_id: int, client_service: int, segment_bytes: int
) -> Iterator[DataSegment]:
    """The segments of a green block, each with at most `segment_bytes` of it; the last one ends the block."""
    session = SessionId(engine_id, session_number)
    for offset in range(0, len(block), segment_bytes):
        data = block[offset : offset + segment_bytes]
        ends_block = offset + len(data) == len(block)
        yield DataSegment(session, client_service, offset, data, red=False, ends_block=ends_block)


class Reassembly:
    """Puts green blocks together again.

    The memory for incomplete blocks is bounded; beyond that the oldest ones are dropped.
    """

    def __init__(self, most_blocks: int = 1024, most_bytes: int = 64 << 20) -> None:
        self._most_blocks = most_blocks
        self._most_bytes = most_bytes
        self._open: OrderedDict[SessionId, _Open] = OrderedDict()
        self._delivered: OrderedDict[SessionId, None] = OrderedDict()
        self._held_bytes = 0
        self.forgotten = 0
        """Blocks that were given up, for room or because their segments contradict each other."""

    def take(self, segment: DataSegment) -> bytes | None:
        """The complete block, if this segment completes it. Red data and retransmitted segments are ignored."""
        session = segment.session
        if segment.red or session in self._delivered:
            return None
        block = self._open.get(session)
        if block is None:
            block = self._open[session] = _Open()
            self._held_bytes += block.cost_bytes
        self._held_bytes -= block.cost_bytes
        fits = block.add(segment)
        self._held_bytes += block.cost_bytes
        if not fits:
            self._forget(session)
        elif block.is_complete():
            return self._deliver(session)
        while len(self._open) > self._most_blocks or self._held_bytes > self._most_bytes:
            self._forget(next(iter(self._open)))
        return None

    def _deliver(self, session: SessionId) -> bytes:
        """Return a block, and remember it: a retransmitted segment would begin it again."""
        block = self._open.pop(session)
        self._held_bytes -= block.cost_bytes
        self._delivered[session] = None
        if len(self._delivered) > self._most_blocks:
            self._delivered.popitem(last=False)
        return block.content()

    def _forget(self, session: SessionId) -> None:
        self._held_bytes -= self._open.pop(session).cost_bytes
        self.forgotten += 1


class _Open:
    """A block that has arrived in part."""

    def __init__(self) -> None:
        self._pieces: dict[int, bytes] = {}
        self._come = Intervals()
        self._length: int | None = None
        self.cost_bytes = _PIECE_COST_BYTES

    def add(self, segment: DataSegment) -> bool:
        """Add a segment. Returns whether it fits the others: no data after the block's end, and a single end."""
        if segment.ends_block:
            if self._length not in (None, segment.end):
                return False
            self._length = segment.end
        if self._come.add(segment.offset, segment.end):
            before = self._pieces.get(segment.offset, b"")
            if len(segment.data) > len(before):
                self._pieces[segment.offset] = segment.data
                self.cost_bytes += len(segment.data) - len(before) + (0 if before else _PIECE_COST_BYTES)
        return self._length is None or self._come.end <= self._length

    def is_complete(self) -> bool:
        return self._length is not None and self._come.covers(0, self._length)

    def content(self) -> bytes:
        """The complete block. Pieces may overlap."""
        content = bytearray()
        for offset, data in sorted(self._pieces.items()):
            content += data[len(content) - offset :]
        return bytes(content)


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
        self._reassembly = Reassembly()

    def datagrams_of(self, bundle: bytes) -> Iterator[bytes]:
        self._sessions += 1
        made = segments_of(bundle, self._sessions, self._engine_id, BUNDLE_PROTOCOL, self._segment_bytes)
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

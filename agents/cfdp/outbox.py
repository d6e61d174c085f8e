"""PDUs on their way out, in order. They are packed when made: the engine reuses their headers."""

from collections import Counter, deque

from cfdppy.handler import DestHandler, SourceHandler
from spacepackets.cfdp import GenericPduPacket
from spacepackets.cfdp.pdu import AckPdu

from owlt.agents.cfdp.pdus import Lengths, kind_of, offset_of, with_lengths
from owlt.agents.cfdp.tally import PduTally


class Outbox:
    """A queue between an engine, which makes many PDUs at once, and a channel, which takes one at a time.

    `lengths` are the lengths of ids and sequence numbers in the peer's PDUs, for the replies; None: the engine's.
    """

    def __init__(self, tally: PduTally) -> None:
        self._tally = tally
        self._pdus: deque[tuple[GenericPduPacket, bytes]] = deque()
        self._offsets: Counter[int | None] = Counter()
        self.lengths: Lengths | None = None

    def __bool__(self) -> bool:
        return bool(self._pdus)

    def add(self, pdu: GenericPduPacket) -> None:
        packed = bytes(pdu.pack())
        self._pdus.append((pdu, packed if self.lengths is None else with_lengths(packed, self.lengths)))
        self._offsets[offset_of(pdu)] += 1

    def has_data_of(self, offset: int) -> bool:
        """Whether file data from this offset on wait to be sent."""
        return self._offsets[offset] > 0

    def take(self, engine: SourceHandler | DestHandler, *, acknowledgements: bool = True) -> None:
        """Take all that an engine has made, with its ACKs or without. Until then it does not go on."""
        while (holder := engine.get_next_packet()) is not None:
            if acknowledgements or not isinstance(holder.pdu, AckPdu):
                self.add(holder.pdu)

    def clear(self) -> None:
        self._pdus.clear()
        self._offsets.clear()

    def next(self, now_s: float) -> bytes:
        pdu, packed = self._pdus.popleft()
        self._offsets[offset_of(pdu)] -= 1
        self._tally.sent(kind_of(pdu), now_s, offset_of(pdu))
        return packed

"""The receiver's side: LibreCube's entity as a party of a conversation.

What is done here about LibreCube's engine, 0.2.0:
- it writes the file even if the checksum is wrong: such a file does not get its final name;
- it takes PDUs after the end for a new transaction: they are not passed to it;
- it repeats Finished until its limit of ACK timers, even if nobody answers: limited here;
- it waits without limit for a transaction that never begins: limited here.
"""

import math
from collections import deque
from pathlib import Path

from owlt.agents.cfdp.entity import PduTally
from owlt.agents.endpoint.exit import Failed
from owlt.agents.librecube.entity import TOWARDS_RECEIVER, Damaged, Entity, OneFile, kind_and_offset, read_pdu
from owlt.agents.librecube.settings import Settings, refuse_large_file


class Receiving:
    """A `Party` that receives one file into `output`, which appears when it is complete.

    Raises from `advance` and `hear`:
        Failed: the sender was silent for too long, or cancelled, or the engine gave up or raised an exception.
        Unsupported: the metadata state a file beyond the engine's limit.
    """

    def __init__(self, output: Path, settings: Settings, now_s: float) -> None:
        self._settings = settings
        self._tally = PduTally()
        self._outbox: deque[bytes] = deque()
        self._store = OneFile(output)
        self._entity = Entity(settings.receiver_entity, self._store, settings, self._outbox.append)
        self._is_complete = False
        self._quiet_since_s = now_s
        self.ended = False
        self.wakes_at_s = math.inf

    def has_datagram(self) -> bool:
        return bool(self._outbox)

    def next_datagram(self, now_s: float) -> bytes:
        datagram = self._outbox.popleft()
        kind, offset = kind_and_offset(datagram)
        self._tally.sent(kind, now_s, offset)
        if not self.has_datagram():
            self.wakes_at_s = now_s  # timers are looked at once all is sent
        return datagram

    def hear(self, datagram: bytes, now_s: float) -> None:
        if self._entity.outcome is not None:
            return
        self._entity.now_s = now_s
        number = self._entity.transaction
        try:
            pdu = read_pdu(
                datagram,
                self._entity.decode,
                towards=TOWARDS_RECEIVER,
                entities=self._settings.entities,
                transaction=number,
            )
        except Damaged:
            self._tally.count("unreadable")
            return
        kind, offset = kind_and_offset(datagram)
        self._tally.received(kind, now_s, offset)
        self._quiet_since_s = now_s
        if kind == "Metadata":
            refuse_large_file(pdu.file_size)
        self._entity.hear(pdu)
        self._publish()

    def advance(self, now_s: float) -> None:
        self._entity.now_s = now_s
        self._entity.fire_timers()
        self._publish()
        self.wakes_at_s = self._entity.due_s
        if self._outbox:
            return
        self.wakes_at_s = min(self._entity.due_s, self._ends_at_s)
        if self._entity.outcome is not None or (self._is_complete and now_s >= self._ends_at_s):
            self.ended = True
        elif now_s >= self._ends_at_s:
            limit_s = now_s - self._quiet_since_s
            raise Failed(f"the sender was silent for {limit_s:.3f} s; {self._tally.facts()}")

    def close(self) -> None:
        """Close the file; the party cannot be used afterwards."""
        self._entity.close()

    def facts(self) -> str:
        """The last line of output. Raises Failed if the file is incomplete."""
        if not self._is_complete:
            raise Failed(f"the transaction ended with {self._entity.outcome}, file incomplete; {self._tally.facts()}")
        return self._tally.facts()

    @property
    def _ends_at_s(self) -> float:
        """When this side ends if it receives nothing more.

        Without a complete file the engine's own limit comes first and notifies the sender.
        """
        if self._is_complete:
            return self._quiet_since_s + self._settings.give_up_s
        if self._entity.transaction is None:
            return self._quiet_since_s + self._settings.silence_limit_s
        return self._quiet_since_s + self._settings.silence_limit_s + self._settings.give_up_s

    def _publish(self) -> None:
        """Publish the file: the engine writes and verifies it and sends Finished in one step, so only a correct file is
        in this state."""
        if not self._is_complete and self._entity.is_finishing:
            self._is_complete = self._store.publish()

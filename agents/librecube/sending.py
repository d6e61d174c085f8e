"""The sender's side: LibreCube's entity as a party of a conversation."""

import math
from collections import deque
from pathlib import Path
from typing import Any

from owlt.agents.cfdp.entity import PduTally, in_segments, is_answerable
from owlt.agents.endpoint.exit import Failed
from owlt.agents.librecube.entity import TOWARDS_SENDER, Damaged, Entity, OneFile, kind_and_offset, read_pdu
from owlt.agents.librecube.settings import Settings, refuse_large_file


class Sending:
    """A `Party` that sends one file and stays until the receiver has certainly received its last answer.

    Raises from `advance`, `hear` and `next_datagram`:
        Failed: the engine gave up or raised an exception.
    """

    def __init__(self, file: Path, settings: Settings, now_s: float) -> None:
        self._file_bytes = file.stat().st_size
        refuse_large_file(self._file_bytes)
        self._settings = settings
        self._tally = PduTally()
        self._outbox: deque[bytes] = deque()
        self._entity = Entity(settings.sender_entity, OneFile(file), settings, self._outbox.append)
        self._entity.now_s = now_s
        self._entity.send_file(file.name, settings.receiver_entity, settings.segment_bytes)
        self._finished_at_s = math.inf
        self._is_complete = False
        self.ended = False
        self.wakes_at_s = math.inf

    def has_datagram(self) -> bool:
        return bool(self._outbox) or self._entity.can_send

    def next_datagram(self, now_s: float) -> bytes:
        self._entity.now_s = now_s
        if not self._outbox:
            self._entity.send_next()
        datagram = self._outbox.popleft()
        kind, offset = kind_and_offset(datagram)
        self._tally.sent(kind, now_s, offset)
        if not self.has_datagram():
            self.wakes_at_s = now_s  # timers are looked at once all is sent
        return datagram

    def hear(self, datagram: bytes, now_s: float) -> None:
        self._entity.now_s = now_s
        number = self._entity.transaction
        try:
            pdu = read_pdu(
                datagram,
                self._entity.decode,
                towards=TOWARDS_SENDER,
                entities=self._settings.entities,
                transaction=number,
            )
        except Damaged:
            self._tally.count("unreadable")
            return
        kind, offset = kind_and_offset(datagram)
        if not self._is_expected(kind, pdu):
            self._tally.count("unreadable")
            return
        self._tally.received(kind, now_s, offset)
        if kind == "Nak" and self._settings.split_gaps:
            pdu.segment_requests = in_segments(pdu.segment_requests, self._settings.segment_bytes)
        if kind == "Finished":
            self._finished_at_s = now_s
            self._is_complete = pdu.delivery_code == 0
        self._entity.hear(pdu)

    def _is_expected(self, kind: str, pdu: Any) -> bool:
        """Whether the engine can take a PDU now. An acknowledgement before its EOF makes it raise an exception."""
        if kind == "Nak":
            return is_answerable(pdu.segment_requests, self._file_bytes)
        return not self._entity.is_sending_file or (kind == "Finished" and pdu.condition_code != 0)

    def advance(self, now_s: float) -> None:
        self._entity.now_s = now_s
        self._entity.fire_timers()
        self.wakes_at_s = self._entity.due_s
        if self._entity.outcome == "NO_ERROR":
            self.wakes_at_s = self._finished_at_s + self._settings.linger_s
            self.ended = now_s >= self.wakes_at_s
        elif self._entity.outcome is not None and not self._outbox:
            raise Failed(f"the transaction ended with {self._entity.outcome}; {self._tally.facts()}")

    def close(self) -> None:
        """Close the file; the party cannot be used afterwards."""
        self._entity.close()

    def facts(self) -> str:
        """The last line of output. Raises Failed if the receiver's Finished PDU reports an incomplete file."""
        if not self._is_complete:
            raise Failed(f"the receiver finished, file incomplete; {self._tally.facts()}")
        return self._tally.facts()

"""LibreCube's entity as a party of a conversation: the sender's side and the receiver's.

What is done here about LibreCube's engine, 0.2.0:
- it writes the file even if the checksum is wrong: such a file does not get its final name;
- it takes PDUs after the end for a new transaction: they are not passed to it;
- it retransmits Finished until its limit of ACK timers, even if nobody answers: limited here;
- it waits without limit for a transaction that never begins: limited here;
- it ends with the ACK of EOF (cancel) or of Finished (cancel), which may be lost: repetitions are answered here;
- after its EOF it cannot resume (AttributeError), a suspended receiver still sends Finished, and its NAK timer runs on:
  the endpoint is suspended as a whole (`SuspendableClock`), not the engine.
"""

import math
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from owlt.agents.cfdp.entity import PduTally, in_segments, is_answerable
from owlt.agents.endpoint.event_loop import never
from owlt.agents.endpoint.exit import Failed
from owlt.agents.librecube.entity import (
    TOWARDS_RECEIVER,
    TOWARDS_SENDER,
    Damaged,
    Entity,
    OneFile,
    kind_and_offset,
    read_pdu,
)
from owlt.agents.librecube.settings import Settings, refuse_large_file

_CANCELLED = "CANCEL_REQUEST_RECEIVED"
"""How a transaction ends that either side has cancelled, also with the engine's own faults."""


class _Party:
    """What both sides have: an entity, the datagrams that it wants to send, and counts of PDUs."""

    def __init__(self, number: int, file: OneFile, settings: Settings, is_cancelled: Callable[[], bool]) -> None:
        """`number` is the entity's; `is_cancelled`: whether the user has requested to cancel."""
        self._settings = settings
        self._is_cancelled = is_cancelled
        self._cancels = False
        """Whether the engine has got the user's request."""
        self._tally = PduTally()
        self._outbox: deque[bytes] = deque()
        self._entity = Entity(number, file, settings, self._outbox.append)
        self._is_complete = False
        self.ended = False
        self.wakes_at_s = math.inf

    def has_datagram(self) -> bool:
        return bool(self._outbox)

    def next_datagram(self, now_s: float) -> bytes:
        datagram = self._outbox.popleft()
        kind, offset = kind_and_offset(datagram)
        self._tally.sent(kind, now_s, offset)
        if not self.has_datagram():
            self.wakes_at_s = now_s  # timers are checked when everything has been sent
        return datagram

    def _read(self, datagram: bytes, towards: int) -> Any:
        """The PDU in a datagram that goes `towards` this side; None if it is damaged, which is counted."""
        try:
            return read_pdu(
                datagram,
                self._entity.decode,
                towards=towards,
                entities=self._settings.entities,
                transaction=self._entity.transaction,
            )
        except Damaged:
            self._tally.count("unreadable")
            return None

    def _cancel_if_requested(self) -> None:
        """Pass the user's request on, once a transaction has begun and before the file is complete."""
        is_running = self._entity.transaction is not None and self._entity.outcome is None and not self._is_complete
        if self._is_cancelled() and is_running and not self._cancels:
            self._cancels = True
            self._entity.cancel_transaction()

    def _ending(self) -> str:
        ending = f"the transaction ended with {self._entity.outcome}"
        return f"this side cancelled, {ending}" if self._cancels else ending

    def close(self) -> None:
        """Close the file; the party cannot be used afterwards."""
        self._entity.close()


class Sending(_Party):
    """A `Party` that sends one file and stays until the receiver has certainly received its last answer.

    Raises from `advance`, `hear` and `next_datagram`:
        Failed: the engine gave up or raised an exception.
    """

    def __init__(self, file: Path, settings: Settings, now_s: float, is_cancelled: Callable[[], bool] = never) -> None:
        self._file_bytes = file.stat().st_size
        refuse_large_file(self._file_bytes)
        super().__init__(settings.sender_entity, OneFile(file), settings, is_cancelled)
        self._entity.now_s = now_s
        self._entity.send_file(file.name, settings.receiver_entity, settings.segment_bytes)
        self._answered_at_s = math.inf

    def has_datagram(self) -> bool:
        return bool(self._outbox) or self._entity.can_send

    def next_datagram(self, now_s: float) -> bytes:
        self._entity.now_s = now_s
        if not self._outbox:
            self._entity.send_next()
        return super().next_datagram(now_s)

    def hear(self, datagram: bytes, now_s: float) -> None:
        self._entity.now_s = now_s
        pdu = self._read(datagram, TOWARDS_SENDER)
        if pdu is None:
            return
        kind, offset = kind_and_offset(datagram)
        if not self._is_expected(kind, pdu):
            self._tally.count("unreadable")
            return
        self._tally.received(kind, now_s, offset)
        if kind == "Nak" and self._settings.split_gaps:
            pdu.segment_requests = in_segments(pdu.segment_requests, self._settings.segment_bytes)
        if kind == "Finished" or self._cancels:
            self._answered_at_s = now_s
        if kind == "Finished":
            self._is_complete = pdu.delivery_code == 0
        self._entity.hear(pdu)

    def _is_expected(self, kind: str, pdu: Any) -> bool:
        """Whether the engine can take a PDU now. An acknowledgement before its EOF makes it raise an exception."""
        if kind == "Nak":
            return is_answerable(pdu.segment_requests, self._file_bytes)
        return not self._entity.is_sending_file or (kind == "Finished" and pdu.condition_code != 0)

    def advance(self, now_s: float) -> None:
        self._entity.now_s = now_s
        self._cancel_if_requested()
        self._entity.fire_timers()
        self.wakes_at_s = self._entity.due_s
        if self._entity.outcome in ("NO_ERROR", _CANCELLED) and self._answered_at_s < math.inf:
            self.wakes_at_s = self._answered_at_s + self._settings.linger_s
            self.ended = now_s >= self.wakes_at_s
        elif self._entity.outcome is not None and not self._outbox:
            raise Failed(f"{self._ending()}; {self._tally.facts()}")

    def facts(self) -> str:
        """The last line of output. Raises Failed if the receiver's Finished PDU reports an incomplete file, or if a
        side cancelled."""
        if self._entity.outcome == _CANCELLED:
            raise Failed(f"{self._ending()}; {self._tally.facts()}")
        if not self._is_complete:
            raise Failed(f"the receiver finished, file incomplete; {self._tally.facts()}")
        return self._tally.facts()


class Receiving(_Party):
    """A `Party` that receives one file into `output`, which appears when it is complete.

    Raises from `advance` and `hear`:
        Failed: the sender was silent for too long, or cancelled, or the engine gave up or raised an exception.
        Unsupported: the metadata state a file beyond the engine's limit.
    """

    def __init__(
        self, output: Path, settings: Settings, now_s: float, is_cancelled: Callable[[], bool] = never
    ) -> None:
        self._store = OneFile(output)
        super().__init__(settings.receiver_entity, self._store, settings, is_cancelled)
        self._quiet_since_s = now_s
        self._leaves_at_s = -math.inf
        """When a side ends whose sender has cancelled: it has certainly received the ACK of its EOF by then."""

    def hear(self, datagram: bytes, now_s: float) -> None:
        if self._entity.outcome not in (None, _CANCELLED):
            return
        self._entity.now_s = now_s
        pdu = self._read(datagram, TOWARDS_RECEIVER)
        if pdu is None:
            return
        kind, offset = kind_and_offset(datagram)
        is_cancel = kind == "Eof" and pdu.condition_code != 0
        if self._entity.outcome is not None and not is_cancel:
            return
        self._tally.received(kind, now_s, offset)
        self._quiet_since_s = now_s
        if is_cancel:
            self._leaves_at_s = now_s + self._settings.linger_s
        if kind == "Metadata":
            refuse_large_file(pdu.file_size)
        self._entity.hear(pdu)
        self._publish()

    def advance(self, now_s: float) -> None:
        self._entity.now_s = now_s
        self._cancel_if_requested()
        self._entity.fire_timers()
        self._publish()
        self.wakes_at_s = self._entity.due_s
        if self._outbox:
            return
        self.wakes_at_s = min(self._entity.due_s, self._ends_at_s)
        if self._entity.outcome is not None:
            self.wakes_at_s = self._leaves_at_s
            self.ended = now_s >= self._leaves_at_s
        elif self._is_complete and now_s >= self._ends_at_s:
            self.ended = True
        elif now_s >= self._ends_at_s:
            limit_s = now_s - self._quiet_since_s
            raise Failed(f"the sender was silent for {limit_s:.3f} s; {self._tally.facts()}")

    def facts(self) -> str:
        """The last line of output. Raises Failed if the file is incomplete."""
        if not self._is_complete:
            raise Failed(f"{self._ending()}, file incomplete; {self._tally.facts()}")
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

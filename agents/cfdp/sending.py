"""The sender's side: drives cfdp-py's source handler and sends the answers that it omits.

cfdp-py 0.7, and what is done about it here:
- it refuses a Finished PDU while it waits for an ACK(EOF) that was lost, and retransmits its EOF until it gives up: it
  is given the acknowledgement that the Finished PDU implies;
- it has forgotten the transaction when a Finished PDU is retransmitted because ACK(Finished) was lost: answered here;
- it waits without limit for a receiver that has vanished: limited here;
- it makes requested data as often as they are requested: it does not get requests for data that already wait to be
sent;
- it repeats EOF (cancel) with the checksum of the complete file: with that of the data before it here.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from cfdppy import CfdpState, PutRequest
from cfdppy.exceptions import InvalidNakPdu, InvalidPduForSourceHandler, PduIgnoredForSource
from cfdppy.handler import SourceTransactionStep as Step
from spacepackets.cfdp import ConditionCode, DeliveryCode, Direction, GenericPduPacket
from spacepackets.cfdp.pdu import AckPdu, FinishedPdu, NakPdu

from owlt.agents.cfdp.entity import Outbox, PduTally, SentFile, entity_id, is_answerable, source_entity, without_waiting
from owlt.agents.cfdp.pdus import acknowledge_finished, implied_acknowledgement, kind_of, offset_of, read_pdu
from owlt.agents.cfdp.settings import Settings, refuse_large_file
from owlt.agents.endpoint.event_loop import never
from owlt.agents.endpoint.exit import Failed

_PRODUCING = {Step.IDLE, Step.SENDING_METADATA, Step.SENDING_FILE_DATA, Step.SENDING_EOF}
_WAITING = {Step.WAITING_FOR_EOF_ACK, Step.WAITING_FOR_FINISHED}


class Sending:
    """A `Party` that sends one file and stays until the receiver has certainly received its last answer.

    Raises from `advance`:
        Failed: the receiver was silent for too long, or the engine gave up.
    """

    def __init__(self, file: Path, settings: Settings, is_cancelled: Callable[[], bool] = never) -> None:
        """`is_cancelled`: whether the user has requested to cancel (CCSDS 727.0-B-5, section 4.11.2.2)."""
        store = SentFile(file)
        self._file_bytes = store.file_size(file)
        refuse_large_file(self._file_bytes)
        self._settings = settings
        self._tally = PduTally()
        self._outbox = Outbox(self._tally)
        self._engine = source_entity(settings, store)
        receiver = entity_id(settings.receiver_entity, settings)
        self._engine.put_request(PutRequest(receiver, Path(file.name), Path(file.name), None, None))
        self._finished: FinishedPdu | None = None
        self._is_cancelled = is_cancelled
        self._cancels = False
        """Whether the user's request has been carried out: only EOF (cancel) is sent since then."""
        self._is_cancel_acknowledged = False
        """Whether the receiver has acknowledged EOF (cancel), of the user or since the engine gave up."""
        self._quiet_since_s = math.inf
        self.ended = False
        self.wakes_at_s = math.inf

    def has_datagram(self) -> bool:
        is_producing = self._engine.state == CfdpState.BUSY and self._engine.step in _PRODUCING
        return bool(self._outbox) or (is_producing and self._finished is None)

    def next_datagram(self, now_s: float) -> bytes:
        if not self._outbox:
            self._quiet_since_s = now_s
            self._step()
        datagram = self._outbox.next(now_s)
        if not self.has_datagram():
            self.wakes_at_s = now_s  # timers are looked at once all is sent
        return datagram

    def hear(self, datagram: bytes, now_s: float) -> None:
        pdu = read_pdu(
            datagram,
            towards=Direction.TOWARDS_SENDER,
            with_crc=self._settings.with_crc,
            entities=self._settings.entities,
            transaction=self._settings.transaction,
        )
        if not isinstance(pdu, AckPdu | NakPdu | FinishedPdu) or not self._is_answerable(pdu):
            self._tally.count("unreadable")
            return
        self._tally.received(kind_of(pdu), now_s, offset_of(pdu))
        self._quiet_since_s = now_s
        if isinstance(pdu, FinishedPdu):
            self._hear_finished(pdu)
        elif self._finished is not None:
            return
        elif isinstance(pdu, AckPdu) and pdu.condition_code_of_acked_pdu != ConditionCode.NO_ERROR:
            self._is_cancel_acknowledged = True
        elif self._cancels:
            return
        elif isinstance(pdu, NakPdu):
            self._hear_nak(pdu)
        else:
            self._step(pdu)

    def _is_answerable(self, pdu: GenericPduPacket) -> bool:
        return not isinstance(pdu, NakPdu) or is_answerable(pdu.segment_requests, self._file_bytes)

    def advance(self, now_s: float) -> None:
        if self._is_cancelled() and not self._cancels:
            self._cancel(now_s)
        if self._finished is not None or (self._cancels and self._is_cancel_acknowledged):
            self.wakes_at_s = self._quiet_since_s + self._settings.linger_s
            self.ended = now_s >= self.wakes_at_s
        elif self._outbox:
            self.wakes_at_s = math.inf
        else:
            self._serve_timers(now_s)

    def facts(self) -> str:
        """The last line of output. Raises Failed if the receiver's Finished PDU reports an incomplete file, or if this
        side cancelled."""
        facts = self._tally.facts()
        if self._cancels:
            raise Failed(f"this side cancelled; {facts}")
        verdict = self._finished
        assert verdict is not None
        condition = ConditionCode(verdict.condition_code)
        if condition != ConditionCode.NO_ERROR or verdict.delivery_code != DeliveryCode.DATA_COMPLETE:
            raise Failed(f"the receiver finished with {condition.name}, file incomplete; {facts}")
        return facts

    def _cancel(self, now_s: float) -> None:
        """Send EOF (cancel) instead of all that waits, once the metadata have begun the transaction. Too late when the
        receiver has finished or the engine has given up."""
        parameters = self._engine._params
        is_over = self._finished is not None or parameters.cond_code_eof not in (None, ConditionCode.NO_ERROR)
        if is_over or not self._engine.cancel_request(self._engine.transaction_id):
            return
        self._cancels, self._quiet_since_s = True, now_s
        parameters.fp.file_size = parameters.fp.progress
        self._outbox.clear()
        self._outbox.take(self._engine)

    def _step(self, pdu: object = None) -> None:
        # refused: a late retransmission of what is settled, or a request beyond what was sent
        with suppress(PduIgnoredForSource, InvalidNakPdu, InvalidPduForSourceHandler):
            self._engine.state_machine(pdu)
        self._outbox.take(self._engine)

    def _serve_timers(self, now_s: float) -> None:
        if self._engine.step == Step.RETRANSMITTING:
            self._step()  # returns the engine to where it was before a NAK came
        if self._is_cancel_acknowledged or self._engine.state == CfdpState.IDLE:
            self._fail(f"no answer to EOF, sent {self._settings.ack_limit} times")
        self.wakes_at_s = math.inf
        if self._engine.step in _WAITING:
            self._wait(now_s)

    def _wait(self, now_s: float) -> None:
        silent_until_s = self._quiet_since_s + self._settings.silence_limit_s
        if now_s >= silent_until_s:
            self._fail(f"the receiver was silent for {self._settings.silence_limit_s} s")
        self.wakes_at_s = silent_until_s
        if self._engine.step == Step.WAITING_FOR_EOF_ACK:
            # the engine tells nobody when its timer is due
            timer = self._engine._params.positive_ack_params.ack_timer
            if timer.timed_out():
                self._step()
            self.wakes_at_s = min(silent_until_s, now_s + timer.remaining_time().total_seconds())

    def _fail(self, reason: str) -> NoReturn:
        why = f"this side cancelled, {reason}" if self._cancels else reason
        raise Failed(f"{why}; {self._tally.facts()}")

    def _hear_nak(self, nak: NakPdu) -> None:
        """Pass the requests to the engine, except for data that already wait to be sent: it would make all of them
        again. A receiver that requests faster than that takes would keep it busy for ever."""
        segment_bytes = self._settings.segment_bytes
        nak.segment_requests = without_waiting(nak.segment_requests, segment_bytes, self._outbox.has_data_of)
        if nak.segment_requests:
            self._step(nak)

    def _hear_finished(self, finished: FinishedPdu) -> None:
        if self._finished is not None:
            self._outbox.add(acknowledge_finished(finished))
            return
        self._finished = finished
        if self._engine.step == Step.RETRANSMITTING:
            self._step()
        if self._engine.step == Step.WAITING_FOR_EOF_ACK:
            self._step(implied_acknowledgement(finished))
        self._outbox.clear()  # retransmissions that nobody needs any more
        if self._engine.step == Step.WAITING_FOR_FINISHED:
            self._step(finished)
        else:  # the receiver ended while data were still being sent
            self._outbox.add(acknowledge_finished(finished))

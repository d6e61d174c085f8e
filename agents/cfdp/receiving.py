"""The receiver's side: drives cfdp-py's destination handler and sends the answers that it omits or gets wrong.

cfdp-py 0.7, and what is done about it here:
- it throws away file data that come before the Metadata PDU, asks for all of them again at each segment, and then
  fails the checksum, not having kept the EOF's: early data wait here while the metadata are requested;
- once it waits for missing data or for ACK(Finished) it leaves a retransmitted EOF unanswered: answered here;
- it takes PDUs after the end for a new transaction: they are not passed to it;
- it waits a round trip more than it must for retransmitted data that were lost again: a pause ends the wait here, also
  one that is shorter than the NAK timer (setting nak_repeat);
- it keeps any number of gaps: data that would open one too many are discarded here (setting max_gaps), as by an engine
  whose list is full, so that all that follows the last gap is requested again;
- it does not verify the checksum of a file that arrived without gaps: verified here, before it reports success;
- it retransmits its Finished PDU without end, and has no inactivity timer: limits here.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Self

from cfdppy import CfdpState
from cfdppy.exceptions import InvalidPduForDestHandler
from cfdppy.handler import DestTransactionStep as Step
from cfdppy.user import TransactionFinishedParams
from spacepackets.cfdp import ChecksumType, ConditionCode, DeliveryCode, FileStatus, GenericPduPacket
from spacepackets.cfdp.pdu import AckPdu, EofPdu, FileDataPdu, MetadataPdu
from spacepackets.countdown import Countdown

from owlt.agents.cfdp.entity import Outbox, PduTally, ReceivedFile, destination_entity
from owlt.agents.cfdp.pdus import (
    PduReader,
    acknowledge_eof,
    eof_condition,
    kind_of,
    lengths_of,
    offset_of,
    request_metadata,
    transaction_of,
)
from owlt.agents.cfdp.settings import Settings
from owlt.agents.endpoint.event_loop import never
from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.files import IncomingFile

MOST_EARLY_PDUS = 1 << 17
"""File data kept from before the metadata: 300 MB of memory in segments of 1000 bytes. The rest is asked for again."""


class Receiving:
    """A `Party` that receives one file into `output`, which appears when it is complete.

    Raises from `advance`:
        Failed: the sender was silent for too long, or cancelled.
    """

    def __init__(
        self,
        output: Path,
        settings: Settings,
        now_s: float,
        is_cancelled: Callable[[], bool] = never,
        most_early_pdus: int = MOST_EARLY_PDUS,
    ) -> None:
        """`is_cancelled`: whether the user has requested to cancel (CCSDS 727.0-B-5, section 4.11.2.3)."""
        self._settings = settings
        self._is_cancelled = is_cancelled
        self._most_early_pdus = most_early_pdus
        self._tally = PduTally()
        self._outbox = Outbox(self._tally)
        self._file = IncomingFile(output)
        self._store = ReceivedFile(self._file)
        self._engine = destination_entity(settings, self._store, self._on_finished)
        self._pdus = PduReader(settings.with_crc, settings.entities)
        self._transaction: int | None = None  # that of the first PDU
        self._early: list[GenericPduPacket] = []
        self._metadata_due_s = math.inf
        self._checksum = ChecksumType.NULL_CHECKSUM
        self._eof: EofPdu | None = None
        self._cancelled: ConditionCode | None = None
        self._asked_at_s = now_s
        self._outcome: ConditionCode | None = None
        self._quiet_since_s = now_s
        self.ended = False
        self.wakes_at_s = math.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def has_datagram(self) -> bool:
        return bool(self._outbox)

    def next_datagram(self, now_s: float) -> bytes:
        datagram = self._outbox.next(now_s)
        if not self._outbox:
            self.wakes_at_s = now_s  # timers are looked at once all is sent
        return datagram

    def hear(self, datagram: bytes, now_s: float) -> None:
        pdu = self._pdus.read(datagram, self._transaction)
        if not isinstance(pdu, MetadataPdu | FileDataPdu | EofPdu | AckPdu):
            self._tally.count("unreadable")
            return
        if self._transaction is None:
            self._outbox.lengths = lengths_of(datagram)
        self._transaction = transaction_of(pdu)
        self._tally.received(kind_of(pdu), now_s, offset_of(pdu))
        self._quiet_since_s = now_s
        if isinstance(pdu, EofPdu):
            self._note_eof(pdu, now_s)
        if self._cancelled is not None:
            return
        if self._engine.state == CfdpState.BUSY:
            self._hear_in_transaction(pdu, now_s)
        elif self._outcome is None:
            self._hear_before_transaction(pdu, now_s)

    def advance(self, now_s: float) -> None:
        if self._is_cancelled() and self._outcome is None and self._cancelled is None:
            self._cancel(now_s)
        if self._outbox:
            self.wakes_at_s = math.inf
        elif self._cancelled is not None:
            self._leave(self._cancelled, now_s)
        elif self._outcome is not None:
            self._await_acknowledgement(now_s)
        else:
            self._await_file(now_s)

    def facts(self) -> str:
        """The last line of output. Raises Failed if the file is incomplete."""
        if self._cancels:
            raise Failed(f"this side cancelled, file incomplete; {self._tally.facts()}")
        if self._outcome != ConditionCode.NO_ERROR:
            reason = self._outcome.name if self._outcome is not None else "no transaction"
            raise Failed(f"{reason}, file incomplete; {self._tally.facts()}")
        return self._tally.facts()

    @property
    def _cancels(self) -> bool:
        """Whether the user's request has been carried out. The sender's is not passed to the engine."""
        return bool(self._outcome == ConditionCode.CANCEL_REQUEST_RECEIVED)

    def _cancel(self, now_s: float) -> None:
        """Send Finished (cancel) instead of all that waits, once a transaction has begun."""
        if self._early:  # the engine has not seen it yet
            self._step(self._early[0])
            self._early.clear()
        if self._engine.cancel_request(self._engine.transaction_id):
            self._quiet_since_s = now_s
            self._outbox.clear()
            self._step()

    def _leave(self, condition: ConditionCode, now_s: float) -> None:
        """End once the sender has certainly received the ACK of its EOF (cancel). Nothing more is due to it: a Finished
        (cancel) belongs to a cancellation by the receiver (CCSDS 727.0-B-5, sections 4.6.6.1 and 4.11.2.3)."""
        is_request = condition == ConditionCode.CANCEL_REQUEST_RECEIVED
        self.wakes_at_s = self._quiet_since_s + self._settings.linger_s
        if now_s >= self.wakes_at_s or not is_request:
            raise Failed(f"the sender cancelled with {condition.name}; {self._tally.facts()}")

    def _note_eof(self, eof: EofPdu, now_s: float) -> None:
        if self._outcome is None and eof_condition(eof) != ConditionCode.NO_ERROR:
            self._cancelled = eof_condition(eof)
            self._outbox.add(acknowledge_eof(eof))  # the sender retransmits it until then
        elif self._eof is None:
            self._eof, self._asked_at_s = eof, now_s

    def _hear_in_transaction(self, pdu: GenericPduPacket, now_s: float) -> None:
        if isinstance(pdu, EofPdu) and self._engine.step != Step.RECEIVING_FILE_DATA:
            self._outbox.add(acknowledge_eof(pdu))
            return
        if self._cancels and not isinstance(pdu, AckPdu):
            return  # the engine would look at its timer, and declare a fault at its limit
        self._step(pdu)
        is_answer = now_s >= self._asked_at_s + self._settings.rtt_s
        can_pause = self._settings.repeats_nak_after_pause and is_answer
        if isinstance(pdu, FileDataPdu) and self._engine.step == Step.WAITING_FOR_MISSING_DATA and can_pause:
            self._nak_timer().reset(timedelta(seconds=self._settings.gap_s))

    def _hear_before_transaction(self, pdu: GenericPduPacket, now_s: float) -> None:
        if isinstance(pdu, MetadataPdu):
            self._begin(pdu)
            self._asked_at_s = now_s
        elif isinstance(pdu, EofPdu | FileDataPdu):
            if pdu is self._eof or (isinstance(pdu, FileDataPdu) and len(self._early) < self._most_early_pdus):
                self._early.append(pdu)
            if isinstance(pdu, EofPdu):
                self._outbox.add(acknowledge_eof(pdu))
            if self._metadata_due_s == math.inf:
                self._ask_for_metadata(now_s)

    def _begin(self, metadata: MetadataPdu) -> None:
        """Pass the metadata to the engine, then the PDUs that came before them. An early EOF has been acknowledged."""
        self._checksum = metadata.checksum_type
        for pdu in (metadata, *self._early):
            self._step(pdu)
        self._early.clear()

    def _ask_for_metadata(self, now_s: float) -> None:
        """Request the metadata at once, in any NAK mode: nothing can be stored without them."""
        self._outbox.add(request_metadata(self._early[0]))
        self._metadata_due_s = now_s + self._settings.nak_interval_s

    def _has_room(self, data: FileDataPdu) -> bool:
        """Whether the list of gaps has room for those that these data leave. After EOF, what follows the last gap is
        one gap more."""
        acked = self._engine._params.acked_params
        gaps, begin, end = acked.lost_seg_tracker.lost_segments, data.offset, data.offset + len(data.file_data)
        splits = any(start < begin and end < stop for start, stop in gaps)
        is_after_eof = self._engine.step == Step.WAITING_FOR_MISSING_DATA
        opens = begin > acked.last_end_offset and not is_after_eof
        return not (splits or opens) or len(gaps) < self._settings.max_gaps + is_after_eof

    def _step(self, pdu: GenericPduPacket | None = None) -> None:
        if self._settings.max_gaps and isinstance(pdu, FileDataPdu) and not self._has_room(pdu):
            return
        # refused: an ACK of what was never sent, or data that fit no request
        with suppress(InvalidPduForDestHandler, ValueError):
            self._engine.state_machine(pdu)
        self._outbox.take(self._engine, acknowledgements=not self._early)

    def _await_file(self, now_s: float) -> None:
        silent_until_s = self._quiet_since_s + self._settings.silence_limit_s
        if now_s >= silent_until_s:
            limit_s = self._settings.silence_limit_s
            raise Failed(f"the sender was silent for {limit_s} s; {self._tally.facts()}")
        self.wakes_at_s = silent_until_s
        if self._early:
            if now_s >= self._metadata_due_s:
                self._ask_for_metadata(now_s)
            self.wakes_at_s = min(silent_until_s, self._metadata_due_s)
        elif self._engine.step == Step.WAITING_FOR_MISSING_DATA:
            self._serve(self._nak_timer(), self._settings.nak_interval_s, silent_until_s, now_s)

    def _await_acknowledgement(self, now_s: float) -> None:
        gives_up_at_s = self._quiet_since_s + self._settings.give_up_s
        timer = self._engine._params.positive_ack_params.ack_timer
        if self._engine.state == CfdpState.IDLE or now_s >= gives_up_at_s:
            self.ended = True
        elif self._cancels and self._engine.positive_ack_counter + 1 >= self._settings.ack_limit:
            # the transaction is abandoned at the limit (CCSDS 727.0-B-5, section 4.11.2.3); the engine would send
            # Finished with another condition
            self.ended = timer.timed_out()
            self.wakes_at_s = min(gives_up_at_s, now_s + timer.remaining_time().total_seconds())
        else:
            self._serve(timer, self._settings.ack_interval_s, gives_up_at_s, now_s)

    def _nak_timer(self) -> Countdown:
        """The engine's own timer; it does not report when its timers are due."""
        return self._engine._params.acked_params.procedure_timer

    def _serve(self, timer: Countdown, interval_s: float, limit_s: float, now_s: float) -> None:
        """Let the engine act on one of its timers when that is due, and wake for it when it is not."""
        if timer.timed_out():
            self._step()
            timer.reset(timedelta(seconds=interval_s))
            self._asked_at_s = now_s
        self.wakes_at_s = min(limit_s, now_s + timer.remaining_time().total_seconds())

    def _on_finished(self, params: TransactionFinishedParams) -> None:
        """The engine is about to send its Finished PDU, with the values that this call gets."""
        if self._outcome is not None:
            return  # a limit was reached after the file was decided
        verdict = params.finished_params
        if verdict.condition_code == ConditionCode.NO_ERROR and not self._is_complete():
            verdict.condition_code = ConditionCode.FILE_CHECKSUM_FAILURE
            verdict.delivery_code = DeliveryCode.DATA_INCOMPLETE
        self._outcome = ConditionCode(verdict.condition_code)
        if self._cancels:
            verdict.file_status = FileStatus.DISCARDED_DELIBERATELY
        if self._outcome == ConditionCode.NO_ERROR:
            self._file.finish()
        else:
            self._file.close()

    def _is_complete(self) -> bool:
        assert self._eof is not None
        checksum = self._store.calculate_checksum(self._checksum, self._file.part, self._eof.file_size)
        return checksum == bytes(self._eof.file_checksum)

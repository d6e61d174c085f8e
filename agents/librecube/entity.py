"""LibreCube's entity without its threads: the caller's loop performs its events and timers.

The library gives each entity a thread for events and each running timer another, and lets the first send as fast as it
can. Here the caller's loop does all three, so that PDUs are paced, nothing polls, and a failure ends the run.
The state machines, their PDUs and their reactions to timers are the library's own. Its filestore is one file here,
whatever path a Metadata PDU names, and it sees only datagrams that are PDUs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cfdp import CfdpEntity, ConditionCode, EventType, MachineState, TransmissionMode  # type: ignore[import-untyped]
from cfdp.filestore import VirtualFileStore  # type: ignore[import-untyped]
from cfdp.filestore.native import NativeFileHandle, NativeTemporaryFileHandle  # type: ignore[import-untyped]
from cfdp.machines.timer import Timer  # type: ignore[import-untyped]
from cfdp.transport.base import Transport  # type: ignore[import-untyped]

from owlt.agents.cfdp.settings import Timing
from owlt.agents.endpoint.exit import Failed
from owlt.agents.librecube.settings import LARGEST_FILE_BYTES

TOWARDS_RECEIVER, TOWARDS_SENDER = 0, 1

_DIRECTIVES = {4: "Eof", 5: "Finished", 6: "Ack", 7: "Metadata", 8: "Nak"}
_KINDS = {TOWARDS_RECEIVER: {"FileData", "Metadata", "Eof", "Ack"}, TOWARDS_SENDER: {"Ack", "Nak", "Finished"}}


class Damaged(ValueError):
    """A datagram that is no PDU of this transfer: damaged, of another transfer, or with values that the engine cannot
    handle."""


def read_pdu(
    datagram: bytes,
    decode: Callable[[bytes], Any],
    *,
    towards: int,
    entities: tuple[int, int],
    transaction: int | None,
) -> Any:
    """The PDU in a datagram, as the library's `decode` gives it. `entities` are the ids of source and destination; a
    `transaction` of None takes any number.

    The library checks little: version, length, CRC flag and class are looked at here (CCSDS 727.0-B-5, section 5.1),
    and that a PDU does not make the engine reserve memory without end or touch other files.

    Raises:
        Damaged: anything else.
    """
    try:
        kind, _ = kind_and_offset(datagram)
        pdu = decode(datagram)
    except Exception as error:  # the library raises exceptions of many types
        raise Damaged(str(error)) from error
    header = pdu.pdu_header
    has_its_length = datagram[0] >> 5 == 1 and int.from_bytes(datagram[1:3]) == len(datagram) - len(header)
    ids = (header.source_entity_id, header.destination_entity_id)
    ours = ids == entities and transaction in (None, header.transaction_seq_number)
    plain = header.transmission_mode == 0 and not header.large_file_flag and not header.segmentation_metadata_flag
    if not (has_its_length and ours and plain and header.direction == towards and kind in _KINDS[towards]):
        raise Damaged(f"a {kind} PDU that is not of this transfer")
    if not _is_bearable(kind, pdu):
        raise Damaged(f"a {kind} PDU beyond the engine's limits")
    return pdu


def _is_bearable(kind: str, pdu: Any) -> bool:
    if kind == "FileData":
        return bool(pdu.segment_offset + len(pdu.file_data) <= LARGEST_FILE_BYTES)
    if kind == "Metadata":
        return not pdu.filestore_requests and not pdu.messages_to_user
    if kind == "Ack":
        return pdu.directive_code_ack in (4, 5)
    return True


def kind_and_offset(pdu: bytes) -> tuple[str, int | None]:
    """As a tally counts it (FileData, Metadata, Eof, Ack, Nak or Finished), and where file data belong.

    Raises IndexError or KeyError on bytes that are no PDU.
    """
    header_bytes = 4 + 2 * ((pdu[3] >> 4 & 7) + 1) + (pdu[3] & 7) + 1
    if pdu[0] & 0x10:
        return "FileData", int.from_bytes(pdu[header_bytes : header_bytes + 4])
    return _DIRECTIVES[pdu[header_bytes]], None


class OneFile(VirtualFileStore):  # type: ignore[misc]  # LibreCube's cfdp has no types
    """The file at `path`: read where it is, written beside it until `publish`.

    All other requests of the standard's filestore raise NotImplementedError, as the library's base class does.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._part = path.with_name(path.name + ".part")
        self._is_written = False

    def open(self, _name: str, mode: str = "rb") -> Any:
        if mode == "rb":
            return NativeFileHandle(self._path, mode)
        self._is_written = True
        return NativeFileHandle(self._part, mode)

    def open_tempfile(self) -> Any:
        """The file for segments until it is complete; the engine then copies them to `open(name, "wb")`."""
        return NativeTemporaryFileHandle()

    def is_file(self, _name: str) -> bool:
        return True

    def get_size(self, _name: str) -> int:
        return self._path.stat().st_size

    def publish(self) -> bool:
        """Give a written file its name. False when none has been written."""
        if self._is_written:
            self._part.replace(self._path)
        return self._is_written


_CONDITIONS = {code: name for name, code in vars(ConditionCode).items() if name.isupper()}
_TIMERS = ("inactivity_timer", "ack_timer", "nak_timer")


class Entity(CfdpEntity):  # type: ignore[misc]  # LibreCube's cfdp has no types
    """One entity with one transaction. `send` takes its PDUs; `now_s` is the time that its timers start from.

    Raises from `hear`, `fire_timers` and `send_next`:
        Failed: the library raised an exception, which would have ended its own thread.
    """

    def __init__(self, entity_id: int, store: OneFile, timing: Timing, send: Callable[[bytes], None]) -> None:
        self._events: deque[tuple[Any, Any]] = deque()
        self._productions: deque[Any] = deque()
        self._machine: Any = None
        self.now_s = 0.0
        self.outcome: str | None = None
        super().__init__(
            entity_id,
            store,
            _Outlet(send),
            transaction_finished_indication_required=True,
            transaction_inactivity_limit=timing.silence_limit_s,
            positive_ack_timer_interval=timing.ack_interval_s,
            positive_ack_timer_expiration_limit=timing.ack_limit,
            nak_timer_interval=timing.nak_interval_s,
            nak_timer_expiration_limit=timing.nak_limit,
        )

    def _event_handler(self) -> None:
        """Replaces the loop of the library's thread and returns at once; `_settle` handles events."""

    _message_handler = _event_handler

    def trigger_event(self, event: Any, pdu: Any = None) -> None:
        """Take an event of the library. "Send file data" waits until the channel takes the data."""
        if event.type == EventType.E1_SEND_FILE_DATA:
            self._productions.append(event)
        else:
            self._events.append((event, pdu))

    def send_file(self, name: str, receiver_entity: int, segment_bytes: int) -> None:
        """Start the transaction."""
        number = self.put(receiver_entity, name, name, transmission_mode=TransmissionMode.ACKNOWLEDGED)
        self._adopt(self.machines[number])
        self._machine.transaction.file_segment_size = segment_bytes
        self._settle()

    def cancel_transaction(self) -> None:
        """Cancel.request of the user, for a transaction that has begun."""
        self.cancel(self._machine.transaction.id)
        self._settle()

    def _new_state_machine(self, transaction: Any, pdu: Any) -> Any:
        machine = super()._new_state_machine(transaction, pdu)
        self._adopt(machine)
        return machine

    def _adopt(self, machine: Any) -> None:
        self._machine = machine
        for name in _TIMERS:
            if hasattr(machine, name):
                setattr(machine, name, _Alarm(getattr(machine, name), self))

    def decode(self, datagram: bytes) -> Any:
        """Decode a PDU with the library, which may raise any exception for a damaged one."""
        return super()._get_pdu_object(datagram)

    def _get_pdu_object(self, pdu: Any) -> Any:
        """Return the PDU that `hear` passes, which has been decoded already."""
        return pdu

    def hear(self, pdu: Any) -> None:
        """Handle a PDU that `decode` has read."""
        self._guarded(lambda: self.pdu_received(pdu))
        self._settle()

    @property
    def can_send(self) -> bool:
        """Whether `send_next` would give a PDU."""
        if not self._productions:
            return False
        state = self._machine.state
        return bool(state == MachineState.SEND_FILE or (state == MachineState.SEND_EOF and self._machine.nak_list))

    def send_next(self) -> None:
        """Make the next PDU with file data, or the metadata again."""
        self._work(self._productions.popleft(), None)
        self._settle()

    @property
    def transaction(self) -> int | None:
        """The transaction's number, once there is one."""
        return None if self._machine is None else self._machine.transaction.seq_number

    @property
    def is_sending_file(self) -> bool:
        """Whether the sender's state machine has not reached its EOF."""
        return self._machine is not None and self._machine.state == MachineState.SEND_FILE

    @property
    def is_finishing(self) -> bool:
        """Whether the receiver's state machine has the complete file and sends Finished."""
        return self._machine is not None and self._machine.state == MachineState.SEND_FINISHED

    @property
    def due_s(self) -> float:
        """When the next timer fires; infinity is never."""
        return min((alarm.due_s for alarm in self._alarms()), default=math.inf)

    def fire_timers(self) -> None:
        """Let the engine act on all timers that are due by `now_s`."""
        for alarm in self._alarms():
            if alarm.due_s <= self.now_s:
                alarm.fire()
        self._settle()

    def close(self) -> None:
        """Close the file, in any state of the transaction."""
        if self._machine is not None:
            self._machine.shutdown()

    def _alarms(self) -> list[_Alarm]:
        return [getattr(self._machine, name) for name in _TIMERS if hasattr(self._machine, name)]

    def _settle(self) -> None:
        while self._events:
            self._work(*self._events.popleft())
        if not self.can_send:
            self._productions.clear()  # the machine would answer each with nothing

    def _work(self, event: Any, pdu: Any) -> None:
        machine = self.machines.get(event.transaction.id)
        if machine is not None:
            self._guarded(lambda: machine.update_state(event, pdu))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError:
            raise
        except Exception as error:
            raise Failed(f"LibreCube's engine raised {type(error).__name__}: {error}") from error

    def transaction_finished_indication(
        self, _transaction: Any, condition_code: int, _file_status: int, _delivery_code: int, *_more: Any
    ) -> None:
        self.outcome = _CONDITIONS.get(condition_code, f"condition {condition_code}")

    def abandoned_indication(self, *_: Any) -> None:
        self.outcome = "ABANDONED"


class _Alarm(Timer):  # type: ignore[misc]  # LibreCube's cfdp has no types
    """A timer of the library that knows when it is due, in place of a thread that sleeps until then."""

    def __init__(self, timer: Any, entity: Entity) -> None:
        super().__init__(timer.machine, timer.timeout, timer.raise_event, timer._expiration_limit)
        self._entity = entity
        self.due_s = math.inf

    def restart(self) -> None:
        self.due_s = self._entity.now_s + self.timeout

    def cancel(self) -> None:
        self.due_s = math.inf

    def fire(self) -> None:
        """Call what the library's timer thread would call when it ends."""
        self.due_s = math.inf
        self._expired()


class _Outlet(Transport):  # type: ignore[misc]  # LibreCube's cfdp has no types
    """The library's output: PDUs go to the caller."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        super().__init__()
        self._send = send

    def request(self, data: bytes) -> None:
        self._send(bytes(data))

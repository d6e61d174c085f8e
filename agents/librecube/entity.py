"""LibreCube's entity without its threads: events are worked on when told to, and timers say when they are due.

The library gives each entity a thread for events and each running timer another, and lets the first send as fast as it
can. Here the caller's loop does all three, so that PDUs are paced, nothing polls, and a failure ends the run.
The state machines, their PDUs and their reactions to timers are the library's own.
"""

import math
from collections import deque
from collections.abc import Callable
from typing import Any

from cfdp import (  # type: ignore[import-untyped]
    CfdpEntity,
    ConditionCode,
    EventType,
    MachineState,
    TransmissionMode,
)
from cfdp.machines.timer import Timer  # type: ignore[import-untyped]
from cfdp.transport.base import Transport  # type: ignore[import-untyped]

from owlt.agents.cfdp.timing import Timing
from owlt.agents.endpoint.exit import Failed
from owlt.agents.librecube.store import OneFile

_CONDITIONS = {code: name for name, code in vars(ConditionCode).items() if name.isupper()}
_TIMERS = ("inactivity_timer", "ack_timer", "nak_timer")


class Entity(CfdpEntity):  # type: ignore[misc]  # LibreCube's cfdp has no types
    """One entity with one transaction. `send` takes its PDUs; `now_s` is the time that its timers start from.

    Raises from `hear`, `fire_timers` and `send_next`:
        Failed: the library raised something, of which its own thread would have died.
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
        """What the library's thread would do for ever; it ends at once. Events are worked on by `_settle`."""

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
        """The library's reading of a PDU; it raises anything at damage."""
        return super()._get_pdu_object(datagram)

    def _get_pdu_object(self, pdu: Any) -> Any:
        """What `hear` shows the library has been read already."""
        return pdu

    def hear(self, pdu: Any) -> None:
        """A PDU that `decode` has read."""
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
        """Whether the sender's machine has not come to its EOF."""
        return self._machine is not None and self._machine.state == MachineState.SEND_FILE

    @property
    def is_finishing(self) -> bool:
        """Whether the receiver's machine has all and says so."""
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
        """Let go of the file, at whatever point the transaction is."""
        if self._machine is not None:
            self._machine.shutdown()

    def _alarms(self) -> "list[_Alarm]":
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
            raise Failed(f"LibreCube's engine died: {type(error).__name__}: {error}") from error

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
        """Do what the thread would do at its end."""
        self.due_s = math.inf
        self._expired()


class _Outlet(Transport):  # type: ignore[misc]  # LibreCube's cfdp has no types
    """The library's way out: PDUs go to the caller."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        super().__init__()
        self._send = send

    def request(self, data: bytes) -> None:
        self._send(bytes(data))

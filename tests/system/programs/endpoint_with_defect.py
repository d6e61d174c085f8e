"""An endpoint of owlt with a defect that is planted in this process.

usage: endpoint_with_defect.py PACKAGE DEFECT ARGUMENTS...
"""

import math
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any


def agent(name: str) -> Any:
    """A module of the endpoints; only what an endpoint needs is imported."""
    return import_module(f"owlt.agents.{name}")


def nothing(*_: object) -> None:
    """What a defect does instead."""


def metadata_not_requested() -> None:
    """The CFDP receiver waits for metadata, and does not request them."""
    agent("cfdp.receiving").Receiving._ask_for_metadata = nothing


def second_eof_opens_file() -> None:
    """The CFDP receiver takes an EOF after the end for a new transaction, and empties the file."""
    receiving = agent("cfdp.receiving").Receiving
    note_eof = receiving._note_eof

    def note(self: Any, eof: object, now_s: float) -> None:
        note_eof(self, eof, now_s)
        if self._outcome is not None:
            self._file._output.write_bytes(b"")

    receiving._note_eof = note


def nak_loop() -> None:
    """The CFDP receiver takes nothing any more once it has repeated a NAK, and repeats it until its limit."""
    module = agent("cfdp.receiving")
    serve = module.Receiving._serve

    def serve_deaf(self: Any, timer: Any, *times: float) -> None:
        if timer.timed_out() and self._engine.step == module.Step.WAITING_FOR_MISSING_DATA:
            self._hear_in_transaction = nothing
        serve(self, timer, *times)

    module.Receiving._serve = serve_deaf


def finished_unacknowledged() -> None:
    """The CFDP sender does not acknowledge a second Finished, and the receiver repeats it without a limit."""
    sending = agent("cfdp.sending").Sending
    hear = sending._hear_finished
    sending._hear_finished = lambda self, pdu: None if self._finished is not None else hear(self, pdu)
    agent("cfdp.settings").Timing.give_up_s = property(lambda _: math.inf)


def one_report_remembered() -> None:
    """The LTP receiver has one timer for all reports, so that it repeats only the last of two."""
    module = agent("ltp.receiving")
    left = module.Receiving._left

    def left_alone(self: Any, segment: object, now_s: float) -> None:
        if isinstance(segment, module.Report):
            self._reports.forget(lambda _: True)
        left(self, segment, now_s)

    module.Receiving._left = left_alone


def checkpoint_without_timer() -> None:
    """The LTP sender does not start the timer of a checkpoint."""
    agent("ltp.sending").Sending._left = lambda self, *_: setattr(self, "wakes_at_s", -math.inf)


def flush_without_acknowledgement() -> None:
    """The NORM sender ends with its first flush, and waits for no acknowledgement of a watermark."""
    send, flushed = agent("norm.session").send, agent("norm.settings").End.FLUSHED
    agent("norm.__main__").send = lambda file, settings, place: send(
        file, replace(settings, end=flushed, robust_factor=1), place
    )


def status_ignored() -> None:
    """The Saratoga sender sends no data again that a STATUS reports as missing."""
    agent("saratoga.sending").Sending._repair = nothing


def second_signal_refused() -> None:
    """The custodian repeats a bundle whose custody is signalled a second time, as redundant, and so without an end."""
    module = agent("bundle.sending")
    module._SETTLED = {module.Status.ACCEPTED}


def milliseconds_in_32_bits() -> None:
    """The endpoint counts milliseconds in 32 bits, as a uint32_t does: they begin again after 49.7 days."""

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return (int(1000 * time.monotonic()) & 0xFFFFFFFF) / 1000

    agent("endpoint.event_loop").time = Clock


def no_transaction_65535() -> None:
    """The CFDP receiver takes transaction 65,535 for none, as a program with the value 0xFFFF for "none" does."""
    module = agent("cfdp.pdus")
    read = module.PduReader.read

    def read_some(*words: Any) -> Any:
        pdu = read(*words)
        return None if pdu is not None and module.transaction_of(pdu) == 0xFFFF else pdu

    module.PduReader.read = read_some


def not_resumed() -> None:
    """The endpoint ignores the command to resume: its transfer stays suspended in the next pass."""
    clock = agent("endpoint.event_loop").SuspendableClock
    clock._suspend = lambda self, *_: signal.sigwait({signal.SIGTERM})


def suspend_ignored() -> None:
    """The endpoint goes on when it gets the command to suspend."""
    agent("endpoint.event_loop").SuspendableClock._suspend = nothing


def cancel_unacknowledged() -> None:
    """The CFDP receiver ends when it gets EOF (cancel), and does not acknowledge it (nasa/cf 389)."""
    module = agent("cfdp.receiving")
    note_eof = module.Receiving._note_eof

    def note(self: Any, eof: Any, now_s: float) -> None:
        note_eof(self, eof, now_s)
        if self._cancelled is not None:
            self._outbox.clear()
            self._leave = left

    def left(*_: object) -> None:
        raise module.Failed("the sender cancelled")

    module.Receiving._note_eof = note


def finished_cancel_sent_once() -> None:
    """The CFDP receiver that cancels sends Finished (cancel) only once."""
    module = agent("cfdp.receiving")
    await_acknowledgement = module.Receiving._await_acknowledgement

    def once(self: Any, now_s: float) -> None:
        if self._outcome == module.ConditionCode.CANCEL_REQUEST_RECEIVED:
            self.ended = True
        else:
            await_acknowledgement(self, now_s)

    module.Receiving._await_acknowledgement = once


def late_start() -> None:
    """The sender sleeps 2 s before its first packet."""
    if ARGUMENTS[0] == "send":
        time.sleep(2)


def aggregation_timer() -> None:
    """The LTP sender waits 1 s for more data before it sends a block that is not full."""
    sending = agent("ltp.sending").Sending
    open_next = sending._open_next

    def open_later(self: Any) -> Any:
        block = open_next(self)
        if block._length < self._settings.block_bytes:
            time.sleep(1)
        return block

    sending._open_next = open_later


def window_of_two() -> None:
    """The receiver takes a checkpoint (LTP), EOF (CFDP) or DATA that request a STATUS (Saratoga) only when it comes a
    second time."""
    module = agent(f"{PACKAGE}.receiving")
    name, asks = {
        "ltp": ("_hear", lambda segment: getattr(segment, "checkpoint", None) is not None),
        "cfdp": ("_hear_in_transaction", lambda pdu: isinstance(pdu, module.EofPdu)),
        "saratoga": ("_take_data", lambda data: data.asks),
    }[PACKAGE]
    take = getattr(module.Receiving, name)
    waiting: list[Any] = []

    def take_second(self: Any, message: Any, now_s: float) -> bool:
        if not waiting and asks(message):
            waiting.append(message)
            return True
        return bool(take(self, message, now_s))

    setattr(module.Receiving, name, take_second)


def small_writes(no_delay: bool = False) -> None:
    """The TCP sender writes each 1,000 bytes in two parts and waits for an answer of one byte. Nagle's algorithm keeps
    the second part until the delayed acknowledgement of the first (RFC 1122, 4.2.3.4)."""
    module = agent("tcp.sending" if ARGUMENTS[0] == "send" else "tcp.receiving")

    def hand_over(connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, no_delay)
        with Path(ARGUMENTS[ARGUMENTS.index("--file") + 1]).open("rb") as file:
            while header := file.read(100):
                connection.sendall(header)
                connection.sendall(file.read(900))
                connection.recv(1)

    if ARGUMENTS[0] == "send":
        transfer = module._transfer
        module._transfer = lambda _, peer, settings: transfer(hand_over, peer, settings)
        return
    read = module._read

    def answering(connection: socket.socket, buffer: Any, came: int, settings: Any) -> int:
        count: int = read(connection, buffer, came, settings)
        connection.sendall(b"." * ((came + count) // 1000 - came // 1000))
        return count

    module._read = answering


def small_writes_without_delay() -> None:
    """The same sender without Nagle's algorithm."""
    small_writes(no_delay=True)


PLANTED: tuple[Callable[[], None], ...] = (
    metadata_not_requested,
    second_eof_opens_file,
    nak_loop,
    finished_unacknowledged,
    one_report_remembered,
    checkpoint_without_timer,
    flush_without_acknowledgement,
    status_ignored,
    second_signal_refused,
    milliseconds_in_32_bits,
    no_transaction_65535,
    not_resumed,
    suspend_ignored,
    cancel_unacknowledged,
    finished_cancel_sent_once,
    late_start,
    aggregation_timer,
    window_of_two,
    small_writes,
    small_writes_without_delay,
)
PACKAGE, DEFECT, *ARGUMENTS = sys.argv[1:]
({"none": nothing} | {plant.__name__.replace("_", "-"): plant for plant in PLANTED})[DEFECT]()
sys.exit(agent(f"{PACKAGE}.__main__").main(ARGUMENTS))

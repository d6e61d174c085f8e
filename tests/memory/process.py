"""A program in memory: a function that prints, waits and exits as a test scripts it.

`MemorySession` takes the place of an SSH session, so that `orchestrator.hosts.program.Program` holds it like any other.
"""

from __future__ import annotations

import errno
import os
import signal
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NoReturn

from owlt.orchestrator.hosts.confinement import Room
from owlt.orchestrator.hosts.host import LATE
from owlt.orchestrator.hosts.printable import BY_SIGNAL, SHELL_BASE

if TYPE_CHECKING:
    from tests.memory.host import MemoryHost


class _Over(BaseException):
    """The process has ended: its script goes no further."""


class MemorySession:
    """What a program writes and is typed, as paramiko's Channel gives it."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._streams = {"out": bytearray(), "err": bytearray()}
        self._is_over = False
        self.typed = bytearray()
        self.hear: Callable[[bytes], None] = self.typed.extend
        """What is done with what is typed."""
        self.exit_status = BY_SIGNAL
        self.status_event = threading.Event()

    def recv(self, most_bytes: int) -> bytes:
        """Some of its output; nothing once it has ended."""
        return self._received("out", most_bytes)

    def recv_stderr(self, most_bytes: int) -> bytes:
        """Some of its errors; nothing once it has ended."""
        return self._received("err", most_bytes)

    def _received(self, name: str, most_bytes: int) -> bytes:
        stream = self._streams[name]
        with self._news:
            self._news.wait_for(lambda: stream or self._is_over)
            piece = bytes(stream[:most_bytes])
            del stream[:most_bytes]
            return piece

    def settimeout(self, seconds: float | None) -> None:
        """Nothing takes time here."""

    def sendall(self, data: bytes) -> None:
        """Type at its terminal. Raises OSError once it has ended."""
        if self._is_over:
            raise OSError(errno.EPIPE, os.strerror(errno.EPIPE))
        self.hear(data)

    def exit_status_ready(self) -> bool:
        """Whether it has ended."""
        return self.status_event.is_set()

    def close(self) -> None:
        """End the session."""
        self.end(BY_SIGNAL)

    def put(self, name: str, data: bytes) -> None:
        """Have this come out of a stream."""
        with self._news:
            if not self._is_over:
                self._streams[name] += data
                self._news.notify_all()

    def end(self, status: int) -> bool:
        """End with a status; False if it had ended."""
        with self._news:
            if self._is_over:
                return False
            self._is_over, self.exit_status = True, status
            self._news.notify_all()
        self.status_event.set()
        return True


class Process:
    """What the script of a program has: its arguments, its streams, signals and the files of its host."""

    def __init__(
        self,
        host: MemoryHost,
        command: Sequence[str],
        directory: str,
        *,
        environment: Mapping[str, str] | None = None,
        room: Room | None = None,
        terminal: bool = False,
        can_wait: bool = True,
    ) -> None:
        self.host = host
        self.command = list(command)
        self.arguments = self.command[1:]
        self.directory = directory
        self.environment = dict(environment or {})
        self.session = MemorySession()
        self.session.hear = self._hear
        self._room = room
        self._terminal = terminal
        self._can_wait = can_wait
        self._actions: dict[str, Callable[[], None]] = {}
        self._typed = bytearray()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.session.exit_status_ready()

    def print(self, line: str) -> None:
        """Write a line to its output."""
        self.write(f"{line}\n".encode())

    def complain(self, line: str) -> None:
        """Write a line to its errors."""
        self.write(f"{line}\n".encode(), "err")

    def write(self, data: bytes, stream: str = "out") -> None:
        """Write to a stream; a terminal has one for both, and ends lines with CR and LF."""
        self._go_on()
        if self._terminal:
            data, stream = data.replace(b"\n", b"\r\n"), "out"
        self.session.put(stream, data)

    def read_line(self) -> str:
        """Wait for a line that is typed at its terminal."""
        self.wait_for(lambda: b"\n" in self._typed)
        line, _, rest = bytes(self._typed).partition(b"\n")
        self._typed[:] = rest
        return line.decode()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until this holds; it is looked at whenever a file, a signal or a message comes to the host."""
        if not self._can_wait and not condition():
            self.exit(LATE)
        with self.host.files.changed:
            self.host.files.changed.wait_for(lambda: self.is_over or condition())
        self._go_on()

    def wait_for_signal(self) -> NoReturn:
        """Run until something ends it."""
        self.wait_for(lambda: False)
        raise AssertionError("unreachable")

    def on(self, name: str, action: Callable[[], None]) -> None:
        """Do this upon a signal, such as "INT", instead of ending. KILL cannot be caught."""
        self._actions[name] = action

    def exit(self, status: int) -> NoReturn:
        """End."""
        self.end(status)
        raise _Over

    def read_file(self, path: str) -> bytes:
        """A file, by its path from the program's directory. Raises OSError."""
        self._go_on()
        return self.host.files.read(self._at(path))

    def write_file(self, path: str, content: bytes) -> None:
        """Write a file, by its path from the program's directory. Raises OSError where a confined program may not."""
        self._go_on()
        place = self._at(path)
        if self._room is not None:
            run_dir = self._room.mounts.removesuffix(".mounts")
            if not place.startswith((f"{run_dir}/", "/tmp/", "/var/tmp/", "/dev/shm/")):
                raise OSError(errno.EROFS, os.strerror(errno.EROFS), place)
        self.host.files.write(place, content)

    def send(self, address: str, port: int, content: bytes) -> None:
        """Send something to whoever receives at an address and a port of the test network."""
        self._go_on()
        self.host.network.send(address, port, content)

    def receive(self, address: str, port: int) -> bytes:
        """Wait for what is sent to an address and a port."""
        self.wait_for(lambda: self.host.network.has_any(address, port))
        return self.host.network.take(address, port)

    def deliver(self, name: str) -> None:
        """Take a signal, as kill(1) sends it."""
        if self.is_over or name == "0":
            return
        if name in self._actions and name != "KILL":
            with suppress(_Over):
                self._actions[name]()
        elif name not in ("CONT", "CHLD", "URG", "WINCH"):
            confined = self._room is not None and name != "KILL"
            self.end(SHELL_BASE + getattr(signal, f"SIG{name}") if confined else BY_SIGNAL)

    def run(self, script: Callable[[Process], int | None]) -> None:
        """Do what the script does, to its end."""
        try:
            self.end(script(self) or 0)
        except _Over:
            pass
        except Exception:
            self.session.put("err", traceback.format_exc().encode())
            self.end(1)

    def end(self, status: int) -> None:
        """Be over with a status, and let everybody on the host know."""
        self.session.end(status)
        with self.host.files.changed:
            self.host.files.changed.notify_all()

    def _hear(self, data: bytes) -> None:
        """Take what is typed; a terminal shows it."""
        self.session.put("out", data.replace(b"\n", b"\r\n"))
        with self.host.files.changed:
            self._typed += data
            self.host.files.changed.notify_all()

    def _at(self, path: str) -> str:
        return str(PurePosixPath(self.directory, path))

    def _go_on(self) -> None:
        if self.is_over:
            raise _Over


Script = Callable[[Process], int | None]
"""What a program does; its exit status, None for 0."""


def printing(*lines: str, exit_status: int = 0, forever: bool = False) -> Script:
    """The script of a program that prints these lines, and ends with this status or runs until it is ended."""

    def script(process: Process) -> int:
        for line in lines:
            process.print(line)
        if forever:
            process.wait_for_signal()
        return exit_status

    return script

"""A program on a host, controlled through its process group: its output, its input, its end.

Deciding what to start and judging its result belong to `orchestrator.run`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from owlt.orchestrator.hosts.confinement import LEFT
from owlt.orchestrator.hosts.printable import begin_of, end_of, unstyled

START_LIMIT_S = 60.0
OF_UNSHARE = "unshare: sigprocmask unblock failed"
"""A line that unshare(1) prints when its namespace is killed; it is not output of the program."""
TERM_GRACE_S = 2.0
LINE_CHARACTERS = 300
LONGEST_LINE_BYTES = 65536
"""The part of a longer line that is searched, from its end."""
OUTPUT_LIMIT_BYTES = 32_000_000
"""Limit for each stream. The output of a program that writes more is no longer read: it blocks until it is stopped."""


GROUP_COMMAND = "echo owlt-group $$"
GROUP_LINE = re.compile(rb"^owlt-group (\d+)\r?\n", re.MULTILINE)
"""The line that the shell prints before it becomes the program: the process group through which it is stopped."""


class Output:
    """The output of a program on one stream: written to a log file, and kept in memory for matching lines."""

    def __init__(self, log: Path, limit_bytes: int = OUTPUT_LIMIT_BYTES) -> None:
        self._log = log
        self._limit_bytes = limit_bytes
        self._bytes = bytearray()
        self._searched: dict[str, int] = {}
        self._found: dict[str, int] = {}
        self.flooded = False

    def drain(self, receive: Callable[[int], bytes], news: threading.Condition) -> None:
        """Read until the end or the limit; notify `news` of each piece."""
        with self._log.open("wb", buffering=0) as file:
            while not self.flooded and (chunk := receive(65536)):
                file.write(chunk[: self._limit_bytes - len(self._bytes)])
                with news:
                    self._bytes += chunk
                    self.flooded = len(self._bytes) > self._limit_bytes
                    news.notify_all()

    def __len__(self) -> int:
        return len(self._bytes)

    def forget(self) -> None:
        """Forget what was read so far: it is in the log file only."""
        self._bytes.clear()
        self._searched.clear()
        self._found.clear()

    def find(self, pattern: re.Pattern[bytes], start: int) -> int | None:
        """The end of the first match after `start`; None if there is none."""
        match = pattern.search(self._bytes, start)
        return match.end() if match else None

    def line_like(self, pattern: str) -> str | None:
        """The first line with a match; None if there is none. Nothing is searched twice."""
        if pattern not in self._found:
            place = self._searched.get(pattern, 0)
            self._searched[pattern] = self.begin_of_last
            match = _on_bytes(pattern).search(self._bytes, place)
            if match is None:
                return None
            self._found[pattern] = match.start()
        return self._line_at(self._found[pattern])

    def _line_at(self, place: int) -> str:
        nearest = max(place - LONGEST_LINE_BYTES, 0)
        begin = max(self._bytes.rfind(b"\n", nearest, place) + 1, nearest)
        end = self._bytes.find(b"\n", place, place + LONGEST_LINE_BYTES)
        line = self._bytes[begin : end if end >= 0 else place + LONGEST_LINE_BYTES].decode(errors="replace")
        return begin_of(unstyled(line).strip(), LINE_CHARACTERS)

    @property
    def begin_of_last(self) -> int:
        """Where the last line begins, ended or not; of a line longer than LONGEST_LINE_BYTES, where its tail does."""
        nearest = max(len(self._bytes) - LONGEST_LINE_BYTES, 0)
        return max(self._bytes.rfind(b"\n", nearest, max(len(self._bytes) - 1, 0)) + 1, nearest)

    @property
    def text(self) -> str:
        """All of it; what is not UTF-8 is replaced."""
        return self._bytes.decode(errors="replace")

    @property
    def last_line(self) -> str:
        """The last line that is not empty and not written by owlt, without colours; a long one is cut to its end."""
        lines = unstyled(bytes(self._bytes[-4096:]).decode(errors="replace")).splitlines()
        own = (line.strip() for line in reversed(lines) if not line.startswith((LEFT, OF_UNSHARE)))
        return end_of(next(filter(None, own), ""), LINE_CHARACTERS)


class Session(Protocol):
    """Input and output of a program on a host: paramiko's Channel, or one in memory."""

    exit_status: int
    """-1 for a program that a signal ended."""
    status_event: threading.Event
    """Set when it has ended."""

    def recv(self, nbytes: int, /) -> bytes:
        """Some of its output; nothing once it has ended."""

    def recv_stderr(self, nbytes: int, /) -> bytes:
        """Some of its errors; nothing once it has ended."""

    def sendall(self, s: bytes, /) -> Any:
        """Type into its terminal. Raises OSError once it has ended."""

    def settimeout(self, timeout: float | None, /) -> None:
        """How long `recv` waits before it raises TimeoutError; None: forever."""

    def exit_status_ready(self) -> bool:
        """Whether it has ended."""

    def close(self) -> None:
        """End the session."""


def read_group(role: str, session: Session) -> int:
    """The process group of a program, from the line of its shell; a host may print something before it.

    Raises ConnectionError.
    """
    output = b""
    session.settimeout(START_LIMIT_S)
    while not (line := GROUP_LINE.search(output)):
        try:
            byte = session.recv(1)
        except TimeoutError:
            session.close()
            raise ConnectionError(f"{role}: the program's shell printed nothing for {START_LIMIT_S:g} s") from None
        if not byte:
            printed = output.decode(errors="replace").strip()
            raise ConnectionError(f"{role}: the program's shell ended before it started anything: {printed}")
        output += byte
    session.settimeout(None)
    return int(line[1])


class Program:
    """A program that was started on a host.

    `group` is its process group, and the session that it leads. `end_group` sends a signal, by name, to a process
    group; `stopped_in` lists the stopped processes of a session.
    """

    def __init__(
        self,
        group: int,
        session: Session,
        logs: Path,
        news: threading.Condition,
        end_group: Callable[[str, int], None],
        stopped_in: Callable[[int], list[str]],
    ) -> None:
        self._group = group
        self._session = session
        self._news = news
        self._end_group = end_group
        self._stopped_in = stopped_in
        self._streams = {"out": Output(logs.with_suffix(".out")), "err": Output(logs.with_suffix(".err"))}
        self._drains = [
            threading.Thread(target=self._drain, args=args, daemon=True)
            for args in (("out", session.recv), ("err", session.recv_stderr))
        ]
        self._answered_to = 0
        for drain in self._drains:
            drain.start()

    def _drain(self, name: str, receive: Callable[[int], bytes]) -> None:
        self._streams[name].drain(receive, self._news)
        self._session.status_event.wait()
        with self._news:
            self._news.notify_all()

    def output(self, name: str = "out") -> str:
        """Its output so far on "out" or "err"."""
        return self._streams[name].text

    def forget_output(self) -> None:
        """Match no line that was written so far: it belongs to an earlier run."""
        with self._news:
            self._answered_to = 0
            for stream in self._streams.values():
                stream.forget()

    @property
    def last_words(self) -> str:
        """Its last line as the end of a reason, after a semicolon."""
        return f"; its last line: {self.last_line!r}" if self.last_line else "; it wrote nothing"

    @property
    def last_line(self) -> str:
        """The last line of its errors, or else of its output."""
        return self._streams["err"].last_line or self._streams["out"].last_line

    @property
    def flooded(self) -> bool:
        """Whether it wrote more than the limit."""
        return any(stream.flooded for stream in self._streams.values())

    def wait_for_line(self, pattern: str, deadline_s: float) -> bool:
        """Whether a line that matches was written, to either stream, before the end or the deadline."""
        return self._wait_until(lambda: self.line_like(pattern) is not None, deadline_s)

    def line_like(self, pattern: str) -> str | None:
        """The first matching line so far on either stream; None if there is none."""
        with self._news:
            lines = (stream.line_like(pattern) for stream in self._streams.values())
            return next((line for line in lines if line is not None), None)

    def wrote_line(self, pattern: str) -> bool:
        """Whether a line that matches was written to either stream so far."""
        return self.line_like(pattern) is not None

    def expect(self, pattern: str, deadline_s: float) -> bool:
        """Whether its output after the last match matches; a prompt without a line ending counts."""
        expression, out = _on_bytes(pattern), self._streams["out"]
        place = self._answered_to

        def matches() -> bool:
            nonlocal place
            printed_bytes = len(out)
            end = out.find(expression, place)
            if end is None:
                place = max(place, printed_bytes - LONGEST_LINE_BYTES)
                return False
            self._answered_to = end
            return True

        return self._wait_until(matches, deadline_s)

    def type(self, line: str) -> None:
        """Type a line into its terminal; without effect after its end."""
        with suppress(OSError):
            self._session.sendall(f"{line}\n".encode())

    def _wait_until(self, condition: Callable[[], bool], deadline_s: float) -> bool:
        is_met = False

        def over() -> bool:
            nonlocal is_met
            is_met = is_met or condition()
            return is_met or self.flooded or not self.running

        with self._news:
            self._news.wait_for(over, deadline_s)
        if not self.running:
            self._read_to_the_end()
        with self._news:
            return is_met or condition()

    def wait_for_more(self, seen_bytes: int, deadline_s: float) -> None:
        """Return when it has written more than `seen_bytes` bytes to standard error, has ended, or at the deadline."""
        with self._news:
            self._news.wait_for(lambda: len(self._streams["err"]) > seen_bytes or not self.running, deadline_s)

    def wait(self, deadline_s: float) -> int | None:
        """Its exit status; None if it still runs at the deadline."""
        if not self._session.status_event.wait(max(deadline_s, 0)):
            return None
        self._read_to_the_end()
        return int(self._session.exit_status)

    def _read_to_the_end(self) -> None:
        """Read the rest of the output of a program that has ended."""
        for drain in self._drains:
            drain.join(TERM_GRACE_S)

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return not self._session.exit_status_ready()

    @property
    def stopped_processes(self) -> list[str]:
        """The names of its processes that a signal, such as SIGSTOP, has stopped."""
        return self._stopped_in(self._group)

    def signal(self, name: str) -> None:
        """Send a signal, such as "INT", to its whole process group."""
        self._end_group(name, self._group)

    def stop(self, first: str = "TERM", grace_s: float = TERM_GRACE_S) -> int | None:
        """End it and all it started: `first`, and after the grace KILL. Its exit status if it gave one."""
        if self.running:
            self.signal(first)
            self.end_after(grace_s)
        return self.wait(TERM_GRACE_S)

    def end_after(self, grace_s: float) -> None:
        """Give it so long to end, then kill it."""
        if self.wait(grace_s) is None:
            self.signal("KILL")


def _on_bytes(pattern: str) -> re.Pattern[bytes]:
    return re.compile(pattern.encode(), re.MULTILINE)

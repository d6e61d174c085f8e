"""A program on a host, held by its process group: what it writes, what it is typed, how it ends.

What to start and when, and whether what it did was right, is decided elsewhere.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.confinement import LEFT

if TYPE_CHECKING:
    import paramiko

START_LIMIT_S = 60.0
OF_UNSHARE = "unshare: sigprocmask unblock failed"
"""What unshare(1), around each build, prints when its namespace was ended; no word of the build."""
TERM_GRACE_S = 2.0
LINE_CHARACTERS = 300
LONGEST_LINE_BYTES = 65536
"""A line that is longer is searched in its last so many bytes only."""
OUTPUT_LIMIT_BYTES = 32_000_000
"""Of each stream. A program that writes more is not read any further: it blocks, until it is stopped."""


GROUP_COMMAND = "echo owlt-group $$"
GROUP_LINE = re.compile(rb"^owlt-group (\d+)\r?\n", re.MULTILINE)
"""What a program's shell prints before it becomes the program: the handle by which all of it is stopped."""


class Output:
    """What a program wrote to one stream: in a log file as it comes, and kept for whoever waits for a line."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._bytes = bytearray()
        self._searched: dict[str, int] = {}
        self._found: dict[str, int] = {}
        self.flooded = False

    def drain(self, receive: Callable[[int], bytes], news: threading.Condition) -> None:
        """Take all that comes, up to the limit; notify `news` of each piece."""
        with self._log.open("wb", buffering=0) as file:
            while not self.flooded and (chunk := receive(65536)):
                file.write(chunk[: OUTPUT_LIMIT_BYTES - len(self._bytes)])
                with news:
                    self._bytes += chunk
                    self.flooded = len(self._bytes) > OUTPUT_LIMIT_BYTES
                    news.notify_all()

    def __len__(self) -> int:
        return len(self._bytes)

    def find(self, pattern: re.Pattern[bytes], start: int) -> int | None:
        """Where the first match from `start` on ends; None without one."""
        found = pattern.search(self._bytes, start)
        return found.end() if found else None

    def line_like(self, pattern: str) -> str | None:
        """The first line that has a match; None without one. What was searched once is not searched again."""
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
        return (
            self._bytes[begin : end if end >= 0 else place + LONGEST_LINE_BYTES]
            .decode(errors="replace")
            .strip()[:LINE_CHARACTERS]
        )

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
        """The last line that has anything in it and is not ours, cut to LINE_CHARACTERS."""
        lines = bytes(self._bytes[-4096:]).decode(errors="replace").splitlines()
        told = (line.strip() for line in reversed(lines) if not line.startswith((LEFT, OF_UNSHARE)))
        return next(filter(None, told), "")[-LINE_CHARACTERS:]


class Program:
    """A program that was started on a host.

    `end_group` sends a signal, by name, to a process group there, `stopped_in` names what is stopped in a session.
    """

    def __init__(
        self,
        role: str,
        channel: paramiko.Channel,
        logs: Path,
        news: threading.Condition,
        end_group: Callable[[str, int], None],
        stopped_in: Callable[[int], list[str]],
    ) -> None:
        self._role = role
        self._channel = channel
        self._news = news
        self._end_group = end_group
        self._stopped_in = stopped_in
        self._streams = {"out": Output(logs.with_suffix(".out")), "err": Output(logs.with_suffix(".err"))}
        self._drains = [
            threading.Thread(target=self._drain, args=args, daemon=True)
            for args in (("out", channel.recv), ("err", channel.recv_stderr))
        ]
        self._answered_to = 0
        self._group = self._read_group()
        for drain in self._drains:
            drain.start()

    def _read_group(self) -> int:
        """The number of the process group, from its line; a host may say something of its own before."""
        said = b""
        self._channel.settimeout(START_LIMIT_S)
        while not (line := GROUP_LINE.search(said)):
            try:
                byte = self._channel.recv(1)
            except TimeoutError:
                self._channel.close()
                told = f"the program's shell said nothing for {START_LIMIT_S:g} s"
                raise ConnectionError(f"{self._role}: {told}") from None
            if not byte:
                told = said.decode(errors="replace").strip()
                raise ConnectionError(f"{self._role}: the program's shell ended before it started anything: {told}")
            said += byte
        self._channel.settimeout(None)
        return int(line[1])

    def _drain(self, name: str, receive: Callable[[int], bytes]) -> None:
        self._streams[name].drain(receive, self._news)
        self._channel.status_event.wait()
        with self._news:
            self._news.notify_all()

    def output(self, name: str = "out") -> str:
        """All it has written so far to "out" or "err"."""
        return self._streams[name].text

    @property
    def last_words(self) -> str:
        """What it wrote last, to its errors if it wrote any; for a reason, so it begins with a semicolon."""
        return f"; its last line: {self.last_line!r}" if self.last_line else "; it wrote nothing"

    @property
    def last_line(self) -> str:
        """The last line of its errors, or else of its output."""
        return self._streams["err"].last_line or self._streams["out"].last_line

    @property
    def flooded(self) -> bool:
        """Whether it wrote more than anybody reads."""
        return any(stream.flooded for stream in self._streams.values())

    def wait_for_line(self, pattern: str, deadline_s: float) -> bool:
        """Whether a line that matches was written, to either stream, before the end or the deadline."""
        return self._wait_until(lambda: self.line_like(pattern) is not None, deadline_s)

    def line_like(self, pattern: str) -> str | None:
        """The first line that matches of those that it wrote so far, to either stream; None without one."""
        with self._news:
            found = (stream.line_like(pattern) for stream in self._streams.values())
            return next((line for line in found if line is not None), None)

    def wrote_line(self, pattern: str) -> bool:
        """Whether a line that matches was written to either stream so far."""
        return self.line_like(pattern) is not None

    def expect(self, pattern: str, deadline_s: float) -> bool:
        """Whether it printed something that matches after what was expected last, a prompt without an end included."""
        wanted, out = _on_bytes(pattern), self._streams["out"]
        place = self._answered_to

        def seen() -> bool:
            nonlocal place
            printed_bytes = len(out)
            end = out.find(wanted, place)
            if end is None:
                place = max(place, printed_bytes - LONGEST_LINE_BYTES)
                return False
            self._answered_to = end
            return True

        return self._wait_until(seen, deadline_s)

    def type(self, line: str) -> None:
        """Type a line at its terminal. One that has ended hears nothing."""
        with suppress(OSError):
            self._channel.sendall(f"{line}\n".encode())

    def _wait_until(self, seen: Callable[[], bool], deadline_s: float) -> bool:
        found = False

        def over() -> bool:
            nonlocal found
            found = found or seen()
            return found or self.flooded or not self.running

        with self._news:
            self._news.wait_for(over, deadline_s)
            return found or seen()

    def wait_for_more(self, told: int, deadline_s: float, name: str = "err") -> None:
        """Return once it has written more than `told` bytes to a stream, has ended, or the deadline has passed."""
        with self._news:
            self._news.wait_for(lambda: len(self._streams[name]) > told or not self.running, deadline_s)

    def wait(self, deadline_s: float) -> int | None:
        """Its exit status, or None when it still runs after the deadline."""
        if not self._channel.status_event.wait(max(deadline_s, 0)):
            return None
        for drain in self._drains:
            drain.join(TERM_GRACE_S)
        return int(self._channel.exit_status)

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return not self._channel.exit_status_ready()

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

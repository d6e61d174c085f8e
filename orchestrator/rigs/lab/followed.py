"""A program on a lab host whose output goes to files there, which are followed: it goes on when SSH is lost."""

from __future__ import annotations

import shlex
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import paramiko

from orchestrator.hosts.host import HostError
from orchestrator.hosts.program import GROUP_COMMAND, OUTPUT_LIMIT_BYTES

LOGS_BYTES = 4 * OUTPUT_LIMIT_BYTES
"""The space for output on a host; a program that fills it gets an error."""
POLL_S = 0.02
"""How often a host looks whether a program has ended."""
SENT_BYTES = OUTPUT_LIMIT_BYTES + 65536
"""Of each stream, over one connection: what nobody reads any more must not stop the news of the end."""
READING_S = 5.0
"""How long the reader of a stream has for its rest, once the program has ended or the connection was lost."""
UNKNOWN = 255
"""The exit status of `_FOLLOW` if a program left none, or this one."""

_START = """d=$1
{ mkdir -p "$d" && : >"$d/out" && : >"$d/err"; } 2>&1 || exit 1
setsid sh -c "$2" sh "$@" </dev/null >/dev/null 2>&1 &
echo $! >"$d/pid"
set -- "$d" 1 1
"""
_SUPERVISE = f"""d=$1 place=$3
shift 3
cd "$place" 2>>"$d/err" || {{ echo 1 >"$d/status"; exit; }}
setsid sh -c '{GROUP_COMMAND}; exec "$@"' sh "$@" </dev/null >>"$d/out" 2>>"$d/err" &
wait $!
echo $? >"$d/status.new"
mv "$d/status.new" "$d/status\""""
_FOLLOW = f"""d=$1
read -r pid <"$d/pid" || exit {UNKNOWN}
follow() {{
  tail -s {POLL_S} -c "+$2" --pid="$pid" -f "$d/$1" | stdbuf -o0 head -c {SENT_BYTES}
}}
follow out "$2" &
follow err "$3" >&2 &
wait
[ -s "$d/status" ] || exit {UNKNOWN}
exit "$(cat "$d/status")\""""
"""Prints the program's output from the bytes $2 and $3 on, until it ends, and has its exit status."""


class FollowedSession:
    """Input and output of such a program, for `Program`.

    `open_session` runs a shell line on the host, over a new connection if the last was lost; it raises HostError if the
    host cannot be reached any more. `logs` is a directory there, which is made.
    """

    def __init__(
        self, open_session: Callable[[str], paramiko.Channel], logs: str, directory: str, command: Sequence[str]
    ) -> None:
        self._open = open_session
        self._logs = logs
        self.exit_status = -1
        self.status_event = threading.Event()
        self._changed = threading.Condition()
        self._read_bytes = {"out": 0, "err": 0}
        self._drained: set[str] = set()
        self._channel = self._run(_START + _FOLLOW, _SUPERVISE, directory, *command)
        threading.Thread(target=self._await_end, daemon=True).start()

    def _run(self, script: str, *arguments: str) -> paramiko.Channel:
        return self._open(f"exec {shlex.join(['sh', '-c', script, 'sh', self._logs, *arguments])}")

    def _await_end(self) -> None:
        """Wait for the program's end, over as many connections as that takes."""
        while True:
            self._channel.status_event.wait()
            with self._changed:
                self._changed.wait_for(lambda: len(self._drained) == len(self._read_bytes), READING_S)
            if self._channel.exit_status >= 0 or self.status_event.is_set():
                break
            try:
                channel = self._run(_FOLLOW, *(str(count + 1) for count in self._read_bytes.values()))
            except HostError:
                break
            with self._changed:
                self._channel = channel
                self._drained.clear()
                self._changed.notify_all()
        with suppress(HostError, OSError):
            self.exit_status = self._status()
        with self._changed:
            self.status_event.set()
            self._changed.notify_all()
        if self.exit_status >= 0:
            self._remove_logs()

    def _status(self) -> int:
        """The program's exit status; -1 if it left none. Raises HostError, OSError."""
        status = int(self._channel.exit_status)
        if status != UNKNOWN:
            return status
        answer = self._open(f"exec {shlex.join(['cat', f'{self._logs}/status'])}").makefile().read().strip()
        return int(answer) if answer else -1

    def _remove_logs(self) -> None:
        """Remove the files on the host once everything was read; what is left is removed with the session."""
        with suppress(HostError):
            self._open(f"exec {shlex.join(['rm', '-rf', self._logs])}").close()

    def recv(self, nbytes: int, /) -> bytes:
        """Some of its output; nothing once it has ended."""
        return self._read("out", lambda channel: channel.recv(nbytes))

    def recv_stderr(self, nbytes: int, /) -> bytes:
        """Some of its errors; nothing once it has ended."""
        return self._read("err", lambda channel: channel.recv_stderr(nbytes))

    def _read(self, name: str, receive: Callable[[paramiko.Channel], bytes]) -> bytes:
        while not self.status_event.is_set():
            channel = self._channel
            if chunk := receive(channel):
                self._read_bytes[name] += len(chunk)
                return chunk
            with self._changed:
                self._drained.add(name)
                self._changed.notify_all()
                self._changed.wait_for(partial(self._is_over, channel))
        return b""

    def _is_over(self, channel: paramiko.Channel) -> bool:
        """Whether nothing more comes over a channel that has been read to its end."""
        return self.status_event.is_set() or self._channel is not channel

    def sendall(self, s: bytes, /) -> None:
        """It has no terminal. Raises OSError."""
        raise OSError("a program without a terminal cannot be typed to")

    def settimeout(self, timeout: float | None, /) -> None:
        """How long `recv` waits before it raises TimeoutError; None: forever."""
        self._channel.settimeout(timeout)

    def exit_status_ready(self) -> bool:
        """Whether it has ended."""
        return self.status_event.is_set()

    def close(self) -> None:
        """Follow no more."""
        with self._changed:
            self.status_event.set()
            self._changed.notify_all()
        self._channel.close()

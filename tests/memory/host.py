"""A host in memory: files, the commands that owlt gives to hosts, and programs that do what their scripts say.

The network between such hosts is here too.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from owlt.orchestrator.hosts.confinement import NO_SUCH_PROGRAM, Confinement, Room, without_a_run
from owlt.orchestrator.hosts.host import ANSWER_BYTES, COMMAND_LIMIT_S, FLOODED, Completed, Host, HostError
from owlt.orchestrator.hosts.printable import BY_SIGNAL
from owlt.orchestrator.hosts.program import Program
from tests.memory.commands import COMMANDS, NOT_FOUND, Command
from tests.memory.files import Files
from tests.memory.process import Process, Script

SEARCHED = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_STATES = {"udp": "07", "tcp": "0A"}


class Network:
    """Carries messages between hosts. `carry` gives what arrives of each; None: nothing."""

    def __init__(self, carry: Callable[[bytes], bytes | None] = bytes) -> None:
        self.carry = carry
        self._waiting: dict[tuple[str, int], deque[bytes]] = defaultdict(deque)
        self._conditions: list[threading.Condition] = []

    def join(self, changed: threading.Condition) -> None:
        """Notify this when a message arrives."""
        self._conditions.append(changed)

    def send(self, address: str, port: int, content: bytes) -> None:
        """Send a message to an address and a port."""
        arrived = self.carry(content)
        if arrived is None:
            return
        self._waiting[address, port].append(arrived)
        for changed in self._conditions:
            with changed:
                changed.notify_all()

    def has_any(self, address: str, port: int) -> bool:
        """Whether a message has arrived there."""
        return bool(self._waiting[address, port])

    def take(self, address: str, port: int) -> bytes:
        """The first message that has arrived there and was not taken."""
        return self._waiting[address, port].popleft()


class MemoryHost(Host):
    """A host that is no machine.

    `commands` are those that it has, by name, `scripts` those that `sh -c` runs, by their text. `sysctls`, `routes`,
    `qdiscs` and `mtus` are what its kernel has. A program is there once it is installed.
    """

    def __init__(
        self,
        role: str,
        base: str = "/owlt",
        network: Network | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.role = role
        self.base = base
        self.files = Files(clock_ns)
        self.files.make_directory(base)
        self.files.make_directory("/tmp")
        self.network = network or Network()
        self.network.join(self.files.changed)
        self.commands: dict[str, Command] = dict(COMMANDS)
        self.scripts: dict[str, Command] = {}
        self.sysctls: dict[str, str] = {}
        self.routes: list[str] = []
        self.qdiscs: dict[str, str] = {}
        self.mtus: dict[str, int] = {}
        self.processes: dict[int, Process] = {}
        """By their groups, those that have ended too."""
        self.ran: list[list[str]] = []
        """The commands that were run, in their order."""
        self.bound: set[tuple[str, int]] = set()
        """What is bound: "udp" or "tcp", and the port."""
        self.stopped: list[str] = []
        """The names of processes that a signal has stopped."""
        self._programs: dict[str, Script] = {}
        self._lost = ""

    def install(self, path: str, script: Script) -> None:
        """Put a program there."""
        self.files.make_directory(str(PurePosixPath(path).parent))
        self.files.write(path, b"#!memory\n", mode=0o755)
        self._programs[path] = script

    def lose(self, reason: str = "it was switched off") -> None:
        """Break the connection, now and for ever."""
        self._lost = reason
        for process in self.processes.values():
            process.end(BY_SIGNAL)

    def run(self, command: Sequence[str], deadline_s: float = COMMAND_LIMIT_S) -> Completed:
        return self._completed(command, self.base, None)

    def run_foreign(
        self,
        command: Sequence[str],
        deadline_s: float,
        confinement: Confinement | None = None,
        directory: str | None = None,
    ) -> Completed:
        """A program that waits for what nobody can send any more is one past its deadline."""
        return self._completed(command, directory or self.base, (confinement or without_a_run(self.base)).room)

    def start(
        self,
        command: Sequence[str],
        directory: str,
        logs: Path,
        news: threading.Condition | None = None,
        *,
        terminal: bool = False,
    ) -> Program:
        process = Process(self, command, directory, terminal=terminal)
        return self._started(process, logs, news or threading.Condition(), None)

    def start_foreign(
        self,
        command: Sequence[str],
        directory: str,
        logs: Path,
        news: threading.Condition,
        confinement: Confinement,
        *,
        terminal: bool = False,
    ) -> Program:
        room, environment = confinement.room, confinement.environment
        process = Process(self, command, directory, environment=environment, room=room, terminal=terminal)
        return self._started(process, logs, news, room)

    def write_file(self, path: str, content: bytes) -> None:
        self._refuse_if_lost(f"writing {path}")
        self.files.write(path, content)

    def read_file(self, path: str, most_bytes: int) -> bytes:
        self._refuse_if_lost(f"reading {path}")
        return self.files.read(path)[:most_bytes]

    def fetch_file(self, path: str, target: Path) -> None:
        self._refuse_if_lost(f"reading {path}")
        target.write_bytes(self.files.read(path))

    def close(self) -> None:
        """End every program."""
        for process in self.processes.values():
            process.end(BY_SIGNAL)

    def path_of(self, name: str) -> str | None:
        """Where a program is, by its path or its name; None if it is nowhere."""
        places = [name] if "/" in name else [f"{directory}/{name}" for directory in SEARCHED]
        return next((place for place in places if self.is_executable(place)), None)

    def is_executable(self, path: str) -> bool:
        """Whether a file is there that can be executed."""
        return self.files.is_file(path) and bool(self.files.entry(self.files.resolved(path)).mode & 0o111)

    def socket_table(self, path: str) -> bytes:
        """What /proc/net says of the ports that are bound. Raises FileNotFoundError."""
        kind = PurePosixPath(path).name
        if path.endswith("/sctp/eps"):
            listening = sorted(port for bound, port in self.bound if bound == "sctp")
            rows = ["ENDPT SOCK STY SST HBKT LPORT", *(f"1 2 2 10 36 {port}" for port in listening)]
            return "".join(f"{row}\n" for row in rows).encode()
        if kind.removesuffix("6") not in _STATES:
            return self.files.read(path)
        ports = sorted(port for bound, port in self.bound if bound == kind)
        header = "  sl  local_address rem_address   st" + (" drops" if kind.startswith("udp") else " inode")
        lines = [
            header,
            *(f"{at}: 00000000:{port:04X} 00000000:0000 {_STATES[kind]} " for at, port in enumerate(ports)),
        ]
        return "".join(f"{line}\n" for line in lines).encode()

    def _started(self, process: Process, logs: Path, news: threading.Condition, room: Room | None) -> Program:
        self._refuse_if_lost(shlex.join(process.command))
        group = 100 + len(self.processes)
        self.processes[group] = process
        script = self._script_of(process, room)
        threading.Thread(target=process.run, args=(script,), daemon=True).start()
        return Program(group, process.session, logs, news, self._signal_group, lambda _: list(self.stopped))

    def _signal_group(self, name: str, group: int) -> None:
        self.run(["kill", f"-{name}", "--", f"-{group}"])

    def _script_of(self, process: Process, room: Room | None) -> Script:
        """What the program does; where it is not there, what the shell says that was to become it."""
        name = process.command[0]
        if not self.files.is_directory(process.directory):
            return _complaining(f"sh: 1: cd: can't cd to {process.directory}", 2)
        path = self.path_of(name)
        if path in self._programs:
            return self._programs[path]
        if room is not None:
            return _complaining(f"owlt: {name}: there is no such program on this host", NO_SUCH_PROGRAM)
        return _complaining(f"sh: 1: exec: {name}: not found", NOT_FOUND)

    def _completed(self, command: Sequence[str], directory: str, room: Room | None) -> Completed:
        self._refuse_if_lost(shlex.join(command))
        self.ran.append(list(command))
        known = self.commands.get(command[0])
        return _bounded(known(self, command[1:]) if known else self._run_program(command, directory, room))

    def _run_program(self, command: Sequence[str], directory: str, room: Room | None) -> Completed:
        process = Process(self, command, directory, room=room, can_wait=False)
        process.run(self._script_of(process, room))
        session = process.session
        return Completed(session.exit_status, _all_of(session.recv), _all_of(session.recv_stderr))

    def _refuse_if_lost(self, what: str) -> None:
        if self._lost:
            raise HostError(f"{self.role}: the connection was lost before {what!r}: {self._lost}")


def _complaining(line: str, status: int) -> Script:
    def script(process: Process) -> int:
        process.complain(line)
        return status

    return script


def _all_of(receive: Callable[[int], bytes]) -> bytes:
    return b"".join(iter(lambda: receive(65536), b""))


def _bounded(done: Completed) -> Completed:
    """What is read of an answer."""
    if max(len(done.stdout), len(done.stderr)) < ANSWER_BYTES:
        return done
    return Completed(FLOODED, done.stdout[:ANSWER_BYTES], done.stderr[:ANSWER_BYTES])

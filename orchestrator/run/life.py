"""One life of the hosts in which many runs follow each other, and what each of them leaves behind.

The run directories, with their /tmp and /dev/shm, stay from the first run to the last. So does a program that can serve
several runs. After each run the hosts are examined from outside, through /proc: programs that still run, their memory,
open files and sockets, and the files in the run directory. A guest is needed: it has one kernel for both hosts.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from owlt.agents.contract.implementation import ROLES, Role
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.rigs.network import namespace_file
from owlt.orchestrator.run.observing import SOCKET_TABLES
from owlt.orchestrator.run.programs import Living, serving_side
from owlt.orchestrator.run.staging import Staged, rendered_again, stage
from owlt.orchestrator.run.state import RunResult, Setting, Sides
from owlt.orchestrator.run.task import Soak
from owlt.results.record import Outcome, RunRecord

TRANSFERS = "transfers.jsonl"
"""A line for each run of a life, as `Transfer` has it."""
_TIME_WAIT = "06"
"""State of a TCP connection that only the kernel still knows, for a minute (include/net/tcp_states.h)."""
_SOCKETS = (*SOCKET_TABLES, "raw", "raw6", "packet")


@dataclass(frozen=True)
class Left:
    """What a run left on a host: numbers of programs, of their open files and sockets, their memory that is not that of
    files (RssAnon and RssShmem of proc_pid_status(5)), and files in the run directory, /tmp and /dev/shm."""

    programs: int
    memory_bytes: int
    open_files: int
    sockets: int
    files: int
    file_bytes: int


@dataclass(frozen=True)
class Transfer:
    """A run of a life. Times are in ns, by the guest's clocks; `number` counts from `Soak.first_number`."""

    number: int
    run_id: str
    uptime_ns: int
    """Since the start of the guest, when the run began."""
    began_at_ns: int
    """Since 1970, likewise."""
    lasted_ns: int
    delivered_after_ns: int | None
    """From the launch of the first program to the last change of the received file; None: not delivered."""
    session_number: int | None
    outcome: str
    reason: str
    suspect: list[str]
    left_running: dict[str, list[str]]
    left: dict[str, Left]


class HostLife:
    """The hosts from the first run of a task to the last. Use it as a context manager."""

    def __init__(self, soak: Soak, setting: Setting, directory: Path) -> None:
        """`directory` is that of the task."""
        self._soak = soak
        self._setting = setting
        self._directory = directory
        self._undo = ExitStack()
        self._news = threading.Condition()
        self._staged: Staged | None = None
        self._first = RunResult()
        self._failed = 0
        self.is_over = False
        """Whether no more runs are to follow."""
        implementation = next(iter(setting.implementations.values()))
        role = None if soak.starts_both else serving_side(implementation)
        self.living = Living(role, directory)

    def __enter__(self) -> HostLife:
        return self

    def __exit__(self, *_: object) -> None:
        if self.living.program is not None:
            self.living.program.stop()
        self._undo.close()

    def wait_for(self, place: int) -> None:
        """Sleep until the run at this place is to start."""
        time.sleep(max(0.0, (self._soak.starts_ns[place] - time.monotonic_ns()) / 1e9))

    def setting_of(self, place: int) -> Setting:
        """The setting of the run at this place, with its session number."""
        if not self._soak.number_parameter:
            return self._setting
        number = {self._soak.number_parameter: self._soak.numbers[place]}
        numbered = {name: each.with_parameters(dict(number)) for name, each in self._setting.implementations.items()}
        return replace(self._setting, implementations=numbered)

    def sides(self) -> Sides:
        """The sides of a run: a program that stays notifies all of them."""
        return Sides(news=self._news, staying=self.living.role)

    def stage(self, run: Run, setting: Setting, result: RunResult, sides: Sides) -> Staged:
        """Stage the first run, or what is different in a later one. Raises Ended as `staging.stage` does."""
        if self._staged is None:
            self._staged = stage(run, setting, result, sides, self._undo)
            self._first = result
            return self._staged
        first, staged = self._first, self._staged
        result.file_sha256, result.advertised, result.session = first.file_sha256, first.advertised, first.session
        setting.rig.receiver.host.check(["rm", "-rf", "--", staged.received])
        return rendered_again(run, setting, staged, result) if self._soak.number_parameter else staged

    def settle(self, place: int, began_ns: tuple[int, int], record: RunRecord, directory: Path) -> None:
        """Note what a run left behind; remove the files of one that was completed. `began_ns`: uptime and date."""
        transfer = self._transfer(place, began_ns, record)
        with (self._directory / TRANSFERS).open("a") as file:
            file.write(json.dumps(asdict(transfer)) + "\n")
        if record.outcome is Outcome.COMPLETED and not record.suspect:
            shutil.rmtree(directory)
            return
        program, role = self.living.program, self.living.role
        if program is not None:
            for stream in ("out", "err"):
                (directory / f"{role}.{stream}").write_text(program.output(stream))
        self._failed += record.outcome is not Outcome.COMPLETED
        self.is_over = self._staged is None or self._failed >= self._soak.most_failed

    def _transfer(self, place: int, began_ns: tuple[int, int], record: RunRecord) -> Transfer:
        delivered = None
        if record.file_delivered_at_ns is not None and record.started_at_ns is not None:
            delivered = record.file_delivered_at_ns - record.started_at_ns
        sides: dict[Role, list[str]] = {"sender": record.sender.left_running, "receiver": record.receiver.left_running}
        return Transfer(
            number=place + self._soak.first_number,
            run_id=record.run_id,
            uptime_ns=began_ns[0],
            began_at_ns=began_ns[1],
            lasted_ns=time.monotonic_ns() - began_ns[0],
            delivered_after_ns=delivered,
            session_number=self._soak.numbers[place] if self._soak.number_parameter else None,
            outcome=record.outcome.value,
            reason=record.reason,
            suspect=record.suspect,
            left_running={role: commands for role, commands in sides.items() if commands},
            left={} if self._staged is None else left_on_hosts(self._staged.paths),
        )


def left_on_hosts(run_directories: dict[str, str]) -> dict[str, Left]:
    """What is on the sender and the receiver now, by role. Their processes are known by their network namespace: those
    in a PID namespace of their own are confined programs; the first of the others is the process that holds the
    host's namespaces, which sees its files."""
    roles = {namespace_file(role).stat().st_ino: role for role in ROLES}
    own = Path("/proc/self/ns/pid").readlink()
    confined: dict[str, list[Path]] = {role: [] for role in ROLES}
    host: dict[str, Path] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is the kernel's
            role = roles.get(process.joinpath("ns/net").stat().st_ino)
            if role is None:
                continue
            if process.joinpath("ns/pid").readlink() == own:
                host.setdefault(role, process)
            else:
                confined[role].append(process)
    return {role: _left(confined[role], host[role], run_directories[role]) for role in ROLES}


def _left(programs: list[Path], host: Path, run_directory: str) -> Left:
    room = os.statvfs(f"{host}/root{run_directory}.room")
    return Left(
        programs=len(programs),
        memory_bytes=sum(map(_memory_bytes, programs)),
        open_files=sum(map(_open_files, programs)),
        sockets=sum(_sockets(host / "net" / kind) for kind in _SOCKETS),
        files=room.f_files - room.f_ffree,
        file_bytes=(room.f_blocks - room.f_bfree) * room.f_frsize,
    )


def _memory_bytes(process: Path) -> int:
    with suppress(OSError):
        status = dict(line.split(":", 1) for line in process.joinpath("status").read_text().splitlines() if ":" in line)
        return sum(1024 * int(status.get(name, "0 kB").split()[0]) for name in ("RssAnon", "RssShmem"))
    return 0


def _open_files(process: Path) -> int:
    with suppress(OSError):
        return sum(1 for _ in (process / "fd").iterdir())
    return 0


def _sockets(table: Path) -> int:
    """The number of sockets in a table of proc_pid_net(5)."""
    with suppress(OSError):
        lines = table.read_text().splitlines()[1:]
        return sum(not (table.name.startswith("tcp") and line.split()[3] == _TIME_WAIT) for line in lines)
    return 0

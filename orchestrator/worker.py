"""Performs the runs of one batch on a rig raised for it: `python -m orchestrator.worker RIG_DIRECTORY`.

It works in the batch's directory, which holds `batch.json`; each run leaves `runs/<run-id>/` there. What happens is
told on standard output, an event a line, for the supervisor: on a virtual clock only somebody outside knows what
time it took.
"""

from __future__ import annotations

import json
import platform
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from agents.contract import Implementation
from agents.placeholders import render
from emulator.faults import EmulatorError
from emulator.service.lease import LONGEST_LEASE_S
from orchestrator.binaries import find_programs
from orchestrator.certification import DIRECTORY_NAME, Certified, certify
from orchestrator.errors import OwltError
from orchestrator.exit_status import how_ended
from orchestrator.findings import Ended
from orchestrator.host import LATE, Host, HostError, last_line
from orchestrator.perform import perform
from orchestrator.plan import Channel, Run
from orchestrator.printable import printable
from orchestrator.record import UNKNOWN
from orchestrator.rigs import namespaces
from orchestrator.rigs.rig import Rig
from orchestrator.setting import Setting
from orchestrator.sweep import Sweep

BATCH_NAME = "batch.json"
CERTIFYING_S = {"exact": 7 * 24 * 3600.0, "skip": 7 * 24 * 3600.0, "real": 3600.0}
"""Longer than certifying a channel takes, by the rig's clock."""
BESIDE_THE_SESSION_S = 600.0
EVENT_MARK = "@owlt "
ALIVE = "alive"
SIGNS_OF_LIFE = 200
"""So many in the time limit of a run, but none more often than every few seconds of the rig's clock."""
SHORTEST_BEAT_S = 5.0
VERSION_S = 20.0


class Task(BaseModel):
    """What a worker is given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sweep: Sweep
    implementations: dict[str, Implementation]
    channels: dict[str, Channel]
    certify: list[str]
    certificates: dict[str, Certified]
    runs: list[Run]
    owlt: str
    """Its version."""
    kernel_hz: int | None
    builds: Path
    """Where third-party builds are installed on the hosts."""


def lease_s(run: Run, task: Task) -> float:
    """How long the emulator belongs to a run: the channel is cleared if its worker is not heard of for so long."""
    deadline_s = run.deadline_s(task.implementations[run.permutation.implementation])
    return min(2 * deadline_s + BESIDE_THE_SESSION_S, LONGEST_LEASE_S)


def tell(event: str, **facts: object) -> None:
    """Tell the supervisor what happens now."""
    print(EVENT_MARK + json.dumps({"event": event, **facts}), flush=True)


def tell_phase(run_id: str, phase: str) -> None:
    """Tell the supervisor that a run enters a phase."""
    tell("phase", run_id=run_id, phase=phase)


@contextmanager
def _signs_of_life(deadline_s: float) -> Iterator[None]:
    """Tell now and then that time goes on: on a virtual clock, a build that polls is slow and not hung."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(max(deadline_s / SIGNS_OF_LIFE, SHORTEST_BEAT_S)):
            tell(ALIVE)

    beating = threading.Thread(target=beat, daemon=True)
    beating.start()
    try:
        yield
    finally:
        over.set()
        beating.join()


def work(directory: Path, rig_directory: Path) -> None:
    """Raise the rig, perform every run of the batch, take the rig down."""
    tell("connect")
    task = Task.model_validate_json((directory / BATCH_NAME).read_text())
    with namespaces.raised(rig_directory, directory, task.builds) as rig:
        setting = Setting(
            sweep=task.sweep,
            implementations=task.implementations,
            channels=task.channels,
            certificates=task.certificates,
            rig=rig,
            versions=_versions(task, rig),
            kernel_hz=task.kernel_hz,
            netem_takes_seeds=bool(rig.channel.capabilities()["seed"]["available"]),
        )
        rig.channel.lease(f"owlt, sweep {task.sweep.name}", BESIDE_THE_SESSION_S)
        for key in task.certify:
            tell("certify", channel=key)
            rig.channel.renew(CERTIFYING_S[task.sweep.clock])
            verdict = certify(
                task.channels[key],
                key,
                rig,
                task.sweep.clock,
                setting.netem_takes_seeds,
                directory / DIRECTORY_NAME,
            )
            tell("certified", channel=key, verdict=verdict)
        for run in task.runs:
            tell("run", run_id=run.run_id)
            rig.channel.renew(lease_s(run, task))
            with _signs_of_life(run.deadline_s(setting.implementation_of(run))):
                record = perform(run, setting, directory / "runs" / run.run_id, partial(tell_phase, run.run_id))
            tell("done", run_id=run.run_id, outcome=record.outcome, reason=record.reason)
    tell("end")


def _versions(task: Task, rig: Rig) -> dict[str, str]:
    found = {"owlt": task.owlt, "python": platform.python_version(), "kernel": platform.release()}
    return found | {name: _build_version(build, rig) for name, build in task.implementations.items()}


def _build_version(build: Implementation, rig: Rig) -> str:
    """What the build says of its version, or "unknown" and why; behind it, what its programs are."""
    try:
        programs = find_programs(build, "sender", rig.sender.host, rig.builds)
    except Ended:
        return UNKNOWN
    command = render(build.version_command, {"python": rig.python, "builds": rig.builds} | programs)
    told = _told_version(command, rig.sender.host) if command else UNKNOWN
    return f"{told} ({_digest(programs, rig)})" if programs else told


def _told_version(command: list[str], host: Host) -> str:
    said = host.run_foreign(command, VERSION_S)
    if said.exit_status == LATE:
        return f"{UNKNOWN}: the version_command gave no end within {VERSION_S:g} s"
    last = printable(last_line(said))
    if said.exit_status != 0 or not (said.stdout or said.stderr):
        return f"{UNKNOWN}: the version_command {how_ended(said.exit_status)}: {last}"
    return "\n".join(map(printable, said.stdout.decode(errors="replace").strip().splitlines())) or last


def _digest(programs: dict[str, str], rig: Rig) -> str:
    """What tells two builds of one version apart: the first letters of the SHA-256 of each program."""
    hashed = rig.sender.host.check(["sha256sum", *programs.values()]).decode().splitlines()
    return "sha256 " + ", ".join(line[:12] for line in hashed)


def main() -> int:
    """Work in the current directory. Exit status 1: the rig did not come up, and the last line says why."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        work(Path.cwd(), Path(sys.argv[1]))
    except (OwltError, HostError, EmulatorError, OSError) as problem:
        tell("failed", reason=str(problem))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

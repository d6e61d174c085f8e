"""Boots a kernel as the virtual rig does and tests its features here: seccomp, clocks, netem's seed, bpf()."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

from owlt.agents.contract.implementation import Clock
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.own_directories import process_directory
from owlt.orchestrator.rigs.guest import Boot, launch, python_command
from owlt.orchestrator.rigs.template import TEMPLATE_FILE, Template

GUEST_LIMIT_S = 30.0
"""A guest that only tests features takes two seconds; one that takes this long hangs."""
MEMORY_MB = 256
COPIED = "the copy goes on"
FINDINGS_NAME = "findings.json"
SLEEP_S: dict[Clock, float] = {"exact": 1000.0, "skip": 1000.0, "real": 0.05}
"""For how long the guest sleeps by its own clock; on a virtual clock this takes no time."""


@dataclass(frozen=True)
class Abilities:
    """The features that were tested in guests on this machine."""

    seccomp: bool
    clocks: list[Clock]
    ends_spins: bool
    virtual_tsc: bool
    templates: bool
    netem_seed: bool
    bpf: bool


@dataclass(frozen=True)
class GuestRun:
    """One guest from boot to power-off, or until it was killed. `console` is its output."""

    wall_s: float
    hung: bool
    console: str


def abilities(linux: Path) -> Abilities:
    """Boot guests and test the features. Raises OwltError if the kernel cannot run the virtual rig here."""
    exact = _findings(linux, "exact", True) if has_seccomp_option(linux) else {}
    seccomp = bool(exact)
    exact = exact or _findings(linux, "exact", False)
    others: tuple[Clock, ...] = ("skip", "real")
    findings: dict[Clock, dict[str, Any]] = {"exact": exact}
    findings |= {clock: _findings(linux, clock, seccomp) for clock in others}
    clocks = [clock for clock, values in findings.items() if _is_correct_clock(clock, values)]
    if "exact" not in clocks or "capabilities" not in exact:
        raise OwltError(
            Mistake(f"{linux.name} was built, but no guest started on the exact clock here", fix="use another --source")
        )
    netem = exact["capabilities"]["netem"]
    if not netem["available"]:
        raise OwltError(Mistake(f"{linux.name} was built, but its netem does not work: {netem['reason']}"))
    return Abilities(
        seccomp=seccomp,
        clocks=clocks,
        ends_spins=exact.get("ends_spins", False),
        virtual_tsc=all(_is_virtual_tsc(findings[clock]) for clock in clocks if clock != "real"),
        templates=seccomp and is_copied(linux),
        netem_seed=exact["capabilities"]["seed"]["available"],
        bpf=exact["bpf"],
    )


def run_guest(boot: Boot, directory: Path, program: list[str]) -> GuestRun:
    """Run a program in a guest until power-off; after GUEST_LIMIT_S of wall time the guest is killed."""
    start_s = time.monotonic()
    guest = launch(boot, directory, program)
    try:
        console, hung = guest.communicate(timeout=GUEST_LIMIT_S)[0], False
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(guest.pid, signal.SIGKILL)
        console, hung = guest.communicate()[0], True
    return GuestRun(time.monotonic() - start_s, hung, console)


def boot_for(linux: Path, clock: Clock, seccomp: bool) -> Boot:
    """A small guest on the last CPU that this process may use."""
    cpu = max(os.sched_getaffinity(0))
    return Boot(kernel=linux, clock=clock, cpu=cpu, memory_mb=MEMORY_MB, seed=1, seccomp=seccomp)


def has_seccomp_option(linux: Path) -> bool:
    """Whether the kernel has the option; without it, the kernel would pass the option on to init."""
    completed = subprocess.run([linux, "--help"], capture_output=True, text=True, errors="replace", check=False)
    return "\nseccomp=" in completed.stdout


def _findings(linux: Path, clock: Clock, seccomp: bool) -> dict[str, Any]:
    """The results that the guest wrote before it ended; empty if it did not start."""
    with process_directory("probe") as directory:
        program = python_command("owlt.orchestrator.kernel.inside", clock)
        run_guest(boot_for(linux, clock, seccomp), directory, program)
        findings = directory / FINDINGS_NAME
        return dict(json.loads(findings.read_text())) if findings.exists() else {}


def is_copied(linux: Path) -> bool:
    """Whether a guest becomes a template, and a copy of it continues from that point and ends."""
    boot = boot_for(linux, "exact", seccomp=True)
    with process_directory("probe") as directory:
        try:
            template = Template(boot, directory, ["sh", "-c", f"echo 1 >{TEMPLATE_FILE} && echo {COPIED}"])
        except HostError:
            return False
        overdue = Timer(GUEST_LIMIT_S, template.close)
        overdue.start()
        try:
            copy = template.copy(1, boot.cpu, directory)
            with copy.stdin, copy.stdout:
                return COPIED in copy.stdout.read()
        except HostError:
            return False
        finally:
            overdue.cancel()
            template.close()


def _is_virtual_tsc(findings: dict[str, Any]) -> bool:
    """Whether the time stamp counter showed the sleep as the guest's clock did, in ns. The processor's own does not."""
    return bool(abs(findings["slept_ticks"] / 1e9 - findings["slept_s"]) < 1.0)


def _is_correct_clock(clock: Clock, findings: dict[str, Any]) -> bool:
    """Whether the sleep had the right duration; a virtual clock that does not skip it exceeds the guest's limit."""
    slept_s = float(findings.get("slept_s", 0.0))
    return SLEEP_S[clock] <= slept_s < SLEEP_S[clock] + 1.0

"""The versions that a run's record names: of owlt, Python, the kernel and each implementation on the rig."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from pathlib import Path

from agents.contract.implementation import Implementation
from agents.contract.placeholders import render
from orchestrator.hosts.binaries import MissingProgram, find_programs
from orchestrator.hosts.exit_status import how_ended
from orchestrator.hosts.host import LATE, Host, last_line
from orchestrator.hosts.printable import printable
from orchestrator.results.record import UNKNOWN
from orchestrator.rigs.rig import Rig

VERSIONS_NAME = "versions.json"
VERSION_S = 20.0
"""The time limit of a `version_command`."""


def own_versions(owlt: str) -> dict[str, str]:
    """The versions of owlt, Python and the kernel, by name."""
    return {"owlt": owlt, "python": platform.python_version(), "kernel": platform.release()}


def implementation_versions(implementations: Mapping[str, Implementation], rig: Rig) -> dict[str, str]:
    """The version of each implementation, by its name."""
    return {name: _implementation_version(each, rig) for name, each in implementations.items()}


def write_versions(directory: Path, versions: dict[str, str]) -> None:
    """Write what a survey returns."""
    (directory / VERSIONS_NAME).write_text(json.dumps(versions))


def read_versions(directory: Path) -> dict[str, str]:
    """What a survey wrote. Raises OSError if it did not."""
    return dict(json.loads((directory / VERSIONS_NAME).read_text()))


def _implementation_version(implementation: Implementation, rig: Rig) -> str:
    """What its `version_command` prints, or "unknown" and why; then the digests of its programs."""
    try:
        programs = find_programs(implementation, "sender", rig.sender.host, rig.third_party)
    except MissingProgram:
        return UNKNOWN
    command = render(implementation.version_command, {"python": rig.python, "third_party": rig.third_party} | programs)
    version = _printed_version(command, rig.sender.host) if command else UNKNOWN
    return f"{version} ({_digests(programs, rig)})" if programs else version


def _printed_version(command: list[str], host: Host) -> str:
    completed = host.run_foreign(command, VERSION_S)
    if completed.exit_status == LATE:
        return f"{UNKNOWN}: the version_command did not finish within {VERSION_S:g} s"
    last = printable(last_line(completed))
    if completed.exit_status != 0 or not (completed.stdout or completed.stderr):
        return f"{UNKNOWN}: the version_command {how_ended(completed.exit_status)}: {last}"
    lines = completed.stdout.decode(errors="replace").strip().splitlines()
    return "\n".join(map(printable, lines)) or last


def _digests(programs: dict[str, str], rig: Rig) -> str:
    """Tells two implementations of one version apart: the first digits of the SHA-256 of each program."""
    hashed = rig.sender.host.check(["sha256sum", *programs.values()]).decode().splitlines()
    return "sha256 " + ", ".join(line[:12] for line in hashed)

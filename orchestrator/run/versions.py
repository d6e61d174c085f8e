"""The versions that a run's record names: of owlt, Python, the kernel and each implementation on the rig."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from owlt.agents.contract.implementation import Implementation, Role
from owlt.agents.contract.placeholders import render
from owlt.orchestrator.hosts.binaries import LIBRARIES, MissingProgram, find_programs, show_files
from owlt.orchestrator.hosts.host import LATE, Host, last_line
from owlt.orchestrator.hosts.printable import how_ended, printable
from owlt.orchestrator.rigs.rig import Rig
from owlt.results.record import ON_THE_RECEIVER, UNKNOWN

VERSIONS_NAME = "versions.json"
VERSION_S = 20.0
"""The time limit of a `version_command`."""

LOADED = """import ctypes, os, sys
loaded = [ctypes.CDLL(name) for name in sys.argv[1:]]
maps = {line.split(None, 5)[5].strip() for line in open("/proc/self/maps") if line.count("/")}
print(*sorted(path for path in maps for name in sys.argv[1:] if os.path.basename(path).startswith(name)), sep="\\n")"""
"""A Python script that prints the files of the libraries with these names."""


def own_versions(owlt: str) -> dict[str, str]:
    """The versions of owlt, Python and the kernel, by name."""
    return {"owlt": owlt, "python": platform.python_version(), "kernel": platform.release()}


Printed = dict[tuple[str, ...], str]
"""What a command printed, by the machine and its words."""


def implementation_versions(implementations: Mapping[str, Implementation], rig: Rig) -> dict[str, str]:
    """The version of each implementation, by its name. Hosts on one machine print the same, so one of them is asked."""
    printed: Printed = {}
    return {name: _implementation_version(each, rig, printed) for name, each in implementations.items()}


def write_versions(directory: Path, versions: dict[str, str]) -> None:
    """Write the result of a survey."""
    (directory / VERSIONS_NAME).write_text(json.dumps(versions))


def read_versions(directory: Path) -> dict[str, str]:
    """The result of a survey. Raises OSError if there is none."""
    return dict(json.loads((directory / VERSIONS_NAME).read_text()))


def _implementation_version(implementation: Implementation, rig: Rig, printed: Printed) -> str:
    """The sender's version, and the receiver's if it differs, as in a pair."""
    sender, receiver = (_version_on(host, role, implementation.of(role), rig, printed) for role, host in _hosts(rig))
    return sender if receiver == sender else f"{sender}{ON_THE_RECEIVER}{receiver}"


def _hosts(rig: Rig) -> list[tuple[Role, Host]]:
    return [("sender", rig.sender.host), ("receiver", rig.receiver.host)]


def _version_on(host: Host, role: Role, implementation: Implementation, rig: Rig, printed: Printed) -> str:
    """The output of `version_command` on a host, or "unknown" and why; then the digests of its files there. What is
    `printed` already is not printed again."""
    try:
        programs = find_programs(implementation, role, host, rig.third_party)
    except MissingProgram:
        return UNKNOWN
    command = render(implementation.version_command, {"python": rig.python, "third_party": rig.third_party} | programs)
    show_files(host, command, (rig.third_party, *programs.values(), rig.python))
    where = (role if rig.has_machines else "", *command)
    if command and where not in printed:
        printed[where] = _printed_version(command, host)
    version = printed.get(where, UNKNOWN)
    needed = [need.library for need in implementation.needs if need.library]
    digests = [*_digests(programs, host), *_library_digests(programs, needed, rig.python, host)]
    return f"{version} ({'; '.join(digests)})" if digests else version


def _printed_version(command: list[str], host: Host) -> str:
    completed = host.run_foreign(command, VERSION_S)
    if completed.exit_status == LATE:
        return f"{UNKNOWN}: the version_command did not finish within {VERSION_S:g} s"
    last = printable(last_line(completed))
    if completed.exit_status != 0 or not (completed.stdout or completed.stderr):
        return f"{UNKNOWN}: the version_command {how_ended(completed.exit_status)}: {last}"
    lines = completed.stdout.decode(errors="replace").strip().splitlines()
    return "\n".join(map(printable, lines)) or last


def _digests(programs: dict[str, str], host: Host) -> list[str]:
    """The first digits of the SHA-256 of each program, which distinguish two implementations of the same version."""
    if not programs:
        return []
    hashed = host.check(["sha256sum", *programs.values()]).decode().splitlines()
    return ["sha256 " + ", ".join(line[:12] for line in hashed)]


def _library_digests(programs: dict[str, str], needed: Iterable[str], python: str, host: Host) -> list[str]:
    """The digests of the libraries that programs load, except the system's, and of those that the profile needs.

    A library that implements the protocol has another version than the program that uses it. The names are those of the
    files, which often contain the version.
    """
    sonames = [*needed]
    commands = [["sh", "-c", LIBRARIES, "sh", *programs.values()]] if programs else []
    commands += [[python, "-c", LOADED, *sonames]] if sonames else []
    listed = [host.run_foreign(command, VERSION_S).stdout.decode(errors="replace") for command in commands]
    paths = [path for text in listed for path in text.splitlines() if path.startswith("/")]
    if not paths:
        return []
    hashed = host.run(["sha256sum", *dict.fromkeys(paths)]).stdout.decode(errors="replace").splitlines()
    return [printable(f"{PurePosixPath(path).name} {digest[:12]}") for digest, path in map(_halves, hashed)]


def _halves(line: str) -> tuple[str, str]:
    digest, _, path = line.partition("  ")
    return digest, path

"""What the programs of a run are: the versions that its record names, of owlt, Python, the kernel and each
implementation on the rig; and the files that they consist of: executables, shared libraries, Python and its modules.

Libraries and modules that a program loads only during a transfer are found if the profile lists them under `needs`.
"""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from owlt import PACKAGE
from owlt.agents.contract.implementation import ROLES, Implementation, Role
from owlt.agents.contract.placeholders import render
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.hosts.binaries import (
    LIBRARIES,
    SEARCH_PATH,
    MissingProgram,
    find_here,
    find_programs,
    show_files,
    why_not_here,
)
from owlt.orchestrator.hosts.host import LATE, Host, last_line
from owlt.orchestrator.hosts.printable import how_ended, printable
from owlt.orchestrator.own_directories import third_party_directory
from owlt.orchestrator.profiles.installing import LOG_NAME
from owlt.orchestrator.rigs.provenance import NOT_IN_A_GUEST, programs_and_libraries
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


_MODULES = """import importlib, importlib.util, os, sys
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    if hasattr(module, "__path__") and importlib.util.find_spec(name + ".__main__"):
        importlib.import_module(name + ".__main__")
files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
print(*sorted(os.path.realpath(file) for file in files if file), sep="\\n")"""
"""A Python script that prints the files of all modules that are loaded with these, and with their `__main__`."""
NOT_IN_A_CLOSURE = (*NOT_IN_A_GUEST, "pydoc_data", Path(sysconfig.get_config_var("LIBPL") or "config").name)
"""Directories of Python's standard library that no transfer uses."""


def closure_of(implementation: Implementation) -> list[Path]:
    """The files of an implementation's programs on this machine, with what they load, sorted.

    Raises Missing if a program is not installed.
    """
    files = set(_programs(implementation))
    if any("{python}" in command for command in _commands(implementation)):
        files |= set(_python(implementation))
    files |= {Path(path).resolve() for path in _loaded(LOADED, _needed(implementation, "library"))}
    objects = [path for path in sorted(files) if _is_elf(path)]
    return sorted(files | {Path(path).resolve() for path in programs_and_libraries(objects)})


def place_of(path: Path) -> str:
    """The name of a file in a closure: in the directory that it belongs to; else its path without the slash."""
    for name, root in (
        ("third-party", third_party_directory()),
        ("environment", Path(sys.prefix)),
        ("owlt", PACKAGE.parent),
    ):
        if path.is_relative_to(root.resolve()):
            return f"{name}/{path.relative_to(root.resolve())}"
    return str(path).lstrip("/")


def _programs(implementation: Implementation) -> Iterator[Path]:
    """Each program; of one that owlt installed, all files of its installation; and a system's program, such as sh."""
    for command in _commands(implementation):
        if system := shutil.which(command[0], path=SEARCH_PATH):
            yield Path(system).resolve()
    third_party = third_party_directory().resolve()
    for binary in [binary for member in implementation.members for binary in member.binary.values()]:
        found = find_here(binary, str(third_party))
        if found is None:
            raise Missing(Mistake("a program is missing", why_not_here(binary, str(third_party)), binary.fix))
        path = Path(found).resolve()
        if path.is_relative_to(third_party):
            yield from _tree(third_party / path.relative_to(third_party).parts[0])
        else:
            yield path


def _python(implementation: Implementation) -> Iterator[Path]:
    """The interpreter, its standard library, and the packages of the modules that the implementation loads."""
    modules = {
        module
        for command in _commands(implementation)
        for python, option, module in zip(command, command[1:], command[2:], strict=False)
        if (python, option) == ("{python}", "-m")
    } | set(_needed(implementation, "python_module"))
    library = Path(sysconfig.get_path("stdlib")).resolve()
    yield Path(sys.executable).resolve()
    yield from _tree(library, NOT_IN_A_CLOSURE)
    packages = Path(sysconfig.get_path("purelib")).resolve(), Path(sysconfig.get_path("platlib")).resolve()
    for file in map(Path, _loaded(_MODULES, sorted(modules))):
        root = next((root for root in packages if file.is_relative_to(root)), None)
        yield from _tree(root / file.relative_to(root).parts[0]) if root else [file]


def _commands(implementation: Implementation) -> list[list[str]]:
    return [implementation.of(role).side(role).command for role in ROLES]


def _needed(implementation: Implementation, kind: str) -> list[str]:
    needs = [getattr(need, kind) for member in implementation.members for need in member.needs]
    return sorted({name for name in needs if name})


def _loaded(script: str, names: Iterable[str]) -> list[str]:
    """What a script prints of these names: the files that they are loaded from; [] without names."""
    words = list(names)
    if not words:
        return []
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Missing(Mistake(f"{', '.join(words)}: cannot be loaded: {done.stderr.strip().splitlines()[-1]}"))
    return done.stdout.splitlines()


def _tree(root: Path, without: Iterable[str] = ("__pycache__",)) -> Iterator[Path]:
    """The regular files of a directory, without the log of an installation; a file itself."""
    if root.is_file():
        yield root
    excluded = set(without)
    for path in root.rglob("*"):
        if path.is_file() and path.name != LOG_NAME and not excluded & set(path.relative_to(root).parts):
            yield path.resolve()


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"

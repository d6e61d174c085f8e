"""The files that the programs of an implementation consist of: executables, shared libraries, Python and its modules.

Libraries and modules that a program loads only during a transfer are found if the profile lists them under `needs`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

from owlt import PACKAGE
from owlt.agents.contract.implementation import ROLES, Implementation
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.hosts.binaries import SEARCH_PATH, find_here, why_not_here
from owlt.orchestrator.own_directories import third_party_directory
from owlt.orchestrator.profiles.installing import LOG_NAME
from owlt.orchestrator.rigs.provenance import NOT_IN_A_GUEST, programs_and_libraries
from owlt.orchestrator.run.versions import LOADED

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

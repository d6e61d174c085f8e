"""Provenance: the files of a machine that the packets of a run depend on, each with its digest, and how two differ.

What is not in it: configuration files below /etc, and the processor, which the exact clock does not depend on. The
versions that a run's record names belong to `orchestrator.run.versions`; which differences are refused belongs to
`orchestrator.sweep`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel, ConfigDict, ValidationError

from owlt import PACKAGE
from owlt.agents.contract.implementation import Implementation
from owlt.emulator.kernel.bpf.loading import PROGRAMS, compiled_object, sources
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.hosts.binaries import SEARCH_PATH, find_here
from owlt.orchestrator.own_directories import third_party_directory
from owlt.orchestrator.rigs.guest import PACKAGES
from owlt.results.files import MACHINES
from owlt.results.plain_files import files_in, make_directory, read_plain, write_whole

DIGEST_LENGTH = 16
OF_AN_IMPLEMENTATION = "implementation"
"""The group of a record that depends on the run's implementation."""
MOST_NAMES = 5

Group = dict[str, str]
"""The digest of each file, package or program, by its name."""


class Provenance(BaseModel):
    """What a guest, or a rig of this machine's kernel, uses of a machine; {} in every field: not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = 1
    groups: dict[str, Group] = {}
    """What every run uses: `kernel`, `owlt`, `python`, `packages` and `system`."""
    implementations: dict[str, Group] = {}
    """The programs of each implementation of the plan, and the libraries that they load."""

    @property
    def name(self) -> str:
        """The name of its file: the same for machines without a difference."""
        return _digest(self.model_dump())

    def digests(self, implementation: str) -> dict[str, str]:
        """What the record of a run of this implementation has: a digest for each group."""
        used = self.groups | {OF_AN_IMPLEMENTATION: self.implementations.get(implementation, {})}
        return {name: _digest(group) for name, group in used.items()} if self.groups else {}


UNKNOWN_MACHINE = Provenance()


def differences(here: Provenance, there: Provenance) -> list[str]:
    """A phrase for each group that differs, with the first of the names that differ."""
    groups = [(name, here.groups.get(name, {}), there.groups.get(name, {})) for name in {**here.groups, **there.groups}]
    both = {**here.implementations, **there.implementations}
    groups += [(name, here.implementations.get(name, {}), there.implementations.get(name, {})) for name in both]
    return [text for name, one, other in groups if (text := difference(name, one, other))]


def write_provenance(provenance: Provenance, results: Path) -> None:
    """Write a machine's file into a results directory, unless it is there."""
    path = results / MACHINES / f"{provenance.name}.json"
    if provenance.groups and not path.exists():
        make_directory(path.parent)
        write_whole(path, provenance.model_dump_json(indent=1) + "\n")


def read_provenances(results: Path) -> Iterator[Provenance]:
    """The machines of a results directory, without files that cannot be read."""
    for path in files_in(results / MACHINES, ".json"):
        try:
            yield Provenance.model_validate_json(read_plain(path))
        except (OSError, ValidationError):
            continue


def difference(name: str, here: Group, there: Group) -> str:
    """The first of the names in which a group differs, after its own name; "": it does not."""
    unlike = sorted(each for each in {**here, **there} if here.get(each) != there.get(each))
    if not unlike:
        return ""
    more = f" and {len(unlike) - MOST_NAMES} more" if len(unlike) > MOST_NAMES else ""
    return f"{name}: {', '.join(unlike[:MOST_NAMES])}{more}"


def _digest(values: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:DIGEST_LENGTH]


_LIBRARY = re.compile(r"^\s+(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree(root: Path, without: Collection[str] = ()) -> Group:
    """The digest of each file below a directory, by its path there, without directories of these names."""
    found: Group = {}
    for directory, below, names in os.walk(root):
        below[:] = set(below).difference(without)
        paths = [Path(directory, name) for name in names]
        found |= {str(path.relative_to(root)): file_digest(path) for path in paths if path.is_file()}
    return dict(sorted(found.items()))


def programs_and_libraries(paths: Iterable[Path], search_path: str = SEARCH_PATH) -> Group:
    """The digest of each program, and of each shared library that the dynamic linker loads for it, by its path.

    Libraries that a program opens while it runs (dlopen(3)) are not among them. Raises Missing without ldd(1).
    """
    programs = sorted(set(paths))
    if not programs:
        return {}
    ldd = shutil.which("ldd", path=search_path)
    if ldd is None:
        fix = "apt-get install libc-bin"
        raise Missing(Mistake("ldd, which lists the libraries of a program for its provenance, is missing", fix=fix))
    listed = subprocess.run([ldd, *map(str, programs)], capture_output=True, text=True, check=False).stdout
    libraries = {Path(each) for each in _LIBRARY.findall(listed)}
    return {str(path): file_digest(path) for path in [*programs, *sorted(libraries)]}


NOT_IN_A_GUEST = ("__pycache__", "site-packages", "dist-packages", "test", "idlelib", "ensurepip", "lib2to3", "tkinter")
"""Directories of Python's standard library that no guest uses."""
EXTENSIONS = ("_bz2", "_ctypes", "_hashlib", "_lzma", "_ssl", "zlib")
"""Modules of the standard library that load libraries of the system."""
NOT_INSTALLED = "not installed"
SYSTEM_PROGRAMS = (
    *("sh", "env", "mount", "umount", "unshare", "findmnt", "cp", "mknod", "sha256sum"),
    *("ip", "tc", "ethtool", "tcpdump"),
)
"""What a rig runs, beside Python and the implementations."""


def provenance_of(kernel: Path | None, implementations: Mapping[str, Implementation]) -> Provenance:
    """The provenance of this machine; `kernel` is the guests' kernel, None: that of this machine."""
    return Provenance(
        groups={"kernel": _kernel(kernel)} | _of_every_run(),
        implementations={name: _programs(each) for name, each in implementations.items()},
    )


def _kernel(path: Path | None) -> Group:
    if path is not None:
        return {"guest": file_digest(path)}
    running = os.uname()
    return {f"{running.sysname} {running.release}": hashlib.sha256(running.version.encode()).hexdigest()}


@cache
def _of_every_run() -> dict[str, Group]:
    return {
        "owlt": own_files(),
        "python": _python(),
        "packages": packages_of("owlt"),
        "system": programs_and_libraries([*_system_programs(), *_extensions()]),
    }


@cache
def own_files() -> Group:
    """The group `owlt`. eBPF objects in the user's cache have the names of those beside their sources."""
    files = {
        f"{package}/{name}": digest
        for package in PACKAGES
        for name, digest in tree((PACKAGE / package).resolve(), ("__pycache__",)).items()
    }
    for compiled in filter(None, map(compiled_object, sources())):
        for path in (compiled, compiled.with_suffix(".sha256")):
            files[f"{PROGRAMS.relative_to(PACKAGE)}/{path.name}"] = file_digest(path)
    return files


def _python() -> Group:
    library = tree(Path(sysconfig.get_path("stdlib")), NOT_IN_A_GUEST)
    digest = hashlib.sha256(repr(sorted(library.items())).encode()).hexdigest()
    return {"interpreter": file_digest(Path(sys.executable).resolve()), "standard library": digest}


def packages_of(name: str) -> Group:
    """Each package that this one requires, with a digest of the digests that its installation recorded.

    A package that is not installed, such as owlt itself in a clone, has NOT_INSTALLED instead of a digest.
    """
    return dict(sorted(_packages(name, set())))


def _packages(name: str, visited: set[str]) -> Iterator[tuple[str, str]]:
    visited.add(name)
    try:
        required_texts = importlib.metadata.requires(name) or ()
    except importlib.metadata.PackageNotFoundError:
        yield name, NOT_INSTALLED
        return
    for text in required_texts:
        requirement = Requirement(text)
        required = canonicalize_name(requirement.name)
        is_needed = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if required not in visited and is_needed:
            with suppress(importlib.metadata.PackageNotFoundError):
                package = importlib.metadata.distribution(required)
                yield f"{required} {package.version}", _recorded(package)
            yield from _packages(required, visited)


def _recorded(package: importlib.metadata.Distribution) -> str:
    """The digest of the recorded files below site-packages; scripts contain the path of the environment."""
    files = sorted(
        f"{each} {each.hash.value}"
        for each in package.files or ()
        if each.hash and each.parts[0] != ".." and not each.parts[0].endswith(".dist-info")
    )
    return hashlib.sha256("\n".join(files).encode()).hexdigest()


def _system_programs() -> Iterator[Path]:
    yield Path(sys.executable).resolve()
    for name in SYSTEM_PROGRAMS:
        if path := shutil.which(name, path=SEARCH_PATH):
            yield Path(path).resolve()


def _extensions() -> Iterator[Path]:
    for name in EXTENSIONS:
        specification = importlib.util.find_spec(name)
        if specification and specification.origin and Path(specification.origin).is_file():
            yield Path(specification.origin)


def _programs(implementation: Implementation) -> Group:
    """The programs by their path in the third-party directory if they are there, so that users can be compared."""
    third_party = third_party_directory()
    paths = [find_here(binary, str(third_party)) for each in implementation.members for binary in each.binary.values()]
    files = programs_and_libraries(Path(path) for path in paths if path)
    return {name.removeprefix(f"{third_party}/"): digest for name, digest in files.items()}

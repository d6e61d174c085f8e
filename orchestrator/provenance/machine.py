"""The provenance of this machine for a plan.

What is not in it: configuration files below /etc, and the processor, which the exact clock does not depend on.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from owlt import PACKAGE
from owlt.agents.contract.implementation import Implementation
from owlt.emulator.kernel.bpf.loading import PROGRAMS, compiled_object, sources
from owlt.orchestrator.hosts.binaries import SEARCH_PATH, find_here
from owlt.orchestrator.provenance.files import file_digest, programs_and_libraries, tree
from owlt.orchestrator.provenance.provenance import Group, Provenance
from owlt.orchestrator.rigs.guest import PACKAGES
from owlt.orchestrator.third_party.places import third_party_directory

NOT_IN_A_GUEST = ("__pycache__", "site-packages", "dist-packages", "test", "idlelib", "ensurepip", "lib2to3", "tkinter")
"""Directories of Python's standard library that no guest uses."""
EXTENSIONS = ("_bz2", "_ctypes", "_hashlib", "_lzma", "_ssl", "zlib")
"""Modules of the standard library that load libraries of the system."""
NOT_INSTALLED = "not installed"
SYSTEM_PROGRAMS = (
    *("sh", "env", "mount", "umount", "unshare", "findmnt", "mknod", "sha256sum"),
    *("ip", "tc", "ethtool", "sshd", "ssh-keygen", "tcpdump"),
)
"""What a rig runs, beside Python and the implementations."""


def provenance_of(kernel: Path | None, implementations: Mapping[str, Implementation]) -> Provenance:
    """That of this machine; `kernel` is the guests', None: this machine's own."""
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
    """Of the files below site-packages; scripts contain the path of the environment."""
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
    """By the path in the third-party directory where a program is there, so that users can be compared."""
    third_party = third_party_directory()
    paths = [find_here(binary, str(third_party)) for binary in implementation.binary.values()]
    files = programs_and_libraries(Path(path) for path in paths if path)
    return {name.removeprefix(f"{third_party}/"): digest for name, digest in files.items()}

"""The digests of files, of directories, and of the shared libraries that programs load."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.hosts.binaries import SEARCH_PATH
from owlt.orchestrator.provenance.provenance import Group

_LIBRARY = re.compile(r"^\s+(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree(root: Path, without: Collection[str] = ()) -> Group:
    """The digest of each file below a directory, by its path there, without directories of these names."""
    return {
        str(path.relative_to(root)): file_digest(path)
        for path in sorted(root.rglob("*"))
        if path.is_file() and not any(part in without for part in path.relative_to(root).parts)
    }


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

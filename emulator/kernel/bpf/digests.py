"""Which source an object was compiled from: a digest of the source and of the compiler's command lies beside it."""

import hashlib
import platform
from pathlib import Path

COMPILER = "clang"
OPTIONS = [
    *["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Wextra", "-Werror"],
    *["-idirafter", f"/usr/include/{platform.machine()}-linux-gnu"],
    "-fdebug-compilation-dir=.",
]
"""Of a compiler that runs in the source's directory, so that objects are equal wherever that is."""


def is_compiled(source: Path) -> bool:
    """Return whether a source's object is there and of that very source."""
    return source.with_suffix(".o").exists() and not is_stale(source.with_suffix(".o"))


def is_stale(compiled: Path) -> bool:
    """Return whether the source of an object has changed since; False if there is no source beside it."""
    source, noted = compiled.with_suffix(".c"), compiled.with_suffix(".sha256")
    if not source.exists():
        return False
    return not noted.exists() or noted.read_text() != source_digest(source)


def source_digest(source: Path) -> str:
    """Return the digest of a source and of the command that compiles it."""
    return hashlib.sha256(source.read_bytes() + "\0".join([COMPILER, *OPTIONS]).encode()).hexdigest()

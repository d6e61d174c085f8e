"""Compiles eBPF programs that are new or whose source has changed: `python -m owlt.emulator.kernel.bpf.compile`.

An object is written beside its source, or, if that directory is read-only, into the user's cache.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from owlt.emulator.kernel.bpf.loading import (
    COMPILER,
    OPTIONS,
    PROGRAMS,
    compiled_object,
    object_places,
    source_digest,
    sources,
)
from owlt.installation import setup_command


class CompileError(Exception):
    """A program that was not compiled. The text has the compiler's first words and the next step."""


def compile_program(source: Path) -> Path:
    """Return the object of a source, compiled if necessary. It appears atomically."""
    if (present := compiled_object(source)) is not None:
        return present
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise CompileError(f"{source.name}: {COMPILER} is not installed; {_next_step()}")
    beside, in_cache = object_places(source)
    target = beside if os.access(source.parent, os.W_OK) else in_cache
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".compile-", dir=target.parent) as directory:
            draft = Path(directory, target.name)
            _run_compiler([compiler, *OPTIONS, "-c", source.name, "-o", str(draft)], source)
            target.with_suffix(".sha256").unlink(missing_ok=True)
            draft.replace(target)
        target.with_suffix(".sha256").write_text(source_digest(source))
    except OSError as problem:
        fix = "set XDG_CACHE_HOME to a directory that you can write to"
        raise CompileError(f"{target}: cannot be written ({problem.strerror}); next: {fix}") from problem
    return target


def _run_compiler(command: list[str], source: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=source.parent)
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), f"status {done.returncode}")
        step = _next_step() if "file not found" in first else "next: correct the source"
        raise CompileError(f"{source.name}: {COMPILER} says: {first}; {step}")


def _next_step() -> str:
    return f"next: {setup_command()} (Debian: clang, libbpf-dev)"


def compile_all(directory: Path = PROGRAMS) -> list[Path]:
    """Return the objects of all programs."""
    return [compile_program(source) for source in sources(directory)]


if __name__ == "__main__":
    try:
        compile_all()
    except CompileError as error:
        sys.exit(f"owlt: {error}")

"""Compiles eBPF programs that are new or whose source has changed: `python -m owlt.emulator.kernel.bpf.compile`.

Each object has a digest of its source and its command beside it.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from owlt.emulator.kernel.bpf.loading import COMPILER, OPTIONS, PROGRAMS, is_compiled, source_digest

_NEXT = "next: make setup (Debian: clang, libbpf-dev)"


class CompileError(Exception):
    """A program that was not compiled. The text has the compiler's first words and the next step."""


def compile_program(source: Path) -> Path:
    """Return the object of a source, compiled if need be. It appears at once, whole."""
    target = source.with_suffix(".o")
    noted = source.with_suffix(".sha256")
    if is_compiled(source):
        return target
    compiler = shutil.which(COMPILER)
    if compiler is None:
        raise CompileError(f"{source.name}: {COMPILER} is not installed; {_NEXT}")
    being_made = target.with_suffix(".new")
    command = [compiler, *OPTIONS, "-c", source.name, "-o", being_made.name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=source.parent)
    if done.returncode:
        being_made.unlink(missing_ok=True)
        first = next((line for line in done.stderr.splitlines() if "error" in line), f"status {done.returncode}")
        step = _NEXT if "file not found" in first else "next: correct the source"
        raise CompileError(f"{source.name}: {COMPILER} says: {first}; {step}")
    noted.unlink(missing_ok=True)
    being_made.replace(target)
    noted.write_text(source_digest(source))
    return target


def sources(directory: Path = PROGRAMS) -> list[Path]:
    """Return the sources of all programs."""
    return sorted(directory.glob("*.bpf.c"))


def compile_all(directory: Path = PROGRAMS) -> list[Path]:
    """Return the objects of all programs."""
    return [compile_program(source) for source in sources(directory)]


if __name__ == "__main__":
    try:
        compile_all()
    except CompileError as error:
        sys.exit(f"owlt: {error}")

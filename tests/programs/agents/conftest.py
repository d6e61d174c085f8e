"""The endpoints and probes as the programs that they are, over this machine's loopback and on its clock."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a module of the package, or a program by its path; what still runs at the end is killed by its handle."""
    running: list[subprocess.Popen[str]] = []

    def start_program(program: str | Path, *arguments: object) -> "subprocess.Popen[str]":
        beginning = [program] if isinstance(program, Path) else [sys.executable, "-m", program]
        command = [*beginning, *map(str, arguments)]
        pipe = subprocess.PIPE
        running.append(subprocess.Popen(command, cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True))
        return running[-1]

    yield start_program
    for program in running:
        program.kill()
        program.communicate()

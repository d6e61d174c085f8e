"""Another person's results directory with hostile entries: every command ends with a message, and touches nothing else.

All of it is done in one process (`hostile_results`), whose system calls strace records.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require
from tests.import_graph import PROJECT
from tests.programs.hostile_results import HOSTILE, SECRET, UNEXAMINED, prepare

ENDINGS = {"done", "refused", *(f"exit {status}" for status in (None, 0, 1, 2, 3, 4, 5))}
OF_THE_OWNER = "record.json is a further name of a file of the victim"
"""A file with several names may be the owner's own: it is read."""
SILENT = ("analyse, unexamined", "dashboard")


@dataclass(frozen=True)
class Attempts:
    """The attempts and their results."""

    by_entry: dict[str, list[dict[str, Any]]]
    opened: list[tuple[str, str]]
    """The path by which each file was opened, and the path that it has."""
    before: dict[str, bytes]
    after: dict[str, bytes]
    """The files of the victim."""
    victim: Path


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Attempts:
    require(shutil.which("strace") is not None, "strace is missing: apt-get install strace")
    directory = tmp_path_factory.mktemp("hostile").resolve()
    victim = prepare(directory)
    before = contents(victim)
    trace = directory / "trace"
    tracer = ["strace", "-f", "-y", "--seccomp-bpf", "-qq", "-e", "trace=open,openat,openat2", "-o", str(trace)]
    program = [sys.executable, "-m", "tests.programs.hostile_results", str(directory)]
    done = subprocess.run([*tracer, *program], cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True, timeout=1200)
    by_entry: dict[str, list[dict[str, Any]]] = {entry: [] for entry in HOSTILE}
    for line in done.stdout.splitlines():
        tried = json.loads(line)
        by_entry[tried["entry"]].append(tried)
    opened = re.findall(r'"(.*)".* = \d+<(.*)>', trace.read_text(errors="replace"))
    return Attempts(by_entry, opened, before, contents(victim), victim)


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(directory.rglob("*"))}


def test_there_are_at_least_sixty_kinds_of_entries() -> None:
    assert len(HOSTILE) >= 60


@pytest.mark.parametrize("entry", HOSTILE)
def test_every_command_ends_in_time_and_with_a_message(attempts: Attempts, entry: str) -> None:
    tried = attempts.by_entry[entry]

    assert len(tried) >= len(("status", "dashboard", "compare", "merge", "merge into it", "combine", "report", "run"))
    for each in tried:
        assert each["ending"] in ENDINGS, each
        assert each["text"].strip() or each["command"] in SILENT, each


@pytest.mark.parametrize("entry", HOSTILE)
def test_no_command_shows_what_a_link_leads_to_or_moves_the_cursor(attempts: Attempts, entry: str) -> None:
    for each in attempts.by_entry[entry]:
        assert SECRET not in each["text"] or OF_THE_OWNER.endswith(entry.partition(" ")[2]), each
        assert "root:x:0:" not in each["text"], each
        assert "\x1b" not in each["text"] or each["command"] == "dashboard", each


@pytest.mark.parametrize("entry", [entry for entry in HOSTILE if "->" in entry or "a pipe" in entry])
def test_a_link_or_a_pipe_is_refused_by_the_commands_that_write(attempts: Attempts, entry: str) -> None:
    endings = {each["command"]: each["ending"] for each in attempts.by_entry[entry]}
    is_in_workers = entry.startswith("workers")

    assert endings["report"] == "exit 2"
    assert endings["merge into it"] == "exit 2"
    assert endings["run"] == "refused"
    assert is_in_workers or f"report{UNEXAMINED}" in endings


def test_nothing_of_the_victim_is_changed(attempts: Attempts) -> None:
    assert attempts.after == attempts.before


def test_nothing_outside_is_opened_through_an_entry(attempts: Attempts) -> None:
    """The tracer sees a file of the victim: the one that the program opens in the end to show that."""
    outside = (str(attempts.victim), "/etc/passwd", "/dev/zero")
    through_links = [path for named, path in attempts.opened if path.startswith(outside) and named != path]

    assert through_links == [str(attempts.victim / "secret")]

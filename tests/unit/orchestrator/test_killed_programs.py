"""What the kernel and a guest's warden ended, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.rigs import warden
from orchestrator.rigs.killed_programs import KilledPrograms, for_memory

KILLED = (
    "3,512,88000000,-;Out of memory: Killed process 71 (python3) total-vm:412344kB, anon-rss:389120kB, file-rss:0kB, "
    "shmem-rss:0kB, UID:0 pgtables:812kB oom_score_adj:{}\n"
)
"""As Linux writes it to its log (mm/oom_kill.c)."""


def test_a_build_that_the_kernel_ended_for_memory_is_named() -> None:
    assert for_memory(KILLED.format(1000)) == "the kernel killed python3 because memory ran out"


def test_a_program_that_is_no_build_is_not_named() -> None:
    assert for_memory(KILLED.format(0)) == ""


def test_other_lines_of_the_kernel_name_nothing() -> None:
    assert for_memory("6,1,0,-;Linux version 7.3.4\n") == ""


@pytest.fixture
def note(tmp_path: Path) -> Path:
    return tmp_path / "note"


def test_what_the_warden_ended_is_said_once(note: Path) -> None:
    note.write_text("10 13 8 x sh, 1 x python3\n")

    said = warden.take_note(str(note))

    assert said == (
        "the implementation computed for 10 s of wall time during which no virtual time passed; "
        "its 13 processes were killed (running: 8 x sh, 1 x python3)"
    )
    assert warden.take_note(str(note)) == ""


def test_where_nothing_was_running_nothing_is_said_to_have_been(note: Path) -> None:
    note.write_text("10 4 \n")

    assert warden.take_note(str(note)).endswith("; its 4 processes were killed")


def test_a_program_whose_name_is_no_text_is_named_without_its_control_characters(note: Path) -> None:
    note.write_bytes(b"10 2 1 x \xff\x1b[2J\n")
    killed_programs = KilledPrograms(str(note))

    (said,) = killed_programs.take()
    killed_programs.close()

    assert said.endswith("(running: 1 x \ufffd\\x1b[2J)")

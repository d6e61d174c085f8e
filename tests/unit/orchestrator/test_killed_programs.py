"""What the kernel and a guest's warden ended, in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from owlt.orchestrator.hosts.host import Completed
from owlt.orchestrator.rigs.killed_programs import KilledPrograms, for_memory, take_note
from owlt.orchestrator.rigs.lab.raising import LabKilledPrograms
from owlt.orchestrator.rigs.lab.session import LabHost

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

    said = take_note(str(note))

    assert said == (
        "the implementation computed for 10 s of wall time during which no virtual time passed; "
        "its 13 processes were killed (running: 8 x sh, 1 x python3)"
    )
    assert take_note(str(note)) == ""


def test_where_nothing_was_running_nothing_is_said_to_have_been(note: Path) -> None:
    note.write_text("10 4 \n")

    assert take_note(str(note)).endswith("; its 4 processes were killed")


def test_a_program_whose_name_is_no_text_is_named_without_its_control_characters(note: Path) -> None:
    note.write_bytes(b"10 2 1 x \xff\x1b[2J\n")
    killed_programs = KilledPrograms(str(note))

    (said,) = killed_programs.take()
    killed_programs.close()

    assert said.endswith("(running: 1 x \ufffd\\x1b[2J)")


class HostWithALog:
    """A lab host whose kernel has killed so many processes, and logged each."""

    role = "receiver"

    def __init__(self, is_counting: bool = True) -> None:
        self.is_counting = is_counting
        self.kills = 0
        self.forgotten = 0
        self.was_log_read = False

    def run(self, command: Sequence[str]) -> Completed:
        """The log: `dmesg` without times."""
        assert command[0] == "dmesg"
        self.was_log_read = True
        return Completed(0, (KILLED.format(1000).partition(";")[2] * (self.kills - self.forgotten)).encode(), b"")

    def check(self, command: Sequence[str]) -> bytes:
        """The count."""
        assert command[-1] == "/proc/vmstat"
        return f"{self.kills}\n".encode() if self.is_counting else b""


def on_lab_host(host: HostWithALog) -> LabKilledPrograms:
    killed_programs = LabKilledPrograms([cast(LabHost, host)])
    host.was_log_read = False
    return killed_programs


@pytest.mark.parametrize("is_counting", [True, False])
def test_on_a_lab_host_a_kill_is_named_once(is_counting: bool) -> None:
    host = HostWithALog(is_counting)
    killed_programs = on_lab_host(host)
    host.kills = 1

    assert killed_programs.take() == ["on the receiver, the kernel killed python3 because memory ran out"]
    assert killed_programs.take() == []


def test_on_a_lab_host_a_kill_before_the_rig_was_raised_is_not_named() -> None:
    host = HostWithALog()
    host.kills = 1
    killed_programs = on_lab_host(host)
    host.kills = 2

    assert killed_programs.take() == ["on the receiver, the kernel killed python3 because memory ran out"]


def test_on_a_lab_host_a_kill_is_named_although_the_log_has_lost_earlier_ones() -> None:
    host = HostWithALog()
    host.kills = 2
    killed_programs = on_lab_host(host)
    host.kills, host.forgotten = 3, 2

    assert killed_programs.take() == ["on the receiver, the kernel killed python3 because memory ran out"]


def test_the_log_of_a_lab_host_is_not_read_without_a_new_kill() -> None:
    host = HostWithALog()

    assert on_lab_host(host).take() == []
    assert not host.was_log_read

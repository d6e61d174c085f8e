"""Exit statuses in words, of statuses that real programs end with in a real shell, and over SSH."""

from __future__ import annotations

import subprocess

import pytest

from owlt.orchestrator.hosts.printable import how_ended


def status_of(command: str) -> int:
    """What a shell says of a command that ran in a subshell, as it does of a confined program."""
    script = ["sh", "-c", '(exec "$@") 2>/dev/null; exit $?', "sh", "sh", "-c", command]
    return subprocess.run(script, capture_output=True, check=False).returncode


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("exit 1", "exited with status 1"),
        ("exit 128", "exited with status 128"),
        ("exit 193", "exited with status 193"),
        ("exit 200", "exited with status 200"),
        ("exit 255", "exited with status 255"),
        ("kill -KILL $$", "exited with status 137, by SIGKILL"),
        ("kill -SEGV $$", "exited with status 139, by SIGSEGV"),
        ("kill -TERM $$", "exited with status 143, by SIGTERM"),
        ("kill -34 $$", "exited with status 162, by SIGRTMIN"),
        ("kill -35 $$", "exited with status 163, by signal 35"),
        ("kill -64 $$", "exited with status 192, by SIGRTMAX"),
    ],
)
def test_a_real_end_is_reported_with_a_signal_only_where_one_can_be(command: str, words: str) -> None:
    assert how_ended(status_of(command)) == words


def test_what_ssh_gives_for_any_signal_is_reported_as_one() -> None:
    assert how_ended(-1) == "was killed by a signal"


def test_a_program_of_this_machine_that_a_signal_ended_is_reported_with_it() -> None:
    ended = subprocess.run(["sh", "-c", "kill -KILL $$"], check=False)

    assert how_ended(ended.returncode) == "was killed by SIGKILL"

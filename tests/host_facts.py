"""What holds of every host: of the one in memory in unit tests, of one over SSH on the local rig.

A fact raises AssertionError if it does not hold. It gets a host, a directory of its own there, the directory where
PROGRAMS are, and a directory here for logs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from owlt.orchestrator.hosts.host import Completed, Host, HostError
from owlt.orchestrator.hosts.printable import BY_SIGNAL
from owlt.orchestrator.hosts.program import Program
from tests.memory.process import Process, Script, printing

DEADLINE_S = 20.0


@dataclass(frozen=True)
class Place:
    """Where a fact is tried."""

    host: Host
    directory: str
    programs: str
    logs: Path

    def run(self, *command: str) -> Completed:
        return self.host.run(command)

    def start(self, name: str, *arguments: str, directory: str = "", terminal: bool = False) -> Program:
        command = [f"{self.programs}/{name}", *arguments]
        return self.host.start(command, directory or self.directory, self.logs / name, terminal=terminal)


Fact = Callable[[Place], None]


def answer(process: Process) -> int:
    process.write(b"name> ")
    process.print(f"hello {process.read_line()}")
    return 0


def catch(process: Process) -> int | None:
    def end() -> None:
        process.print("caught")
        process.exit(5)

    process.on("INT", end)
    process.print("ready")
    process.wait_for_signal()


def copy(process: Process) -> int:
    source, target = process.arguments
    process.write_file(target, process.read_file(source))
    return 0


def complain(process: Process) -> int:
    process.print("to its output")
    process.complain("to its errors")
    return 3


PROGRAMS: dict[str, tuple[str, Script]] = {
    "print": ("echo one; echo two", printing("one", "two")),
    "complain": ("echo to its output; echo to its errors >&2; exit 3", complain),
    "stay": ("echo ready; exec sleep 1000", printing("ready", forever=True)),
    "catch": (
        "trap 'echo caught; kill $!; exit 5' INT; sleep 1000 & echo ready; while :; do wait; done",
        catch,
    ),
    "answer": ("stty -echo; printf 'name> '; read -r name; echo \"hello $name\"", answer),
    "copy": ('cat "$1" >"$2"', copy),
}
"""By name: what it is in sh, and in memory."""


def a_command_has_its_output_and_status(place: Place) -> None:
    done = place.run(f"{place.programs}/complain")
    assert done == Completed(3, b"to its output\n", b"to its errors\n")


def a_command_that_is_not_there_has_the_status_of_a_shell(place: Place) -> None:
    assert place.run("no-such-command").exit_status == 127


def a_check_that_fails_says_what_the_command_said(place: Place) -> None:
    with pytest.raises(HostError, match=r"complain' exited with status 3: to its errors$"):
        place.host.check([f"{place.programs}/complain"])


def a_file_is_read_as_it_was_written(place: Place) -> None:
    path = f"{place.directory}/file"
    place.host.write_file(path, b"12345")
    assert place.host.read_file(path, 100) == b"12345"
    assert place.host.read_file(path, 2) == b"12"


def a_file_is_replaced(place: Place) -> None:
    path = f"{place.directory}/file"
    place.host.write_file(path, b"12345")
    place.host.write_file(path, b"1")
    assert place.host.read_file(path, 100) == b"1"


def a_file_is_fetched(place: Place) -> None:
    place.host.write_file(f"{place.directory}/file", b"12345")
    place.host.fetch_file(f"{place.directory}/file", place.logs / "fetched")
    assert (place.logs / "fetched").read_bytes() == b"12345"


def a_file_that_is_not_there_cannot_be_read(place: Place) -> None:
    with pytest.raises(OSError):
        place.host.read_file(f"{place.directory}/none", 100)


def a_file_in_no_directory_cannot_be_written(place: Place) -> None:
    with pytest.raises(OSError):
        place.host.write_file(f"{place.directory}/none/file", b"")


def directories_are_made_with_those_above(place: Place) -> None:
    assert place.run("mkdir", "-p", f"{place.directory}/a/b").exit_status == 0
    assert place.run("test", "-e", f"{place.directory}/a/b").exit_status == 0
    assert place.run("test", "-f", f"{place.directory}/a/b").exit_status == 1


def a_directory_is_removed_with_all_in_it(place: Place) -> None:
    place.run("mkdir", "-p", f"{place.directory}/a/b")
    assert place.run("rm", "-rf", f"{place.directory}/a").exit_status == 0
    assert place.run("test", "-e", f"{place.directory}/a").exit_status == 1


def a_file_has_a_hash_and_what_is_none_has_not(place: Place) -> None:
    path = f"{place.directory}/file"
    place.host.write_file(path, b"12345")
    digest = b"5994471abb01112afcc18159f6cc74b4f511b99806da59b3caf5a9c173cacfc5"
    assert place.run("sha256sum", path) == Completed(0, digest + b"  " + path.encode() + b"\n", b"")
    assert place.run("sha256sum", f"{place.directory}/none").exit_status == 1


def the_files_below_a_directory_are_found_with_their_sizes(place: Place) -> None:
    place.run("mkdir", "-p", f"{place.directory}/a")
    place.host.write_file(f"{place.directory}/a/file", b"12345")
    found = place.host.files_below(place.directory, f"{place.directory}/none")
    assert found is not None
    assert [(each.path, each.size_bytes) for each in found] == [(f"{place.directory}/a/file", 5)]


def the_kind_and_size_of_a_file_are_told(place: Place) -> None:
    place.host.write_file(f"{place.directory}/file", b"12345")
    told = place.run("stat", "--printf=%f %s %B\\n", "--", place.directory, f"{place.directory}/file")
    directory, file = told.stdout.decode().splitlines()
    assert directory.startswith("4")
    assert file == "81a4 5 512"
    assert place.run("stat", "--printf=%s", "--", f"{place.directory}/none").exit_status == 1


def a_file_system_has_room(place: Place) -> None:
    assert int(place.run("stat", "--file-system", "--format=%a", place.directory).stdout) > 0


def the_end_of_a_file_is_told(place: Place) -> None:
    place.host.write_file(f"{place.directory}/file", b"12345")
    assert place.run("tail", "--bytes", "2", "--", f"{place.directory}/file").stdout == b"45"
    assert place.run("tail", "--bytes", "20", "--", f"{place.directory}/file").stdout == b"12345"


def a_real_path_is_told_where_it_exists(place: Place) -> None:
    place.host.write_file(f"{place.directory}/file", b"")
    paths = [place.directory, f"{place.directory}/file"]
    told = place.run("realpath", "--canonicalize-existing", "--", *paths)
    assert told.stdout.decode().splitlines() == paths
    assert place.run("realpath", "--canonicalize-existing", "--", f"{place.directory}/none").exit_status == 1


def a_kernel_setting_that_is_not_there_cannot_be_read(place: Place) -> None:
    assert place.run("sysctl", "-n", "net.ipv4.no_such_setting").exit_status not in (0, 127)


def a_program_has_its_output_its_logs_and_its_status(place: Place) -> None:
    program = place.start("complain")
    assert program.wait(DEADLINE_S) == 3
    assert (program.output("out"), program.output("err")) == ("to its output\n", "to its errors\n")
    assert (place.logs / "complain.err").read_text() == "to its errors\n"
    assert program.last_words == "; its last line: 'to its errors'"


def a_program_runs_in_its_directory(place: Place) -> None:
    place.host.write_file(f"{place.directory}/from", b"12345")
    assert place.start("copy", "from", "to").wait(DEADLINE_S) == 0
    assert place.host.read_file(f"{place.directory}/to", 100) == b"12345"


def a_program_in_no_directory_does_not_start(place: Place) -> None:
    program = place.start("print", directory=f"{place.directory}/none")
    assert program.wait(DEADLINE_S) not in (0, None)
    assert program.output() == ""


def a_program_that_is_not_there_has_the_status_of_a_shell(place: Place) -> None:
    assert place.start("no-such-program").wait(DEADLINE_S) == 127


def a_line_is_awaited(place: Place) -> None:
    program = place.start("stay")
    assert program.wait_for_line("^ready$", DEADLINE_S)
    assert program.running
    program.stop("KILL")


def a_line_is_awaited_no_longer_than_the_program_runs(place: Place) -> None:
    assert not place.start("print").wait_for_line("^three$", DEADLINE_S)


def a_program_that_a_signal_ends_has_no_status_of_its_own(place: Place) -> None:
    program = place.start("stay")
    program.wait_for_line("^ready$", DEADLINE_S)
    assert program.stop("TERM") == BY_SIGNAL


def a_program_can_catch_a_signal(place: Place) -> None:
    program = place.start("catch")
    program.wait_for_line("^ready$", DEADLINE_S)
    assert program.stop("INT", DEADLINE_S) == 5
    assert program.output() == "ready\ncaught\n"


def a_program_that_has_ended_is_not_stopped_again(place: Place) -> None:
    program = place.start("print")
    program.wait(DEADLINE_S)
    assert program.stop() == 0


def a_program_at_a_terminal_is_typed_to(place: Place) -> None:
    program = place.start("answer", terminal=True)
    assert program.expect("name> ", DEADLINE_S)
    program.type("Ada")
    assert program.wait_for_line("hello Ada", DEADLINE_S)
    assert program.wait(DEADLINE_S) == 0


def an_end_is_news(place: Place) -> None:
    news = threading.Condition()
    program = place.host.start([f"{place.programs}/print"], place.directory, place.logs / "print", news)
    with news:
        assert news.wait_for(lambda: not program.running, DEADLINE_S)


FACTS: dict[str, Fact] = {
    name: fact
    for name, fact in list(globals().items())
    if name.startswith(("a_", "an_", "the_", "directories_")) and callable(fact)
}

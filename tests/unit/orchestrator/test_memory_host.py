"""The host in memory: what holds of every host, and what a test can have it do."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from owlt.orchestrator.hosts.confinement import NO_SUCH_PROGRAM, Confinement, Room
from owlt.orchestrator.hosts.host import ANSWER_BYTES, FLOODED, LATE, HostError
from tests.host_facts import DEADLINE_S, FACTS, PROGRAMS, Place
from tests.memory.host import MemoryHost
from tests.memory.process import Process, Script, printing

DIRECTORY = "/owlt/place"
ROOM = Room("/owlt", "/owlt/place.mounts", 10**6)


@pytest.fixture
def host() -> MemoryHost:
    host = MemoryHost("sender")
    host.files.make_directory(DIRECTORY)
    for name, (_, script) in PROGRAMS.items():
        host.install(f"/opt/{name}", script)
    return host


@pytest.mark.parametrize("fact", FACTS)
def test_what_holds_of_every_host_holds_in_memory(fact: str, host: MemoryHost, tmp_path: Path) -> None:
    FACTS[fact](Place(host, DIRECTORY, "/opt", tmp_path))


def confined(host: MemoryHost, logs: Path, script: Script) -> tuple[int | None, str]:
    """How a confined program ends, and its errors."""
    host.install("/opt/foreign", script)
    program = host.start_foreign(
        ["/opt/foreign"],
        DIRECTORY,
        logs / "foreign",
        threading.Condition(),
        Confinement(ROOM, {"A": "1"}),
    )
    return program.wait(DEADLINE_S), program.output("err")


def test_a_confined_program_writes_into_its_run_directory_and_nowhere_else(host: MemoryHost, tmp_path: Path) -> None:
    def write(process: Process) -> None:
        process.write_file("mine", b"")
        process.write_file("/owlt/other", b"")

    status, errors = confined(host, tmp_path, write)

    assert status == 1
    assert "Read-only file system: '/owlt/other'" in errors
    assert host.files.below("/owlt") == ["/owlt/place/mine"]


def test_a_confined_program_has_its_environment(host: MemoryHost, tmp_path: Path) -> None:
    assert confined(host, tmp_path, lambda process: int(process.environment["A"])) == (1, "")


def test_a_confined_program_that_is_not_there_has_a_status_of_its_own(host: MemoryHost, tmp_path: Path) -> None:
    host.files.remove("/opt/print")
    program = host.start_foreign(["/opt/print"], DIRECTORY, tmp_path / "x", threading.Condition(), Confinement(ROOM))

    assert program.wait(DEADLINE_S) == NO_SUCH_PROGRAM
    assert program.last_line == "owlt: /opt/print: there is no such program on this host"


def test_a_confined_program_that_a_signal_ends_has_the_status_of_its_shell(host: MemoryHost, tmp_path: Path) -> None:
    def end(process: Process) -> None:
        process.deliver("TERM")
        process.wait_for_signal()

    assert confined(host, tmp_path, end)[0] == 128 + 15


def test_a_command_that_waits_for_ever_is_past_its_deadline(host: MemoryHost) -> None:
    host.install("/opt/waits", printing("waiting", forever=True))

    done = host.run_foreign(["/opt/waits"], 20.0)

    assert (done.exit_status, done.stdout) == (LATE, b"waiting\n")


def test_a_command_that_floods_its_output_is_cut(host: MemoryHost) -> None:
    host.install("/opt/floods", printing("x" * (ANSWER_BYTES + 1)))

    done = host.run(["/opt/floods"])

    assert (done.exit_status, len(done.stdout)) == (FLOODED, ANSWER_BYTES)


def test_options_that_owlt_does_not_use_are_refused(host: MemoryHost) -> None:
    with pytest.raises(HostError, match="does not know"):
        host.run(["rm", "--interactive", "/"])


def test_a_script_that_nobody_gave_is_refused(host: MemoryHost) -> None:
    with pytest.raises(HostError, match="does not know"):
        host.run(["sh", "-c", "reboot"])


def test_a_command_of_the_tests_own_takes_the_place_of_one(host: MemoryHost) -> None:
    host.commands["true"] = host.commands["false"]

    assert host.run(["true"]).exit_status == 1


def test_commands_are_noted_in_their_order(host: MemoryHost) -> None:
    host.run(["true"])
    host.run(["false"])

    assert host.ran == [["true"], ["false"]]


@pytest.mark.parametrize("call", ["run", "read_file", "write_file", "start"])
def test_a_host_that_is_lost_does_nothing_any_more(host: MemoryHost, tmp_path: Path, call: str) -> None:
    host.lose()
    calls = {
        "run": lambda: host.run(["true"]),
        "read_file": lambda: host.read_file("/owlt/x", 1),
        "write_file": lambda: host.write_file("/owlt/x", b""),
        "start": lambda: host.start(["/opt/print"], DIRECTORY, tmp_path / "x"),
    }

    with pytest.raises(HostError, match=r"sender: the connection was lost before .*: it was switched off"):
        calls[call]()


def test_programs_on_a_host_that_is_lost_have_ended(host: MemoryHost, tmp_path: Path) -> None:
    program = host.start(["/opt/stay"], DIRECTORY, tmp_path / "x")
    host.lose()

    assert program.wait(DEADLINE_S) == -1


def test_a_file_system_takes_no_more_than_its_size(host: MemoryHost) -> None:
    host.files.mount("/owlt/small", 10)

    with pytest.raises(OSError, match="No space left"):
        host.write_file("/owlt/small/file", b"x" * 11)
    host.write_file("/owlt/small/file", b"x" * 10)


def test_a_link_leads_to_its_target_and_is_seen_as_a_link(host: MemoryHost) -> None:
    host.write_file("/owlt/file", b"12345")
    host.files.link("/owlt/link", "file")

    assert host.read_file("/owlt/link", 10) == b"12345"
    assert host.run(["stat", "--printf=%f", "--", "/owlt/link"]).stdout.startswith(b"a")
    assert host.run(["realpath", "--canonicalize-existing", "--", "/owlt/link"]).stdout == b"/owlt/file\n"


def test_links_in_a_circle_lead_nowhere(host: MemoryHost) -> None:
    host.files.link("/owlt/one", "two")
    host.files.link("/owlt/two", "one")

    assert host.run(["test", "-e", "/owlt/one"]).exit_status == 1


def test_a_route_is_there_once(host: MemoryHost) -> None:
    assert host.run(["ip", "route", "add", "10.0.0.1/32", "dev", "x"]).exit_status == 0
    assert host.run(["ip", "route", "add", "10.0.0.1/32", "dev", "y"]).exit_status == 2
    assert host.run(["ip", "route", "del", "10.0.0.1/32", "dev", "x"]).exit_status == 0
    assert host.run(["ip", "route", "del", "10.0.0.1/32", "dev", "x"]).exit_status == 2

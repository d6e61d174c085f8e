"""What a program can read from the processor and the system, and programs that read it: a run performed twice on the
exact clock, on two processors."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import owlt_program
from tests.conftest import require, require_command
from tests.system.conftest import compiled, in_guest
from tests.system.sweeps import PROJECT, sweep_file
from tests.system.test_independence import captures_of

PROGRAMS = Path(__file__).parent / "programs"
COURIER = in_guest(str(PROGRAMS / "courier.py"))
BY_THE_PROCESSOR = ["rdrand", "rdseed", "rdpid", "lsl_cpu", "cpuid_processor", "cpuid_x2apic"]
"""Instructions that a guest cannot trap: documented as not repeatable."""
MEMORY = ["sysinfo_free", "/proc/meminfo", "/proc/buddyinfo", "/proc/zoneinfo", "/proc/vmstat"]
BY_THE_HOST = ["free:", "accessed:", *MEMORY]
"""Of the host's files, which others change meanwhile; the guest's free memory follows from them: so documented."""
SAME_IN_EACH_RUN = 120
"""Sources that the program prints on a processor with few of the instructions, and that have to be repeatable."""
TOLD_NS = 1_000_000_000
TCP, UDP = {"tcp_ports": ["{port}"]}, {"udp_ports": ["{port}"]}


def implementation(directory: Path, name: str, receiver: list[str], sender: list[str], session: object) -> Path:
    """The profile of a program of this test, whose receiver listens when its port is bound."""
    ready = {"udp_port": "{port}"} if session == UDP else {"tcp_port": "{port}"}
    profile = {
        "name": name,
        "title": name,
        "protocol": "NONE",
        "description": "a program of a test",
        "parameters": {"port": 5001},
        "starts_first": "receiver",
        "receiver": {"command": receiver, "ready": ready},
        "sender": {"command": sender},
        "session": session,
        "done": "file_delivered",
        "time_limit": {"rtts": 100, "file_times": 100, "extra_s": 60},
    }
    path = directory / f"{name}.yaml"
    path.write_text(json.dumps(profile))
    return path


def carried(directory: Path, name: str, program: list[str], session: object = TCP) -> Path:
    """The profile of a courier, which is called in the same way on both sides."""
    receiver = [*program, "receive", "{receiver_address}", "{port}", "{received_file}"]
    return implementation(
        directory, name, receiver, [*program, "send", "{receiver_address}", "{port}", "{file}"], session
    )


def sources(directory: Path) -> Path:
    program = str(compiled("sources.c", directory))
    peer = ["{receiver_address}", "{port}"]
    tell = ["{python}", COURIER, "tell", *peer, "{file}", in_guest(program), *BY_THE_PROCESSOR, *BY_THE_HOST]
    return implementation(directory, "sources", ["{python}", COURIER, "receive", *peer, "{received_file}"], tell, TCP)


def udt(directory: Path) -> Path:
    require(Path("/usr/include/udt/udt.h").exists(), "libudt (apt-get install libudt-dev)")
    program = str(directory / "udt")
    subprocess.run([require_command("g++"), "-O1", "-o", program, PROGRAMS / "udt_courier.cc", "-ludt"], check=True)
    return carried(directory, "udt", [in_guest(program)], UDP)


def kcptun(directory: Path) -> Path:
    receiver, sender = (require_command(f"kcptun-{side}") for side in ("server", "client"))
    courier = '& exec "$0" "$1"'
    receives = f'"$2" -t 127.0.0.1:6000 -l "$3:$4" --quiet {courier} receive 127.0.0.1 6000 "$5"'
    sends = '"$2" -r "$3:$4" -l 127.0.0.1:6000 --quiet & sleep 1; exec "$0" "$1" send 127.0.0.1 6000 "$5"'
    arguments = ["{python}", COURIER]
    tunnel = ["{receiver_address}", "{port}"]
    return implementation(
        directory,
        "kcptun",
        ["sh", "-c", receives, *arguments, receiver, *tunnel, "{received_file}"],
        ["sh", "-c", sends, *arguments, sender, *tunnel, "{file}"],
        UDP,
    )


def java(directory: Path) -> Path:
    subprocess.run([require_command("javac"), "-d", directory, PROGRAMS / "Courier.java"], check=True)
    return carried(
        directory, "java", [require_command("java"), "-Xshare:off", "-cp", in_guest(str(directory)), "Courier"]
    )


IMPLEMENTATIONS = {"sources": sources, "udt": udt, "kcptun": kcptun, "java": java}


@pytest.fixture(scope="module")
def built() -> Iterator[Path]:
    """A directory that guests see."""
    with tempfile.TemporaryDirectory(prefix=".built-", dir=PROJECT / "tests") as name:
        yield Path(name)


def run_twice(profile: Path, directory: Path) -> list[Path]:
    """The results of the same sweep, performed twice, on the first and on the last processor."""
    runs: list[Path] = []
    for cpu in (min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))):
        results = directory / str(len(runs))
        sweep = sweep_file(
            directory,
            implementations=[str(profile)],
            file_size="50 kB",
            packet_error_rate=0.01,
            keep_captures="full",
            certify=False,
        )
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {cpu})
        try:
            done = owlt_program("run", sweep, "--results", results, "--no-report")
        finally:
            os.sched_setaffinity(0, allowed)
        assert done.returncode == 0, done.stdout + done.stderr
        runs.append(results)
    return runs


@pytest.fixture(scope="module")
def printed(
    tmp_path_factory: pytest.TempPathFactory, guest_kernel: object, built: Path
) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """What the program printed in each of two runs, by source, and the captures of each."""
    runs = run_twice(sources(built), tmp_path_factory.mktemp("sources"))
    outputs = [next(results.glob("runs/*/sender.out")).read_text().splitlines() for results in runs]
    return [dict(line.split(" ", 1) for line in output) for output in outputs], [captures_of(run) for run in runs]


def test_two_runs_of_a_program_differ_only_in_what_the_processor_or_the_host_answers(
    printed: tuple[list[dict[str, str]], list[dict[str, str]]],
) -> None:
    (first, second), _ = printed
    different = {name for name in first | second if first.get(name) != second.get(name)}
    assert {name for name in different if not name.startswith((*BY_THE_PROCESSOR, *BY_THE_HOST))} == set()
    assert len(first) - len(different) >= SAME_IN_EACH_RUN


def test_random_numbers_of_the_processor_differ(printed: tuple[list[dict[str, str]], list[dict[str, str]]]) -> None:
    """The control: values that cannot be repeated differ."""
    (first, second), _ = printed
    require("rdrand" in first, "a processor with RDRAND")
    assert first["rdrand"] != second["rdrand"]


def test_packets_that_carry_what_the_sources_say_are_the_same(
    printed: tuple[list[dict[str, str]], list[dict[str, str]]],
) -> None:
    _, (first, second) = printed
    assert first == second
    assert len(first) == 2


def test_the_time_stamp_counter_has_a_frequency_of_1_ghz_of_virtual_time(
    printed: tuple[list[dict[str, str]], list[dict[str, str]]],
) -> None:
    (first, _), _ = printed
    assert int(first["rdtsc_of_100_ms"]) == pytest.approx(0.1 * TOLD_NS, rel=0.001)
    assert abs(int(first["rdtsc_behind_clock"])) <= 1000
    assert int(first["rdtsc"]) < int(first["rdtscp"]) < int(first["rdtsc_prefixed"])
    assert (first["rdtsc_step"], first["rdtscp_cpu"]) == ("256", "0")


def test_a_loop_that_waits_for_a_signal_by_reading_the_counter_ends(
    printed: tuple[list[dict[str, str]], list[dict[str, str]]],
) -> None:
    """2 ms of readings of 256 ns each."""
    (first, _), _ = printed
    assert int(first["reads_until_alarm"]) == pytest.approx(2_000_000 / 256, rel=0.01)


@pytest.mark.parametrize("name", [name for name in IMPLEMENTATIONS if name != "sources"])
def test_a_program_whose_runtime_reads_the_counter_sends_the_same_packets_again(
    name: str, tmp_path: Path, guest_kernel: object, built: Path
) -> None:
    first, second = map(captures_of, run_twice(IMPLEMENTATIONS[name](built), tmp_path))
    assert first == second
    assert len(first) == 2

"""Who can connect to `owlt worker` with a scheduler on loopback: nobody from another namespace."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import require

MACHINE, OTHER = "owlt-test-machine", "owlt-test-other"
ADDRESSES = ("192.0.2.1", "2001:db8::1")
PATIENCE_S = 60.0
PROGRAMS = Path(sys.executable).parent
CONNECT = """
import socket, sys
for text in sys.argv[1:]:
    host, port = text.rsplit("|", 1)
    try:
        socket.create_connection((host, int(port)), 2).close()
        print(text)
    except OSError:
        pass
"""


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def within(namespace: str, *command: str) -> list[str]:
    return ["ip", "netns", "exec", namespace, *command]


@pytest.fixture
def machine() -> Iterator[None]:
    """A namespace with a link to another one; both have an IPv4 and an IPv6 address."""
    require(run("ip", "netns", "add", MACHINE).returncode == 0, "network namespaces")
    try:
        run("ip", "netns", "add", OTHER)
        run("ip", "-n", MACHINE, "link", "add", "link0", "type", "veth", "peer", "name", "link0", "netns", OTHER)
        for namespace, last in ((MACHINE, 1), (OTHER, 2)):
            for address in (f"192.0.2.{last}/24", f"2001:db8::{last}/64"):
                run("ip", "-n", namespace, "address", "add", address, "dev", "link0", "nodad")
            for link in ("lo", "link0"):
                run("ip", "-n", namespace, "link", "set", link, "up")
        yield
    finally:
        for namespace in (MACHINE, OTHER):
            run("ip", "netns", "del", namespace)


@pytest.fixture
def start(machine: None, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts programs on the machine, which end with the test; each writes its console to a file."""
    with ExitStack() as stack:

        def start(name: str, *command: str) -> subprocess.Popen[bytes]:
            console = stack.enter_context((tmp_path / name).open("wb"))
            program = subprocess.Popen(
                within(MACHINE, *command), stdout=console, stderr=subprocess.STDOUT, cwd=tmp_path
            )
            stack.callback(program.wait)
            stack.callback(program.terminate)
            return program

        yield start


def wait_for(is_so: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end_s, what
        time.sleep(0.1)


def ports_in_use() -> list[str]:
    lines = run(*within(MACHINE, "ss", "-Hltn")).stdout.splitlines()
    return sorted({line.split()[3].rpartition(":")[2] for line in lines})


def reached(ports: Sequence[str]) -> list[str]:
    """The ports, with the machine's addresses, that accept a connection from the other namespace."""
    targets = [f"{address}|{port}" for address in ADDRESSES for port in ports]
    return run(*within(OTHER, sys.executable, "-c", CONNECT, *targets)).stdout.split()


def start_scheduler(start: Callable[..., subprocess.Popen[bytes]], *options: str) -> None:
    start("scheduler", str(PROGRAMS / "dask"), "scheduler", "--port", "8786", "--no-dashboard", *options)
    wait_for(lambda: "8786" in ports_in_use(), "the scheduler listens")


def test_a_worker_whose_scheduler_is_on_loopback_is_unreachable_from_other_machines(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    start_scheduler(start, "--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")
    start("control", sys.executable, "-m", "http.server", "8999", "--bind", "::")
    start("worker", str(PROGRAMS / "owlt"), "worker", "--scheduler", "tcp://127.0.0.1:8786")
    wait_for(lambda: b"offers" in (tmp_path / "worker").read_bytes(), "the worker is connected")
    wait_for(lambda: "8999" in ports_in_use(), "the control listens")

    assert len(ports_in_use()) == 5, "scheduler, worker, the page of each, control"
    assert reached(ports_in_use()) == [f"{address}|8999" for address in ADDRESSES]


def test_a_worker_refuses_a_scheduler_whose_page_other_machines_can_reach(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    start_scheduler(start, "--host", "127.0.0.1")
    assert reached(ports_in_use()), "the fault that it has to find"

    worker = start("worker", str(PROGRAMS / "owlt"), "worker", "--scheduler", "tcp://127.0.0.1:8786")

    assert worker.wait(PATIENCE_S) == 2
    assert "has no authentication and listens on 0.0.0.0 (port 8787)" in (tmp_path / "worker").read_text()


def test_a_sweep_refuses_a_scheduler_that_other_machines_can_reach(
    start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    start_scheduler(start)
    sweep = start("sweep", str(PROGRAMS / "owlt"), "run", "demo", "--dask", "tcp://127.0.0.1:8786")

    assert sweep.wait(PATIENCE_S) == 2
    assert "has no authentication and listens on 0.0.0.0 (port 8786)" in (tmp_path / "sweep").read_text()

"""Ports that others live on or serve, in a namespace of this machine's kernel."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.conftest import require

NAMESPACE = "owlt-test-ports"
TAKE = "from owlt.emulator.service.emulator import Emulator; Emulator('a0', 'b0'); print('taken')"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def inside(*command: str) -> subprocess.CompletedProcess[str]:
    return run("ip", "netns", "exec", NAMESPACE, *command)


@pytest.fixture
def ports() -> Iterator[None]:
    """Two ports, a0 and b0, in a namespace."""
    require(run("ip", "netns", "add", NAMESPACE).returncode == 0, "network namespaces")
    try:
        for name in ("a", "b"):
            inside("ip", "link", "add", f"{name}0", "type", "veth", "peer", "name", f"{name}1")
        yield
    finally:
        run("ip", "netns", "del", NAMESPACE)


def test_a_port_that_carries_an_interface_with_an_address_is_refused(ports: None) -> None:
    made = inside("ip", "link", "add", "link", "a0", "name", "upper0", "type", "macvlan")
    require(made.returncode == 0, "macvlan in this kernel")
    assert inside(sys.executable, "-c", TAKE).stdout == "taken\n", "nobody lives on it yet"
    inside("ip", "address", "add", "192.0.2.1/24", "dev", "upper0")

    refused = inside(sys.executable, "-c", TAKE)
    assert "port a0: carries upper0, which has the address 192.0.2.1" in refused.stderr


def test_a_port_that_another_emulator_serves_is_refused(ports: None) -> None:
    twice = "from owlt.emulator.service.emulator import Emulator; first = Emulator('a0', 'b0'); Emulator('b0', 'a0')"

    assert "got an emulator that serves it already" in inside(sys.executable, "-c", twice).stderr


def test_ports_are_free_again_when_their_emulator_has_ended(ports: None) -> None:
    again = (
        "from owlt.emulator.service.emulator import Emulator; Emulator('a0', 'b0').stop(); Emulator('a0', 'b0').stop()"
    )

    assert inside(sys.executable, "-c", again).returncode == 0


def test_what_is_served_is_not_cleared_by_somebody_else(ports: None) -> None:
    clearing = (
        "from owlt.emulator.service.emulator import Emulator; from owlt.emulator.__main__ import main; "
        "first = Emulator('a0', 'b0'); print(main(['--clear', '--sender-port', 'a0', '--receiver-port', 'b0']))"
    )
    told = inside(sys.executable, "-c", clearing)

    assert told.stdout == "1\n"
    assert "serves it already" in told.stderr


@pytest.mark.parametrize(
    ("before", "ends"), [(["env", "--default-signal=HUP"], True), (["nohup"], False)], ids=["plain", "nohup"]
)
def test_a_closed_terminal_ends_the_service_but_not_under_nohup(ports: None, before: list[str], ends: bool) -> None:
    inside("ip", "link", "set", "lo", "up")
    service = [
        sys.executable,
        "-m",
        "owlt.emulator",
        "--listen",
        "127.0.0.1:0",
        "--sender-port",
        "a0",
        "--receiver-port",
        "b0",
    ]
    command = ["ip", "netns", "exec", NAMESPACE, *before, *service]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
        assert program.stdout is not None
        address = program.stdout.readline().split()[-1]
        program.send_signal(signal.SIGHUP)
        if ends:
            assert program.wait(30) == 0, "it cleared the channel"
        else:
            asking = (
                f"from owlt.emulator.service.client import EmulatorClient; EmulatorClient('http://{address}').version()"
            )
            assert inside(sys.executable, "-c", asking).returncode == 0
            program.terminate()
            assert program.wait(30) == 0

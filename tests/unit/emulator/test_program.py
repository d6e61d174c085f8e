"""The service as a program: where it listens, how it begins and what it loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from emulator.server import parse_listen_address


def emulator(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "emulator", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def python(text: str) -> str:
    return subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8765", ("127.0.0.1", 8765)),
        ("10.78.0.3:0", ("10.78.0.3", 0)),
        ("192.168.100.3:80", ("192.168.100.3", 80)),
        ("[::1]:8765", ("::1", 8765)),
        ("[fd00::3]:8765", ("fd00::3", 8765)),
    ],
)
def test_a_loopback_or_private_address_is_taken(text: str, address: tuple[str, int]) -> None:
    assert parse_listen_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0:8765",
        "[::]:8765",
        "8.8.8.8:8765",
        "[2001:4860:4860::8888]:8765",
        "[::ffff:0.0.0.0]:80",
        "[::ffff:8.8.8.8]:80",
    ],
)
def test_an_address_that_anybody_reaches_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="wanted a loopback address or that of the management interface"):
        parse_listen_address(text)


@pytest.mark.parametrize(
    "text", ["", "8765", ":8765", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", "localhost:80", "::1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"wanted ADDRESS:PORT, as in 127\.0\.0\.1:8765"):
        parse_listen_address(text)


def test_a_service_that_may_not_listen_there_does_not_begin() -> None:
    done = emulator("--listen", "0.0.0.0:0", "--sender-port", "lo", "--receiver-port", "lo")

    assert done.returncode == 2
    assert done.stderr.startswith("emulator: listen address: got 0.0.0.0")


def test_a_service_without_its_ports_does_not_begin() -> None:
    done = emulator("--listen", "127.0.0.1:0", "--sender-port", "no-such0", "--receiver-port", "no-such1")

    assert done.returncode == 2
    assert "port no-such0: got no such interface" in done.stderr


def test_the_help_names_every_option() -> None:
    told = emulator("--help").stdout

    assert all(option in told for option in ("--listen", "--sender-port", "--receiver-port"))


def test_a_client_loads_no_netlink() -> None:
    assert python("import emulator.client, sys; print([m for m in sys.modules if 'pyroute2' in m])") == "[]"


def test_the_service_loads_the_routing_part_of_pyroute2_only() -> None:
    loaded = python("import emulator.__main__, sys; print(*sys.modules)").split()

    assert "pyroute2.iproute.linux" in loaded
    assert not {"pyroute2.ndb", "pyroute2.netlink.nl80211", "pyroute2.netlink.nfnetlink"} & set(loaded)


def test_pyroute2_is_whole_for_who_imports_it_afterwards() -> None:
    text = "import emulator.rtnetlink as ours, pyroute2; print(pyroute2.IPRoute is ours.IPRoute, pyroute2.NDB.__name__)"

    assert python(text) == "True NDB"


def test_pyroute2_imported_before_is_used_as_it_is() -> None:
    assert python("import pyroute2, emulator.rtnetlink as ours; print(pyroute2.IPRoute is ours.IPRoute)") == "True"

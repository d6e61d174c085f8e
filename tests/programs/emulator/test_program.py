"""The service as a program: where it listens, how it begins and what it loads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from owlt.emulator.__main__ import main
from owlt.emulator.service.server import parse_listen_address

NO_PORTS = ("--sender-port", "no-such0", "--receiver-port", "no-such1")
"""Whatever else is wrong is found before these are."""


def emulator(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "owlt.emulator", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def written(path: Path, content: str, mode: int = 0o600) -> Path:
    path.write_text(content)
    path.chmod(mode)
    return path


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
    with pytest.raises(ValueError, match="expected a loopback address or the management interface's"):
        parse_listen_address(text)


@pytest.mark.parametrize(
    "text", ["", "8765", ":8765", "127.0.0.1", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:65536", "localhost:80", "::1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected ADDRESS:PORT, as in 127\.0\.0\.1:8765"):
        parse_listen_address(text)


def test_a_service_that_may_not_listen_there_does_not_begin() -> None:
    done = emulator("--listen", "0.0.0.0:0", "--sender-port", "lo", "--receiver-port", "lo")

    assert done.returncode == 2
    assert done.stderr.startswith("emulator: --listen: got 0.0.0.0, expected a loopback address")


def test_a_service_without_its_ports_does_not_begin() -> None:
    done = emulator("--listen", "127.0.0.1:0", "--sender-port", "no-such0", "--receiver-port", "no-such1")

    assert done.returncode == 2
    assert "port no-such0: got no such interface" in done.stderr


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:0"])
def test_a_service_on_loopback_needs_no_token(address: str) -> None:
    assert "port no-such0" in emulator("--listen", address, *NO_PORTS).stderr


def test_a_service_on_another_address_does_not_begin_without_a_token() -> None:
    done = emulator("--listen", "192.168.100.3:0", *NO_PORTS)

    assert done.returncode == 2
    assert "192.168.100.3 requires a token" in done.stderr


@pytest.mark.parametrize("way", ["--token-file", "--no-token"])
def test_a_service_on_another_address_begins_with_a_token_or_if_it_is_configured_without_one(
    tmp_path: Path, way: str
) -> None:
    options = [way] if way == "--no-token" else [way, str(written(tmp_path / "token", "correct-horse-battery"))]

    assert "port no-such0" in emulator("--listen", "192.168.100.3:0", *options, *NO_PORTS).stderr


def test_a_service_whose_token_others_may_read_does_not_begin(tmp_path: Path) -> None:
    token = written(tmp_path / "token", "correct-horse-battery", mode=0o644)
    done = emulator("--listen", "127.0.0.1:0", "--token-file", str(token), *NO_PORTS)

    assert done.returncode == 2
    assert f"token file {token}: others may read it (mode 0644)" in done.stderr
    assert f"chmod 600 {token}" in done.stderr


def test_a_service_without_the_token_file_does_not_begin(tmp_path: Path) -> None:
    done = emulator("--listen", "127.0.0.1:0", "--token-file", str(tmp_path / "token"), *NO_PORTS)

    assert done.returncode == 2
    assert f"token file {tmp_path / 'token'}: No such file or directory" in done.stderr


def test_a_token_and_no_token_are_too_much(tmp_path: Path) -> None:
    done = emulator("--listen", "127.0.0.1:0", "--token-file", "token", "--no-token", *NO_PORTS)

    assert done.returncode == 2
    assert "not allowed with" in done.stderr


def test_a_usage_error_is_one_line_with_the_command_that_was_typed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--listen", "127.0.0.1:0", "--sender-port", "a"], "owlt emulator serve")

    assert end.value.code == 2
    missing = "owlt: emulator serve: --receiver-port is missing; see: owlt emulator serve --help\n"
    assert capsys.readouterr().err == missing


def test_a_certificate_needs_its_key() -> None:
    done = emulator("--listen", "127.0.0.1:0", "--tls-certificate", "certificate.pem", *NO_PORTS)

    assert done.returncode == 2
    assert "got only one of --tls-certificate and --tls-key, expected both or neither" in done.stderr


def test_a_certificate_that_is_none_is_reported(tmp_path: Path) -> None:
    no_pem = written(tmp_path / "certificate.pem", "no PEM")
    done = emulator("--listen", "127.0.0.1:0", "--tls-certificate", str(no_pem), "--tls-key", str(no_pem), *NO_PORTS)

    assert done.returncode == 2
    assert f"certificate {no_pem} and key {no_pem}: " in done.stderr


def test_a_service_needs_to_know_where_to_listen() -> None:
    done = emulator(*NO_PORTS)

    assert done.returncode == 2
    assert "--listen is missing; give ADDRESS:PORT" in done.stderr


def test_the_help_names_every_option() -> None:
    told = emulator("--help").stdout

    options = "--listen --sender-port --receiver-port --token-file --no-token --tls-certificate --tls-key --clear"
    assert all(option in told for option in options.split())


def test_a_client_loads_no_netlink() -> None:
    assert (
        python("import owlt.emulator.service.client, sys; print([m for m in sys.modules if 'pyroute2' in m])") == "[]"
    )


def test_the_service_loads_the_routing_part_of_pyroute2_only() -> None:
    loaded = python("import owlt.emulator.__main__, sys; print(*sys.modules)").split()

    assert "pyroute2.iproute.linux" in loaded
    assert not {"pyroute2.ndb", "pyroute2.netlink.nl80211", "pyroute2.netlink.nfnetlink"} & set(loaded)


def test_pyroute2_is_complete_for_who_imports_it_afterwards() -> None:
    text = "print(pyroute2.IPRoute is ours.IPRoute, pyroute2.NDB.__name__)"

    assert python(f"import owlt.emulator.kernel.rtnetlink as ours, pyroute2; {text}") == "True NDB"


def test_pyroute2_imported_before_is_used_as_it_is() -> None:
    assert (
        python("import pyroute2, owlt.emulator.kernel.rtnetlink as ours; print(pyroute2.IPRoute is ours.IPRoute)")
        == "True"
    )

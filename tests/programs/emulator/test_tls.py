"""The service over HTTPS, with certificates made here."""

from __future__ import annotations

import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from owlt.emulator.faults import EmulatorUnreachable
from owlt.emulator.service.client import EmulatorClient
from owlt.emulator.service.server import Limits, tls_context
from tests.conftest import require_command
from tests.unit.emulator.served import CHANNEL, OTHER_CHANNEL, RememberingEmulator, served

TOKEN = "correct-horse-battery"


@dataclass(frozen=True)
class Certified:
    """A self-signed certificate for 127.0.0.1, which is its own authority, and its key."""

    certificate: Path
    key: Path


def made(folder: Path, name: str) -> Certified:
    certified = Certified(folder / f"{name}.pem", folder / f"{name}.key")
    command = [require_command("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
    command += ["-nodes", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    command += ["-keyout", str(certified.key), "-out", str(certified.certificate)]
    subprocess.run(command, check=True, capture_output=True)
    return certified


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    return made(tmp_path_factory.mktemp("tls"), "emulator")


@pytest.fixture
def address(certified: Certified) -> Iterator[str]:
    tls = tls_context(certified.certificate, certified.key)
    with served(RememberingEmulator(), token=TOKEN, tls=tls, limits=Limits(request_s=1)) as address:
        yield address


def test_a_channel_goes_over_https_and_back(address: str, certified: Certified) -> None:
    client = EmulatorClient(f"https://{address}", timeout_s=5, token=TOKEN, ca_file=certified.certificate)

    assert client.configure(OTHER_CHANNEL) == OTHER_CHANNEL
    assert client.describe() == OTHER_CHANNEL


def test_a_service_that_an_unknown_authority_vouches_for_is_not_talked_to(address: str, tmp_path: Path) -> None:
    client = EmulatorClient(f"https://{address}", timeout_s=5, token=TOKEN, ca_file=made(tmp_path, "other").certificate)

    with pytest.raises(EmulatorUnreachable, match="certificate verify failed"):
        client.clear()


def test_a_service_that_nobody_known_vouches_for_is_not_talked_to(address: str) -> None:
    with pytest.raises(
        EmulatorUnreachable, match=r"certificate verify failed.*; use --ca-file with the certificate of"
    ):
        EmulatorClient(f"https://{address}", timeout_s=5, token=TOKEN).clear()


def test_plain_http_is_not_answered_over_https(address: str) -> None:
    with pytest.raises(EmulatorUnreachable):
        EmulatorClient(f"http://{address}", timeout_s=5, token=TOKEN).clear()


@pytest.mark.parametrize("has_handshake", [False, True])
def test_slow_clients_of_tls_give_way_like_others(certified: Certified, has_handshake: bool) -> None:
    tls, trusting = tls_context(certified.certificate, certified.key), ssl.create_default_context()
    trusting.load_verify_locations(certified.certificate)
    with ExitStack() as stack:
        limits = Limits(connections=1, request_s=60)
        address = stack.enter_context(served(RememberingEmulator(), token=TOKEN, tls=tls, limits=limits))
        host, port = address.split(":")
        slow: socket.socket = stack.enter_context(socket.create_connection((host, int(port)), timeout=20))
        if has_handshake:
            slow = stack.enter_context(trusting.wrap_socket(slow, server_hostname=host))
        client = EmulatorClient(f"https://{address}", timeout_s=20, token=TOKEN, ca_file=certified.certificate)

        assert client.describe() == CHANNEL
        assert slow.recv(100) == b"", "it gave way"


def test_tls_1_2_is_the_oldest_spoken(certified: Certified) -> None:
    context = tls_context(certified.certificate, certified.key)

    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


def test_one_who_does_not_shake_hands_keeps_nobody_waiting_and_is_cut_off(address: str, certified: Certified) -> None:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as silent:
        client = EmulatorClient(f"https://{address}", timeout_s=0.9, ca_file=certified.certificate)

        assert client.describe() == CHANNEL
        assert silent.recv(1) == b""


def test_a_file_of_authorities_needs_https(certified: Certified) -> None:
    with pytest.raises(ValueError, match=r"got 'http://127\.0\.0\.1:8765', expected https://"):
        EmulatorClient("http://127.0.0.1:8765", ca_file=certified.certificate)


def test_the_token_in_a_url_that_is_refused_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"got 'http://192\.0\.2\.1', expected https://") as refused:
        EmulatorClient("http://:a/secret@192.0.2.1", ca_file=tmp_path / "authorities.pem")

    assert "secret" not in str(refused.value)

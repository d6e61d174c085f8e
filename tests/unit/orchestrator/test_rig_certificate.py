"""The certificate of a rig's emulator service: of the rig's CA, issued again for another address and before its end."""

from __future__ import annotations

import os
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from socket import create_server

import pytest

from owlt.orchestrator.checks.lab_doctor import certificate_end_s, certificate_text
from tests.conftest import require_command

PROGRAM = Path(__file__).parents[3] / "playbooks" / "roles" / "emulator" / "files" / "owlt-certificate"
ADDRESS, DAY_S = "127.0.0.1", 86_400.0
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`owlt-certificate` with tmp_path as its directory."""
    require_command("openssl")

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"DIRECTORY": str(tmp_path)}
        return subprocess.run([PROGRAM, *words], env=environment, capture_output=True, text=True, check=False)

    return run


def openssl(*words: object) -> str:
    return subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, check=True).stdout


def self_signed(directory: Path, days: int) -> None:
    """A certificate as owlt issued it before there was a CA."""
    files = ["-keyout", directory / "key.pem", "-out", directory / "certificate.pem"]
    subject = ["-subj", "/CN=owlt-emulator", "-addext", f"subjectAltName=IP:{ADDRESS}"]
    openssl(
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        days,
        *subject,
        *files,
    )


def ending_soon(directory: Path) -> None:
    """The certificate again, from the rig's CA, for 29 days."""
    request = directory / "request"
    openssl(
        "req",
        "-new",
        "-key",
        directory / "key.pem",
        "-subj",
        "/CN=owlt-emulator",
        "-addext",
        f"subjectAltName=IP:{ADDRESS}",
        "-out",
        request,
    )
    ca = ["-CA", directory / "ca.pem", "-CAkey", directory / "ca-key.pem", "-CAcreateserial"]
    openssl(
        "x509",
        "-req",
        "-in",
        request,
        *ca,
        "-days",
        29,
        "-copy_extensions",
        "copy",
        "-out",
        directory / "certificate.pem",
    )


def test_an_issued_certificate_needs_no_other(run: Run) -> None:
    before = run("check", ADDRESS)
    issued = run("issue", ADDRESS)
    after = run("check", ADDRESS)

    assert (before.returncode, before.stdout) == (
        1,
        "there is no CA of the rig, or its certificate expires within 30 days\n",
    )
    assert (issued.returncode, issued.stdout) == (0, "")
    assert (after.returncode, after.stdout) == (0, "")


def test_a_certificate_for_another_address_is_issued_again_by_the_same_ca(run: Run, tmp_path: Path) -> None:
    run("issue", "192.0.2.12")
    ca = (tmp_path / "ca.pem").read_text()
    other = run("check", ADDRESS)
    run("issue", ADDRESS)

    assert (other.returncode, other.stdout) == (1, f"the certificate is not for {ADDRESS}\n")
    assert run("check", ADDRESS).returncode == 0
    assert (tmp_path / "ca.pem").read_text() == ca


def test_a_certificate_that_ends_within_30_days_is_issued_again(run: Run, tmp_path: Path) -> None:
    run("issue", ADDRESS)
    ending_soon(tmp_path)
    soon = run("check", ADDRESS)
    run("issue", ADDRESS)

    assert (soon.returncode, soon.stdout) == (1, "the certificate expires within 30 days\n")
    assert run("check", ADDRESS).returncode == 0


def test_a_self_signed_certificate_is_replaced_by_one_of_a_ca(run: Run, tmp_path: Path) -> None:
    self_signed(tmp_path, 825)
    before = run("check", ADDRESS)
    run("issue", ADDRESS)

    assert before.returncode == 1
    assert run("check", ADDRESS).returncode == 0


def test_the_keys_are_for_their_owner_only(run: Run, tmp_path: Path) -> None:
    run("issue", ADDRESS)

    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("ca-key.pem", "ca.pem", "certificate.pem", "key.pem"), 0o600)


@pytest.fixture
def service(run: Run, tmp_path: Path) -> Iterator[str]:
    """The URL of a server that shows the certificate, to two clients at most."""
    run("issue", ADDRESS)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "certificate.pem", tmp_path / "key.pem")

    def serve() -> None:
        for _ in range(2):
            try:
                accepted, _ = listening.accept()
            except OSError:
                return
            try:
                context.wrap_socket(accepted, server_side=True).close()
            except OSError:
                accepted.close()

    with create_server((ADDRESS, 0)) as listening:
        listening.settimeout(10)
        server = threading.Thread(target=serve, daemon=True)
        server.start()
        yield f"https://{ADDRESS}:{listening.getsockname()[1]}"


def test_a_client_that_has_the_cas_certificate_learns_when_the_services_ends(service: str, tmp_path: Path) -> None:
    end_s = certificate_end_s(service, tmp_path / "ca.pem")

    assert certificate_text(service, tmp_path / "ca.pem", end_s - 400 * DAY_S).endswith(", 400 days left")


def test_a_certificate_that_ends_soon_is_shown_with_what_to_do(service: str, tmp_path: Path) -> None:
    end_s = certificate_end_s(service, tmp_path / "ca.pem")

    text = certificate_text(service, tmp_path / "ca.pem", end_s - 29 * DAY_S)
    assert text.endswith(", 29 days left; owlt rig provision issues a new one")


def test_a_client_with_another_ca_refuses_the_service(service: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    self_signed(tmp_path / "other", 825)

    with pytest.raises(ssl.SSLCertVerificationError):
        certificate_end_s(service, tmp_path / "other" / "certificate.pem")

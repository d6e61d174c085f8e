"""Who may connect to a scheduler: certificates, and the refusal of connections without authentication."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.sweep.cluster_security import make_certificates, require_loopback_only, security_for


def test_the_certificates_that_are_made_can_be_used(tmp_path: Path) -> None:
    make_certificates(tmp_path / "tls")

    security = security_for("tls://lab1:8786", tmp_path / "tls", accepts_plain=False)

    assert security.require_encryption
    for role in ("client", "worker", "scheduler"):
        assert security.get_connection_args(role)["ssl_context"] is not None


def test_only_the_owner_can_read_the_key(tmp_path: Path) -> None:
    make_certificates(tmp_path)

    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600


def test_certificates_are_not_replaced(tmp_path: Path) -> None:
    make_certificates(tmp_path)

    with pytest.raises(OwltError, match=r"has ca\.pem already"):
        make_certificates(tmp_path)


@pytest.mark.parametrize("address", ["tcp://lab1:8786", "tcp://192.0.2.1:8786"])
def test_a_connection_without_authentication_is_refused_beyond_this_machine(address: str) -> None:
    with pytest.raises(OwltError, match=f"{address} has no authentication: anyone who reaches it can run any program"):
        security_for(address, None, accepts_plain=False)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:8786", "tcp://localhost:8786", "tcp://[::1]:8786"])
def test_a_connection_without_authentication_is_possible_on_this_machine(address: str) -> None:
    assert not security_for(address, None, accepts_plain=False).require_encryption


def test_a_connection_without_authentication_can_be_accepted() -> None:
    assert not security_for("tcp://lab1:8786", None, accepts_plain=True).require_encryption


def test_tls_needs_certificates() -> None:
    with pytest.raises(OwltError, match="tls://lab1:8786 needs certificates, and none are given; name their directory"):
        security_for("tls://lab1:8786", None, accepts_plain=False)


def test_a_missing_certificate_is_named(tmp_path: Path) -> None:
    with pytest.raises(OwltError, match=r"ca\.pem is missing; make certificates once with 'owlt worker --make-cert"):
        security_for("tls://lab1:8786", tmp_path, accepts_plain=False)


@pytest.mark.parametrize("address", ["lab1:8786", "tls://lab1", "http://lab1:8786", "tls://:x"])
def test_another_address_is_refused(address: str) -> None:
    with pytest.raises(OwltError, match="expected the address of a Dask scheduler, such as tls://lab1:8786"):
        security_for(address, None, accepts_plain=False)


def test_certificates_below_a_file_are_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "tls").write_text("")
    with pytest.raises(OwltError, match="tls: cannot be written: File exists"):
        make_certificates(tmp_path / "tls")


def listening(address: str) -> socket.socket:
    return socket.create_server((address, 0))


def test_a_scheduler_without_authentication_that_others_can_reach_is_refused() -> None:
    with listening("0.0.0.0") as scheduler:
        port = scheduler.getsockname()[1]
        refusal = rf"no authentication and listens on 0\.0\.0\.0 \(port {port}\), expected loopback addresses only;"

        with pytest.raises(OwltError, match=refusal):
            require_loopback_only(f"tcp://127.0.0.1:{port}", accepts_plain=False)
        require_loopback_only(f"tcp://127.0.0.1:{port}", accepts_plain=True)
        require_loopback_only(f"tls://127.0.0.1:{port}", accepts_plain=False)


def test_a_scheduler_on_loopback_is_refused_only_if_its_dashboard_is_open_to_others() -> None:
    with listening("127.0.0.1") as scheduler, listening("0.0.0.0") as dashboard:
        address = f"tcp://127.0.0.1:{scheduler.getsockname()[1]}"

        require_loopback_only(address, accepts_plain=False)
        with pytest.raises(OwltError, match=rf"listens on 0\.0\.0\.0 \(port {dashboard.getsockname()[1]}\)"):
            require_loopback_only(address, accepts_plain=False, services={"dashboard": dashboard.getsockname()[1]})

"""aioquic's configuration of either side from the settings, the receiver's certificate, and the logs that it may keep.

Key and certificate are made from the seed alone, so that runs repeat. They do not authenticate anything.
"""

from __future__ import annotations

import hashlib
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.logger import QuicFileLogger
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, EllipticCurvePrivateKey, derive_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509 import Certificate, CertificateBuilder, Name, NameAttribute
from cryptography.x509.oid import NameOID

from owlt.agents.quic.settings import NO_LOG, Settings

BEGINS, ENDS = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


Key = Ed25519PrivateKey | EllipticCurvePrivateKey


def identity(seed: int, application: str = "push") -> tuple[Certificate, Key]:
    """Certificate and key of the server: Ed25519, whose signatures have a fixed length and need no random numbers (RFC
    8032). Over HTTP/3 it is NIST P-256, because not every client of others offers Ed25519."""
    secret = hashlib.sha256(f"owlt {seed}".encode()).digest()
    is_push = application == "push"
    key: Key = (
        Ed25519PrivateKey.from_private_bytes(secret)
        if is_push
        else derive_private_key(int.from_bytes(secret[:-1]), SECP256R1())
    )
    name = Name([NameAttribute(NameOID.COMMON_NAME, "owlt receiver")])
    unsigned = (
        CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(BEGINS)
        .not_valid_after(ENDS)
    )
    return unsigned.sign(key, None if is_push else SHA256()), key


ALPN = {"push": "owlt", "http3": "h3"}


@dataclass(frozen=True)
class Logs:
    """Where the secrets of the connection go, in the format of tshark's tls.keylog_file, and where its qlog."""

    secrets: TextIO | None = None
    qlog_directory: Path | None = None


@contextmanager
def kept_logs(settings: Settings, side: str) -> Iterator[Logs]:
    """The logs that were asked for; `none`, or `-` for standard output. aioquic calls the qlogs of both
    sides alike, so each has a directory.

    Raises:
        OSError: one cannot be written.
    """
    directory = None if settings.qlog_dir == NO_LOG else Path(settings.qlog_dir) / side
    if directory:
        directory.mkdir(parents=True, exist_ok=True)
    if settings.secrets_log in (NO_LOG, "-"):
        yield Logs(sys.stdout if settings.secrets_log == "-" else None, directory)
        return
    with Path(settings.secrets_log).open("a", encoding="ascii") as secrets:
        yield Logs(secrets, directory)


def client_configuration(settings: Settings, logs: Logs) -> QuicConfiguration:
    """A client that accepts any certificate."""
    configuration = _common(settings, logs, is_client=True)
    configuration.verify_mode = ssl.CERT_NONE
    return configuration


def server_configuration(settings: Settings, logs: Logs) -> QuicConfiguration:
    """A server with a certificate of its own."""
    configuration = _common(settings, logs, is_client=False)
    configuration.certificate, configuration.private_key = identity(settings.seed, settings.application)
    return configuration


def _common(settings: Settings, logs: Logs, *, is_client: bool) -> QuicConfiguration:
    return QuicConfiguration(
        is_client=is_client,
        alpn_protocols=[ALPN[settings.application]],
        congestion_control_algorithm=settings.congestion_control,
        idle_timeout=settings.idle_timeout_s,
        initial_rtt=settings.first_rtt_s,
        max_data=settings.window_bytes,
        max_stream_data=settings.window_bytes,
        max_datagram_size=settings.datagram_bytes,
        quic_logger=QuicFileLogger(str(logs.qlog_directory)) if logs.qlog_directory else None,
        secrets_log_file=logs.secrets,
    )

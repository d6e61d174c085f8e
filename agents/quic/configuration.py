"""aioquic's configuration of either side from the settings, and the logs that it may keep."""

import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.logger import QuicFileLogger

from owlt.agents.quic.identity import identity
from owlt.agents.quic.settings import Settings

ALPN = "owlt"
NO_LOG = "none"


@dataclass(frozen=True)
class Logs:
    """Where the secrets of the connection go, in the format of tshark's tls.keylog_file, and where its qlog."""

    secrets: TextIO | None = None
    qlog_directory: Path | None = None


@contextmanager
def kept_logs(secrets_log: str, qlog_directory: str, side: str) -> Iterator[Logs]:
    """The logs that were asked for; `none`, or `-` for standard output. aioquic calls the qlogs of both
    sides alike, so each has a directory.

    Raises:
        OSError: one cannot be written.
    """
    directory = None if qlog_directory == NO_LOG else Path(qlog_directory) / side
    if directory:
        directory.mkdir(parents=True, exist_ok=True)
    if secrets_log in (NO_LOG, "-"):
        yield Logs(sys.stdout if secrets_log == "-" else None, directory)
        return
    with Path(secrets_log).open("a", encoding="ascii") as secrets:
        yield Logs(secrets, directory)


def sender_configuration(settings: Settings, logs: Logs) -> QuicConfiguration:
    """A client that takes whatever certificate it is shown."""
    configuration = _common(settings, logs, is_client=True)
    configuration.verify_mode = ssl.CERT_NONE
    return configuration


def receiver_configuration(settings: Settings, logs: Logs) -> QuicConfiguration:
    """A server with a certificate of its own."""
    configuration = _common(settings, logs, is_client=False)
    configuration.certificate, configuration.private_key = identity(settings.seed)
    return configuration


def _common(settings: Settings, logs: Logs, *, is_client: bool) -> QuicConfiguration:
    return QuicConfiguration(
        is_client=is_client,
        alpn_protocols=[ALPN],
        congestion_control_algorithm=settings.congestion_control,
        idle_timeout=settings.idle_timeout_s,
        initial_rtt=settings.initial_rtt_s,
        max_data=settings.window_bytes,
        max_stream_data=settings.window_bytes,
        max_datagram_size=settings.datagram_bytes,
        quic_logger=QuicFileLogger(str(logs.qlog_directory)) if logs.qlog_directory else None,
        secrets_log_file=logs.secrets,
    )

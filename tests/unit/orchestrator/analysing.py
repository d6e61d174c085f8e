"""Captures of a transfer over TCP, runs of owlt that have them, and the command that analyses them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from typer.testing import CliRunner

from owlt.orchestrator.commands.cli import app
from owlt.results.record import Outcome, write_record
from tests.unit.captures.making import DATA
from tests.unit.orchestrator.making import record

SENDER, RECEIVER = DATA / "netem-tcp-sender.pcap", DATA / "netem-tcp-receiver.pcap"


def analyse(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["analyse", *map(str, arguments)], catch_exceptions=False, standalone_mode=False)
    return re.sub(r"\s+", " ", done.output)


def run_of_owlt(directory: Path, outcome: Outcome, reason: str = "") -> Path:
    directory.mkdir()
    for capture, name in ((SENDER, "sender.pcap"), (RECEIVER, "receiver.pcap")):
        shutil.copy(capture, directory / name)
    session = {"sender_address": "10.77.0.1", "receiver_address": "10.77.0.2", "tcp_ports": [5223]}
    build = {"run_id": "tcp_r1", "implementation": "tcp", "title": "TCP", "protocol": "TCP"}
    ended = {"outcome": outcome, "reason": reason}
    write_record(record(**build, **ended, session=session, file_size_bytes=10_000, clock="real"), directory)
    return directory

"""The classes of packets that faults are aimed at pass those packets of recorded runs that owlt's readers name so, and
those that tshark does. tcpdump filters."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.session import Session
from owlt.captures.protocols.messages import messages
from owlt.emulator.channel.aimed_fault import expression_of, over_both_versions
from owlt.orchestrator.profiles.catalogue import find_implementation
from tests.conftest import require_command
from tests.unit.captures.making import GOLDEN

HOSTS = {"sender_address": "10.77.0.1", "receiver_address": "10.77.0.2"}
RUNS = {
    "cfdp": ["cfdp"],
    "ltp": ["ltp", "licklider"],
    "norm": ["norm", "norm-cc"],
    "saratoga": ["saratoga", "saratoga-get", "saratoga-v0"],
    "tcp": ["tcp", "dtn7"],
    "quic": ["quic-aioquic"],
}
"""The recorded runs of each protocol."""
NAMES = {
    "cfdp.data": ["data"],
    "cfdp.metadata": ["metadata"],
    "cfdp.eof": ["EOF"],
    "cfdp.finished": ["Finished"],
    "cfdp.nak": ["NAK"],
    "cfdp.ack": ["ACK of EOF", "ACK of Finished"],
    "cfdp.ack-eof": ["ACK of EOF"],
    "cfdp.ack-finished": ["ACK of Finished"],
    "ltp.data": ["red data", "checkpoint"],
    "ltp.red": ["red data", "checkpoint"],
    "ltp.checkpoint": ["checkpoint"],
    "ltp.report": ["report"],
    "ltp.report-ack": ["report-ack"],
    "norm.info": ["INFO"],
    "norm.data": ["DATA", "DATA (parity)"],
    "norm.command": ["CMD CC", "CMD FLUSH"],
    "norm.flush": ["CMD FLUSH"],
    "norm.congestion-control": ["CMD CC"],
    "norm.nack": ["NACK"],
    "norm.ack": ["ACK of FLUSH", "ACK of CC"],
    "norm.ack-flush": ["ACK of FLUSH"],
    "norm.ack-cc": ["ACK of CC"],
    "saratoga.request": ["request"],
    "saratoga.metadata": ["metadata"],
    "saratoga.data": ["data"],
    "saratoga.status": ["status"],
    "tcp.syn": ["SYN"],
    "tcp.syn-ack": ["SYN-ACK"],
    "tcp.fin": ["FIN"],
    "tcp.rst": ["RST"],
    "tcp.data": ["data", "retransmission"],
    "tcp.pure-ack": ["ACK", "dup ACK"],
    "quic.initial": ["Initial", "Initial, Handshake", "Initial, Handshake, 1-RTT"],
    "quic.with-handshake": ["Initial, Handshake", "Initial, Handshake, 1-RTT"],
    "quic.one-rtt": ["1-RTT"],
}
"""The messages that are in a class, by the names that the readers give them."""
DETAILS = {
    "saratoga.data-requesting-status": ("data", "requests status"),
    "saratoga.status-holes": ("status", r"^[^0]\d* hole"),
    "ltp.end-of-block": ("checkpoint", "end of block"),
}
"""The messages that are in a class, by their name and what is in their detail."""
FIELDS: dict[str, dict[str, tuple[int, ...]]] = {
    "cfdp.metadata": {"cfdp.fdtype": (7,)},
    "cfdp.eof": {"cfdp.fdtype": (4,)},
    "cfdp.finished": {"cfdp.fdtype": (5,)},
    "cfdp.nak": {"cfdp.fdtype": (8,)},
    "cfdp.ack-eof": {"cfdp.dir_code_ack": (4,)},
    "cfdp.ack-finished": {"cfdp.dir_code_ack": (5,)},
    "ltp.red": {"ltp.type": (0, 1, 2, 3)},
    "ltp.checkpoint": {"ltp.type": (1, 2, 3)},
    "ltp.end-of-red-part": {"ltp.type": (2, 3)},
    "ltp.end-of-block": {"ltp.type": (3,)},
    "ltp.report": {"ltp.type": (8,)},
    "ltp.report-ack": {"ltp.type": (9,)},
    "norm.info": {"norm.type": (1,)},
    "norm.data": {"norm.type": (2,)},
    "norm.repair": {"norm.type": (2,), "norm.flag.repair": (1,)},
    "norm.flush": {"norm.type": (3,), "norm.flavor": (1,)},
    "norm.congestion-control": {"norm.type": (3,), "norm.flavor": (4,)},
    "norm.nack": {"norm.type": (4,)},
    "norm.ack-cc": {"norm.type": (5,), "norm.ack.type": (1,)},
    "norm.ack-flush": {"norm.type": (5,), "norm.ack.type": (2,)},
    "tcp.syn": {"tcp.flags.syn": (1,), "tcp.flags.ack": (0,)},
    "tcp.syn-ack": {"tcp.flags.syn": (1,), "tcp.flags.ack": (1,)},
    "tcp.fin": {"tcp.flags.fin": (1,)},
    "tcp.rst": {"tcp.flags.reset": (1,)},
    "tcp.data": {"tcp.len": tuple(range(1, 1500))},
    "quic.one-rtt": {"quic.header_form": (0,)},
    "quic.initial": {"quic.long.packet_type": (0,)},
}
"""The values that tshark shows in a packet of a class, by field; of several in a datagram, those of the first count."""


@cache
def intact(run: str) -> dict[int, tuple[str, str]]:
    """Name and detail of the run's packets, by their row in the capture, without those that the channel damaged."""
    implementation = find_implementation(run)
    ports = {key: ports for key, ports in implementation.session_by_default.in_captures.items() if ports}
    session = Session.model_validate(HOSTS | ports)
    read = messages(GOLDEN / f"run-{run}.pcap", session, implementation.dissector)
    return {each.frame - 1: (each.name, each.detail) for each in read if not each.is_damaged}


@cache
def passed(run: str, name: str) -> list[int]:
    """The rows of the run's intact packets that tcpdump lets pass."""
    capture = GOLDEN / f"run-{run}.pcap"
    command = [
        require_command("tcpdump"),
        "--nano",
        "-r",
        str(capture),
        "-w",
        "-",
        over_both_versions(expression_of(name)),
    ]
    there = subprocess.run(command, check=True, capture_output=True).stdout
    return [row for row in intact(run) if frames(capture)[row] in there]


@cache
def frames(capture: Path) -> list[bytes]:
    """Each record as tcpdump copies it: with its time, and so a different one for each frame."""
    columns = read_columns(capture)
    return read_frames(columns.path, columns.offset - 16, columns.captured_bytes + 16)


@cache
def dissected(run: str) -> list[dict[str, int]]:
    """For each packet of the capture the fields that tshark shows."""
    fields = sorted({field for name in FIELDS if run in runs_of(name) for field in FIELDS[name]})
    command = [require_command("tshark"), "-n", "-r", str(GOLDEN / f"run-{run}.pcap"), "-T", "fields"]
    command += [*find_implementation(run).dissector, *(part for field in fields for part in ("-e", field))]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    cells = [dict(zip(fields, line.split("\t"), strict=True)) for line in lines]
    return [{field: int(value.split(",")[0], 0) for field, value in each.items() if value} for each in cells]


def shown(run: str, name: str) -> list[int]:
    """The rows of the run's intact packets that have the fields of the class in tshark."""
    packets = dissected(run)
    return [
        row for row in intact(run) if all(packets[row].get(field) in values for field, values in FIELDS[name].items())
    ]


def runs_of(name: str) -> list[str]:
    return RUNS[name.partition(".")[0]]


@pytest.mark.parametrize("name", NAMES)
def test_a_class_passes_exactly_the_packets_that_the_reader_names_so(name: str) -> None:
    for run in runs_of(name):
        assert passed(run, name) == [row for row, (message, _) in intact(run).items() if message in NAMES[name]]
    assert any(passed(run, name) for run in runs_of(name))


@pytest.mark.parametrize("name", DETAILS)
def test_a_class_passes_exactly_the_packets_of_such_a_content(name: str) -> None:
    message, part = DETAILS[name]
    for run in runs_of(name):
        found = [row for row, (other, detail) in intact(run).items() if other == message and re.search(part, detail)]
        assert passed(run, name) == found
    assert any(passed(run, name) for run in runs_of(name))


@pytest.mark.parametrize("name", FIELDS)
def test_a_class_passes_exactly_the_packets_that_tshark_shows(name: str) -> None:
    for run in runs_of(name):
        assert passed(run, name) == shown(run, name)


@pytest.mark.parametrize("protocol", RUNS)
def test_every_packet_of_a_protocol_is_in_its_class_any(protocol: str) -> None:
    for run in RUNS[protocol]:
        assert passed(run, f"{protocol}.any") == list(intact(run))

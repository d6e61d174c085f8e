"""Saratoga over a lossy channel of the virtual rig: every frame is dissected, and counted as the endpoints count."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from scapy.layers.inet import IP, UDP
from scapy.packet import Packet, Padding, Raw
from scapy.utils import rdpcap

from tests.scapy_layers import saratoga as layer
from tests.system.sweeps import RECORDED, perform, records

SENDER, RECEIVER = "10.77.0.1", "10.77.0.2"
SIDES = ("sender", "receiver")
SIZE_BYTES = 100_000
IMPLEMENTATIONS = ("saratoga", "saratoga-get", "saratoga-v0")
GRID = {
    "implementations": list(IMPLEMENTATIONS),
    "file_size": "100 kB",
    "delay": "250 ms",
    "packet_error_rate": 0.05,
    "keep_captures": "full",
    "runs_per_guest": 3,
}
EACH_IMPLEMENTATION = pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
KINDS: dict[type[Packet], str] = {
    layer.SaratogaRequest: "Request",
    layer.SaratogaMetadata: "Metadata",
    layer.SaratogaData: "Data",
    layer.SaratogaStatus: "Status",
    layer.Saratoga0Request: "Request",
    layer.Saratoga0Metadata: "Metadata",
    layer.Saratoga0Data: "Data",
    layer.Saratoga0HolesToFill: "Status",
}


class Run(NamedTuple):
    """A run's last lines and its captures."""

    sender_said: str
    receiver_said: str
    near: list[Packet]
    far: list[Packet]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> dict[str, Run]:
    """By implementation: 100 kB, 250 ms, and one frame in twenty damaged each way."""
    directory = tmp_path_factory.mktemp("saratoga")
    done = perform(directory, directory / "results", **GRID)
    assert done.returncode in RECORDED, done.stderr
    found = {}
    for run_id, record in records(directory / "results").items():
        assert record["outcome"] == "completed", (run_id, record)
        found[record["implementation"]] = _read(directory / "results" / "runs" / run_id)
    return found


def _read(run_dir: Path) -> Run:
    said = [(run_dir / f"{side}.out").read_text().splitlines()[-1] for side in ("sender", "receiver")]
    captures = [[frame for frame in rdpcap(str(run_dir / f"{side}.pcap")) if UDP in frame] for side in SIDES]
    return Run(said[0], said[1], captures[0], captures[1])


def sent_by(host: str, frames: list[Packet]) -> list[Packet]:
    return [frame for frame in frames if frame[IP].src == host]


def undamaged(frames: list[Packet]) -> list[Packet]:
    """Those that a host takes: sent to its card, and both checksums are right."""
    by_count = Counter((frame[IP].dst, frame.dst) for frame in frames).most_common()
    cards = dict(pair for pair, _ in reversed(by_count))
    return [frame for frame in frames if frame.dst == cards[frame[IP].dst] and _has_right_checksums(frame)]


def _has_right_checksums(frame: Packet) -> bool:
    anew = frame.copy()
    del anew[IP].chksum, anew[UDP].chksum
    anew = type(frame)(bytes(anew))
    return (anew[IP].chksum, anew[UDP].chksum) == (frame[IP].chksum, frame[UDP].chksum)


def kinds(frames: list[Packet]) -> Counter[str]:
    return Counter(KINDS[type(frame[UDP].payload)] for frame in frames)


def said(line: str, word: str) -> Counter[str]:
    """The packets by kind behind `sent=` or `received=` of a last line."""
    listed = re.search(rf"{word}=\d+ \(([^)]*)\)", line)
    assert listed, line
    return Counter({kind: int(count) for kind, count in re.findall(r"(\w+)=(\d+)", listed[1])})


@EACH_IMPLEMENTATION
def test_every_frame_is_dissected_and_nothing_is_left_over(runs: dict[str, Run], implementation: str) -> None:
    run = runs[implementation]
    frames = sent_by(SENDER, run.near) + sent_by(RECEIVER, run.far) + undamaged(run.near + run.far)

    assert len(frames) > 200
    for frame in frames:
        assert type(frame[UDP].payload) in KINDS, frame.summary()
        assert Raw not in frame and Padding not in frame, frame.summary()


@EACH_IMPLEMENTATION
def test_each_side_sent_what_its_last_line_says(runs: dict[str, Run], implementation: str) -> None:
    run = runs[implementation]

    assert kinds(sent_by(SENDER, run.near)) == said(run.sender_said, "sent")
    assert kinds(sent_by(RECEIVER, run.far)) == said(run.receiver_said, "sent")


@EACH_IMPLEMENTATION
def test_each_side_received_what_reached_it_undamaged(runs: dict[str, Run], implementation: str) -> None:
    """The sender's count ends where it ended: with the first word that all is here."""
    run = runs[implementation]
    to_receiver = undamaged(sent_by(SENDER, run.far))
    to_sender = undamaged(sent_by(RECEIVER, run.near))
    last = next(place for place, frame in enumerate(to_sender, 1) if says_whole(frame[UDP].payload))

    assert kinds(to_receiver) == said(run.receiver_said, "received")
    assert kinds(to_sender[:last]) == said(run.sender_said, "received")


def says_whole(packet: Packet) -> bool:
    if KINDS[type(packet)] != "Status":
        return False
    return packet.progress == SIZE_BYTES and not packet.holes and not packet.metadata_missing


@EACH_IMPLEMENTATION
def test_frames_were_damaged_on_their_way(runs: dict[str, Run], implementation: str) -> None:
    """A control: without losses the counts above would agree by themselves."""
    run = runs[implementation]

    assert len(undamaged(sent_by(SENDER, run.far))) < len(sent_by(SENDER, run.near))


@EACH_IMPLEMENTATION
def test_the_holes_reported_are_those_that_the_captures_show(runs: dict[str, Run], implementation: str) -> None:
    """What the receiver lacked at its first report with holes is what was sent before and did not arrive whole."""
    run = runs[implementation]
    report = next(frame for frame in sent_by(RECEIVER, run.far) if getattr(frame[UDP].payload, "holes", None))
    came: set[int] = set()
    furthest = 0
    for frame in undamaged(sent_by(SENDER, run.far)):
        packet = frame[UDP].payload
        if frame.time <= report.time and KINDS[type(packet)] == "Data":
            came |= set(range(packet.offset, packet.offset + len(packet.data)))
            furthest = max(furthest, packet.offset + len(packet.data))

    holes = report[UDP].payload.holes
    assert {place for start, end in holes for place in range(start, end)} == set(range(furthest)) - came

"""Messages whose fields the readers take from the octets themselves are those that tshark's fields give."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from captures.files.pcap import read_frames
from captures.frames.columns import read_columns
from captures.frames.decoding import Kind
from captures.protocols.messages import messages
from tests.programs.captures.test_dissection import RUNS, mutated
from tests.unit.captures.making import SESSION, timed, write_pcap
from tests.unit.captures.octets import BUNDLES_OVER_LTP, CFDP, LTP, SARATOGA

NORM = ("-d", "udp.port==5222,norm")
"""Not by its heuristic: tshark takes some damaged messages for those of other protocols that it guesses."""
GOLDEN = Path(__file__).parents[2] / "unit/captures/golden"
OF_RUNS = {
    "ltp": LTP,
    "licklider": LTP,
    "bp-acs": BUNDLES_OVER_LTP,
    "bp-cs": BUNDLES_OVER_LTP,
    "cfdp": CFDP,
    "norm": NORM,
    "norm-cc": NORM,
    "saratoga": SARATOGA,
    "saratoga-v0": SARATOGA,
}


def frames_of_run(name: str) -> list[bytes]:
    """The UDP datagrams of a run."""
    columns = read_columns(GOLDEN / f"run-{name}.pcap")
    rows = np.flatnonzero(columns.kind == Kind.UDP)
    return read_frames(columns.path, columns.offset[rows], columns.captured_bytes[rows])


def from_own_port(octets: bytes, number: int) -> bytes:
    """The datagram from a port of its own, without a checksum: what tshark takes one packet of a conversation for, it
    takes those that follow for too."""
    port = (40_000 + number).to_bytes(2, "big")
    return octets[:34] + port + octets[36:40] + b"\0\0" + octets[42:]


def assert_equal(tmp_path: Path, frames: Sequence[bytes], dissector: Sequence[str], snaplen: int) -> None:
    alone = [from_own_port(octets, number) for number, octets in enumerate(frames)]
    columns = read_columns(write_pcap(tmp_path / "x.pcap", timed(alone), snaplen=snaplen))

    assert messages(columns, SESSION, dissector) == messages(columns, SESSION, dissector, by_tshark_alone=True)


@pytest.mark.parametrize("snaplen", [262_144, 96, 60])
@pytest.mark.parametrize("protocol", sorted(set(RUNS) - {"tcp", "quic"}))
def test_messages_are_those_of_tshark_whatever_the_octets(tmp_path: Path, protocol: str, snaplen: int) -> None:
    dissector, frames = RUNS[protocol]
    dissector = NORM if protocol == "norm" else dissector
    chance = random.Random(snaplen)

    assert_equal(tmp_path, [mutated(frame, chance) for frame in frames for _ in range(100)], dissector, snaplen)


@pytest.mark.parametrize("snaplen", [262_144, 96])
@pytest.mark.parametrize("run", OF_RUNS)
def test_messages_of_a_damaged_run_are_those_of_tshark(tmp_path: Path, run: str, snaplen: int) -> None:
    chance = random.Random(run)

    assert_equal(tmp_path, [mutated(frame, chance) for frame in frames_of_run(run) * 20], OF_RUNS[run], snaplen)

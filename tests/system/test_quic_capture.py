"""A lossy QUIC run, decrypted by tshark with the secrets that the sender printed: what it carried is the file."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from owlt.orchestrator.run.staging import file_content
from tests.conftest import require_command
from tests.system.sweeps import RECORDED, perform, records

SIZE_BYTES = 100_000
SWEEP_SEED = 11
NOT_DAMAGED = ["-o", "udp.check_checksum:TRUE", "-Y", "udp.checksum.status==1"]


class Chunk(NamedTuple):
    """The data of one STREAM frame."""

    offset: int
    data: bytes


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """One run at 250 ms, one packet in twenty damaged."""
    directory = tmp_path_factory.mktemp("quic")
    lossy = {
        "delay": "250 ms",
        "packet_error_rate": 0.05,
        "file_size": "100 kB",
        "keep_captures": "full",
        "certify": False,
    }
    done = perform(directory, directory / "results", implementations=["quic-aioquic"], seed=SWEEP_SEED, **lossy)
    assert done.returncode in RECORDED, done.stderr
    (run_id,) = records(directory / "results")
    return directory / "results" / "runs" / run_id


def decrypted(run_directory: Path, capture: str, shown: str, *fields: str) -> list[list[str]]:
    """Fields of the frames of a capture that a display filter shows, damaged datagrams left out.

    They are taken out first: tshark follows the key phase and the packet number of what it cannot decrypt.
    """
    tshark = require_command("tshark")
    whole = run_directory / f"whole-{capture}"
    subprocess.run(
        [tshark, "-r", str(run_directory / capture), *NOT_DAMAGED, "-w", str(whole)], check=True, capture_output=True
    )
    chosen = [text for field in fields for text in ("-e", field)]
    command = [
        tshark,
        "-r",
        str(whole),
        "-o",
        f"tls.keylog_file:{run_directory / 'sender.out'}",
        "-d",
        "udp.port==4433,quic",
    ]
    lines = subprocess.run(
        [*command, "-Y", shown, "-T", "fields", *chosen], check=True, capture_output=True, text=True
    ).stdout
    return [line.split("\t") for line in lines.splitlines()]


def said(run_directory: Path) -> list[str]:
    return (run_directory / "sender.out").read_text().splitlines()


def chunks(run_directory: Path, capture: str) -> list[Chunk]:
    rows = decrypted(
        run_directory, capture, "quic.stream_data && ip.src==10.77.0.1", "quic.stream.offset", "quic.stream_data"
    )
    return [Chunk(int(offset or 0), bytes.fromhex(data)) for offset, data in rows]


@pytest.mark.parametrize("capture", ["sender.pcap", "receiver.pcap"])
def test_the_stream_carried_the_complete_file_and_nothing_else(run_directory: Path, capture: str) -> None:
    content = file_content(SWEEP_SEED, SIZE_BYTES)
    carried = bytearray(SIZE_BYTES)
    covered = bytearray(SIZE_BYTES)
    for offset, data in chunks(run_directory, capture):
        assert content[offset : offset + len(data)] == data, offset
        carried[offset : offset + len(data)] = data
        covered[offset : offset + len(data)] = b"\1" * len(data)

    assert all(covered)
    assert carried == content


def test_a_lossy_run_sent_some_data_twice(run_directory: Path) -> None:
    """Otherwise the run shows nothing of retransmissions."""
    assert sum(len(chunk.data) for chunk in chunks(run_directory, "sender.pcap")) > SIZE_BYTES


@pytest.mark.parametrize("capture", ["sender.pcap", "receiver.pcap"])
def test_tshark_decrypts_every_complete_packet_and_finds_none_malformed(run_directory: Path, capture: str) -> None:
    assert decrypted(run_directory, capture, "quic.decryption_failed || _ws.malformed", "frame.number") == []


def test_datagrams_are_counted_as_tshark_counts_them(run_directory: Path) -> None:
    rows = decrypted(run_directory, "sender.pcap", "udp.srcport==4433", "frame.number")

    assert f"sent={len(rows)} " in said(run_directory)[-1]


def test_the_handshake_repeats_nothing_before_its_answer_can_have_come(run_directory: Path) -> None:
    rows = decrypted(run_directory, "sender.pcap", "ip.src==10.77.0.1 && frame.time_relative < 0.5", "frame.number")

    assert len(rows) == 1


def test_the_connection_ends_in_a_close_of_the_sender(run_directory: Path) -> None:
    rows = decrypted(
        run_directory, "sender.pcap", "quic.frame_type in {0x1c, 0x1d} && ip.src==10.77.0.1", "frame.number"
    )

    assert len(rows) >= 1

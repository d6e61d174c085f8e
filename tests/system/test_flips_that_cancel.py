"""Bit errors that the checksum of UDP does not see: bundles of 30 kB with and without a check of their own."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import require_command
from tests.system.sweeps import RECORDED, perform, records

BIT_ERROR_RATE = 8e-6
BUNDLE_BYTES = 30_000
CHANNEL = {
    "name": "two-flips",
    "title": "two bit errors in a large bundle, as the mean",
    "forward": {"delay": "5 ms", "rate": "100 Mbit/s", "bit_error_rate": BIT_ERROR_RATE},
    "reverse": {"delay": "5 ms", "rate": "100 Mbit/s"},
}
"""One in 17 bundles that are accepted has been hit twice by flips that cancel; of 134 bundles, 7 or 8."""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """4 MB in bundles of one datagram each, without and with the check."""
    directory = tmp_path_factory.mktemp("flips")
    channel = directory / "two-flips.yaml"
    channel.write_text(json.dumps(CHANNEL))
    done = perform(
        directory,
        directory / "results",
        implementations=["bp-cs"],
        parameters={
            "bp-cs": {
                "convergence": "udp",
                "port": 4556,
                "bundle_bytes": BUNDLE_BYTES,
                "bundle_check": ["none", "crc32c"],
            }
        },
        file_size="4 MB",
        channel=str(channel),
        certify=False,
        keep_captures="full",
    )
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


def run_with(results: Path, check: str) -> Path:
    (run_id,) = (run_id for run_id, record in records(results).items() if record["parameters"]["bundle_check"] == check)
    return results / "runs" / run_id


def datagrams(capture: Path) -> dict[str, bytes]:
    """What the sender's datagrams carry, by IP identification, as tshark puts their fragments together: those whose
    headers and checksum are right."""
    right = "ip.src == 10.77.0.1 && udp.dstport == 4556 && udp.checksum.status == 1 && ip.checksum.status == 1"
    command = [require_command("tshark"), "-r", str(capture), "-d", "udp.port==4556,data"]
    command += ["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-o", "ip.defragment:TRUE"]
    command += ["-Y", right, "-T", "fields", "-e", "ip.id", "-e", "udp.payload"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found: dict[str, list[bytes]] = defaultdict(list)
    for line in shown.splitlines():
        identification, payload = line.split("\t")
        found[identification].append(bytes.fromhex(payload))
    return {identification: payloads[0] for identification, payloads in found.items() if len(payloads) == 1}


@cache
def accepted_damaged(run: Path) -> list[tuple[bytes, bytes]]:
    """Datagrams that came with a right checksum but not as they were sent: sent, delivered."""
    sent, delivered = (datagrams(run / f"{port}.pcap") for port in ("sender", "receiver"))
    both = [(sent[identification], delivered[identification]) for identification in sent.keys() & delivered.keys()]
    return [(one, other) for one, other in both if one != other]


def ones_complement_sum(octets: bytes) -> int:
    """Of 16-bit words, with end-around carry (RFC 1071)."""
    words = (int.from_bytes(octets[at : at + 2].ljust(2, b"\0")) for at in range(0, len(octets), 2))
    return sum(words) % 0xFFFF


def flipped_bits(sent: bytes, delivered: bytes) -> list[tuple[int, int]]:
    """Place in its 16-bit word, and direction, of each bit that differs."""
    octets = [at for at in range(len(sent)) if sent[at] != delivered[at]]
    bits = [8 * at + bit for at in octets for bit in range(8) if (sent[at] ^ delivered[at]) & 0x80 >> bit]
    return [(at % 16, 1 if delivered[at // 8] & 0x80 >> at % 8 else -1) for at in bits]


def test_a_file_in_bundles_without_a_check_is_corrupt(results: Path) -> None:
    record = json.loads((run_with(results, "none") / "record.json").read_text())

    assert record["outcome"] == "corrupt"


def test_a_file_in_bundles_with_a_check_is_not(results: Path) -> None:
    run = run_with(results, "crc32c")
    record = json.loads((run / "record.json").read_text())

    assert record["outcome"] == "completed"
    assert record["received_sha256"] == record["file_sha256"]
    assert accepted_damaged(run), "the same channel did no such thing to this run"


def test_the_flips_that_passed_cancel_in_the_sum_of_words(results: Path) -> None:
    damaged = accepted_damaged(run_with(results, "none"))

    assert damaged
    for sent, delivered in damaged:
        assert ones_complement_sum(sent) == ones_complement_sum(delivered)
        flips = flipped_bits(sent, delivered)
        if len(flips) == 2:
            (one, up), (other, down) = flips
            assert one == other, "not the same bit of two words"
            assert up == -down, "not in opposite directions"


def test_most_of_what_passes_has_two_flips(results: Path) -> None:
    counts = [
        len(flipped_bits(*pair)) for check in ("none", "crc32c") for pair in accepted_damaged(run_with(results, check))
    ]

    assert sum(count == 2 for count in counts) > len(counts) / 2

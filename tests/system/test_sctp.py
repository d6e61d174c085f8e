"""Transfers over SCTP, their chunks counted with tshark; and the kernel's cookies."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import require_command
from tests.system.sweeps import perform, records

SENDER = "10.77.0.1"
LOST_COOKIE_ACK = [{"direction": "reverse", "packet": "sctp.cookie-ack", "occurrence": 1, "action": "drop"}]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with errors, with its complete captures."""
    require_command("tshark")
    directory = tmp_path_factory.mktemp("sctp")
    lossy = {"packet_error_rate": 0.05, "keep_captures": "full"}
    done = perform(directory, directory / "results", implementations=["socat-sctp"], **lossy)
    ((name, record),) = records(directory / "results").items()
    assert (done.returncode, record["outcome"], record["suspect"]) == (0, "completed", []), record["reason"]
    return directory / "results" / "runs" / name


def numbers_by_packet(capture: Path) -> list[str]:
    """Of each packet of the sender, the numbers of its DATA chunks as tshark writes them, with commas between them."""
    wanted = ["-Y", f"sctp && ip.src == {SENDER}", "-T", "fields", "-e", "frame.number", "-e", "sctp.data_tsn_raw"]
    command = ["tshark", "-r", str(capture), *wanted]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [line.partition("\t")[2] for line in lines]


def test_packets_and_retransmissions_of_the_sender_are_those_that_tshark_counts(run: Path) -> None:
    by_packet = numbers_by_packet(run / "sender.pcap")
    numbers = [number for some in by_packet for number in some.split(",") if number]
    repeated = sum(count - 1 for count in Counter(numbers).values())
    summary = json.loads((run / "summary.json").read_text())
    counts = json.loads((run / "protocol.json").read_text())["counts"]["sender"]

    assert summary["str_sent"] == len(by_packet)
    assert (counts["DATA"], counts["retransmission"]) == (len(numbers) - repeated, repeated)
    assert repeated > 0


@pytest.mark.parametrize(
    ("action", "outcome"),
    [({"corrupt_field": "sctp[28:4] = 0x00000000"}, "corrupt"), ({"corrupt_bits": [8 * (14 + 20 + 28)]}, "completed")],
    ids=["field", "bit"],
)
def test_the_kernel_accepts_a_changed_field_and_no_flipped_bit(
    tmp_path: Path, action: dict[str, Any], outcome: str
) -> None:
    fault = {"direction": "forward", "packet": "sctp.data", "occurrence": 3, "action": action}
    perform(tmp_path, tmp_path / "results", implementations=["socat-sctp"], faults=[fault])
    (record,) = records(tmp_path / "results").values()

    assert (record["outcome"], record["suspect"]) == (outcome, [])
    assert record["emulator_statistics"]["forward"]["faults"]["corrupted_packets"] == 1


@pytest.mark.parametrize(("cookie_hmac", "outcome"), [("none", "completed"), ("", "timed_out")])
def test_after_a_lost_cookie_ack_only_cookies_without_a_signature_are_answered_again(
    tmp_path: Path, cookie_hmac: str, outcome: str
) -> None:
    parameters = {"socat-sctp": {"cookie_hmac": cookie_hmac}}
    perform(
        tmp_path,
        tmp_path / "results",
        implementations=["socat-sctp"],
        parameters=parameters,
        faults=LOST_COOKIE_ACK,
        file_size="20 kB",
    )

    (record,) = records(tmp_path / "results").values()
    assert record["outcome"] == outcome
    assert ("sctp 5003 ESTABLISHED" in record["receiver"]["open_sockets"]) == (outcome == "timed_out")

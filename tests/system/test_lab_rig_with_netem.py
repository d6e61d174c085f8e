"""A lab rig whose emulator has netem: the rack of tests/lab, in a guest on the real clock."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.kernel.kernel import Kernel
from tests.conftest import require, require_command
from tests.system.conftest import Guest
from tests.system.sweeps import records

SCRIPT = Path(__file__).parent / "guest_scripts" / "lab_rig.py"


@dataclass(frozen=True)
class Performed:
    """`requirements` of `owlt rig verify` by their names, netem in `tc -s` by its port, the run's files and record."""

    requirements: dict[str, dict[str, Any]]
    certificates: Path
    netem: dict[str, dict[str, Any]]
    run: Path
    record: dict[str, Any]


@pytest.fixture(scope="module")
def performed(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> Performed:
    require(os.geteuid() == 0, "root: sudo in a guest reads files that only root can read")
    for command in ("sshd", "sudo", "openssl", "tshark"):
        require_command(command)
    out = tmp_path_factory.mktemp("lab-rig")
    done = Guest(out, guest_kernel).run(SCRIPT, clock="real", timeout_s=560)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = json.loads(done.stdout)
    ((run_id, record),) = records(out / "results").items()
    requirements = {each["name"]: each for each in shown["verified"]}
    netem = {each["dev"]: each for each in shown["tc"]}
    return Performed(requirements, out / "verified" / "certificates", netem, out / "results" / "runs" / run_id, record)


def test_an_emulator_with_netem_is_certified_with_an_impaired_channel(performed: Performed) -> None:
    assert performed.requirements["rack-emulator: kernel: netem"]["found"]
    assert "not measured" not in performed.requirements["certificate: terrestrial"]["detail"]


@pytest.mark.parametrize("quantity", ["frames lost", "frames damaged", "packets duplicated", "packets out of order"])
def test_the_certificate_counts_what_the_channel_specifies(performed: Performed, quantity: str) -> None:
    """Delays and rates beyond that are those of a machine that has other work."""
    shares = [each for each in checks(performed) if quantity in each["quantity"]]

    assert len(shares) >= 2
    assert {each["verdict"] for each in shares} == {"ok"}, shares


def test_no_packet_is_faster_than_the_delay_that_the_channel_specifies(performed: Performed) -> None:
    lowest = [each for each in checks(performed) if "one-way delay" in each["quantity"] and ", p0," in each["quantity"]]

    assert len(lowest) == 4, "two sizes, both ways"
    for each in lowest:
        assert each["specified"] >= 25e6
        assert each["specified"] <= each["measured"] < 2 * each["specified"], each


def test_a_run_over_an_impaired_channel_completes(performed: Performed) -> None:
    assert (performed.record["rig"], performed.record["clock"]) == ("lab", "real")
    assert performed.record["outcome"] == "completed", performed.record["reason"]


def test_the_packets_that_the_channel_lost_are_those_that_tc_counted(performed: Performed) -> None:
    pipe = performed.record["emulator_statistics"]["forward"]["pipe"]
    netem = performed.netem["to-receiver"]

    assert pipe["lost_packets"] > 0
    assert (pipe["packets"], pipe["bytes"], pipe["lost_packets"]) == (
        netem["packets"],
        netem["bytes"],
        netem["drops"],
    )


def test_the_ledger_of_the_run_is_what_tshark_counts_at_both_ports(performed: Performed) -> None:
    ledger = json.loads((performed.run / "summary.json").read_text())["ledger_forward"]
    sent, delivered = (datagrams(performed.run / f"{role}.pcap") for role in ("sender", "receiver"))

    assert (ledger["sent"], ledger["delivered"]) == (sent, delivered)
    assert ledger["lost"] == sent - delivered == performed.netem["to-receiver"]["drops"]


def checks(performed: Performed) -> list[dict[str, Any]]:
    return json.loads((performed.certificates / "terrestrial.json").read_text())["checks"]  # type: ignore[no-any-return]


def datagrams(capture: Path) -> int:
    """The sender's datagrams in a capture, as tshark counts them."""
    of_sender = "udp && !icmp && ip.src == 10.77.0.1"  # an ICMP error quotes the headers of a datagram
    command = ["tshark", "-r", str(capture), "-Y", of_sender, "-T", "fields", "-e", "frame.number"]
    return len(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())

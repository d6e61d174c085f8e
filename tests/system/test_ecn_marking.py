"""ECN marking in a guest: which frames the gate marks, what certificates say of it, and what a TCP transfer does.

The marks are read here with the test's own arithmetic, and with tshark, independent of the probes and of the ledger.
"""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from owlt.emulator.certification.intervals import share_interval
from owlt.orchestrator.kernel.kernel import Kernel
from tests.conftest import require_command
from tests.system.conftest import Guest
from tests.system.sweeps import RECORDED, owlt, perform, records
from tests.system.test_bpf_stages import ran
from tests.system.test_certificate import SCRIPT, verdicts

ALPHA = 1e-6
COUNT = 4_000
PROBABILITY = 0.1
ETHERNET = "02004f574c0102004f574c02"
NOT_ECT, ECT_1, ECT_0, CE = range(4)


def ipv4(codepoint: int, dscp: int = 0, identification: int = 0, frame_bytes: int = 64) -> str:
    """A frame with an IPv4 packet whose header checksum is right."""
    header = bytearray(20)
    header[0], header[1], header[8], header[9] = 0x45, dscp << 2 | codepoint, 64, 17
    header[2:4] = (frame_bytes - 14).to_bytes(2, "big")
    header[4:6] = identification.to_bytes(2, "big")
    header[12:20] = bytes((192, 0, 2, 1, 192, 0, 2, 2))
    header[10:12] = (~ones_sum(bytes(header)) & 0xFFFF).to_bytes(2, "big")
    return (bytes.fromhex(ETHERNET + "0800") + header).ljust(frame_bytes, b"\x5a").hex()


def ipv6(codepoint: int, dscp: int = 0) -> str:
    first = 6 << 28 | (dscp << 2 | codepoint) << 20 | 0xABCDE
    packet = first.to_bytes(4, "big") + (24).to_bytes(2, "big") + bytes((17, 64)) + bytes(32)
    return (bytes.fromhex(ETHERNET + "86dd") + packet).ljust(78, b"\x5a").hex()


def ones_sum(header: bytes) -> int:
    total = sum(int.from_bytes(header[at : at + 2], "big") for at in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def is_marked(frame: str) -> bool:
    """Whether the IPv4 packet of a frame has CE."""
    return int(frame[30:32], 16) & 3 == CE


ALWAYS = {"mtu_bytes": None, "queue_ns": None, "rate_bytes_per_s": 0, "marking": {"probability": 1.0, "seed": 1}}
SOMETIMES = {**ALWAYS, "marking": {"probability": PROBABILITY, "seed": 7}}
SLOW = {"mtu_bytes": None, "queue_ns": None, "rate_bytes_per_s": 12_500, "queue_packets": 30, "overhead_bytes": 24}
CAPABLE, PLAIN = ipv4(ECT_0), ipv4(NOT_ECT)
KINDS = {
    "ECT(0)": (ipv4(ECT_0, dscp=46), ipv4(CE, dscp=46)),
    "ECT(1)": (ipv4(ECT_1), ipv4(CE)),
    "not ECT": (ipv4(NOT_ECT, dscp=46), ipv4(NOT_ECT, dscp=46)),
    "CE": (ipv4(CE), ipv4(CE)),
    "IPv6 ECT(0)": (ipv6(ECT_0, dscp=46), ipv6(CE, dscp=46)),
    "IPv6 ECT(1)": (ipv6(ECT_1), ipv6(CE)),
    "IPv6 not ECT": (ipv6(NOT_ECT, dscp=10), ipv6(NOT_ECT, dscp=10)),
    "ARP": ((ETHERNET + "0806").ljust(120, "0"), (ETHERNET + "0806").ljust(120, "0")),
    "owlt's probes": ((ETHERNET + "88b5" + "4502").ljust(128, "0"), (ETHERNET + "88b5" + "4502").ljust(128, "0")),
    "another version": (ETHERNET + "0800" + "6502" + 64 * "00", ETHERNET + "0800" + "6502" + 64 * "00"),
}
"""A frame, and the frame that leaves a gate which marks every ECN-capable packet."""


def times(frame: str, count: int) -> dict[str, Any]:
    return {"frames": [frame], "times": count}


def by_queue(**marking: Any) -> list[dict[str, Any]]:
    """40 packets at once and, after the time of three packets, ten more."""
    beginning = [{"admission": SLOW | {"marking": marking}}, times(CAPABLE, 40)]
    return [*beginning, {"sleep_ns": 3 * PACKET_NS}, times(CAPABLE, 10)]


PACKET_NS = (64 + 24) * 80_000
SEED_8 = {**ALWAYS, "marking": {"probability": PROBABILITY, "seed": 8}}
AT_ONE = SLOW | {"marking": {"threshold_packets": 1}}
EXPERIMENTS: dict[str, list[dict[str, Any]]] = {
    "kinds": [{"admission": ALWAYS}, {"frames": [before for before, _ in KINDS.values()]}],
    "sometimes": [{"admission": SOMETIMES}, times(CAPABLE, COUNT)],
    "sometimes again": [{"admission": SOMETIMES}, times(CAPABLE, COUNT)],
    "another seed": [{"admission": SEED_8}, times(CAPABLE, COUNT)],
    "not capable": [{"admission": SOMETIMES}, times(PLAIN, COUNT)],
    "not capable among them": [{"admission": SOMETIMES}, times(PLAIN, 100), times(CAPABLE, 1000)],
    "by packets": by_queue(threshold_packets=20),
    "by time": by_queue(threshold_ns=19 * PACKET_NS + 1),
    "by both": by_queue(threshold_packets=20, probability=0.2, seed=3),
    "by a queue of plain packets": [{"admission": AT_ONE}, times(PLAIN, 40)],
    "no mark": [{"admission": SLOW}, times(CAPABLE, 40)],
    "with an MTU": [
        {"admission": {**ALWAYS, "mtu_bytes": 50}},
        {"frames": [ipv4(ECT_0, frame_bytes=64), ipv4(ECT_0, frame_bytes=65)]},
    ],
}


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> Any:
    """What the gate did in each experiment, on the exact clock."""
    return ran(tmp_path_factory.mktemp("marks"), guest_kernel, "bpf_gate", json.dumps(EXPERIMENTS))


@pytest.mark.parametrize("kind", KINDS)
def test_a_mark_changes_the_codepoint_and_the_header_checksum_and_nothing_else(gates: Any, kind: str) -> None:
    left = dict(zip(KINDS, gates["kinds"]["left"], strict=True))

    assert left[kind] == KINDS[kind][1]


def test_the_marked_packets_are_counted(gates: Any) -> None:
    changed = sum(before != after for before, after in KINDS.values())

    assert gates["kinds"]["counters"]["marked_packets"] == changed == 4


def marks(told: Any) -> list[bool]:
    return [is_marked(frame) for frame in told["left"]]


def test_as_many_packets_are_marked_as_the_probability_says(gates: Any) -> None:
    marked = sum(marks(gates["sometimes"]))
    low, high = share_interval(marked, COUNT, ALPHA)

    assert low <= PROBABILITY <= high
    assert gates["sometimes"]["counters"]["marked_packets"] == marked


@pytest.mark.parametrize("factor", [0.5, 2])
def test_another_probability_is_distinguished(gates: Any, factor: float) -> None:
    """The control of the test above."""
    low, high = share_interval(sum(marks(gates["sometimes"])), COUNT, ALPHA)

    assert not low <= PROBABILITY * factor <= high


def test_the_same_seed_marks_the_same_packets(gates: Any) -> None:
    assert marks(gates["sometimes again"]) == marks(gates["sometimes"])


def test_another_seed_marks_others(gates: Any) -> None:
    assert marks(gates["another seed"]) != marks(gates["sometimes"])


def test_packets_that_are_not_ecn_capable_are_never_marked(gates: Any) -> None:
    assert gates["not capable"]["left"] == [PLAIN] * COUNT
    assert gates["not capable"]["counters"]["marked_packets"] == 0


def test_packets_that_are_not_ecn_capable_draw_nothing(gates: Any) -> None:
    assert marks(gates["not capable among them"])[100:] == marks(gates["sometimes"])[:1000]


@pytest.mark.parametrize("name", ["by packets", "by time"])
def test_packets_are_marked_from_the_threshold_on_and_not_below(gates: Any, name: str) -> None:
    """The 21st packet of a burst is the first that finds 20. Of the 30 that fit, three leave before the next come."""
    passed = [passed for _, _, passed in gates[name]["frames"]]

    assert passed == [*[True] * 30, *[False] * 10, *[True] * 3, *[False] * 7]
    assert marks(gates[name])[:30] == [*[False] * 20, *[True] * 10]
    assert marks(gates[name])[40:43] == [True] * 3
    assert gates[name]["counters"]["marked_packets"] == 13


def test_above_the_threshold_all_are_marked_and_below_it_some(gates: Any) -> None:
    marked = marks(gates["by both"])[:30]

    assert 0 < sum(marked[:20]) < 20
    assert all(marked[20:])


def test_a_queue_of_packets_that_are_not_ecn_capable_is_dropped_and_not_marked(gates: Any) -> None:
    told = gates["by a queue of plain packets"]

    assert told["left"] == [PLAIN] * 40
    assert (told["counters"]["marked_packets"], told["counters"]["dropped_queue_packets"]) == (0, 10)


def test_a_gate_without_a_rule_for_marks_counts_none(gates: Any) -> None:
    assert "marked_packets" not in gates["no mark"]["counters"]
    assert gates["no mark"]["left"] == [CAPABLE] * 40


def test_packets_that_are_too_long_are_dropped_and_not_marked(gates: Any) -> None:
    assert [passed for _, _, passed in gates["with an MTU"]["frames"]] == [True, False]
    assert gates["with an MTU"]["counters"]["marked_packets"] == 1


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_rule_with_marks_is_read_back_as_it_was_written(gates: Any, name: str) -> None:
    assert gates[name]["read_back"]


# Certificates

THRESHOLD = {"rate": "10 Mbit/s", "queue": "50 packets", "ecn_marking": {"queue_threshold": "20 packets"}}
SHARE = {"delay": "10 ms", "rate": "10 Mbit/s", "ecn_marking": {"probability": 0.1}}
IN_TIME = {"rate": "10 Mbit/s", "queue": "64 kB", "ecn_marking": {"queue_threshold": "20 ms", "probability": 0.05}}
IN_BYTES = {"rate": "10 Mbit/s", "packet_error_rate": 0.01, "ecn_marking": {"queue_threshold": "30 kB"}}
RIGHT: dict[str, dict[str, Any]] = {
    "share and threshold": {"applied": {"forward": SHARE, "reverse": THRESHOLD}},
    "thresholds in time and bytes": {"applied": {"forward": IN_TIME, "reverse": IN_BYTES}},
}
OF_SHARE, OF_PLAIN = "share of ECN-capable packets marked CE", "packets marked CE that are not ECN-capable"
OF_THRESHOLD = "queue from which on packets are marked CE, packets"
WRONG: dict[str, tuple[dict[str, Any], set[str]]] = {
    "probability": (
        {
            "applied": {"forward": SHARE | {"ecn_marking": {"probability": 0.15}}},
            "certified": {"forward": SHARE},
        },
        {OF_SHARE},
    ),
    "no marks": ({"applied": {}, "certified": {"forward": {"ecn_marking": {"probability": 0.01}}}}, {OF_SHARE}),
    "threshold": (
        {
            "applied": {"forward": THRESHOLD | {"ecn_marking": {"queue_threshold": "21 packets"}}},
            "certified": {"forward": THRESHOLD},
        },
        {OF_THRESHOLD},
    ),
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> dict[str, Any]:
    """What came of each certificate. All are made in one guest, one after the other."""
    cases = RIGHT | {name: asked for name, (asked, _) in WRONG.items()}
    guest = Guest(tmp_path_factory.mktemp("certified"), guest_kernel)
    done = guest.run(SCRIPT, json.dumps([*cases.values()]), timeout_s=500)
    assert done.returncode == 0, done.stderr
    return dict(zip(cases, json.loads(done.stdout), strict=True))


@pytest.mark.parametrize("name", RIGHT)
def test_a_channel_that_marks_as_specified_is_certified(certificates: Any, name: str) -> None:
    told = certificates[name]

    assert told["certificate"]["verdict"] == "ok", told["suspicion"] + sorted(verdicts(told, "not measured"))
    measured = [check["quantity"] for check in told["certificate"]["checks"]]
    assert (measured.count(OF_SHARE), measured.count(OF_PLAIN)) == (2, 2)
    assert told["after"] == told["before"]


def test_the_share_is_certified_with_a_sample_that_shows_a_factor_of_one_and_a_half(certificates: Any) -> None:
    checks = certificates["share and threshold"]["certificate"]["checks"]
    (check,) = [each for each in checks if each["quantity"] == OF_SHARE and each["direction"] == "forward"]

    assert 0.1 / 1.5 <= check["detectable_low"] < 0.1 < check["detectable_high"] <= 0.15
    assert check["low"] <= 0.1 <= check["high"]


@pytest.mark.parametrize("name", WRONG)
def test_a_channel_that_marks_others_than_specified_fails_on_that(certificates: Any, name: str) -> None:
    assert verdicts(certificates[name], "failed") == {f"forward: {quantity}" for quantity in WRONG[name][1]}


# A transfer

CHANNELS: dict[str, dict[str, Any]] = {
    "marks": {"both": {"delay": "10 ms", "rate": "10 Mbit/s"}, "forward": {"ecn_marking": {"probability": 0.05}}},
    "queue": {
        "both": {"delay": "10 ms", "rate": "10 Mbit/s"},
        "forward": {"queue": "200 packets", "ecn_marking": {"queue_threshold": "20 packets"}},
    },
}


@pytest.fixture(scope="module")
def transfers(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """TCP with ECN and without over both channels, with their captures whole."""
    directory = tmp_path_factory.mktemp("transfers")
    files = []
    for name, links in CHANNELS.items():
        files.append(str(directory / f"{name}.yaml"))
        Path(files[-1]).write_text(json.dumps({"name": name, **links}))
    done = perform(
        directory,
        directory / "results",
        **{"rate": None, "delay": None, "packet_error_rate": None},
        implementations=["tcp"],
        parameters={"tcp": {"ecn": [0, 1]}},
        file_size="2 MB",
        channel=files,
        certify=False,
        keep_captures="full",
    )
    assert done.returncode in RECORDED, done.stderr
    reported = owlt("report", directory / "results")
    assert reported.returncode == 0, reported.stderr
    return directory / "results"


def run_of(results: Path, channel: str, ecn: int) -> Path:
    (run_id,) = (
        run_id
        for run_id, run in records(results).items()
        if run["channel_name"] == channel and run["implementation"] == f"tcp+ecn={ecn}"
    )
    return results / "runs" / run_id


def row_of(results: Path, channel: str, ecn: int) -> dict[str, str]:
    rows = csv.DictReader((results / "report" / "runs.csv").read_text().splitlines())
    (row,) = (row for row in rows if row["run_id"] == run_of(results, channel, ecn).name)
    return row


def counted(capture: Path, chosen: str) -> int:
    """How many frames of a capture tshark finds."""
    command = [require_command("tshark"), "-r", str(capture), "-Y", chosen]
    return len(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())


SENT = "ip.src == 10.77.0.1"
MARKED = f"{SENT} && ip.dsfield.ecn == 3"


@pytest.mark.parametrize("channel", CHANNELS)
def test_the_ledger_counts_the_marks_that_tshark_sees_and_no_damage(transfers: Path, channel: str) -> None:
    run, row = run_of(transfers, channel, 1), row_of(transfers, channel, 1)
    marked = counted(run / "receiver.pcap", MARKED)

    assert marked > 0
    assert counted(run / "sender.pcap", MARKED) == 0
    assert int(row["forward_ecn_marked"]) == marked
    assert (row["forward_corrupted"], row["forward_unexplained_missing"]) == ("0", "0")
    assert counted(run / "receiver.pcap", "ip.checksum.status == 0") == 0
    assert (row["outcome"], row["suspect"]) == ("completed", "")


@pytest.mark.parametrize("channel", CHANNELS)
def test_the_gate_counted_the_marks_that_arrived(transfers: Path, channel: str) -> None:
    run = run_of(transfers, channel, 1)
    record = json.loads((run / "record.json").read_text())

    gate = record["emulator_statistics"]["forward"]["gate"]
    assert gate["marked_packets"] == counted(run / "receiver.pcap", MARKED)


@pytest.mark.parametrize("channel", CHANNELS)
def test_tcp_answers_marks_with_ece_and_cwr(transfers: Path, channel: str) -> None:
    run = run_of(transfers, channel, 1)

    assert counted(run / "receiver.pcap", "ip.src == 10.77.0.2 && tcp.flags.ece == 1 && tcp.flags.syn == 0") > 0
    assert counted(run / "sender.pcap", f"{SENT} && tcp.flags.cwr == 1 && tcp.flags.syn == 0") > 0


@pytest.mark.parametrize("channel", CHANNELS)
def test_without_ecn_no_packet_is_capable_and_none_is_marked(transfers: Path, channel: str) -> None:
    run, row = run_of(transfers, channel, 0), row_of(transfers, channel, 0)

    assert counted(run / "receiver.pcap", "ip.dsfield.ecn != 0") == 0
    assert (row["forward_ecn_capable"], row["forward_ecn_marked"]) == ("0", "0")


def test_the_share_of_marks_is_that_of_the_probability(transfers: Path) -> None:
    row = row_of(transfers, "marks", 1)
    low, high = share_interval(int(row["forward_ecn_marked"]), int(row["forward_ecn_capable"]), ALPHA)

    assert low <= 0.05 <= high


def test_with_marks_the_queue_stays_short_and_without_it_does_not(transfers: Path) -> None:
    with_ecn, without = (int(row_of(transfers, "queue", ecn)["forward_owd_max_ns"]) for ecn in (1, 0))

    assert with_ecn < without


@pytest.mark.parametrize("channel", CHANNELS)
def test_the_table_of_runs_has_the_rule(transfers: Path, channel: str) -> None:
    row = row_of(transfers, channel, 1)

    assert json.loads(row["forward_ecn_marking"]) == CHANNELS[channel]["forward"]["ecn_marking"]
    assert row["reverse_ecn_marking"] == ""


def test_marked_packets_keep_their_order(transfers: Path) -> None:
    """A control that the receiver's capture is one of a channel that only marks."""
    row = row_of(transfers, "marks", 1)

    assert (row["forward_reordered"], row["forward_duplicated"], row["forward_lost"]) == ("0", "0", "0")

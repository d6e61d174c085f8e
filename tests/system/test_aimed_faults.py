"""Aimed faults: each action on the packets that it is aimed at, and on no others, by captures, libpcap and tshark."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from owlt.emulator.channel.aimed_fault import compiled, passes
from tests.system.conftest import Guest
from tests.system.test_channel_changes import MS, SLACK_NS, Passed, passed
from tests.system.test_emulator_channel import SCRIPTS, read_pcap

COUNT = 20
THIRD = 2
"""The number of the third packet: numbers count from 0."""
OVER_LOOPBACK_NS = 100_000
"""How late a packet may be that the emulator's process sends: it is scheduled, and reads the clock."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the captures are, a folder for each case."""
    return tmp_path_factory.mktemp("aimed")


@pytest.fixture(scope="module")
def cases(folder: Path, guest_kernel: Any) -> dict[str, Passed]:
    """All cases, from one boot."""
    from owlt.emulator.kernel.bpf.compile import compile_all

    compile_all()
    done = Guest(folder, guest_kernel).run(SCRIPTS / "aimed.py", timeout_s=240)
    assert done.returncode == 0, done.stderr
    return {name: passed(told, folder / name) for name, told in json.loads(done.stdout).items()}


def without(*numbers: int, count: int = COUNT) -> list[int]:
    return [number for number in range(count) if number not in numbers]


def test_without_faults_every_packet_arrives_once_and_in_order(cases: dict[str, Passed]) -> None:
    assert cases["control"].order_out == without()


@pytest.mark.parametrize(
    ("case", "lost"),
    [
        ("drop", [2]),
        ("drop-instead", [2]),
        ("drop-list", [0, 3, 4, 5]),
        ("drop-every", [4, 9, 14, 19]),
        ("drop-by-content", [7]),
        ("from-until", [6, 7, 8, 9, 10]),
        ("after", [2, 4]),
    ],
)
def test_exactly_the_packets_that_are_aimed_at_are_lost(cases: dict[str, Passed], case: str, lost: list[int]) -> None:
    assert cases[case].order_out == without(*lost)


def test_a_packet_that_is_sent_again_can_be_hit_by_the_errors_of_the_link(cases: dict[str, Passed]) -> None:
    case = cases["delay-and-errors"]
    lost = case.told["statistics"]["forward"]["errors"]["dropped_packets"]

    assert 0 < lost < COUNT
    assert len(case.order_out) == COUNT - lost
    assert (case.told["status"]["failure"], case.told["status"]["held"]) == ("", 0)


def test_faults_that_took_the_place_of_others_are_reported_as_if_they_had_been_the_first(
    cases: dict[str, Passed],
) -> None:
    told, first = cases["drop-instead"].told, cases["drop"].told

    assert [told[key] for key in ("configured", "described")] == [first[key] for key in ("configured", "described")]
    assert told["status"]["faults"] == first["status"]["faults"]
    assert "faults" not in told["statistics"]["reverse"]


def test_faults_that_have_counted_a_packet_are_not_replaced(cases: dict[str, Passed]) -> None:
    assert "packets have been counted already" in cases["drop-instead"].told["refusal"]


def test_packets_that_are_not_in_the_scope_are_not_counted(cases: dict[str, Passed]) -> None:
    fault = cases["out-of-scope"].told["status"]["faults"][0]

    assert cases["out-of-scope"].order_out == without()
    assert (fault["seen"], fault["hits"]) == (0, 0)


def test_a_delayed_packet_arrives_that_much_later_and_the_others_are_not_delayed(cases: dict[str, Passed]) -> None:
    delays_ns = cases["delay"].delays_ns

    assert 145 * MS <= delays_ns.pop(THIRD) <= 145 * MS + OVER_LOOPBACK_NS
    assert all(50 * MS <= delay_ns <= 50 * MS + SLACK_NS for delay_ns in delays_ns.values())


def test_a_packet_held_until_a_time_is_sent_then(cases: dict[str, Passed]) -> None:
    case = cases["hold-until"]
    started_ns = case.came_in_ns[THIRD] - int(case.told["status"]["hits"][0]["at_ns"])

    assert 1050 * MS - SLACK_NS <= case.went_out_ns[THIRD] - started_ns <= 1050 * MS + OVER_LOOPBACK_NS


def test_a_packet_held_until_another_one_follows_it_at_once(cases: dict[str, Passed]) -> None:
    assert cases["hold-until-packet"].order_out == [*range(2), *range(3, 10), THIRD, *range(10, COUNT)]


def test_a_packet_is_overtaken_by_as_many_as_specified(cases: dict[str, Passed]) -> None:
    assert cases["reorder"].order_out == [0, 1, 3, 4, 5, THIRD, *range(6, COUNT)]


def test_a_duplicated_packet_arrives_with_all_its_copies_at_its_place(cases: dict[str, Passed]) -> None:
    assert cases["duplicate"].order_out == [0, 1, *[THIRD] * 5, *range(3, COUNT)]


def test_a_replayed_packet_arrives_at_its_place_and_later(cases: dict[str, Passed]) -> None:
    assert cases["replay"].order_out == [*range(13), THIRD, *range(13, COUNT)]


def test_the_bits_that_are_aimed_at_are_flipped_and_no_others(cases: dict[str, Passed], folder: Path) -> None:
    sent, arrived = (frames(folder, "corrupt-bits", capture)[THIRD] for capture in ("sender-in", "receiver-out"))
    differences = int.from_bytes(sent) ^ int.from_bytes(arrived)

    assert differences == 0b11 << (len(sent) * 8 - 402)


def test_a_field_gets_its_value_and_right_checksums_by_tshark(cases: dict[str, Passed], folder: Path) -> None:
    command = ["tshark", "-r", str(folder / "corrupt-field/receiver-out.pcap"), "-o", "udp.check_checksum:TRUE"]
    command += ["-T", "fields", "-e", "udp.payload", "-e", "udp.checksum.status", "-Y", "udp"]
    payloads = [line.split("\t") for line in subprocess.check_output(command, text=True).splitlines()]

    assert [payload[:8] for payload, _ in payloads].count("deadbeef") == 1
    assert payloads[THIRD][0].startswith("deadbeef")
    assert {status for _, status in payloads} == {"1"}


def test_a_probability_hits_a_share_and_the_same_packets_by_the_same_seed(cases: dict[str, Passed]) -> None:
    from owlt.emulator.certification.intervals import share_interval

    once, again = cases["probability"], cases["same-probability"]
    low, high = share_interval(400 - len(once.order_out), 400, 1e-6)

    assert once.order_out == again.order_out
    assert low <= 0.3 <= high
    assert len(once.order_out) < 400


def test_the_channel_read_back_has_the_faults(cases: dict[str, Passed]) -> None:
    for case in cases.values():
        assert case.told["described"] == case.told["configured"]
    assert cases["delay"].told["described"]["faults"][0]["action"] == {"delay": "95 ms"}


def test_the_packets_of_a_class_are_those_that_libpcap_passes(cases: dict[str, Passed], folder: Path) -> None:
    for name in ("drop", "drop-every", "delay"):
        (fault,) = cases[name].told["status"]["faults"]
        code = compiled(fault["packet"])
        passed = [frame for frame in frames(folder, name, "sender-in") if passes(code, frame, len(frame))]

        assert fault["seen"] == COUNT == len(passed)
        assert fault["hits"] == len(cases[name].told["status"]["hits"])


def test_each_hit_has_the_beginning_of_its_frame(cases: dict[str, Passed], folder: Path) -> None:
    sent = frames(folder, "drop", "sender-in")[THIRD]
    hit = cases["drop"].told["status"]["hits"][0]

    assert (hit["occurrence"], hit["frame_bytes"]) == (3, len(sent))
    assert sent.hex().startswith(hit["head"])


def test_counters_say_what_became_of_the_packets(cases: dict[str, Passed]) -> None:
    dropped, doubled = (cases[name].told["statistics"]["forward"]["faults"] for name in ("drop", "duplicate"))

    assert (dropped["packets"], dropped["dropped_packets"]) == (COUNT, 1)
    assert doubled["duplicated_packets"] == 4


def frames(folder: Path, case: str, capture: str) -> list[bytes]:
    return [frame for _, frame in read_pcap(folder / case / f"{capture}.pcap")]


def test_neither_tap_nor_filters_are_left_behind_by_faults_that_hold_packets(tmp_path: Path, guest_kernel: Any) -> None:
    done = Guest(tmp_path, guest_kernel).run(SCRIPTS / "aimed_lifetimes.py", timeout_s=240)
    assert done.returncode == 0, done.stderr
    tap_and_filters, filters, none = [True, True], [False, True], [False, False]

    assert json.loads(done.stdout) == {
        "holding": tap_and_filters,
        "cleared": none,
        "replaced": none,
        "changed": tap_and_filters,
        "certified": tap_and_filters,
        "stopped": none,
        "killed": filters,
        "served again": none,
    }

"""A channel that changes while packets pass: what becomes of those in flight, of those that come, and when."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.system.test_emulator_channel import SCRIPTS, read_pcap

MS = 10**6
FRAME_BYTES = 14 + 20 + 8 + 100
SERIALIZATION_NS = FRAME_BYTES * 8 * 5_000
"""At the 200 kbit/s of the outages."""
SLACK_NS = 3_000
"""Of the exact clock: each stage's own time, and the emulator's between its clock and the kernel."""


@dataclass(frozen=True)
class Passed:
    """One case: what was told, and for each packet of the sender when it came in and when it went out."""

    told: Any
    came_in_ns: dict[int, int]
    went_out_ns: dict[int, int]
    order_out: list[int]

    @property
    def delays_ns(self) -> dict[int, int]:
        """One-way delay by packet number, of those that arrived."""
        return {number: at_ns - self.came_in_ns[number] for number, at_ns in self.went_out_ns.items()}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Any) -> dict[str, Passed]:
    """All cases, from one boot."""
    from tests.system.conftest import Guest

    folder = tmp_path_factory.mktemp("changing")
    done = Guest(folder, guest_kernel).run(SCRIPTS / "changing.py", timeout_s=120)
    assert done.returncode == 0, done.stderr
    return {name: passed(told, folder / name) for name, told in json.loads(done.stdout).items()}


def passed(told: Any, folder: Path) -> Passed:
    came_in = {number: at_ns for at_ns, number in numbered(folder / "sender-in.pcap")}
    went_out = list(numbered(folder / "receiver-out.pcap"))
    return Passed(told, came_in, {number: at_ns for at_ns, number in went_out}, [number for _, number in went_out])


def numbered(path: Path) -> list[tuple[int, int]]:
    return [(at_ns, struct.unpack_from(">Q", frame, 42)[0]) for at_ns, frame in read_pcap(path)]


def test_packets_in_flight_keep_their_delay_when_it_is_lowered(cases: dict[str, Passed]) -> None:
    case = cases["lowered"]
    before = [number for number, at_ns in case.came_in_ns.items() if at_ns < case.told["before_ns"]]

    assert len(before) > 50
    assert all(500 * MS <= case.delays_ns[number] <= 500 * MS + SLACK_NS for number in before)


def test_a_link_that_keeps_order_lets_no_packet_overtake_when_its_delay_is_lowered(cases: dict[str, Passed]) -> None:
    case = cases["lowered"]
    last_old_ns = max(at for number, at in case.went_out_ns.items() if case.came_in_ns[number] < case.told["before_ns"])
    new = {number: at_ns for number, at_ns in case.came_in_ns.items() if at_ns > case.told["after_ns"]}

    assert case.order_out == sorted(case.order_out)
    assert len(new) > 50
    for number, at_ns in new.items():
        due_ns = max(at_ns + 100 * MS, last_old_ns)
        assert due_ns <= case.went_out_ns[number] <= due_ns + SLACK_NS


def test_a_link_that_keeps_no_order_lets_packets_overtake_when_its_delay_is_lowered(cases: dict[str, Passed]) -> None:
    case = cases["lowered-free"]
    new = [number for number, at_ns in case.came_in_ns.items() if at_ns > case.told["after_ns"]]

    assert case.order_out != sorted(case.order_out)
    assert all(100 * MS <= case.delays_ns[number] <= 100 * MS + SLACK_NS for number in new)


@pytest.mark.parametrize(
    "name", ["lowered", "lowered-free", "raised", "everything-off", "rate-added", "held", "looped"]
)
def test_a_change_loses_no_packet(cases: dict[str, Passed], name: str) -> None:
    case = cases[name]

    assert sorted(case.order_out) == sorted(case.came_in_ns) == list(range(400))


def test_a_lowered_delay_has_room_for_what_comes_while_thousands_are_in_flight(cases: dict[str, Passed]) -> None:
    case = cases["many-in-flight"]

    assert len(case.order_out) == len(case.came_in_ns) == 10_000
    assert case.told["statistics"]["forward"]["pipe"]["dropped_packets"] == 0


def lost(case: Passed) -> list[int]:
    return sorted(set(case.came_in_ns) - set(case.went_out_ns))


@pytest.mark.parametrize("name", ["other-way-changed", "delay-of-a-lossy-link-changed"])
def test_a_change_draws_no_other_losses(cases: dict[str, Passed], name: str) -> None:
    assert len(lost(cases["undisturbed"])) > 20
    assert lost(cases[name]) == lost(cases["undisturbed"])


def test_a_hold_that_is_ended_early_lets_pass_what_comes_from_then_on(cases: dict[str, Passed]) -> None:
    case = cases["hold-ended-early"]
    after = {number for number, at_ns in case.came_in_ns.items() if at_ns > case.told["ended_ns"]}
    held = {
        number
        for number, at_ns in case.came_in_ns.items()
        if case.told["held_ns"] - 400 * MS < at_ns < case.told["held_ns"]
    }

    assert len(after) > 100
    assert after <= set(case.went_out_ns)
    assert not held & set(case.went_out_ns), "they were in a queue that is no more"
    assert case.told["statistics"]["forward"]["bottleneck"]["dropped_packets"] == len(lost(case))


def test_a_step_of_the_other_way_takes_no_place_of_a_held_queue(cases: dict[str, Passed]) -> None:
    case = cases["step-within-a-hold"]
    start_ns, end_ns = (case.told["started_ns"] + at_ms * MS for at_ms in (501, 1499))
    meanwhile = [number for number, at_ns in case.came_in_ns.items() if start_ns < at_ns < end_ns]

    assert [number for number in meanwhile if number in case.went_out_ns] == meanwhile[:20]


def test_a_held_channel_is_described_as_asked_and_counts_only_packets(cases: dict[str, Passed]) -> None:
    middle = cases["step-within-a-hold"].told["middle"]

    assert middle["described"]["forward"]["queue"] == "20 packets"
    assert middle["described"]["forward"]["up"] is False
    assert middle["statistics"]["forward"]["bottleneck"]["waiting_packets"] == 20
    assert middle["statistics"]["forward"]["bottleneck"]["waiting_bytes"] == 20 * FRAME_BYTES


def test_an_outage_may_drop_first_and_hold_then(cases: dict[str, Passed]) -> None:
    case = cases["dropped-then-held"]
    start_ns = case.told["started_ns"]
    late = [number for number, at_ns in case.came_in_ns.items() if 1001 * MS < at_ns - start_ns < 1499 * MS]

    assert len(late) > 40
    assert all(case.went_out_ns[number] > start_ns + 1550 * MS for number in late)


def test_nothing_passes_an_outage_that_drops_not_even_duplicates(cases: dict[str, Passed]) -> None:
    case = cases["down-with-duplicates"]

    assert (len(case.came_in_ns), len(case.order_out)) == (400, 0)


def test_a_channel_can_be_changed_after_a_bypass(cases: dict[str, Passed]) -> None:
    told = cases["changed-after-a-bypass"].told

    assert told["answered"] == told["described"] == {"forward": {"delay": "1 ms"}, "reverse": {}}


def test_a_raised_delay_makes_no_spike(cases: dict[str, Passed]) -> None:
    case = cases["raised"]

    for number, delay_ns in case.delays_ns.items():
        wanted_ns = 100 * MS if case.came_in_ns[number] < case.told["before_ns"] else 500 * MS
        assert wanted_ns <= delay_ns <= wanted_ns + SLACK_NS


def test_only_what_was_changed_is_different_in_the_complete_description(cases: dict[str, Passed]) -> None:
    told = cases["lowered"].told

    assert told["described"] == {
        "forward": {**told["configured"]["forward"], "delay": "100 ms"},
        "reverse": told["configured"]["reverse"],
    }


def test_a_channel_whose_impairments_were_all_taken_away_is_described_as_unimpaired(cases: dict[str, Passed]) -> None:
    assert cases["everything-off"].told["described"] == {"forward": {}, "reverse": {}}


def test_bit_errors_that_were_taken_away_hit_no_more(cases: dict[str, Passed]) -> None:
    told = cases["errors-on-and-off"].told

    errors = told["statistics"]["forward"]["errors"]
    assert 0 < errors["packets"] < 400, "counted as long as they were there"
    assert errors["hit_packets"] > 0
    assert "clsact" not in told["kernel"]


def test_an_outage_that_drops_loses_exactly_what_leaves_the_queue_meanwhile(cases: dict[str, Passed]) -> None:
    case = cases["dropped"]
    sent_ns = {number: at_ns + SERIALIZATION_NS - case.told["started_ns"] for number, at_ns in case.came_in_ns.items()}
    surely_lost = {number for number, at_ns in sent_ns.items() if 501 * MS < at_ns < 1499 * MS}
    surely_kept = {number for number, at_ns in sent_ns.items() if at_ns < 499 * MS or at_ns > 1512 * MS}

    lost = set(case.came_in_ns) - set(case.went_out_ns)
    assert lost >= surely_lost
    assert not lost & surely_kept
    assert len(surely_lost) > 50
    assert case.told["statistics"]["forward"]["pipe"]["dropped_packets"] == len(lost)


@pytest.mark.parametrize("name", ["held", "held-bytes"])
def test_an_outage_that_holds_sends_nothing_until_its_end(cases: dict[str, Passed], name: str) -> None:
    case = cases[name]
    end_ns = case.told["started_ns"] + 1500 * MS

    out = [at_ns - 50 * MS for at_ns in case.went_out_ns.values()]
    quiet = [at_ns for at_ns in out if end_ns - 985 * MS < at_ns < end_ns]
    assert quiet == []


def test_what_was_held_leaves_at_the_links_rate_from_the_end_on(cases: dict[str, Passed]) -> None:
    case = cases["held"]
    end_ns = case.told["started_ns"] + 1500 * MS
    held = sorted(at_ns for at_ns in case.went_out_ns.values() if at_ns > end_ns + 50 * MS)[:100]

    assert 0 <= held[0] - (end_ns + 50 * MS + SERIALIZATION_NS) <= 200_000, "the time between two of our clock reads"
    gaps = [later - earlier for earlier, later in pairwise(held)]
    assert [gap - SERIALIZATION_NS for gap in gaps if abs(gap - SERIALIZATION_NS) > 1000] == []


def test_a_held_queue_is_as_long_as_asked(cases: dict[str, Passed]) -> None:
    """5 kB hold 35 frames of 142 bytes; one more comes every 10 ms for a second."""
    case = cases["held-bytes"]

    start_ns, end_ns = (case.told["started_ns"] + at_ms * MS for at_ms in (501, 1498))
    meanwhile = [number for number, at_ns in case.came_in_ns.items() if start_ns < at_ns < end_ns]
    kept = [number for number in meanwhile if number in case.went_out_ns]

    assert len(kept) == 5_000 // FRAME_BYTES
    assert kept == meanwhile[: len(kept)], "those that came first"
    assert case.told["statistics"]["forward"]["gate"]["dropped_queue_packets"] == 400 - len(case.went_out_ns)


def test_the_holding_frame_of_ours_is_not_counted(cases: dict[str, Passed]) -> None:
    case = cases["held"]
    counted = case.told["statistics"]["forward"]["bottleneck"]

    assert counted["packets"] == 400
    assert counted["bytes"] == 400 * FRAME_BYTES


def test_steps_are_applied_on_time_and_their_lateness_is_reported(cases: dict[str, Passed]) -> None:
    status = cases["looped"].told["status"]

    assert status["failure"] == ""
    assert status["steps_applied"] == len(status["late_ns"]) >= 24
    assert all(0 <= late_ns <= 200_000 for late_ns in status["late_ns"])


def test_a_looping_timeline_goes_back_and_forth(cases: dict[str, Passed]) -> None:
    case = cases["looped"]
    start_ns = case.told["started_ns"]

    for number, delay_ns in case.delays_ns.items():
        phase_ns = (case.came_in_ns[number] - start_ns) % (200 * MS)
        if case.came_in_ns[number] < start_ns or min(phase_ns % (100 * MS), -phase_ns % (100 * MS)) < MS:
            continue
        wanted_ns = 100 * MS if phase_ns < 100 * MS else 110 * MS
        assert delay_ns >= wanted_ns
        assert delay_ns <= wanted_ns + SLACK_NS or phase_ns < 10 * MS + SLACK_NS, "waits for those before it"

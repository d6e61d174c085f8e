"""The eBPF stages in a guest, frame by frame: which bits they hit and which frames they take."""

from __future__ import annotations

import json
from math import expm1, log1p
from pathlib import Path
from typing import Any

import pytest

from owlt.emulator.certification.intervals import share_interval
from owlt.emulator.kernel.bpf.compile import compile_all
from owlt.emulator.kernel.bpf_stages import ErrorProcess
from owlt.emulator.kernel.gate import Admission
from owlt.orchestrator.kernel.kernel import Kernel
from tests.error_model import ErrorModel
from tests.system.conftest import PROJECT, Guest

SCRIPTS = PROJECT / "tests/system/guest_scripts"
ALPHA = 1e-6
MIXED = [60, 1514, 342, 1000] * 60
SHARE_RATE = 5e-5
SHARES = [64, 342, 1514]
SHARE_FRAMES = 3000

DRAWN = {"unit": "bit", "effect": "flip", "rate": 1e-3, "seed": 7}
DENSE = {"unit": "bit", "effect": "flip", "rate": 0.01, "seed": 2**64 - 1}
RARE = {"unit": "bit", "effect": "flip", "rate": 1e-6, "seed": 3}
PACKETS = {"unit": "packet", "effect": "flip", "rate": 0.2, "seed": 11}
ALL_PACKETS = {"unit": "packet", "effect": "flip", "rate": 1.0, "seed": 11}
BITS_LISTED = {"unit": "bit", "effect": "flip", "positions": [0, 7, 479, 480, 8639, 10**6, 10**9]}
PACKETS_LISTED = {"unit": "packet", "effect": "flip", "positions": [0, 3, 100, 239], "seed": 5}
CROWDED = {"unit": "bit", "effect": "flip", "positions": [*range(1500), 12112 + 5]}
BLOCKS = {"unit": "block", "effect": "drop", "rate": 0.1, "seed": 9, "block_bytes": 1115}
SMALL_BLOCKS = {"unit": "block", "effect": "drop", "rate": 0.3, "seed": 9, "block_bytes": 32}
NOTHING = {"unit": "bit", "effect": "flip"}

EXPERIMENTS: dict[str, list[tuple[dict[str, Any], list[int]]]] = {
    "drawn": [(DRAWN, MIXED)],
    "drawn again": [(DRAWN, MIXED)],
    "drawn by another seed": [({**DRAWN, "seed": 8}, MIXED)],
    "drawn, dropping": [({**DRAWN, "effect": "drop"}, MIXED)],
    "dense": [(DENSE, MIXED)],
    "rare": [(RARE, [1514] * 1000)],
    "packets": [(PACKETS, MIXED)],
    "packets, dropping": [({**PACKETS, "effect": "drop"}, MIXED)],
    "all packets": [(ALL_PACKETS, MIXED)],
    "listed bits": [(BITS_LISTED, MIXED)],
    "listed packets": [(PACKETS_LISTED, MIXED)],
    "listed packets, dropping": [({**PACKETS_LISTED, "effect": "drop"}, MIXED)],
    "crowded": [(CROWDED, [1514] * 3)],
    "nothing": [(NOTHING, MIXED)],
    "blocks": [(BLOCKS, MIXED)],
    "blocks of many packets": [(BLOCKS, [64] * 2000)],
    "small blocks": [(SMALL_BLOCKS, [40] * 2000)],
    "replaced": [(DENSE, MIXED), (BITS_LISTED, MIXED)],
    **{f"share {length}": [({**DRAWN, "rate": SHARE_RATE}, [length] * SHARE_FRAMES)] for length in SHARES},
}
AS_THE_MODEL = ["drawn", "dense", "rare", "packets", "all packets", "listed bits", "listed packets", "nothing"]
FLIP_AND_DROP = [(kind, f"{kind}, dropping") for kind in ("drawn", "packets", "listed packets")]

SLOW = {"mtu_bytes": None, "queue_ns": 8_000_000, "rate_bytes_per_s": 1_250_000, "overhead_bytes": 24}
BURST = [1000, 60, 1514, 342, 1514, 900] * 10
GATES: dict[str, list[dict[str, Any]]] = {
    "burst": [{"admission": SLOW}, {"lengths": BURST}, {"sleep_ns": 3_000_000}, {"lengths": BURST}],
    "held": [{"admission": SLOW}, {"hold_ns": 50_000_000}, {"lengths": BURST}],
    "held after": [{"admission": SLOW}, {"hold_ns": 5_000_000}, {"sleep_ns": 20_000_000}, {"lengths": BURST}],
    "replaced": [
        {"admission": SLOW},
        {"lengths": BURST},
        {"admission": {**SLOW, "queue_ns": 9_000_000}},
        {"lengths": BURST},
    ],
    "no queue": [{"admission": {**SLOW, "queue_ns": 0}}, {"lengths": [1000, 60]}],
    "no rate": [{"admission": {**SLOW, "queue_ns": 0, "rate_bytes_per_s": 0}}, {"lengths": BURST}],
    "mtu": [{"admission": {"mtu_bytes": 500, "queue_ns": None, "rate_bytes_per_s": 0}}, {"lengths": [513, 514, 515]}],
    "no rule": [{"admission": {"mtu_bytes": None, "queue_ns": None, "rate_bytes_per_s": 1}}, {"lengths": BURST}],
}


def ran(folder: Path, guest_kernel: Kernel, script: str, *arguments: str, clock: str = "exact") -> Any:
    """What a script printed in a guest."""
    compile_all()
    done = Guest(folder, guest_kernel).run(SCRIPTS / f"{script}.py", *arguments, clock=clock)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> Any:
    """What the error stage did in each experiment."""
    return ran(tmp_path_factory.mktemp("errors"), guest_kernel, "bpf_errors", json.dumps(EXPERIMENTS))


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> Any:
    """What the gate did in each experiment, on the exact clock."""
    return ran(tmp_path_factory.mktemp("gates"), guest_kernel, "bpf_gate", json.dumps(GATES))


@pytest.fixture(scope="module")
def attached(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> Any:
    """What became of frames between interfaces with both stages."""
    return ran(tmp_path_factory.mktemp("attached"), guest_kernel, "bpf_attached")


@pytest.mark.parametrize("name", AS_THE_MODEL)
def test_the_bits_flipped_are_those_of_the_reference_model(errors: Any, name: str) -> None:
    assert hits_of(errors[name]) == modelled(*EXPERIMENTS[name][0])


def test_the_same_seed_hits_the_same_bits(errors: Any) -> None:
    assert errors["drawn again"] == errors["drawn"]


def test_another_seed_hits_others(errors: Any) -> None:
    assert errors["drawn by another seed"]["hits"] != errors["drawn"]["hits"]


@pytest.mark.parametrize("length", SHARES)
def test_as_many_frames_are_hit_as_the_bit_error_rate_says(errors: Any, length: int) -> None:
    low, high = share_interval(len(errors[f"share {length}"]["hits"]), SHARE_FRAMES, ALPHA)

    assert low <= share_hit(length, SHARE_RATE) <= high


@pytest.mark.parametrize("length", SHARES)
@pytest.mark.parametrize("factor", [0.5, 2])
def test_another_bit_error_rate_is_distinguished(errors: Any, length: int, factor: float) -> None:
    """The control of the test above."""
    low, high = share_interval(len(errors[f"share {length}"]["hits"]), SHARE_FRAMES, ALPHA)

    assert not low <= share_hit(length, SHARE_RATE * factor) <= high


@pytest.mark.parametrize(("flipping", "dropping"), FLIP_AND_DROP)
def test_dropping_drops_the_frames_that_flipping_damages(errors: Any, flipping: str, dropping: str) -> None:
    damaged = [number for number, _, _ in errors[flipping]["hits"]]

    assert len(damaged) > 2
    assert errors[dropping]["hits"] == [[number, [], False] for number in damaged]


@pytest.mark.parametrize("name", ["blocks", "blocks of many packets", "small blocks"])
def test_the_packets_dropped_are_those_of_the_hit_blocks_of_the_reference_model(errors: Any, name: str) -> None:
    ((process, lengths),) = EXPERIMENTS[name]
    model = ErrorModel(ErrorProcess(**process))
    dropped = [number for number, length in enumerate(lengths) if model.errors_of(length)]

    assert 20 < len(dropped) < len(lengths)
    assert errors[name]["hits"] == [[number, [], False] for number in dropped]


def test_listed_bits_are_hit_and_no_others(errors: Any) -> None:
    """42 rounds of four frames are 979,776 bits, and the first three of the next 15,328."""
    hits = hits_of(errors["listed bits"])

    assert hits == {0: [0, 7, 479], 1: [0, 8639 - 480], 42 * 4 + 3: [10**6 - 979_776 - 15_328]}


def test_listed_packets_are_hit_in_one_bit_each_and_no_others(errors: Any) -> None:
    hits = hits_of(errors["listed packets"])

    assert {number: len(bits) for number, bits in hits.items()} == {0: 1, 3: 1, 100: 1, 239: 1}


def test_another_process_starts_at_its_first_position(errors: Any) -> None:
    hits = errors["replaced"]["hits"]

    assert hits[-3:] == errors["listed bits"]["hits"]


def test_another_process_leaves_the_counters_going_on(errors: Any) -> None:
    before, after = errors["dense"]["counters"], errors["replaced"]["counters"]

    assert after["packets"] == 2 * len(MIXED)
    assert after["flipped_bits"] == before["flipped_bits"] + 6


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_process_is_read_back_as_it_was_written(errors: Any, name: str) -> None:
    assert errors[name]["read_back"]


@pytest.mark.parametrize(
    "name", ["drawn", "dense", "packets", "listed bits", "listed packets, dropping", "nothing", "blocks"]
)
def test_the_counters_are_what_happened(errors: Any, name: str) -> None:
    hits, lengths = errors[name]["hits"], EXPERIMENTS[name][0][1]

    assert errors[name]["counters"] == {
        "packets": len(lengths),
        "bytes": sum(lengths),
        "hit_packets": len(hits),
        "flipped_bits": sum(len(bits) for _, bits, _ in hits),
        "dropped_packets": sum(not passed for _, _, passed in hits),
        "unfinished_frames": 0,
    }


def test_a_frame_with_more_errors_than_a_program_may_work_on_is_counted_as_unfinished(errors: Any) -> None:
    assert errors["crowded"]["counters"]["unfinished_frames"] == 1


def test_a_frame_with_more_errors_than_a_program_may_work_on_gets_the_first_of_them(errors: Any) -> None:
    assert hits_of(errors["crowded"])[0] == list(range(34 * 28))


def test_after_an_unfinished_frame_errors_are_where_they_belong(errors: Any) -> None:
    assert hits_of(errors["crowded"])[1] == [5]


@pytest.mark.parametrize("name", GATES)
def test_a_gate_takes_what_a_fluid_queue_of_its_size_takes(gates: Any, name: str) -> None:
    told = gates[name]

    assert [passed for _, _, passed in told["frames"]] == fluid(GATES[name], told)


@pytest.mark.parametrize("name", ["burst", "held", "held after", "replaced"])
def test_a_gate_takes_some_and_drops_some(gates: Any, name: str) -> None:
    """The control of the test above."""
    passed = [passed for _, _, passed in gates[name]["frames"]]

    assert 0 < passed.count(True) < len(passed)


def test_a_larger_queue_takes_other_frames(gates: Any) -> None:
    """Another control of the test above."""
    larger = [{"admission": {**SLOW, "queue_ns": 8_500_000}}, *GATES["burst"][1:]]

    assert [passed for _, _, passed in gates["burst"]["frames"]] != fluid(larger, gates["burst"])


def test_an_idle_link_takes_a_frame_that_is_longer_than_its_queue(gates: Any) -> None:
    assert [passed for _, _, passed in gates["no queue"]["frames"]] == [True, False]


def test_a_frame_may_be_an_ethernet_header_longer_than_the_mtu_and_not_a_byte_more(gates: Any) -> None:
    assert [passed for _, _, passed in gates["mtu"]["frames"]] == [True, True, False]


@pytest.mark.parametrize("name", GATES)
def test_the_gates_counters_are_what_happened(gates: Any, name: str) -> None:
    lengths = [length for _, length, _ in gates[name]["frames"]]
    dropped = [length for _, length, passed in gates[name]["frames"] if not passed]
    cause, other = ("mtu", "queue") if name == "mtu" else ("queue", "mtu")

    assert gates[name]["counters"] == {
        "packets": len(lengths),
        "bytes": sum(lengths),
        f"dropped_{cause}_packets": len(dropped),
        f"dropped_{cause}_bytes": sum(dropped),
        f"dropped_{other}_packets": 0,
        f"dropped_{other}_bytes": 0,
    }


@pytest.mark.parametrize("name", GATES)
def test_a_rule_is_read_back_as_it_was_written(gates: Any, name: str) -> None:
    assert gates[name]["read_back"]


def test_the_kernel_of_the_guests_takes_the_programs(attached: Any) -> None:
    assert attached["reason"] == ""


def test_the_longest_frames_at_the_highest_rate_are_hit_as_the_model_says(attached: Any) -> None:
    model = ErrorModel(ErrorProcess("bit", "flip", rate=0.01, seed=5))

    assert attached["found"] == [model.errors_of(9014) for _ in attached["found"]]


def test_the_longest_frames_at_the_highest_rate_are_finished(attached: Any) -> None:
    assert attached["errors"]["flipped_bits"] > 600 * len(attached["found"])
    assert attached["errors"]["unfinished_frames"] == 0


def test_a_frame_too_long_does_not_reach_the_filter_after_the_gate(attached: Any) -> None:
    assert attached["too_long"] == "dropped"
    assert attached["gate"]["dropped_mtu_bytes"] == 9015


def test_a_filter_shows_what_it_runs(attached: Any) -> None:
    assert "owlt-errors direct-action" in attached["shown"]
    assert "owlt-gate direct-action" in attached["shown"]


def hits_of(told: Any) -> dict[int, list[int]]:
    return {number: bits for number, bits, _ in told["hits"]}


def modelled(asked: dict[str, Any], lengths: list[int]) -> dict[int, list[int]]:
    model = ErrorModel(ErrorProcess(**{**asked, "positions": tuple(asked.get("positions", ()))}))
    found = {number: model.errors_of(length) for number, length in enumerate(lengths)}
    return {number: bits for number, bits in found.items() if bits}


def share_hit(length: int, rate: float) -> float:
    return -expm1(8 * length * log1p(-rate))


def fluid(steps: list[dict[str, Any]], told: Any) -> list[bool]:
    """What a queue takes that empties at the rate: the bytes' time in it, and nothing of the program's own."""
    frames, held = iter(told["frames"]), iter(told["held"])
    rule, hold_until_ns, waiting_ns, last_ns, taken = Admission(None, None, 0), 0, 0, 0, []
    for step in steps:
        if "admission" in step:
            rule = Admission(**step["admission"])
        if "hold_ns" in step:
            hold_until_ns = next(held)
        for length in step.get("lengths", []):
            now_ns, _, _ = next(frames)
            waiting_ns = max(0, waiting_ns - max(0, now_ns - max(last_ns, hold_until_ns)))
            last_ns = now_ns
            full = rule.queue_ns is not None and waiting_ns + rule.serialization_ns(length) > rule.queue_ns
            too_long = rule.longest_frame_bytes is not None and length > rule.longest_frame_bytes
            taken.append(not too_long and not (waiting_ns and full))
            waiting_ns += rule.serialization_ns(length) if taken[-1] else 0
    return taken

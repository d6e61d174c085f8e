"""A soak: its clocks pass the wraps while a transfer is under way; growth is neither noise nor a single step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.orchestrator.checks.soaking import (
    DATE_WRAPS_NS,
    NS_PER_DAY,
    UPTIME_WRAPS_NS,
    findings_of,
    growth_of,
    passed_by,
    plan_life,
    read_transfers,
    session_numbers,
)
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.run.life import TRANSFERS

HOUR_NS = 3600 * 10**9
BEFORE_NS = 375_000_000


def grows(values: Sequence[float]) -> bool:
    return growth_of("receiver", "memory_bytes", values).is_finding


def test_a_life_of_30_days_passes_every_wrap_shortly_after_the_start_of_a_transfer() -> None:
    life = plan_life(30 * NS_PER_DAY, 10 * HOUR_NS // 60, None, BEFORE_NS)

    assert list(life.wraps_ns) == ["2^31 ms", "2^31 s", "2^32 ms"]
    assert all(at_ns - BEFORE_NS in life.starts_ns for at_ns in life.wraps_ns.values())
    assert {name: life.wraps_ns[name] for name in UPTIME_WRAPS_NS} == UPTIME_WRAPS_NS
    assert life.boot_ns + life.wraps_ns["2^31 s"] == DATE_WRAPS_NS["2^31 s"]
    assert len(life.starts_ns) == 30 * 24 * 6


@given(
    st.integers(min_value=2, max_value=40 * 24),
    st.integers(min_value=4, max_value=20),
    st.sets(st.sampled_from(["2^31 ms", "2^32 ms", "2^31 s"])),
)
def test_transfers_start_in_order_and_wraps_lie_within_the_life(hours: int, parts: int, wraps: set[str]) -> None:
    every_ns = hours * HOUR_NS // parts
    try:
        life = plan_life(hours * HOUR_NS, every_ns, sorted(wraps), BEFORE_NS)
    except OwltError:
        assert set(UPTIME_WRAPS_NS) <= wraps
        return

    assert all(one <= other for one, other in pairwise(life.starts_ns))
    assert set(life.wraps_ns) == wraps
    assert all(life.starts_ns[0] < at_ns < life.starts_ns[0] + hours * HOUR_NS for at_ns in life.wraps_ns.values())


def test_both_wraps_of_uptime_in_a_short_life_are_refused() -> None:
    with pytest.raises(OwltError, match="no life of this length passes both"):
        plan_life(10 * NS_PER_DAY, HOUR_NS, ["2^31 ms", "2^32 ms"], BEFORE_NS)


def test_more_transfers_than_20_000_are_refused_before_anything_starts() -> None:
    with pytest.raises(OwltError, match="4 to 20,000"):
        plan_life(30 * NS_PER_DAY, 10**9, [], BEFORE_NS)


@pytest.mark.parametrize(
    ("days", "every_days", "expected"),
    [(4000, 1, "--for: .* at most 3,650 days"), (400, 40, "--every: .* at most 30 days"), (1, 0, "--every: .* than 0")],
)
def test_a_life_or_a_pause_without_bounds_is_refused(days: int, every_days: int, expected: str) -> None:
    with pytest.raises(OwltError, match=expected):
        plan_life(days * NS_PER_DAY, every_days * NS_PER_DAY, [], BEFORE_NS)


def test_session_numbers_pass_the_largest_after_a_quarter_of_the_transfers() -> None:
    assert session_numbers(16, 8) == [65534, 65535, 0, 1, 2, 3, 4, 5]


def test_a_leak_of_a_page_in_every_fiftieth_transfer_is_found_with_its_slope() -> None:
    growth = growth_of("receiver", "memory_bytes", [4096 * (place // 50) for place in range(4000)])

    assert growth.is_finding
    assert growth.slope == pytest.approx(4096 / 50, rel=0.02)


def test_a_leak_below_the_noise_of_a_transfer_is_found() -> None:
    chance = random.Random(1)

    assert grows([10 * place + chance.gauss(0, 1000) for place in range(4000)])


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_no_growth(seed: int) -> None:
    chance = random.Random(seed)

    assert not grows([chance.gauss(1e6, 1e4) for _ in range(4000)])


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_pool_that_grows_to_its_size_in_few_steps_is_no_growth(steps: int) -> None:
    assert not grows([min(steps, place // 500) * 65536 for place in range(4000)])


def test_caches_that_fill_in_the_first_tenth_are_no_growth() -> None:
    assert not grows([min(place, 300) * 4096 for place in range(4000)])


def test_what_shrinks_does_not_grow() -> None:
    assert not grows([4000 - place for place in range(4000)])


def test_too_few_transfers_show_no_growth() -> None:
    growth = growth_of("sender", "files", list(range(12)))

    assert (growth.p, growth.is_finding) == (1.0, False)


def transfer(number: int, uptime_ns: int, **others: Any) -> dict[str, Any]:
    values = {"number": number, "run_id": f"r{number}", "uptime_ns": uptime_ns, "lasted_ns": 10**9, "left": {}}
    known = {"outcome": "completed", "reason": "", "session_number": None, "left_running": {}, "suspect": []}
    return values | known | others


def test_a_finding_names_the_transfer_its_time_and_the_wrap_that_it_passes() -> None:
    life = plan_life(10 * HOUR_NS, HOUR_NS, ["2^32 ms"], BEFORE_NS)
    start_ns = UPTIME_WRAPS_NS["2^32 ms"] - BEFORE_NS
    sound = transfer(1, life.starts_ns[0])
    failed = transfer(6, start_ns, outcome="timed_out", reason="late", session_number=65535)
    left = transfer(7, start_ns + HOUR_NS, left_running={"sender": ["daemon"]})
    found = findings_of([sound, failed, left], life, Path("results"))

    assert [(each.kind, each.transfer) for each in found] == [("failed", 6), ("left running", 7)]
    assert "uptime 4,294,966.9 s, session number 65,535, which passes 2^32 ms: timed_out: late" in found[0].text
    assert found[1].text == "sender: after 1 of 3 transfers this was left running: daemon"
    assert passed_by([sound, failed], UPTIME_WRAPS_NS["2^32 ms"]) is failed
    assert passed_by([sound], UPTIME_WRAPS_NS["2^32 ms"]) is None


def test_a_line_that_the_guest_had_not_written_to_its_end_is_left_out(tmp_path: Path) -> None:
    (tmp_path / TRANSFERS).write_text('{"number": 1}\n{"number": 2}\n{"numb')

    assert read_transfers(tmp_path) == [{"number": 1}, {"number": 2}]

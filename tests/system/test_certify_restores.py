"""After a certification the emulator has the channel that it had before, however it came to have it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "guest_scripts" / "restoring.py"
CASES = (
    "changed",
    "changed from nothing",
    "within a timeline",
    "held",
    "at the end of a timeline",
    "bypass",
    "nothing",
    "refused",
)


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Any) -> dict[str, Any]:
    """All cases, from one boot."""
    from tests.system.conftest import Guest

    done = Guest(tmp_path_factory.mktemp("restoring"), guest_kernel).run(SCRIPT, timeout_s=200)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_channel_described_after_a_certification_is_the_one_described_before(
    cases: dict[str, Any], name: str
) -> None:
    assert cases[name]["after"]["channel"] == cases[name]["before"]["channel"]


def test_a_changed_channel_is_not_reset_to_the_one_that_was_configured(cases: dict[str, Any]) -> None:
    forward = cases["changed"]["after"]["channel"]["forward"]

    assert (forward["bit_error_rate"], "mtu" in forward) == (1e-5, False)


@pytest.mark.parametrize("name", ["within a timeline", "held"])
def test_a_running_timeline_resumes_at_its_position(cases: dict[str, Any], name: str) -> None:
    before, after = (cases[name][when]["timeline"] for when in ("before", "after"))

    assert after["running"]
    assert 0 <= after["elapsed_s"] - before["elapsed_s"] < 0.1
    assert (after["steps_applied"], after["late_ns"]) == (before["steps_applied"], before["late_ns"])


@pytest.mark.parametrize("name", ["within a timeline", "held"])
def test_a_resumed_timeline_makes_its_remaining_steps(cases: dict[str, Any], name: str) -> None:
    later, end = cases[name]["later"], cases[name]["at the end"]

    assert (later["timeline"]["steps_applied"], later["channel"]["reverse"].get("up", True)) == (2, False)
    assert (end["timeline"]["steps_applied"], end["channel"]["reverse"].get("up", True)) == (3, True)
    assert end["timeline"]["failure"] == ""


def test_a_timeline_that_had_ended_is_still_at_its_end(cases: dict[str, Any]) -> None:
    after = cases["at the end of a timeline"]["after"]

    assert (after["timeline"]["running"], after["timeline"]["steps_applied"]) == (False, 3)
    assert after["channel"]["forward"]["delay"] == "30 ms"


def test_a_channel_that_cannot_be_certified_leaves_the_one_before_and_its_timeline(cases: dict[str, Any]) -> None:
    case = cases["refused"]

    assert "an outage that holds packets and has no end" in case["refused"]
    assert case["after"]["timeline"]["running"]


def test_a_change_of_both_links_changes_both(cases: dict[str, Any]) -> None:
    channel = cases["changed from nothing"]["before"]["channel"]

    assert (channel["forward"]["delay"], channel["reverse"]["delay"]) == ("7 ms", "7 ms")

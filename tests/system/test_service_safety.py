"""The service left alone: hostile requests, calls without token or lease, clients and services that die."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from owlt.emulator.faults import LeaseHeld, LeaseLost, NotAllowed
from owlt.emulator.service.methods import CHANGING

SCRIPTS = Path(__file__).with_name("guest_scripts")
REQUESTS = 10_000


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    """What scripts have told already: several tests look at the same run of a guest."""
    return {}


@pytest.fixture
def tell(guest: Any, told: dict[str, Any]) -> Any:
    """Runs a script in a guest, or returns what it told before."""

    def run(script: str, *arguments: str) -> Any:
        if script not in told:
            done = guest.run(SCRIPTS / f"{script}.py", *arguments, timeout_s=240)
            assert done.returncode == 0, done.stderr
            told[script] = json.loads(done.stdout) | {"log": done.stderr}
        return told[script]

    return run


@pytest.fixture
def hostile(tell: Any) -> Any:
    return tell("hostile_requests", str(REQUESTS))


def test_every_hostile_request_is_answered(hostile: Any) -> None:
    answered = ("answer", "fault", "404", "411", "413", "415")

    assert sum(hostile["answers"].values()) == REQUESTS
    assert [told for told in hostile["answers"] if told.split()[1] not in answered] == []


def test_hostile_requests_are_of_every_kind_and_most_are_faults(hostile: Any) -> None:
    kinds = {told.split()[0] for told in hostile["answers"]}
    faults = sum(count for told, count in hostile["answers"].items() if told.endswith("fault"))

    assert len(kinds) == 12
    assert faults > 0.7 * REQUESTS


def test_a_body_that_is_cut_short_is_answered_or_hung_up(hostile: Any) -> None:
    assert set(hostile["cut"]) == {"HTTP/1.1 200 OK", ""}


def test_hostile_requests_leave_the_channel_as_it_was(hostile: Any) -> None:
    assert "netem" in hostile["before"]
    assert hostile["shaped_as_before"]
    assert hostile["described_as_applied"]
    assert hostile["shaped_in_the_end"] != hostile["before"], "the control: a proper call does change it"


def test_hostile_requests_take_no_lease(hostile: Any) -> None:
    assert hostile["lease"] == {"held": False, "holder": "", "seconds_left": 0.0}


def test_hostile_requests_leave_the_service_alive_and_without_a_thread_too_many(hostile: Any) -> None:
    assert hostile["alive"]
    assert hostile["threads"] < 10
    assert hostile["status"] == 0


def test_hostile_requests_find_no_error_of_the_services_own(hostile: Any) -> None:
    assert "Traceback" not in hostile["log"]


@pytest.mark.parametrize(
    ("shown", "code"),
    [
        ("without_token", NotAllowed.code),
        ("wrong_token", NotAllowed.code),
        ("without_lease", LeaseHeld.code),
        ("wrong_lease", LeaseLost.code),
    ],
)
@pytest.mark.parametrize("method", CHANGING)
def test_who_may_not_changes_nothing(tell: Any, shown: str, code: int, method: str) -> None:
    assert tell("leases")[shown][method] == {"code": code, "changed": False}


@pytest.mark.parametrize("method", ["configure", "change", "bypass", "clear"])
def test_who_may_does_change_it(tell: Any, method: str) -> None:
    assert tell("leases")["with_both"][method]


def test_releasing_a_lease_clears_the_channel(tell: Any) -> None:
    told = tell("leases")

    assert told["released"] == told["before"]


def test_an_expired_lease_clears_the_channel_to_a_hundredth_of_a_second(tell: Any) -> None:
    told = tell("leases")

    assert told["expired"] == {"5 s": True, "9.99 s": True, "10.01 s": False, "14.99 s": False, "15.01 s": False}
    assert "lease of night not renewed, 0 ms overdue: clearing the channel" in told["log"]


def test_a_renewed_lease_keeps_the_channel_until_it_expires(tell: Any) -> None:
    told = tell("leases")

    assert told["renewed"] == {"5 s": True, "9.99 s": True, "10.01 s": True, "14.99 s": True, "15.01 s": False}
    assert told["cleared"] == told["before"]


def test_a_killed_services_channel_is_cleared_by_the_clear_option(tell: Any) -> None:
    told = tell("left_behind")

    assert "netem" in told["killed"]
    assert "owlt-ifb" in told["killed"]
    assert told["cleared"] == {"status": 0, "said": "", "left": told["before"]}


def test_clearing_where_nothing_is_left_is_well(tell: Any) -> None:
    told = tell("left_behind")

    assert told["cleared_again"] == {"status": 0, "said": "", "left": told["before"]}


def test_a_port_that_somebody_lives_on_by_now_is_cleared_all_the_same(tell: Any) -> None:
    told = tell("left_behind")

    assert told["inhabited"] == {"status": 0, "said": "", "left": told["before"]}


def test_what_is_behind_a_port_that_has_gone_is_cleared(tell: Any) -> None:
    gone = tell("left_behind")["port_gone"]

    assert gone["status"] == 0
    assert not any(word in gone["left"] for word in ("netem", "owlt-ifb", "clsact", "ingress"))


def test_a_service_after_a_killed_one_begins_without_its_lease_and_its_channel(tell: Any) -> None:
    told = tell("left_behind")

    assert told["restarted"] == told["before"]
    assert told["restarted_channel"]
    assert told["restarted_lease"]["held"] is False


def test_the_rights_that_the_unit_gives_are_enough(tell: Any) -> None:
    told = tell("left_behind")
    seen = told["with_the_units_rights"]

    net_admin, net_raw, perfmon, bpf = 12, 13, 38, 39  # linux/capability.h
    assert int(seen["rights"][0], 16) == 1 << net_admin | 1 << net_raw | 1 << perfmon | 1 << bpf
    assert seen["applied"]
    assert seen["status"] == 0
    assert seen["left"] == told["before"]

"""Channels certified by the emulator that makes them, in a guest: right ones, and others than the one certified."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from owlt.emulator.certification.certificate import Certificate, power_text
from owlt.orchestrator.kernel.kernel import Kernel
from tests.system.conftest import Guest

SCRIPT = Path(__file__).parent / "guest_scripts" / "certification.py"
USUAL = {"delay": "1250 ms", "rate": "10 Mbit/s", "packet_error_rate": 0.01}
RIGHT: dict[str, dict[str, Any]] = {
    "usual": {"applied": {"both": USUAL}},
    "unimpaired": {"applied": {}},
    "jitter": {
        "applied": {
            "forward": {"delay": "50 ms", "rate": "10 Mbit/s", "jitter": {"amount": "5 ms"}},
            "reverse": {"delay": "50 ms", "keeps_order": False, "jitter": {"amount": "5 ms", "distribution": "pareto"}},
        }
    },
    "losses": {
        "applied": {
            "forward": {"loss": {"model": "gilbert_elliott", "mean_rate": 0.02, "burst_packets": 5}},
            "reverse": {"loss": {"model": "four_state", "p13": 0.01, "p31": 0.3, "p32": 0.3, "p23": 0.5, "p14": 0.01}},
        }
    },
    "duplicates and bursts of losses": {
        "applied": {
            "forward": {
                "duplication_rate": 0.9,
                "loss": {"model": "gilbert_elliott", "mean_rate": 0.3, "burst_packets": 3},
            },
            "reverse": {
                "duplication_rate": 0.3,
                "loss": {"model": "four_state", "p13": 0.1, "p31": 0.3, "p32": 0.1, "p23": 0.4, "p14": 0.05},
            },
        }
    },
    "duplicates and single losses": {
        "applied": {
            "forward": {"duplication_rate": 0.3, "packet_error_rate": 0.3, "error_effect": "drop"},
            "reverse": {
                "duplication_rate": 0.5,
                "bit_error_rate": 1e-5,
                "error_effect": "drop",
                "loss": {"model": "gilbert_elliott", "mean_rate": 0.2, "burst_packets": 10},
            },
        }
    },
    "bit errors": {
        "applied": {
            "forward": {"rate": "100 Mbit/s", "bit_error_rate": 1e-5},
            "reverse": {"bit_error_rate": 1e-6, "error_effect": "drop", "duplication_rate": 0.02},
        },
        "mtu_bytes": 9000,
    },
    "patterns": {
        "applied": {
            "forward": {"rate": "10 Mbit/s", "pattern": {"packets": [0, 3, 100]}, "error_effect": "drop"},
            "reverse": {"pattern": {"bits": [0, 12111, 12112, 50000]}},
        }
    },
    "queues": {
        "applied": {
            "forward": {"delay": "20 ms", "rate": "10 Mbit/s", "queue": "64 kB", "overhead": "24 B", "mtu": "1400 B"},
            "reverse": {"delay": "20 ms", "rate": "100 Mbit/s", "queue": "2 BDP"},
        }
    },
    "coded frames": {
        "applied": {
            "forward": {"rate": "10 Mbit/s", "coding": {"frame_bytes": 1115, "frame_error_rate": 0.01}},
            "reverse": {"coding": {"frame_bytes": 223, "frame_error_rate": 0.05}},
        }
    },
    "reordering": {
        "applied": {
            "forward": {"rate": "10 Mbit/s", "keeps_order": False, "reordering": {"rate": 0.05, "by": "3 ms"}},
            "reverse": {"up": False},
        }
    },
}
WRONG: dict[str, tuple[dict[str, Any], set[str]]] = {
    "delay": (
        {"applied": {"forward": USUAL}, "certified": {"forward": USUAL | {"delay": "1250.002 ms"}}},
        {f"one-way delay of {length}-byte frames, {p}, ns" for length in (64, 1514) for p in ("p0", "p50")},
    ),
    "rate": (  # which shows in the delay of long frames too
        {"applied": {"forward": USUAL}, "certified": {"forward": USUAL | {"rate": "10.03 Mbit/s"}}},
        {"rate, bit/s", *(f"one-way delay of 1514-byte frames, p{percent}, ns" for percent in (0, 50, 99))},
    ),
    "packet error rate": (
        {
            "applied": {"forward": {"packet_error_rate": 0.015, "seed": 1}},
            "certified": {"forward": {"packet_error_rate": 0.01, "seed": 1}},
        },
        {"share of 64-byte frames damaged"},
    ),
    "losses that there are none of": (
        {"applied": {}, "certified": {"forward": {"packet_error_rate": 0.01, "error_effect": "drop"}}},
        {f"share of {length}-byte frames lost" for length in (64, 512, 1514)},
    ),
    "single losses instead of coded frames": (  # with the same share of the shortest packets lost
        {
            "applied": {"forward": {"packet_error_rate": 0.01057, "error_effect": "drop"}},
            "certified": {"forward": {"coding": {"frame_bytes": 1115, "frame_error_rate": 0.01}}},
        },
        {"shortest burst of losses, packets", "share of 1514-byte frames lost"},
    ),
    "frame error rate": (
        {
            "applied": {"forward": {"coding": {"frame_bytes": 1115, "frame_error_rate": 0.015}}},
            "certified": {"forward": {"coding": {"frame_bytes": 1115, "frame_error_rate": 0.01}}},
        },
        {"share of 1514-byte frames lost"},
    ),
    "a frame header that the rate does not have": (  # as owlt channel coded computes it from 10 Mbit/s, and with none
        {
            "applied": {
                "forward": {
                    "rate": "8.670837 Mbit/s",
                    "queue": "10 packets",
                    "coding": {"frame_bytes": 1109, "frame_error_rate": 0.01},
                }
            },
            "certified": {
                "forward": {
                    "rate": "8.717748 Mbit/s",
                    "queue": "10 packets",
                    "coding": {"frame_bytes": 1115, "frame_error_rate": 0.01},
                }
            },
        },
        {"rate, bit/s", *(f"one-way delay of 1514-byte frames, p{percent}, ns" for percent in (0, 50, 99))},
    ),
    "overhead by a frame header": (
        {
            "applied": {"forward": {"rate": "10 Mbit/s", "overhead": "24 B"}},
            "certified": {"forward": {"rate": "10 Mbit/s", "overhead": "18 B"}},
        },
        {
            "rate, bit/s",
            *(f"one-way delay of {length}-byte frames, p{p}, ns" for length in (64, 1514) for p in (0, 50, 99)),
        },
    ),
    "rate by a thousandth": (
        {"applied": {"forward": {"rate": "10.01 Mbit/s"}}, "certified": {"forward": {"rate": "10 Mbit/s"}}},
        {"rate, bit/s", *(f"one-way delay of 1514-byte frames, p{percent}, ns" for percent in (0, 50))},
    ),
    "queue": (
        {
            "applied": {"forward": {"rate": "10 Mbit/s", "queue": "9 packets"}},
            "certified": {"forward": {"rate": "10 Mbit/s", "queue": "10 packets"}},
        },
        {"depth of the queue, packets"},
    ),
    "duplication": (
        {"applied": {"forward": {"duplication_rate": 0.1}}, "certified": {}},
        {"share of packets duplicated"},
    ),
    "burst length": (
        {
            "applied": {"forward": {"loss": {"model": "gilbert_elliott", "mean_rate": 0.05, "burst_packets": 6}}},
            "certified": {"forward": {"loss": {"model": "gilbert_elliott", "mean_rate": 0.05, "burst_packets": 4}}},
        },
        {"mean length of a burst of losses, packets"},
    ),
    "pattern": (
        {
            "applied": {"forward": {"pattern": {"packets": [1, 2, 4]}}},
            "certified": {"forward": {"pattern": {"packets": [1, 2, 5]}}},
        },
        {"packets damaged as listed"},
    ),
    "mtu": (
        {"applied": {"forward": {"mtu": "1401 B"}}, "certified": {"forward": {"mtu": "1400 B"}}},
        {"longest frame that passes, bytes"},
    ),
    "outage": ({"applied": {}, "certified": {"forward": {"up": False}}}, {"packets delivered while down"}),
}

SLOW: dict[str, Any] = {"forward": {"rate": "8 kbit/s", "queue": "10 packets", "packet_error_rate": 0.01}}
CUT = {"applied": SLOW, "options": {"budget_s": 100}}
NOT_MEASURED = {"applied": SLOW, "options": {"budget_s": 20}}
TIMELINE = {"applied": {"timeline": {"steps": [{"at": "1 s", "forward": {"delay": "1 ms"}}]}}}
INTERRUPTED = [RIGHT["usual"] | {"fails_at": measurement} for measurement in (0, 5)]
CASES = [*RIGHT.values(), *(asked for asked, _ in WRONG.values()), CUT, NOT_MEASURED, TIMELINE, *INTERRUPTED]

Certified = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory, guest_kernel: Kernel) -> Certified:
    """What came of a case. All are performed in one guest, one after the other."""
    done = Guest(tmp_path_factory.mktemp("certified"), guest_kernel).run(SCRIPT, json.dumps(CASES), timeout_s=500)
    assert done.returncode == 0, done.stderr
    told = dict(zip(map(json.dumps, CASES), json.loads(done.stdout), strict=True))

    def of_case(asked: dict[str, Any]) -> Any:
        assert isinstance(told[json.dumps(asked)], dict), told[json.dumps(asked)]
        return told[json.dumps(asked)]

    return of_case


def verdicts(told: Any, verdict: str) -> set[str]:
    """The quantities, with their directions, on which this is the verdict."""
    checks = told["certificate"]["checks"]
    return {f"{check['direction']}: {check['quantity']}" for check in checks if check["verdict"] == verdict}


@pytest.mark.parametrize("name", RIGHT)
def test_a_channel_that_is_as_asked_is_certified_both_ways(certified: Certified, name: str) -> None:
    told = certified(RIGHT[name])

    assert told["certificate"]["verdict"] == "ok", told["suspicion"] + sorted(verdicts(told, "not measured"))
    assert {check["direction"] for check in told["certificate"]["checks"]} == {"forward", "reverse"}


@pytest.mark.parametrize("name", WRONG)
def test_a_channel_that_is_other_than_asked_fails_on_what_is_other(certified: Certified, name: str) -> None:
    asked, wrong = WRONG[name]
    told = certified(asked)

    assert verdicts(told, "failed") == {f"forward: {quantity}" for quantity in wrong}


def test_what_failed_is_reported_in_a_sentence_each(certified: Certified) -> None:
    (sentence,) = certified(WRONG["queue"][0])["suspicion"]

    assert sentence.startswith("forward: depth of the queue, packets: specified 10, measured 9 ")


def test_the_usual_certificate_takes_80_thousand_probes_at_most(certified: Certified) -> None:
    """Each costs 10 us of wall time where the machine is not busy: 0.8 s."""
    assert certified(RIGHT["usual"])["counted"]["sent"] < 80_000


def test_a_sample_that_the_channel_needs_too_long_for_is_cut_and_says_what_it_can_only_exclude(
    certified: Certified,
) -> None:
    told = certified(CUT)
    cut = {check.quantity: check for check in Certificate.from_wire(told["certificate"]).checks if check.falls_short}

    assert told["certificate"]["verdict"] == "ok", told["suspicion"]
    assert cut["share of 64-byte frames damaged"].count == pytest.approx(100 / 0.0672, rel=0.01)
    assert power_text(cut["share of 64-byte frames damaged"]).startswith("can only exclude ")


def test_what_cannot_be_cut_and_takes_too_long_is_not_measured_and_says_what_it_would_take(
    certified: Certified,
) -> None:
    told = certified(NOT_MEASURED)

    reasons = [check["reason"] for check in told["certificate"]["checks"] if check["verdict"] == "not measured"]
    assert any(re.match(r"the channel needs 31\.\d s to send 20 probes,", reason) for reason in reasons)


def test_every_quantity_that_is_measured_says_what_its_sample_would_have_found_wrong(certified: Certified) -> None:
    checks = Certificate.from_wire(certified(RIGHT["usual"])["certificate"]).checks
    unsaid = {check.quantity for check in checks if power_text(check) == "not stated"}

    assert unsaid == {"most bits flipped in a packet"}
    assert not [check for check in checks if check.falls_short]


def test_a_channel_is_excluded_whose_error_rate_is_wrong_by_half(certified: Certified) -> None:
    checks = Certificate.from_wire(certified(RIGHT["usual"])["certificate"]).checks
    damaged = [check for check in checks if check.quantity == "share of 64-byte frames damaged"]

    assert len(damaged) == 2
    for check in damaged:
        assert check.detectable_low is not None and check.detectable_high is not None
        assert 0.01 / 1.5 <= check.detectable_low < 0.01 < check.detectable_high <= 0.015


def test_a_timeline_is_certified_no_further_than_its_first_step(certified: Certified) -> None:
    told = certified(TIMELINE)

    assert verdicts(told, "not measured") == {"forward: changes with time", "reverse: changes with time"}


@pytest.mark.parametrize("name", RIGHT)
def test_certifying_leaves_no_interface_no_qdisc_and_no_filter(certified: Certified, name: str) -> None:
    told = certified(RIGHT[name])

    assert told["after"] == told["before"]


@pytest.mark.parametrize("asked", INTERRUPTED, ids=["in the first measurement", "in a later one"])
def test_certifying_leaves_nothing_when_it_is_interrupted_either(certified: Certified, asked: dict[str, Any]) -> None:
    told = certified(asked)

    assert told["interrupted"]
    assert told["after"] == told["before"]


def test_tc_counts_as_many_packets_as_probes_were_sent_and_seen(certified: Certified) -> None:
    told = certified(RIGHT["usual"])
    netems = [qdisc for qdisc in told["tc"] if qdisc["kind"] == "netem"]
    bottlenecks = [qdisc for qdisc in netems if qdisc["dev"].startswith("owlt-ifb")]
    pipes = [qdisc for qdisc in netems if qdisc["dev"].startswith("to-")]

    assert sum(qdisc["packets"] + qdisc["drops"] for qdisc in bottlenecks) == told["counted"]["sent"]
    assert sum(qdisc["packets"] for qdisc in pipes) == told["counted"]["delivered"]

"""The emulator in memory: what holds of every emulator, and what a test can have it do."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from owlt.emulator.certification.certificate import Check
from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import (
    ChannelRefused,
    EmulatorUnreachable,
    InvalidChannel,
    NotAllowed,
    NotCapable,
    PortRefused,
)
from owlt.emulator.service.client import EmulatorClient
from owlt.emulator.service.emulator import Emulator
from owlt.emulator.service.methods import CHANGING, READING
from tests.emulator_facts import CHANNEL, FACTS, STEPS
from tests.memory.emulator import MemoryEmulator, MemoryTransport, memory_client
from tests.unit.emulator.served import served

STEP = ChannelSpec.from_wire(STEPS)


@pytest.mark.parametrize("fact", FACTS)
def test_what_holds_of_every_emulator_holds_in_memory(fact: str) -> None:
    FACTS[fact](memory_client(MemoryEmulator()))


def test_an_emulator_in_memory_can_be_served_over_http() -> None:
    with served(MemoryEmulator()) as address:
        assert EmulatorClient(f"http://{address}").configure(CHANNEL) == CHANNEL


@pytest.mark.parametrize("name", [name for name in (*CHANGING, *READING) if name != "lease_status"])
def test_a_method_has_the_parameters_of_the_real_one(name: str) -> None:
    ours, real = (inspect.signature(getattr(kind, name)) for kind in (MemoryEmulator, Emulator))

    assert str(ours) == str(real)


def test_a_channel_that_needs_what_the_kernel_is_missing_is_refused_and_changes_nothing() -> None:
    client = memory_client(MemoryEmulator(missing={"programs": "no eBPF"}))
    client.configure(CHANNEL)

    with pytest.raises(NotCapable, match=r"programs \(no eBPF\)"):
        client.configure(ChannelSpec.from_wire({"forward": {"mtu": "1280 B"}}))
    assert client.describe() == CHANNEL


def test_an_unknown_capability_cannot_be_missing() -> None:
    with pytest.raises(ValueError, match="wormholes"):
        MemoryEmulator(missing={"wormholes": "none here"})


def test_of_a_channel_that_the_kernel_refuses_nothing_is_left() -> None:
    emulator = MemoryEmulator()
    client = memory_client(emulator)
    client.configure(CHANNEL)
    emulator.refusals.append(ChannelRefused("no room"))

    with pytest.raises(ChannelRefused, match="no room"):
        client.change("forward", delay="1 ms")
    assert client.describe() == ChannelSpec()


def test_a_refused_port_changes_nothing() -> None:
    emulator = MemoryEmulator()
    client = memory_client(emulator)
    client.configure(CHANNEL)
    emulator.refusals.append(PortRefused("it has an address"))

    with pytest.raises(PortRefused):
        client.configure(ChannelSpec())
    assert client.describe() == CHANNEL


def test_a_stage_counts_what_it_is_given() -> None:
    emulator = MemoryEmulator()
    client = memory_client(emulator)
    client.configure(CHANNEL)
    emulator.count("forward", "pipe", packets=3, bytes=300)
    emulator.count("forward", "pipe", packets=1, bytes=100)

    assert client.statistics()["forward"]["pipe"] == {
        "packets": 4,
        "bytes": 400,
        "dropped_packets": 0,
        "waiting_packets": 0,
        "waiting_bytes": 0,
    }


def test_a_stage_that_the_channel_has_not_cannot_count() -> None:
    with pytest.raises(ValueError, match="pipe"):
        MemoryEmulator().count("forward", "pipe", packets=1)


def test_counters_begin_anew_with_a_new_channel() -> None:
    emulator = MemoryEmulator()
    client = memory_client(emulator)
    client.configure(CHANNEL)
    emulator.count("forward", "pipe", packets=3)
    client.configure(CHANNEL)

    assert client.statistics()["forward"]["pipe"]["packets"] == 0


def test_a_step_is_applied_when_its_time_has_come() -> None:
    emulator = MemoryEmulator()
    client = memory_client(emulator)
    client.configure(STEP)
    client.timeline_start()

    emulator.elapse(999)
    assert client.describe().forward.delay_ns == 1_000_000
    emulator.elapse(1, late_ns=500)

    status = client.timeline_status()
    assert client.describe().forward.delay_ns == 2_000_000
    assert (status["running"], status["steps_applied"], status["latest_ns"]) == (False, 1, 500)


def test_a_timeline_that_loops_goes_on() -> None:
    emulator = MemoryEmulator()
    client = memory_client(emulator)
    client.configure(ChannelSpec.from_wire(STEPS | {"timeline": STEPS["timeline"] | {"loop_after": "2000 s"}}))
    client.timeline_start()
    emulator.elapse(2000)

    assert client.describe().forward.delay_ns == 1_000_000
    assert client.timeline_status()["running"]


def test_a_step_that_the_kernel_refuses_ends_the_timeline_with_the_reason() -> None:
    emulator = MemoryEmulator()
    client = memory_client(emulator)
    client.configure(STEP)
    client.timeline_start()
    emulator.refusals.append(ChannelRefused("no room"))
    emulator.elapse(1000)

    assert client.timeline_status()["failure"] == "step 1, at 1000 s: no room"
    assert not client.timeline_status()["running"]


def test_a_certificate_has_the_checks_that_it_is_given_and_leaves_the_channel() -> None:
    emulator = MemoryEmulator()
    client = memory_client(emulator)
    client.configure(STEP)
    emulator.checks = [Check("forward", "delay (ms)", "failed", 25.0, 27.0, 26.9, 27.1, 20)]

    assert client.certify(CHANNEL)["verdict"] == "failed"
    assert emulator.certified == [CHANNEL]
    assert client.describe() == STEP


def test_without_checks_a_certificate_says_that_nothing_was_measured() -> None:
    certificate = memory_client(MemoryEmulator()).certify(CHANNEL)

    assert certificate["verdict"] == "incomplete"
    assert certificate["checks"][0]["reason"] == "an emulator in memory carries no packets"


def test_a_client_without_the_token_changes_nothing() -> None:
    emulator = MemoryEmulator()
    client = EmulatorClient("http://memory", transport=MemoryTransport(emulator, token="s" * 20))

    with pytest.raises(NotAllowed):
        client.configure(CHANNEL)
    assert client.describe() == ChannelSpec()


def test_a_connection_that_is_lost_is_reported_as_such() -> None:
    transport = MemoryTransport(MemoryEmulator())
    client = EmulatorClient("http://memory", transport=transport)
    transport.lost = ConnectionResetError("gone")

    with pytest.raises(EmulatorUnreachable, match="gone"):
        client.describe()


def test_an_emulator_that_was_stopped_takes_no_channel() -> None:
    emulator = MemoryEmulator()
    emulator.stop()

    with pytest.raises(Exception, match="is ending"):
        memory_client(emulator).configure(CHANNEL)


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"packets": 2**31 - 1}, "certify: packets: got 2147483647, expected a whole number from 1 to 400,000"),
        ({"packets": 0}, "packets: got 0"),
        ({"packets": 1.5}, "packets: got 1.5"),
        ({"packets": True}, "packets: got True"),
        ({"packets": "9"}, "packets: got '9'"),
        ({"budget_s": 1e9}, "budget_s: got 1000000000.0, expected a number from 0.001 to 604,800"),
        ({"budget_s": float("nan")}, "budget_s: got nan"),
        ({"alpha": 1e-300}, "alpha: got 1e-300, expected a number from 1e-12 to 0.99"),
        ({"tolerance_ns": 1e300}, r"tolerance_ns: got 1e\+300, expected a whole number from 1 to 2,000,000,000"),
    ],
)
def test_options_of_certify_outside_their_limits_are_refused(options: dict[str, Any], refusal: str) -> None:
    with pytest.raises(InvalidChannel, match=refusal):
        memory_client(MemoryEmulator()).certify(CHANNEL, options)


def test_options_of_certify_at_their_limits_are_accepted() -> None:
    options = {"packets": 400_000.0, "budget_s": 604_800, "alpha": 1e-12, "tolerance_ns": 2_000_000_000}

    assert memory_client(MemoryEmulator()).certify(CHANNEL, options)["verdict"]

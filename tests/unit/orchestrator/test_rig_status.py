"""What `owlt rig status` and `owlt rig release` say about the channel and the lease of a lab rig."""

from __future__ import annotations

import pytest

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import EmulatorUnreachable
from owlt.emulator.service.client import EmulatorClient
from owlt.orchestrator.commands.channel_text import channel_line
from owlt.orchestrator.commands.rig import left_behind, without_lease
from owlt.orchestrator.profiles.inventory import lab_rig
from tests.memory.emulator import MemoryEmulator, MemoryTransport, memory_client
from tests.unit.orchestrator.test_inventory import EXAMPLE

RIG = lab_rig(f"{EXAMPLE}:rack1")[1]


@pytest.mark.parametrize("wire", [{}, {"bypass": True}])
def test_a_clear_channel_has_no_line(wire: dict[str, object]) -> None:
    assert channel_line(ChannelSpec.from_wire(wire)) == ""


def test_the_line_of_a_channel_has_what_it_does_in_each_direction() -> None:
    delayed = {"forward": {"delay": "25 ms", "rate": "1 Mbit/s"}}
    both = {"forward": {"delay": "25 ms"}, "reverse": {"delay": "30 ms"}}

    assert channel_line(ChannelSpec.from_wire(delayed)).startswith("forward: delay 25 ms, rate 1 Mbit/s")
    assert "reverse" not in channel_line(ChannelSpec.from_wire(delayed))
    assert channel_line(ChannelSpec.from_wire(both)) == "forward: delay 25 ms; reverse: delay 30 ms"


def test_a_channel_that_a_lease_will_clear_needs_no_advice() -> None:
    assert left_behind({"held": True}) == ""
    assert "'owlt rig clear' clears it" in left_behind({"held": False})


def test_a_release_without_a_lease_of_ones_own_names_who_has_it() -> None:
    client = memory_client(MemoryEmulator())
    free = without_lease(RIG, lambda _rig: client)
    client.lease("ada@lab: owlt", 120)
    held = without_lease(RIG, lambda _rig: client)

    assert free == "you have no lease, and nobody else has one"
    assert held.startswith("you have no lease; it is that of ada@lab: owlt, for 1")


class UnreachableEmulator(EmulatorClient):
    """A client whose emulator is switched off."""

    def lease_status(self) -> dict[str, object]:
        raise EmulatorUnreachable("http://memory does not answer")


def test_a_release_without_a_lease_says_if_the_emulator_does_not_answer() -> None:
    client = UnreachableEmulator("http://memory", transport=MemoryTransport(MemoryEmulator()))

    assert without_lease(RIG, lambda _rig: client).endswith("is not known: http://memory does not answer")

"""What `owlt rigs up` suggests on kernels with and without netem."""

from __future__ import annotations

from typing import Any

import pytest

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import NotCapable
from owlt.orchestrator.commands.machine import configure_rig, suggested_change
from owlt.orchestrator.errors import OwltError


@pytest.mark.parametrize(("available", "change"), [(True, "delay=500ms"), (False, "bit_error_rate=1e-6")])
def test_the_suggested_change_is_one_that_the_kernel_can_make(available: bool, change: str) -> None:
    assert suggested_change({"netem": {"available": available}}) == change


class WithoutNetem:
    """The client of an emulator whose kernel has no netem."""

    def configure(self, channel: ChannelSpec) -> ChannelSpec:
        raise NotCapable("this kernel does not support the channel: netem")


def test_a_channel_that_the_kernel_cannot_make_is_refused_with_the_way_out() -> None:
    client: Any = WithoutNetem()

    with pytest.raises(OwltError, match=r"not support the channel.*set the rig up without a channel: owlt rigs up"):
        configure_rig(client, ChannelSpec(), start=False)

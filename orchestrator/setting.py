"""What all runs of a batch share."""

from __future__ import annotations

from dataclasses import dataclass

from agents.contract import Implementation
from emulator.channel import ChannelSpec
from orchestrator.certification import Certified
from orchestrator.plan import Run
from orchestrator.rigs.rig import Rig
from orchestrator.sweep import Sweep


@dataclass(frozen=True)
class Setting:
    """The sweep, its builds and channels, and the rig that it is performed on."""

    sweep: Sweep
    implementations: dict[str, Implementation]
    channels: dict[str, ChannelSpec]
    certificates: dict[str, Certified]
    rig: Rig
    versions: dict[str, str]
    kernel_hz: int | None
    netem_takes_seeds: bool

    def implementation_of(self, run: Run) -> Implementation:
        """The build that a run tries."""
        return self.implementations[run.permutation.implementation]

    def channel_of(self, run: Run) -> ChannelSpec:
        """The channel of a run, without its seeds."""
        return self.channels[run.channel_key]

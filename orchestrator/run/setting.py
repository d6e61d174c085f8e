"""What all runs of a batch share."""

from __future__ import annotations

from dataclasses import dataclass

from owlt.agents.contract.implementation import Implementation
from owlt.emulator.channel.spec import ChannelSpec
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.planning.sweep import Sweep
from owlt.orchestrator.results.certificates import Certified
from owlt.orchestrator.rigs.rig import Rig


@dataclass(frozen=True)
class Setting:
    """The sweep, its implementations and channels, and the rig that it is performed on."""

    sweep: Sweep
    implementations: dict[str, Implementation]
    channels: dict[str, ChannelSpec]
    certificates: dict[str, Certified]
    rig: Rig
    versions: dict[str, str]
    implementation_versions: dict[str, str]
    provenance: dict[str, dict[str, str]]
    """What a record has of the machine's provenance, by implementation."""
    kernel_hz: int | None
    netem_takes_seeds: bool

    def implementation_of(self, run: Run) -> Implementation:
        """The implementation of a run, with the commands for a duration if the run has one."""
        implementation = self.implementations[run.permutation.implementation]
        return implementation if run.permutation.duration_ns is None else implementation.for_a_duration

    def channel_of(self, run: Run) -> ChannelSpec:
        """The channel of a run, without its seeds."""
        return self.channels[run.channel_key]

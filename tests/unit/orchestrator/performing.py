"""One run on a rig in memory: an implementation whose two sides are scripts of the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from owlt.agents.contract.implementation import Implementation
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.planning.plan import Plan, plan_sweep
from owlt.orchestrator.rigs.rig import RECEIVER_ADDRESS
from owlt.orchestrator.run.perform import perform
from owlt.orchestrator.run.state import Setting
from owlt.results.certificates import Certified
from owlt.results.record import RunRecord
from tests.memory.process import Process, Script
from tests.memory.rig import MemoryRig

PORT = 5000
SWEEP = {
    "name": "small",
    "implementations": ["copy"],
    "file_size": "100 kB",
    "delay": "25 ms",
    "rate": "10 Mbit/s",
    "packet_error_rate": 0,
    "repetitions": 1,
    "rig": "local",
    "clock": "real",
    "seed": 1,
}
COPY: dict[str, Any] = {
    "name": "copy",
    "title": "Copy",
    "protocol": "Copy",
    "description": "Sends a file in one message.",
    "binary": {name: {"search": [name], "fix": f"install {name}"} for name in ("send", "take")},
    "sender": {"command": ["{send}", "{file}"]},
    "receiver": {"command": ["{take}", "{received_file}"], "ready": {"line": "^ready$"}},
    "session": {"udp_ports": [PORT]},
    "time_limit": {"rtts": 0, "file_times": 0, "extra_s": 60},
}


def send(process: Process) -> int:
    """The sender of a working implementation."""
    process.send(RECEIVER_ADDRESS, PORT, process.read_file(process.arguments[0]))
    process.print("sent")
    return 0


def take(process: Process) -> int:
    """The receiver of a working implementation."""
    process.print("ready")
    process.write_file(process.arguments[0], process.receive(RECEIVER_ADDRESS, PORT))
    return 0


@dataclass
class Performed:
    """What a run left."""

    record: RunRecord
    phases: list[str]
    directory: Path


@dataclass
class Stage:
    """A rig with an implementation on it, before a run."""

    directory: Path
    sender: Script = send
    receiver: Script = take
    implementation: dict[str, Any] = field(default_factory=dict)
    sweep: dict[str, Any] = field(default_factory=dict)
    channels: dict[str, ChannelSpec] = field(default_factory=dict)
    """The profiles that the sweep names."""
    certificates: dict[str, Certified] = field(default_factory=dict)
    rig: MemoryRig = field(default_factory=MemoryRig)

    @property
    def plan(self) -> Plan:
        """The sweep of one run."""
        copy = Implementation.model_validate(COPY | self.implementation)
        return plan_sweep(Sweep.model_validate(SWEEP | self.sweep), {"copy": copy}, self.channels)

    @property
    def run_directory(self) -> str:
        """The run's directory on each host."""
        return f"/owlt/runs/{self.plan.runs[0].run_id}"

    def install(self) -> None:
        """Put the programs on the hosts that have a script for them."""
        self.rig.sender.install("/usr/bin/send", self.sender)
        self.rig.sender.install("/usr/bin/take", self.receiver)
        self.rig.receiver.install("/usr/bin/send", self.sender)
        self.rig.receiver.install("/usr/bin/take", self.receiver)

    def perform(self, observe: Callable[[str], None] = lambda phase: None) -> Performed:
        """Perform the run; `observe` is called with each phase as it begins."""
        self.install()
        plan, phases = self.plan, list[str]()

        def note(phase: str) -> None:
            phases.append(phase)
            observe(phase)

        setting = Setting(
            sweep=plan.sweep,
            implementations=plan.implementations,
            channels=plan.channels,
            certificates={key: certified for certified in self.certificates.values() for key in plan.channels},
            rig=self.rig.rig,
            versions={"owlt": "1"},
            implementation_versions={"copy": "2"},
            provenance={"copy": {"kernel": "3"}},
            kernel_hz=1000,
            netem_takes_seeds=True,
        )
        record = perform(plan.runs[0], setting, self.directory, note)
        return Performed(record, phases, self.directory)

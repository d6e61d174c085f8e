"""The state of a run: what all runs of a batch share, the two programs while they run, and the result as far as known.

Each phase enters its own values; how a run can end early, and the record that is put together, are here too.
"""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, field

from pydantic import JsonValue

from owlt.agents.contract.implementation import Implementation, Role
from owlt.agents.contract.side import Side
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.hosts.printable import printable
from owlt.orchestrator.hosts.program import Program
from owlt.orchestrator.planning.plan import AdvertisedValues, Run
from owlt.orchestrator.rigs.rig import Rig
from owlt.results import record
from owlt.results.certificates import Certified
from owlt.results.record import (
    UNKNOWN,
    CaptureCounters,
    CertificateVerdict,
    Faults,
    HostCapture,
    HostTcp,
    Outcome,
    ReasonCode,
    RunRecord,
    Statistics,
    WrittenChannel,
    WrittenSession,
)


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
    """The machine's provenance in a record, by implementation."""
    kernel_hz: int | None
    netem_takes_seeds: bool

    def implementation_of(self, run: Run) -> Implementation:
        """The implementation of a run, with the commands for a duration if the run has one."""
        implementation = self.implementations[run.permutation.implementation]
        return implementation if run.permutation.duration_ns is None else implementation.for_a_duration

    def channel_of(self, run: Run) -> ChannelSpec:
        """The channel of a run, without its seeds."""
        return self.channels[run.channel_key]


@dataclass
class Sides:
    """Both sides by role; a role is missing until its program is launched."""

    specified: dict[Role, Side] = field(default_factory=dict)
    programs: dict[Role, Program] = field(default_factory=dict)
    stopped: set[Role] = field(default_factory=set)
    """The sides that still ran at the end, and were stopped."""
    left_running: dict[Role, list[str]] = field(default_factory=dict)
    """Commands that a program started and left behind."""
    restarting: set[Role] = field(default_factory=set)
    """The sides whose programs were killed and will be started again."""
    open_sockets: dict[Role, list[str]] = field(default_factory=dict)
    left_files: dict[Role, list[str]] = field(default_factory=dict)
    staying: Role | None = None
    """The side whose program is not stopped, because it serves the next run too."""
    news: threading.Condition = field(default_factory=threading.Condition)
    """Notified whenever a program prints or ends."""

    def has_ended(self, role: Role) -> bool:
        """Whether a side is over: its program has ended, or has printed a line that says so."""
        if role in self.restarting:
            return False
        program, line = self.programs[role], self.specified[role].done_line
        is_done = line is not None and program.wrote_line(line)
        return not program.running or is_done or self.failure_line(role) is not None

    def failure_line(self, role: Role) -> str | None:
        """The line by which a side reports a failure; None without one."""
        pattern = self.specified[role].failed_line
        return None if pattern is None else self.programs[role].line_like(pattern)

    def note_left_running(self, role: Role, commands: list[str]) -> None:
        """Enter commands that were still running when the program that had started them ended."""
        self.left_running.setdefault(role, []).extend(commands)

    def record(self, role: Role) -> record.Side:
        """The side as the run's record has it."""
        program, side = self.programs.get(role), self.specified.get(role)
        return record.Side(
            command=side.command if side else [],
            card_rate_bps=float(side.card_rate_bps) if side and side.card_rate_bps else None,
            exit_status=program.wait(0) if program else None,
            stopped=role in self.stopped,
            left_running=self.left_running.get(role, []),
            open_sockets=self.open_sockets.get(role, []),
            left_files=self.left_files.get(role, []),
        )


class Ended(Exception):
    """A run that ended early, with its record's outcome and reason: a code, and one line that prints."""

    def __init__(self, outcome: Outcome, code: ReasonCode, reason: str) -> None:
        self.outcome = outcome
        self.code = code
        self.reason = printable(reason)
        super().__init__(self.reason)


class GaveUp(Ended):
    """A run in which a side ended badly or reported a failure: failed, unless the receiver has a part of the file."""

    def __init__(self, code: ReasonCode, reason: str) -> None:
        super().__init__(Outcome.FAILED, code, reason)


@dataclass(frozen=True)
class PlayedTimeline:
    """The result of playing a channel's timeline: steps that were applied, and the largest delay of a step."""

    steps_applied: int
    latest_ns: int


@dataclass
class RunResult:
    """The result of a run as far as it is known. Each phase enters its own values; None: it did not get so far."""

    suspect: list[str] = field(default_factory=list)
    file_sha256: str | None = None
    advertised: AdvertisedValues | None = None
    session: WrittenSession = field(default_factory=dict)
    certificate: CertificateVerdict = ""
    channel: WrittenChannel | None = None
    started_at_ns: int | None = None
    ended_at_ns: int | None = None
    timeline: PlayedTimeline | None = None
    faults: Faults | None = None
    emulator_statistics: Statistics = field(default_factory=dict)
    captures: dict[Role, CaptureCounters] = field(default_factory=dict)
    failed_captures: list[str] = field(default_factory=list)
    """A sentence for each capture that ended before it was stopped."""
    capture_ring_bytes: int = 0
    host_captures: dict[Role, HostCapture] = field(default_factory=dict)
    reconnections: dict[str, list[int]] = field(default_factory=dict)
    port_drops: dict[str, dict[str, int]] = field(default_factory=dict)
    host_refusals: dict[Role, dict[str, int]] = field(default_factory=dict)
    tcp: dict[Role, HostTcp] = field(default_factory=dict)
    received_sha256: str | None = None
    file_delivered_at_ns: int | None = None
    present_bytes: int | None = None
    received_bytes: int | None = None

    @property
    def tcp_ports(self) -> list[JsonValue]:
        """The TCP ports of the session, ranges as text; [] until it is known."""
        ports = self.session.get("tcp_ports")
        return ports if isinstance(ports, list) else []

    def record(
        self, run: Run, setting: Setting, sides: Sides, outcome: Outcome, code: ReasonCode | None, reason: str
    ) -> RunRecord:
        """The record of the run, with everything that is known of it."""
        implementation = setting.implementation_of(run)
        version = setting.implementation_versions.get(implementation.name, UNKNOWN)
        return RunRecord(
            run_id=run.run_id,
            sweep=setting.sweep.name,
            title=implementation.title,
            protocol=implementation.protocol,
            **run.permutation.model_dump(),
            channel_key=run.channel_key,
            repetition=run.repetition,
            order=run.order,
            seed=run.seed,
            clock=setting.sweep.clock,
            rig=setting.sweep.rig,
            outcome=outcome,
            reason_code=code,
            reason=reason,
            suspect=self.suspect,
            started_at_ns=self.started_at_ns,
            ended_at_ns=self.ended_at_ns,
            file_delivered_at_ns=self.file_delivered_at_ns,
            file_sha256=self.file_sha256,
            received_sha256=self.received_sha256,
            present_bytes=self.present_bytes,
            received_bytes=self.received_bytes,
            sender=sides.record("sender"),
            receiver=sides.record("receiver"),
            parameters=implementation.parameters,
            not_repeatable=implementation.not_repeatable or "",
            advertised=asdict(self.advertised) if self.advertised else {},
            session=self.session,
            channel=self.channel,
            certificate=self.certificate,
            timeline=asdict(self.timeline) if self.timeline else {},
            faults=self.faults,
            emulator_statistics=self.emulator_statistics,
            captures={**self.captures},
            capture_ring_bytes=self.capture_ring_bytes,
            reconnections=self.reconnections,
            port_drops=self.port_drops,
            host_captures={**self.host_captures},
            host_refusals={**self.host_refusals},
            tcp={**self.tcp},
            versions=setting.versions | {"implementation": version},
            provenance=setting.provenance.get(implementation.name, {}),
            kernel_hz=setting.kernel_hz,
        )

"""The edges of a pass: the link ends at each packet of a short transfer and returns later, or a host restarts there.

A phase is a moment just before a packet is sent or arrives; between two of these moments the state of a transfer
changes only by timers. Each phase with each length of the outage is one run, on the clock exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from owlt.agents.contract.implementation import ROLES, Role
from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.protocols.messages import Message, messages
from owlt.emulator.channel.spec import ChannelSpec, Step, Timeline
from owlt.inputs.quantities import format_delay
from owlt.orchestrator.checks.fault_cases import DIRECTIONS, HOST_OF, Direction, sent_packets
from owlt.orchestrator.run.analysis import case_of_run
from owlt.results.record import Outcome, RunRecord, read_record

Mode = Literal["drop", "hold"]
Ways = Literal["both", "forward", "reverse"]
State = Literal["continued", "restarted", "not ended", "gave up", "stuck", "corrupt", "undecided"]
DELIVERED: tuple[State, ...] = ("continued", "restarted")
MEANINGS: Mapping[State, str] = {
    "continued": "the file is delivered, and what had arrived before is not all sent again",
    "restarted": "the file is delivered, and as many bytes are sent after it as the whole transfer needs",
    "not ended": "the file is delivered, but a program had to be stopped that ends by itself without an interruption",
    "gave up": "a program ended, or reported a failure, without the file",
    "stuck": "the time limit passed without the file",
    "corrupt": "the receiver has another file",
    "undecided": "the run is suspect or was aborted, or the outage began after the packet of its phase",
}
FEWEST_ARRIVED = 2
"""Packets of the sender that must have arrived before an outage if a transfer is to count as restarted."""
EARLIER_NS = 2_000_000
"""How long before its packet a phase is, at most."""
STEP_NS = 140_000
"""How late a step of a timeline comes on the clock exact, while no program is starting: changing the links takes so
long. Outages are planned earlier by that."""
_UNITS = ((3600 * 10**9, "h"), (60 * 10**9, "min"))


@dataclass(frozen=True)
class Phase:
    """A moment of the transfer, `at_ns` after the launch, just before `event`; `arrived` packets of the sender have
    reached the receiver by then."""

    at_ns: int
    event: str
    arrived: int
    earlier_ns: int = EARLIER_NS
    """How long before the event."""


@dataclass(frozen=True)
class Interruption:
    """What happens at a phase: for so long, the link is down, or the program of a host is not running."""

    phase: Phase
    gap_ns: int
    mode: Mode | None
    """What becomes of packets during an outage; None: a host restarts."""
    host: Role | None = None

    @property
    def kind(self) -> str:
        """What happens, without the phase: "outage of 1 h, packets dropped"."""
        unit_ns, unit = next(((ns, name) for ns, name in _UNITS if not self.gap_ns % ns), (0, ""))
        gap = f"{self.gap_ns // unit_ns} {unit}" if unit_ns else format_delay(self.gap_ns)
        if self.host is not None:
            return f"the {self.host} restarts after {gap}"
        return f"outage of {gap}, packets {'dropped' if self.mode == 'drop' else 'held'}"


def phases_of(run: Path) -> list[Phase]:
    """The phases of a run without faults: before each packet is sent, and before it arrives.

    Packets that are sent or arrive at the same time make one phase. Raises OwltError without its captures, OSError.
    """
    record, case = case_of_run(run)
    launched_ns = record.started_at_ns or 0
    events = [(packet.at_ns, f"{packet.text} is sent", 0) for packet in sent_packets(run)]
    for direction, capture in zip(DIRECTIONS, reversed(CAPTURES), strict=True):
        host = HOST_OF[direction]
        arrived = [each for each in messages(run / capture, case.session, case.dissector) if each.host == host]
        events += [
            (message.time_ns, f"{direction} #{number} ({message.name}) arrives", int(direction == "forward"))
            for number, message in enumerate(arrived, start=1)
        ]
    phases: list[Phase] = []
    before_ns, arrived_packets = launched_ns, 0
    for at_ns, event, arrivals in sorted(events):
        if at_ns > before_ns:
            earlier_ns = min(EARLIER_NS, (at_ns - before_ns) // 2)
            phases.append(Phase(at_ns - earlier_ns - launched_ns, event, arrived_packets, earlier_ns))
        before_ns, arrived_packets = at_ns, arrived_packets + arrivals
    return phases


def with_outage(channel: ChannelSpec, interruption: Interruption, ways: Ways) -> ChannelSpec:
    """The channel with an outage, in these directions. If it drops packets, those in flight when it begins are dropped
    too: they have entered the link up to its delay before.
    """
    begin_ns = interruption.phase.at_ns - STEP_NS
    end_ns = begin_ns + interruption.gap_ns
    directions: list[Direction] = [way for way in DIRECTIONS if ways in ("both", way)]
    begins: dict[Direction, int] = {
        way: max(begin_ns - (channel.link(way).delay_ns if interruption.mode == "drop" else 0), 0) for way in directions
    }
    links = {way: channel.link(way) for way in DIRECTIONS}
    down = {
        way: links[way].model_copy(update={"up": False, "while_down": interruption.mode or "drop"})
        for way in directions
    }
    steps = [
        Step(at_ns=at_ns, **{way: down[way] if begins.get(way, end_ns) <= at_ns else links[way] for way in DIRECTIONS})
        for at_ns in sorted(set(begins.values()))
    ]
    return channel.model_copy(update={"timeline": Timeline(steps=(*steps, Step(at_ns=end_ns, **links)))})


@dataclass(frozen=True)
class EdgeTrial:
    """What became of the transfer after an interruption. `later_s` is how much later than without it, and than its gap
    explains, the file was delivered; None: it was not. `again` are the packets that the sender sent in addition."""

    interruption: Interruption
    state: State
    reason: str
    later_s: float | None
    again: int
    run: Path


@dataclass(frozen=True)
class PlainRun:
    """The run without an interruption, with which all others are compared: its record, and what the sender sent."""

    record: RunRecord
    packets: int
    payload_bytes: int

    @classmethod
    def of(cls, run: Path) -> PlainRun:
        """Raises OwltError without its captures, OSError."""
        sent = _sent_by_sender(run)
        return cls(read_record(run), len(sent), sum(message.payload_bytes for message in sent))


def trial_of(interruption: Interruption, run: Path, plain: PlainRun) -> EdgeTrial:
    """The trial of a recorded run. Raises OwltError, OSError."""
    record = read_record(run)
    sent = _sent_by_sender(run) if record.session else []
    back_ns = (record.started_at_ns or 0) + interruption.phase.at_ns + interruption.gap_ns
    after_bytes = sum(message.payload_bytes for message in sent if message.time_ns >= back_ns)
    is_again = after_bytes >= plain.payload_bytes and interruption.phase.arrived >= FEWEST_ARRIVED
    late_ns = int(record.timeline.get("latest_ns", 0))
    doubts = [*record.suspect]
    begins_at_launch = interruption.mode == "drop" and interruption.phase.at_ns <= record.delay_ns
    if late_ns - STEP_NS >= interruption.phase.earlier_ns and not begins_at_launch:
        doubts.append(f"a step of the outage came {late_ns / 1e6:.3f} ms late, after the packet of its phase")
    return EdgeTrial(
        interruption,
        "undecided" if doubts else _state_of(record, plain.record, is_again),
        "; ".join(filter(None, [record.reason, *doubts])),
        _later_s(record, plain.record, interruption.gap_ns),
        len(sent) - plain.packets,
        run,
    )


def _sent_by_sender(run: Path) -> list[Message]:
    _, case = case_of_run(run)
    return [each for each in messages(run / CAPTURES[0], case.session, case.dissector) if each.host == "sender"]


def _state_of(record: RunRecord, plain: RunRecord, is_all_again: bool) -> State:
    if record.outcome is Outcome.COMPLETED:
        did_not_end = any(getattr(record, role).stopped and not getattr(plain, role).stopped for role in ROLES)
        return "not ended" if did_not_end else "restarted" if is_all_again else "continued"
    states: dict[Outcome, State] = {
        Outcome.CORRUPT: "corrupt",
        Outcome.TIMED_OUT: "stuck",
        Outcome.FAILED: "gave up",
        Outcome.INCOMPLETE: "gave up",
    }
    return states.get(record.outcome, "undecided")


def _later_s(record: RunRecord, plain: RunRecord, gap_ns: int) -> float | None:
    took_ns = [(each.file_delivered_at_ns or 0) - (each.started_at_ns or 0) for each in (record, plain)]
    if record.outcome is not Outcome.COMPLETED or record.file_delivered_at_ns is None:
        return None
    return max(took_ns[0] - took_ns[1] - gap_ns, 0) / 1e9


def at_most(phases: Sequence[Phase], count: int) -> list[Phase]:
    """So many of the phases, evenly chosen; the first and the last among them."""
    if len(phases) <= count:
        return list(phases)
    places = dict.fromkeys(round(number * (len(phases) - 1) / max(count - 1, 1)) for number in range(count))
    return [phases[place] for place in places]

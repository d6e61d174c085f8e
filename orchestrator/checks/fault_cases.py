"""One short transfer, repeated as a plan like any other: under sets of aimed faults, each a channel of its own name, or
with an interruption at each phase: the link goes down and returns later, or a host restarts.

Used to prove that an implementation delivers after every fault (`proof`), and to check it with a few losses. On the
clock exact such a run is a function of its faults, and all of its packets are known. A phase is a moment just before a
packet is sent or arrives; between two of these moments the state of a transfer changes only by timers. Each phase with
each length of the outage is one run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from owlt.agents.contract.implementation import ROLES, Clock, Implementation, Role
from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.frames.session import Host
from owlt.captures.inspection.inspection import Case
from owlt.captures.protocols.messages import Message, messages
from owlt.emulator.channel.aimed_fault import ANY, Action, Fault, Range
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec, Step, Timeline
from owlt.inputs.quantities import format_delay, format_size
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.checks.trials import SEED
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Plan, plan_sweep, with_one_seed
from owlt.orchestrator.run.analysis import Dissectors, case_of_run
from owlt.results.record import Outcome, RunRecord, read_record

Direction = Literal["forward", "reverse"]
HOST_OF: Mapping[Direction, Host] = {"forward": "sender", "reverse": "receiver"}
"""Who sends the packets of a direction."""
DIRECTIONS: tuple[Direction, ...] = ("forward", "reverse")
_PLAIN_LINK = LinkSpec(delay_ns=250_000_000, rate_bps=1_000_000)
PLAIN_CHANNEL = ChannelSpec(forward=_PLAIN_LINK, reverse=_PLAIN_LINK)
"""A channel without random effects."""
PLAIN_CHANNEL_TEXT = "250 ms and 1 Mbit/s each way"
MOST_LADDER_LINES = 60
LONGEST_CASE_NAME = 100
FEW = 4
"""Packets of one name that are all worth losing; of more, the first and the last."""


@dataclass(frozen=True, order=True)
class Place:
    """The n-th packet of a class in a direction, counted from 1 where it enters the link: of all of the session, of a
    named class, or of those with a certain content. Then `meaning` is that content in words."""

    direction: Direction
    number: int
    packet: str = ANY
    meaning: str = field(default="", compare=False)

    @property
    def text(self) -> str:
        """In words, such as "forward #24", "forward cfdp.eof #1" or "forward data 5000-5999 #2"."""
        of_class = "" if self.packet == ANY else f"{self.meaning or self.packet} "
        return f"{self.direction} {of_class}#{self.number}"


@dataclass(frozen=True)
class SentPacket:
    """A packet of a run: its place, when its host sent it, and the protocol's name of its message."""

    place: Place
    at_ns: int
    name: str

    @property
    def text(self) -> str:
        """In words, such as "forward #24 (EOF)"."""
        return f"{self.place.text} ({self.name})"


DROP = Action(drop=True)


def effect(action: Action) -> str:
    """What happens to a packet, in words: "lost", "duplicated", "delayed by 5 s"."""
    return "lost" if action.drop else action.text.partition(",")[0]


@dataclass(frozen=True)
class Hit:
    """A packet and what a fault does to it."""

    place: Place
    action: Action = DROP

    @property
    def name(self) -> str:
        """In names of runs: "f24" or "f-cfdp-eof-1" if it is lost, "f24-duplicated" or "f24-delayed" otherwise. A
        content is a hash."""
        packet, is_content = self.place.packet, bool(self.place.meaning)
        of_class = sha256(packet.encode()).hexdigest()[:8] if is_content else packet.replace(".", "-")
        name = f"{self.place.direction[0]}{'' if packet == ANY else f'-{of_class}-'}{self.place.number}"
        return name if self.action.drop else f"{name}-{effect(self.action).partition(' ')[0]}"


Hits = tuple[Hit, ...]
"""Packets that are hit, in the order in which they are sent."""


def aimed_at(hits: Hits) -> tuple[Fault, ...]:
    """The faults that hit exactly these packets: one for each direction, class and action."""
    numbers: dict[tuple[Direction, str, Action], list[int]] = {}
    for hit in hits:
        numbers.setdefault((hit.place.direction, hit.place.packet, hit.action), []).append(hit.place.number)
    return tuple(
        Fault(
            direction=direction,
            packet=packet,
            occurrences=tuple(Range(number, number) for number in sorted(of_class)),
            action=action,
        )
        for (direction, packet, action), of_class in sorted(numbers.items(), key=lambda each: each[0][0])
    )


def case_name(hits: Hits) -> str:
    """The name of a case in runs and files: "f24-r2-delayed"; "none" without a fault. That of many faults ends in their
    number and a hash, because names of files are short."""
    name = "-".join(hit.name for hit in hits) or "none"
    if len(name) <= LONGEST_CASE_NAME:
        return name
    return f"{hits[0].name}-and-{len(hits) - 1}-more-{sha256(name.encode()).hexdigest()[:12]}"


def telling_packets(sent: Iterable[SentPacket]) -> list[SentPacket]:
    """The packets of a run whose losses tell most, in its order: of each direction and name of a message all, if there
    are a few, or else the first and the last. These are the first and the last packet, and control packets."""
    alike: dict[tuple[str, str], list[SentPacket]] = {}
    for packet in sent:
        alike.setdefault((packet.place.direction, packet.name), []).append(packet)
    chosen = [packet for group in alike.values() for packet in (group if len(group) <= FEW else (group[0], group[-1]))]
    return sorted(chosen, key=lambda packet: (packet.at_ns, packet.place))


PlanOfCases = Callable[[Mapping[str, Sequence[Fault]]], Plan]
"""The plan with one run of each case, by the names of the cases."""


def plan_of_cases(
    name: str,
    implementation: Implementation,
    channel: ChannelSpec,
    file_size_bytes: int,
    cases: Mapping[str, Sequence[Fault]],
    ip: int = 4,
    clock: Clock = "exact",
    settings: Mapping[str, object] = MappingProxyType({}),
) -> Plan:
    """One run of each case over a channel with its faults in addition; `settings` as in `plan_over`."""
    channels = {
        case: channel.model_copy(update={"faults": (*channel.faults, *faults)}) for case, faults in cases.items()
    }
    return plan_over(name, implementation, channels, file_size_bytes, ip, clock, settings)


def plan_over(
    name: str,
    implementation: Implementation,
    channels: Mapping[str, ChannelSpec],
    file_size_bytes: int,
    ip: int = 4,
    clock: Clock = "exact",
    settings: Mapping[str, object] = MappingProxyType({}),
) -> Plan:
    """One run over each channel; `settings` are keys of the sweep with what happens during the runs, such as
    restarts."""
    sweep = Sweep.model_validate(
        {
            "name": name.replace("_", "-").replace(".", "-").lower(),
            "seed": SEED,
            "clock": clock,
            "implementations": [implementation.name],
            "file_size": format_size(file_size_bytes),
            "channel": list(channels),
            **settings,
            "ip": ip,
            "certify": False,
            "quarantine_after": 0,
            "keep_captures": "headers",
        }
    )
    return with_one_seed(plan_sweep(sweep, {implementation.name: implementation}, channels))


def sent_packets(run: Path, dissectors: Dissectors | None = None) -> list[SentPacket]:
    """All packets of a run in the order in which they were sent. `dissectors`: those of the plan, if it has been read.

    Raises OwltError without its captures, OSError.
    """
    _, case = case_of_run(run, dissectors)
    sent = []
    for direction, capture in zip(DIRECTIONS, CAPTURES, strict=True):
        own = _messages_of(HOST_OF[direction], run / capture, case)
        sent += [
            SentPacket(Place(direction, number), message.time_ns, message.name)
            for number, message in enumerate(own, start=1)
        ]
    return sorted(sent, key=lambda packet: (packet.at_ns, packet.place))


def _messages_of(host: Host, capture: Path, case: Case) -> list[Message]:
    """The messages that a host sent, in one of a run's captures."""
    return [each for each in messages(capture, case.session, case.dissector) if each.host == host]


def first_packet_ns(run: Path) -> int:
    """When the first packet of a run that completed was sent, from its launch. Raises OwltError without its captures,
    OSError."""
    return sent_packets(run)[0].at_ns - (read_record(run).started_at_ns or 0)


def ladder_lines(run: Path) -> list[str]:
    """The packets of a run, a line for those of one name in a row, what the faults did, and what the sides left; a long
    end is left out."""
    record = read_record(run)
    try:
        sent = sent_packets(run)
    except OwltError as error:
        return [str(error)]
    start_ns = sent[0].at_ns if sent else 0
    arrows = {"forward": "sender   ->", "reverse": "receiver <-"}
    alike = [list(group) for _, group in groupby(sent, lambda packet: (packet.place.direction, packet.name))]
    lines = [
        f"{(group[0].at_ns - start_ns) / 1e9:10.6f} s  {arrows[group[0].place.direction]} {group[0].name}"
        + (f", {len(group)} packets until {(group[-1].at_ns - start_ns) / 1e9:.6f} s" if len(group) > 1 else "")
        for group in alike[:MOST_LADDER_LINES]
    ]
    lines += [f"and {sum(map(len, left))} packets more" for left in [alike[MOST_LADDER_LINES:]] if left]
    faults = record.faults.faults if record.faults else []
    hits = record.faults.hits if record.faults else []
    for hit in hits[:MOST_LADDER_LINES]:
        fault = faults[hit.fault]
        lines.append(f"{hit.at_ns / 1e9:10.6f} s after the launch: {fault.fault}: #{hit.occurrence} {fault.action}")
    return [*lines, *what_is_left(record)]


def what_is_left(record: RunRecord) -> list[str]:
    """What each side of a run left: processes, sockets that were open when it had to be stopped, files."""
    return [
        f"the {role} {what}: {', '.join(left)}"
        for role in ROLES
        for side in [getattr(record, role)]
        for what, left in (
            ("left processes running", side.left_running),
            ("had to be stopped, with open sockets", side.open_sockets if side.stopped else []),
            ("left files", side.left_files),
        )
        if left
    ]


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
        arrived = _messages_of(HOST_OF[direction], run / capture, case)
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
    return _messages_of("sender", run / CAPTURES[0], case)


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

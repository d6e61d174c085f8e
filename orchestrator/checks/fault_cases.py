"""One short transfer under many sets of aimed faults, as a plan like any other: each set is a channel of its own name.

Used to prove that an implementation delivers after every fault (`proof`), and to check it with a few losses. On the
clock exact such a run is a function of its faults, and all of its packets are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from owlt.agents.contract.implementation import ROLES, Clock, Implementation
from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.frames.session import Host
from owlt.captures.protocols.messages import messages
from owlt.emulator.channel.aimed_fault import ANY, Action, Fault, Range
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.inputs.quantities import format_size
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.checks.trials import SEED
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Plan, plan_sweep, with_one_seed
from owlt.orchestrator.run.analysis import Dissectors, case_of_run
from owlt.results.record import RunRecord, read_record

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
        own = [
            each for each in messages(run / capture, case.session, case.dissector) if each.host == HOST_OF[direction]
        ]
        sent += [
            SentPacket(Place(direction, number), message.time_ns, message.name)
            for number, message in enumerate(own, start=1)
        ]
    return sorted(sent, key=lambda packet: (packet.at_ns, packet.place))


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

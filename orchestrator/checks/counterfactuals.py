"""What can be changed in a recorded run: its losses, the waits of its programs, its links and the advertised values.

On the clock exact, a run is a function of its seed and its channel. It is performed again over a channel without random
effects; aimed faults drop the packets that were lost in the recorded run, except those whose loss is removed.
`owlt.orchestrator.checks.changed_runs` has the runs with changes; `owlt.orchestrator.checks.costs` performs them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from owlt.captures.accounting.summary import load_summary
from owlt.captures.frames.session import HOSTS
from owlt.captures.inspection.causes import Cause, is_one_length
from owlt.captures.inspection.critical_path import NOT_TRANSMITTED, ExpiredTimers, is_lost
from owlt.captures.inspection.inspection import Case
from owlt.captures.protocols.ladder import ICMP, Rung
from owlt.emulator.channel.link import impairments
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.axes import base_name
from owlt.inputs.mistake import Mistake
from owlt.inputs.mistake import Place as InFile
from owlt.inputs.quantities import format_delay, format_rate, format_rate_or_unlimited
from owlt.orchestrator.checks.fault_cases import DIRECTIONS, HOST_OF, Direction, Place
from owlt.orchestrator.checks.shrinking import OF_LOSSES, without_random_effects
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Plan, Run, advertised_values, channel_of, read_plan
from owlt.orchestrator.planning.selection import Selection
from owlt.orchestrator.run.analysis import case_of_run
from owlt.results.record import Outcome, RunRecord, read_record
from owlt.results.recorded_runs import results_root
from owlt.results.waits import DIGITS, TimedWait

Kind = Literal["losses", "delay", "rate", "advertised", "timer"]
"""The kinds of changes: losses are removed, a delay is halved, a rate is unlimited, the implementation gets the
channel's own rate and delay, or waits for a timer are skipped."""
FEW_LOSSES = 4
"""Up to this number, the losses of a cause are also removed one by one."""
FEW_TIMERS = 3
"""Up to this number, the timers of a cause are also skipped one by one."""
MOST_SINGLE = 8
"""The most losses that are removed one by one."""
MOST_SETS = 40
"""The most sets of losses that are removed, besides all of them: each takes a run."""
_DIRECTION_OF = {host: direction for direction, host in HOST_OF.items()}
_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_NAMED = 3
"""The most losses of a change that are named one by one."""
MOST_WAITS = 64
"""The most waits that are skipped in a run (`SkippedWaits`)."""


Content = tuple[tuple[int, int], ...] | str
"""The pieces of the file that a packet carries or, if it carries none, its name."""
Which = tuple[Direction, Content]


class Identity(NamedTuple):
    """Identifies a packet without its number: its content, and its occurrence among its host's packets with this
    content."""

    direction: Direction
    content: Content
    occurrence: int


@dataclass(frozen=True)
class Loss:
    """A packet that did not arrive intact: its place, the index of its rung, its number among all losses in the order
    in which they were sent, from 1, the protocol's name of its message, and which packet it is."""

    place: Place
    rung: int
    number: int
    name: str
    identity: Identity

    @property
    def text(self) -> str:
        """In words, such as "forward #118, EOF"."""
        return f"{self.place.text}, {self.name}"

    @property
    def ordinal(self) -> str:
        """Its number in words, such as "second"."""
        return _ORDINALS[self.number - 1] if self.number <= len(_ORDINALS) else f"{self.number}th"


@dataclass(frozen=True)
class Change:
    """One change of a run: it removes `losses`, skips `waits` before a `message`, or changes the link of a direction or
    the advertised values."""

    kind: Kind
    text: str
    losses: tuple[Loss, ...] = ()
    direction: Direction | None = None
    waits: tuple[TimedWait, ...] = ()
    message: str = ""


Changes = tuple[Change, ...]
"""Changes that are made together; () makes none."""


@dataclass(frozen=True)
class Times:
    """Times of a run: from the launch to the delivery of the file (None: not delivered), from the launch to the last
    packet, and from the first packet to the last."""

    delivered_s: float | None
    ended_s: float
    session_s: float


class EndedWait(NamedTuple):
    """A wait that a timer ended, and the name of a message that its host sent at that moment."""

    message: str
    wait: TimedWait


class LinkPacket(NamedTuple):
    """A packet that entered the link: the index of its rung, and which packet it is."""

    rung: int
    identity: Identity


@dataclass(frozen=True)
class Base:
    """A recorded run in a form that can be changed: its plan; the run in it, with the seed that it had; the channel
    without random effects and without losses; its packets, its losses and its times; its waits before messages; and how
    many packets of each content a queue or an MTU dropped."""

    plan: Plan
    run: Run
    channel: ChannelSpec
    launched_ns: int
    sent: Mapping[Place, LinkPacket]
    losses: tuple[Loss, ...]
    times: Times
    ended: tuple[EndedWait, ...]
    dropped: Mapping[Which, int]


def base_of(directory: Path, rungs: Sequence[Rung]) -> Base:
    """A recorded run, whose messages are `rungs`, in a form that can be changed.

    Raises OwltError with the reason if that cannot be exact, OSError.
    """
    record, plan = read_record(directory), read_plan(results_root(directory.parent.parent))
    plan = Selection(frozenset({record.run_id}), new_seeds={record.run_id: record.seed}).applied(plan)
    run = next((each for each in plan.runs if each.run_id == record.run_id), None)
    times = times_of(directory)
    if run is None or times is None:
        raise _not_exact(directory, "the run is not in the plan of its results, or has no packets")
    if plan.sweep.clock != "exact" or plan.sweep.rig != "virtual":
        raise _not_exact(
            directory, f"a run on the clock {plan.sweep.clock} is not determined by its seed and its channel"
        )
    channel = channel_of(run, plan.channels[run.channel_key], True)
    if random := _random_effects(channel):
        raise _not_exact(
            directory, f"its channel has random effects that cannot be repeated as aimed faults: {', '.join(random)}"
        )
    faults = tuple(fault for fault in channel.faults if not fault.action.drop)
    channel = without_random_effects(channel).model_copy(update={"faults": faults})
    sent = packets_on_link(rungs)
    return Base(
        plan,
        run,
        channel,
        record.started_at_ns or 0,
        sent,
        losses_among(sent, rungs),
        times,
        tuple(ended_waits(rungs, case_of_run(directory)[1])),
        dropped_on_link(rungs),
    )


def _not_exact(directory: Path, problem: str) -> OwltError:
    expected = "a run that can be repeated with one thing changed"
    return OwltError(Mistake(problem, expected, where=InFile(str(directory))))


def _random_effects(channel: ChannelSpec) -> list[str]:
    links = [link for links in channel.states for link in links.values()]
    drawn = dict.fromkeys(name for link in links for name in link.drawn if name not in OF_LOSSES)
    effects = {
        **{impairments()[name].label: True for name in drawn},
        "outages": any(not link.up for link in links),
        "faults with a probability below 1": any(fault.probability < 1 for fault in channel.faults),
        "faults that start after another fault": any(fault.after for fault in channel.faults),
    }
    return [name for name, is_there in effects.items() if is_there]


def ended_waits(rungs: Sequence[Rung], case: Case) -> Iterator[EndedWait]:
    """The waits of a run that ended immediately before a message left, with that message."""
    timers = {host: ExpiredTimers(host, case.waits, case.prompt_ns) for host in HOSTS}
    for rung in rungs:
        if wait := timers[rung.message.host].before(rung.left_ns):
            yield EndedWait(rung.message.name, wait)


def packets_on_link(rungs: Sequence[Rung]) -> dict[Place, LinkPacket]:
    """The session's packets that entered the link, in the order in which they were sent, as faults number them: without
    ICMP errors, and without those that a queue or an MTU dropped, which the run drops again by itself."""
    packets: dict[Place, LinkPacket] = {}
    numbers: Counter[Direction] = Counter()
    alike: Counter[Which] = Counter()
    for index, rung in enumerate(rungs):
        if _is_dropped(rung) or rung.message.name.startswith(ICMP):
            continue
        which = _which(rung)
        numbers[which[0]] += 1
        alike[which] += 1
        packets[Place(which[0], numbers[which[0]])] = LinkPacket(index, Identity(*which, alike[which]))
    return packets


def dropped_on_link(rungs: Iterable[Rung]) -> Counter[Which]:
    """How many packets of each direction and content a queue or an MTU dropped."""
    return Counter(_which(rung) for rung in rungs if _is_dropped(rung))


def _is_dropped(rung: Rung) -> bool:
    return not rung.arrived_ns and rung.fate in NOT_TRANSMITTED


def _which(rung: Rung) -> Which:
    return _DIRECTION_OF[rung.message.host], rung.message.placed_pieces or rung.message.name


def losses_among(sent: Mapping[Place, LinkPacket], rungs: Sequence[Rung]) -> tuple[Loss, ...]:
    """The packets that were lost, or arrived damaged, in the order in which they were sent."""
    lost = [(place, packet) for place, packet in sent.items() if is_lost(rungs[packet.rung])]
    return tuple(
        Loss(place, packet.rung, number, rungs[packet.rung].message.name, packet.identity)
        for number, (place, packet) in enumerate(lost, start=1)
    )


def times_of(directory: Path) -> Times | None:
    """The times of a recorded run; None if it has no packets. Raises OSError."""
    record, summary = read_record(directory), load_summary(directory)
    if summary is None or summary.first_packet_ns is None or summary.last_packet_ns is None:
        return None
    first_ns, last_ns = summary.first_packet_ns, summary.last_packet_ns
    ended_ns = last_ns - (first_ns if record.started_at_ns is None else record.started_at_ns)
    return Times(_delivered_s(record), ended_ns / 1e9, (last_ns - first_ns) / 1e9)


def _delivered_s(record: RunRecord) -> float | None:
    if record.outcome is not Outcome.COMPLETED or record.started_at_ns is None or record.file_delivered_at_ns is None:
        return None
    return (record.file_delivered_at_ns - record.started_at_ns) / 1e9


def changes_of(base: Base, causes: Sequence[Cause]) -> list[Change]:
    """The changes to try one by one: the losses that a cause names, together and, if they are few, alone; all other
    losses; then the timers of causes, the channel, and the advertised values."""
    sets = losses_of_causes(base, causes)
    singles = list(dict.fromkeys((loss,) for each in sets if len(each) <= FEW_LOSSES for loss in each))[:MOST_SINGLE]
    others = [tuple(loss for loss in base.losses if loss not in each) for each in sets if each]
    some = [each for each in dict.fromkeys([*singles, *sets, *others]) if each and each != base.losses][:MOST_SETS]
    wanted = [*some, base.losses] if base.losses else some
    return [
        *(without_losses(base, each) for each in wanted),
        *_changes_of_timers(base, causes),
        *_changes_of_links(base),
        *_changes_of_advertised(base),
    ]


def losses_of_causes(base: Base, causes: Sequence[Cause]) -> list[tuple[Loss, ...]]:
    """The losses that causes name, each a set; of round trips, also those in the recovery itself."""
    by_rung = {loss.rung: loss for loss in base.losses}
    sets: list[tuple[Loss, ...]] = []
    for cause in causes:
        named = tuple(by_rung[index] for index in cause.lost if index in by_rung)
        first = min((part.packet for part in cause.parts), default=0)
        sets += [named, tuple(loss for loss in named if loss.rung > first)] if cause.what == "round trips" else [named]
    return sets


def without_losses(base: Base, losses: tuple[Loss, ...]) -> Change:
    """The change that removes losses."""
    return Change("losses", _without_text(losses, len(base.losses)), losses)


def _without_text(losses: Sequence[Loss], of: int) -> str:
    if len(losses) == 1:
        which = "only" if of == 1 else losses[0].ordinal
        return f"without the {which} loss ({losses[0].text})"
    which = "both" if of == len(losses) == 2 else f"all {of}" if len(losses) == of else f"{len(losses)} of {of}"
    if len(losses) <= _NAMED:
        return f"without {which} losses ({'; '.join(loss.text for loss in losses)})"
    return f"without {which} losses ({', '.join(dict.fromkeys(loss.name for loss in losses))})"


def _changes_of_timers(base: Base, causes: Sequence[Cause]) -> Iterator[Change]:
    first_packet_ns = base.launched_ns + (base.times.ended_s - base.times.session_s) * 1e9
    for cause in causes:
        waits = tuple(sorted({part.timer for part in cause.parts if part.timer}, key=lambda wait: wait.begin_ns))
        if cause.what == "timer" and _is_for_one_timer(cause, waits) and len(waits) <= MOST_WAITS:
            which = f"of {format_delay(rounded_wait_ns(waits[0].length_ns))} at the {cause.host} before {cause.message}"
            whole = f"{len(waits)} timers" if len(waits) > 1 else "the timer"
            yield Change("timer", f"without {whole} {which}", waits=waits, message=cause.message)
            for number, wait in enumerate(waits if 1 < len(waits) <= FEW_TIMERS else ()):
                after_s = (wait.end_ns - first_packet_ns) / 1e9
                one = f"without the {_ORDINALS[number]} of {whole} {which} (it expires after {after_s:.3f} s)"
                yield Change("timer", one, waits=(wait,), message=cause.message)


def rounded_wait_ns(length_ns: int) -> int:
    """The length of a wait with the digits that are printed."""
    return round(length_ns, DIGITS - len(str(length_ns)))


def _is_for_one_timer(cause: Cause, waits: Sequence[TimedWait]) -> bool:
    """Whether waits are for a timer of one length, instead of polls, of which skipping one changes nothing, or the
    pauses of a pace."""
    is_polling = any(part.is_polling for part in cause.parts)
    return bool(waits) and not is_polling and is_one_length([wait.length_ns for wait in waits])


def _changes_of_links(base: Base) -> Iterator[Change]:
    for direction in DIRECTIONS:
        link = base.channel.link(direction)
        if link.delay_ns:
            halved = f"from {format_delay(link.delay_ns)} to {format_delay(link.delay_ns // 2)}"
            yield Change("delay", f"{direction} delay halved {halved}", direction=direction)
    for direction in DIRECTIONS:
        link = base.channel.link(direction)
        if link.rate_bps is not None:
            text = f"{direction} rate unlimited instead of {format_rate(link.rate_bps)}"
            yield Change("rate", text, direction=direction)


def _changes_of_advertised(base: Base) -> Iterator[Change]:
    advertised = advertised_values(base.run, base.plan.sweep)
    own = advertised_values(base.run, without_advertised(base.plan, base.run).sweep)
    rates = [format_rate_or_unlimited(each.rate_bps) for each in (own, advertised)]
    delays = [format_delay(round(each.one_way_delay_s * 1e9)) for each in (own, advertised)]
    if words := [" instead of ".join(each) for each in (rates, delays) if each[0] != each[1]]:
        yield Change("advertised", f"the channel's own values advertised: {' and '.join(words)}")


def without_advertised(plan: Plan, run: Run) -> Plan:
    """The plan in which the implementation of a run gets the channel's own rate and delay."""
    name = base_name(run.permutation.implementation)
    advertised = {other: each for other, each in plan.sweep.advertised.items() if other != name}
    return plan.model_copy(update={"sweep": plan.sweep.model_copy(update={"advertised": advertised})})


def removed_by(changes: Iterable[Change]) -> tuple[Loss, ...]:
    """The losses that changes remove, each once, in the order in which they were sent."""
    return tuple(sorted({loss for change in changes for loss in change.losses}, key=lambda loss: loss.number))

"""A recorded run with changes: where its losses are aimed, which waits are skipped, and whether the changes had an
effect.

A change renumbers the packets after it, because a packet that arrives is not sent again, and it moves the waits after
it. The remaining losses are therefore aimed at the same packets as before, by content, and each wait is skipped before
the same message as before. Their positions in the changed run are known only after the run: then the aim is corrected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from owlt.agents.contract.implementation import Role
from owlt.captures.accounting.derived_files import CAPTURES, load_pairs
from owlt.captures.accounting.summary import read_both
from owlt.captures.inspection.causes import is_one_length
from owlt.captures.inspection.critical_path import is_lost
from owlt.captures.inspection.inspection import Case, inspect
from owlt.captures.protocols.ladder import Rung
from owlt.emulator.channel.aimed_fault import MOST_RULES
from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.mistake import Mistake
from owlt.inputs.quantities import format_delay
from owlt.inputs.sweep import SkippedWaits
from owlt.orchestrator.checks.counterfactuals import (
    MOST_WAITS,
    Base,
    Change,
    Changes,
    EndedWait,
    Loss,
    dropped_on_link,
    ended_waits,
    packets_on_link,
    removed_by,
    rounded_wait_ns,
)
from owlt.orchestrator.checks.fault_cases import Hit, Place, aimed_at
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Batch, Plan
from owlt.orchestrator.planning.run_channel import channel_key, with_links
from owlt.orchestrator.run.analysis import case_of_run, links_of
from owlt.results.waits import TimedWait

_EARLIER_NS, _LATER_NS = 1000, 1000
"""Margins of the window around the start of a wait: clocks have a resolution of 256 ns."""
_SAME_TIMER = 0.5
"""A wait is for the same timer as a recorded wait if the shorter of them has at least this share of the longer one's
length: a timer may depend on measured delays, which differ in a run with changes."""


class Skip(NamedTuple):
    """A wait of a host that ends immediately: the one that begins at `begin_ns`, counted from the launch."""

    host: Role
    begin_ns: int


@dataclass(frozen=True)
class Aim:
    """Where the remaining losses are aimed, and which waits are skipped."""

    places: Mapping[Loss, Place]
    skips: tuple[Skip, ...] = ()


@dataclass(frozen=True)
class Effect:
    """The effect that the changes had in a run.

    `waits` should have been skipped and were not; `losses` should have been removed, but their packets were lost again.
    `correct` is the aim that hits the remaining losses and the waits as they are in this run.
    """

    correct: Aim
    waits: tuple[TimedWait, ...]
    losses: tuple[Loss, ...]

    @property
    def problem(self) -> str:
        """Which change had no effect in the run, in words; "" if all changes had their effect."""
        return "; ".join(
            [
                *(f"the packet {loss.text} was lost in this run too" for loss in self.losses[:1]),
                *(
                    f"a wait of {format_delay(rounded_wait_ns(wait.length_ns))} at the {wait.host} "
                    f"({wait.kind} in {wait.process}) was not skipped"
                    for wait in self.waits[:1]
                ),
            ]
        )


def expected_aim(base: Base, changes: Changes) -> Aim:
    """Where the remaining losses and the waits are expected.

    The data of removed losses are not sent again, so later packets have lower numbers; losses of such repeated data are
    left out. Waits are expected earlier, by the lengths of the skipped waits before them. If other things change too,
    it is not known whether the waits still occur: they are aimed at after a first run that shows them.
    """
    removed = removed_by(changes)
    arrived = {
        loss.identity[:2]: loss.identity.occurrence
        for loss in reversed(removed)
        if isinstance(loss.identity.content, tuple)
    }
    gone = {
        place
        for place, packet in base.sent.items()
        if packet.identity.occurrence > arrived.get(packet.identity[:2], packet.identity.occurrence)
    }
    places = {
        loss: replace(loss.place, number=loss.place.number - _before(loss.place, gone))
        for loss in base.losses
        if loss not in removed and loss.place not in gone
    }
    is_only_timers = all(change.kind == "timer" for change in changes)
    waits = [wait for change in changes for wait in change.waits] if is_only_timers else []
    return Aim(places, _skips(waits, base.launched_ns))


def _before(place: Place, others: Collection[Place]) -> int:
    return sum(each.direction == place.direction and each.number < place.number for each in others)


def _skips(waits: Iterable[TimedWait], launched_ns: int) -> tuple[Skip, ...]:
    """The skips of waits that were recorded at their full length: each begins earlier by the waits skipped before
    it."""
    ordered = sorted(set(waits), key=lambda wait: wait.begin_ns)
    return tuple(
        Skip(
            wait.host,
            wait.begin_ns
            - launched_ns
            - sum(each.length_ns for each in ordered if each.end_ns <= wait.begin_ns + _EARLIER_NS),
        )
        for wait in ordered
    )


def effect_of(base: Base, changes: Changes, aim: Aim, directory: Path) -> Effect:
    """The effect of the changes in the run in a directory, which had this aim. Raises OwltError, OSError."""
    rungs, case = _inspected(directory)
    return effect_in(base, changes, aim, rungs, case)


def effect_in(base: Base, changes: Changes, aim: Aim, rungs: Sequence[Rung], case: Case) -> Effect:
    """The effect of the changes in a run with these messages, which had this aim."""
    removed = removed_by(changes)
    at = {packet.identity: place for place, packet in packets_on_link(rungs).items()}
    launched_ns = case.launched_at_ns or base.launched_ns
    left = _waits_left(base, changes, aim, tuple(ended_waits(rungs, case)), launched_ns)
    places = {loss: at[loss.identity] for loss in base.losses if loss not in removed and loss.identity in at}
    correct = Aim(places, _corrected(aim.skips, left, launched_ns))
    return Effect(correct, left, _lost_again(base, removed, rungs))


def _inspected(directory: Path) -> tuple[Sequence[Rung], Case]:
    record, case = case_of_run(directory)
    forward, reverse = links_of(record)
    both = read_both(*(directory / capture for capture in CAPTURES))
    crossing = load_pairs(directory, *both, case.session)
    return inspect(*both, replace(case, forward_link=forward, reverse_link=reverse), None, crossing).rungs, case


def _lost_again(base: Base, removed: Iterable[Loss], rungs: Sequence[Rung]) -> tuple[Loss, ...]:
    """The losses that should have been removed, but whose packets were lost in this run, or were dropped by a queue or
    an MTU more often than in the recorded run."""
    lost = {packet.identity for packet in packets_on_link(rungs).values() if is_lost(rungs[packet.rung])}
    dropped = dropped_on_link(rungs)
    return tuple(
        loss
        for loss in removed
        if loss.identity in lost or dropped[loss.identity[:2]] > base.dropped.get(loss.identity[:2], 0)
    )


def _waits_left(
    base: Base, changes: Changes, aim: Aim, ended: Sequence[EndedWait], launched_ns: int
) -> tuple[TimedWait, ...]:
    """The waits of a run that should have been skipped.

    Of the waits for the same timers before the same messages, these are as many as the run has more than the recorded
    run has without all waits to skip; if no wait of that host was skipped in the run, they are at least as many as
    should be skipped.
    """
    left: dict[TimedWait, None] = {}
    to_skip = {wait for change in changes for wait in change.waits}
    for change in changes:
        recorded = _for_timers_of(change, base.ended)
        found = _for_timers_of(change, ended)
        skipped = set(change.waits)
        most = max(len(found) - len(set(recorded) - to_skip), 0)
        if {wait.host for wait in skipped}.isdisjoint(skip.host for skip in aim.skips):
            most = max(most, len(skipped))
        left |= dict.fromkeys(_most_alike(found, skipped, launched_ns - base.launched_ns)[:most])
    return tuple(left)


def _most_alike(found: Iterable[TimedWait], skipped: Iterable[TimedWait], later_ns: int) -> list[TimedWait]:
    """Waits in order of their difference in length from the nearest wait to skip; waits of one length are in order of
    their distance in time. `later_ns`: how much later the run was launched than the recorded one."""

    def distance_ns(wait: TimedWait, other: TimedWait) -> tuple[int, int]:
        is_alike = is_one_length((wait.length_ns, other.length_ns))
        difference_ns = 0 if is_alike else abs(wait.length_ns - other.length_ns)
        return difference_ns, abs(wait.begin_ns - later_ns - other.begin_ns)

    return sorted(found, key=lambda wait: min(distance_ns(wait, each) for each in skipped))


def _for_timers_of(change: Change, ended: Iterable[EndedWait]) -> list[TimedWait]:
    """The waits for the timers that a change skips, in order of time."""
    waits = {each.wait for each in ended if each.message == change.message}
    return sorted(
        (each for each in waits if any(_is_same_timer(each, skipped) for skipped in change.waits)),
        key=lambda wait: wait.begin_ns,
    )


def _is_same_timer(wait: TimedWait, recorded: TimedWait) -> bool:
    same = (wait.host, wait.process, wait.kind) == (recorded.host, recorded.process, recorded.kind)
    shorter_ns, longer_ns = sorted((wait.length_ns, recorded.length_ns))
    return same and shorter_ns >= _SAME_TIMER * longer_ns


def _corrected(skips: Sequence[Skip], left: Sequence[TimedWait], launched_ns: int) -> tuple[Skip, ...]:
    """The skips for the next attempt, after a run in which some waits were not skipped: earlier skips are kept, and the
    others are aimed at the waits that are left."""
    if not left:
        return tuple(skips)
    missed = _skips(left, launched_ns)
    kept = [skip for skip in skips if skip.begin_ns < missed[0].begin_ns - _LATER_NS]
    return (*kept, *missed)[:MOST_WAITS]


def channel_with(base: Base, changes: Changes, aim: Aim) -> ChannelSpec:
    """The channel of the run with these changes, with the remaining losses as aimed faults.

    Raises OwltError if there are more losses than aimed faults can have.
    """
    channel = base.channel
    for change in changes:
        channel = with_links(channel, partial(_changed, change))
    faults = aimed_at(tuple(Hit(place) for place in aim.places.values()))
    if (most := max((len(fault.occurrences) for fault in faults), default=0)) > MOST_RULES:
        raise OwltError(Mistake(f"{most} losses in one direction", f"at most {MOST_RULES}, the limit for aimed faults"))
    return channel.model_copy(update={"faults": (*channel.faults, *faults)})


def _changed(change: Change, direction: str, link: LinkSpec) -> LinkSpec:
    """The link of a direction after a change."""
    if change.direction != direction:
        return link
    if change.kind == "delay":
        return link.model_copy(update={"delay_ns": link.delay_ns // 2})
    return link.without_rate


def _window(skip: Skip) -> SkippedWaits:
    """The window in which the wait begins."""
    edges = {"after": f"{max(skip.begin_ns - _EARLIER_NS, 0)} ns", "before": f"{skip.begin_ns + _LATER_NS} ns"}
    return SkippedWaits.model_validate({"side": skip.host, **edges})


def plan_of(base: Base, variants: Sequence[tuple[Changes, Aim]]) -> Plan:
    """The plan that performs the run once with each set of changes. Raises OwltError.

    All runs have the seeds of the recorded run and of its guest, and names of the same length, because programs see the
    names in paths. The implementation gets the same advertised values as in the recorded run.
    """
    runs, channels, names = [], {}, []
    for number, (changes, aim) in enumerate(variants):
        channel = channel_with(base, changes, aim)
        key, name = channel_key(channel), f"{base.run.run_id[:-2]}{number:02d}"
        channels[key] = channel.model_copy(update={"faults": ()})
        names.append(name)
        values = {"run_id": name, "channel_key": key, "faults": channel.to_wire().get("faults", [])}
        values["permutation"] = base.run.permutation.model_copy(update={"channel_name": name})
        runs.append(base.run.model_copy(update=values))
    guest_seed = base.plan.guest_seeds.get(base.run.run_id, base.run.seed)
    sweep = base.plan.sweep
    of_sweep: dict[str, object] = {
        **sweep.of_channel(base.run.permutation.channel_name, names),
        "skipped_waits": {
            name: list(map(_window, aim.skips)) for name, (_, aim) in zip(names, variants, strict=True) if aim.skips
        },
        **{"certify": False, "keep_captures": "headers", "quarantine_after": 0, "repetitions": 1},
        **{"baseline": None, "assertions": []},
    }
    return base.plan.model_copy(
        update={
            "sweep": sweep.model_copy(update=of_sweep),
            "channels": dict(sorted(channels.items())),
            "certifications": [],
            "batches": [Batch(index=index, seed=guest_seed, runs=[run]) for index, run in enumerate(runs)],
            "history": [],
        }
    )

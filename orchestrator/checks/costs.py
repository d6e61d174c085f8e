"""The costs of what makes a session longer: the run is performed again with one change, and the difference in time
is the cost (`owlt.orchestrator.checks.counterfactuals`).

If several losses have a common cost, the fewest of them with that cost are searched. Then the changes that save most
are combined to find the smallest set that explains the time that can be explained. No costs are known if the run
without a change does not take the time of the recorded run; a run in which a change had no effect shows no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import inf
from pathlib import Path
from typing import Literal

from owlt.captures.inspection.causes import Cause
from owlt.captures.inspection.critical_path import WAYS, CriticalPath
from owlt.orchestrator.checks.changed_runs import Aim, Effect, effect_of, expected_aim, plan_of
from owlt.orchestrator.checks.counterfactuals import (
    MOST_WAITS,
    Base,
    Change,
    Changes,
    Loss,
    Times,
    base_of,
    changes_of,
    losses_of_causes,
    removed_by,
    times_of,
    without_advertised,
    without_losses,
)
from owlt.orchestrator.checks.fault_cases import HOST_OF
from owlt.orchestrator.checks.shrinking import fewest
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Plan
from owlt.results.recorded_runs import run_directory
from owlt.results.waits import TimedWait

MOST_LEAST = 5
"""The largest number of changes in the smallest set that explains the time."""
MOST_PAIRS = 3
"""The most pairs of losses that are removed together because they cost the same."""
MOST_ATTEMPTS = 4
"""How often a run is performed at most until its losses hit the intended packets and its waits are skipped."""
MOST_SUBSETS = 48
"""The most subsets of losses, each a run, that are tried to find the fewest losses with the cost of a cause."""
SAME_S, SAME_SHARE = 1e-3, 1e-3
"""The run without a change takes the time of the recorded one if it differs by less than one of these: it begins some
microseconds earlier or later, and then packets that are due at one moment may leave in the other order."""
EXPLAINED = 0.99
"""The smallest set explains at least this share of the time that all changes explain."""
HARMLESS_RTTS, ROUND_RTTS = 0.01, 0.5
"""A loss that costs at most the first is harmless; what costs at least the second takes a round."""


Needed = Literal["all", "some", "unknown"]
"""Which of several losses have to be removed to save their common cost: all, or only some; "unknown" if `MOST_SUBSETS`
runs did not decide this, so that only the cost of the whole set is known."""


@dataclass(frozen=True)
class Counterfactual:
    """A run with some changes: its times, and the time that the changes save.

    `cost_s` is the saved time from the launch to the last packet, and `delivery_cost_s` to the delivery; None if a file
    was not delivered. `displaced` is the number of losses that did not hit the same packets as in the recorded run,
    although these packets were sent. `run` is its directory. `problem` says which change had no effect, so that the
    costs are not those of the changes; "" if all had an effect. `needed` is None unless several losses are removed.
    `is_indirect`: the saving is larger than the skipped waits plus a round trip, or than all propagation in the
    direction whose delay is halved; so something else also changed, such as a congestion window or a later timer.
    """

    changes: Changes
    times: Times
    cost_s: float
    delivery_cost_s: float | None
    displaced: int
    run: Path
    problem: str = ""
    needed: Needed | None = None
    is_indirect: bool = False

    @property
    def text(self) -> str:
        """What is changed, in words, such as "without the second loss (forward #118, EOF)"."""
        return " and ".join(change.text for change in self.changes)

    @property
    def losses(self) -> tuple[Loss, ...]:
        """The losses that are removed."""
        return removed_by(self.changes)

    @property
    def is_of_transfer(self) -> bool:
        """Whether it changes losses, timers or advertised values, not the channel's rates and delays."""
        return all(change.kind in ("losses", "advertised", "timer") for change in self.changes)


@dataclass(frozen=True)
class Interaction:
    """Losses whose costs do not add up.

    `is_shared`: removing one of them saves nothing, because the others have the same effect; removing all of them saves
    `cost_s`. Otherwise each is harmless without the others: removing one of them saves as much as removing all.
    """

    is_shared: bool
    losses: tuple[Loss, ...]
    cost_s: float


@dataclass(frozen=True)
class Costs:
    """The cost of everything that can be changed in a session, the largest cost first.

    `problem` says why no costs are known. `least` are the fewest changes that explain the time that losses and
    advertised values explain, and `least_cost_s` is their common cost. `above_bound_s` is how much longer the session
    takes than the transmission of the file and one round trip; None if that is not known. `runs` is the number of runs
    that were performed.
    """

    problem: str = ""
    base: Times | None = None
    counterfactuals: tuple[Counterfactual, ...] = ()
    least: Changes = ()
    least_cost_s: float = 0.0
    above_bound_s: float | None = None
    interactions: tuple[Interaction, ...] = ()
    runs: int = 0


Perform = Callable[[Plan, str], Path]
"""Performs a plan under a name, such as "1", and returns its results directory, in which every run has a record."""


def costs(directory: Path, path: CriticalPath, causes: Sequence[Cause], perform: Perform) -> Costs:
    """The costs of the losses that the causes name, of the channel and of the advertised values.

    `directory` is that of the run, `path` its critical path and `causes` those of the path. Raises OwltError if a run
    cannot be performed, OSError.
    """
    try:
        base = base_of(directory, path.rungs)
        trials = Trials(base, perform)
        asked: list[Changes] = [(change,) for change in changes_of(base, causes)]
        why = base.plan.implementations[base.run.permutation.implementation].not_repeatable
        if why:  # perhaps only the contents of its packets differ, not their times
            trials.perform([()])
        if not why or not trials.difference():
            trials.perform([(), *asked])
    except OwltError as error:
        return Costs(str(error))
    except FileNotFoundError as error:
        return Costs(f"{error.filename} is missing, which describes how the run was performed")
    if problem := trials.difference():
        return Costs(f"{problem}; the implementation is not repeatable: {why}" if why else problem, runs=trials.runs)
    harmless_s = HARMLESS_RTTS * base.channel.rtt_ns / 1e9 + _packet_s(base)
    needed = _needed_losses(trials, base, losses_of_causes(base, causes), harmless_s)
    again = conclusive(trials.perform([]), trials.base_times)
    order = greedy_order(again, harmless_s)
    trials.perform(first_changes(order))
    order = without_useless(order, trials.cost_s, harmless_s)
    found = trials.perform([*first_changes(order), *_alike(again, harmless_s)])
    saving = conclusive(found, trials.base_times)
    least = least_of(saving, order)
    shown = [with_needed(each, needed, saving) for each in without_search(found, asked, needed)]
    counterfactuals = [replace(each, is_indirect=is_indirect(each, path, base.channel.rtt_ns)) for each in shown]
    bound_ns = None if path.least_ns is None else path.least_ns + base.channel.reverse.delay_ns
    return Costs(
        base=trials.base_times,
        counterfactuals=tuple(sorted(counterfactuals, key=lambda each: -each.cost_s)),
        least=least.changes if least else (),
        least_cost_s=least.cost_s if least else 0.0,
        above_bound_s=None if bound_ns is None else base.times.session_s - bound_ns / 1e9,
        interactions=tuple(interactions(saving, harmless_s, ROUND_RTTS * base.channel.rtt_ns / 1e9)),
        runs=trials.runs,
    )


def is_indirect(found: Counterfactual, path: CriticalPath, rtt_ns: int) -> bool:
    """Whether a change of timers saves more time than its waits plus a round trip, or one of a delay more than all
    propagation in its direction on the critical path of the recorded run."""
    if found.problem or len(found.changes) != 1 or found.changes[0].kind not in ("timer", "delay"):
        return False
    (change,) = found.changes
    direct_ns = sum(wait.length_ns for wait in change.waits) + rtt_ns
    if change.direction is not None:
        host = HOST_OF[change.direction]
        direct_ns = sum(part.length_ns for part in path.parts if part.kind in WAYS and part.host == host)
    return found.cost_s > direct_ns / 1e9


def without_search(
    found: Sequence[Counterfactual], asked: Sequence[Changes], needed: Mapping[tuple[Loss, ...], Needed]
) -> list[Counterfactual]:
    """Those found without the sets that the search for the fewest losses tried and that are not its result: such a set
    is no cause, and many of them save the same time."""
    keys = {_key(changes) for changes in asked}
    return [each for each in found if len(each.changes) > 1 or _key(each.changes) in keys or each.losses in needed]


def _packet_s(base: Base) -> float:
    """The longest transmission of a packet, which a loss costs at least if the packet is sent again."""
    rate_bps = base.channel.forward.rate_bps
    return 8 * base.channel.path_mtu_bytes / rate_bps if rate_bps else 0.0


def with_needed(
    found: Counterfactual, needed: Mapping[tuple[Loss, ...], Needed], others: Sequence[Counterfactual]
) -> Counterfactual:
    """The counterfactual with which of its losses are needed: as `needed` has it, or as other sets show it."""
    if len(found.changes) != 1 or len(found.losses) < 2:
        return found
    shown: Needed = "some" if is_larger_than_needed(found, others) else "unknown"
    return replace(found, needed=needed.get(found.losses, shown))


def _needed_losses(
    trials: Trials, base: Base, sets: Sequence[tuple[Loss, ...]], harmless_s: float
) -> dict[tuple[Loss, ...], Needed]:
    """Which losses of each set have to be removed to save its cost, the sets with the largest cost first; the runs are
    added to `trials`. Raises OwltError, OSError."""
    costs_s = {losses: trials.cost_s((without_losses(base, losses),)) for losses in sets if len(losses) > 1}
    needed: dict[tuple[Loss, ...], Needed] = {}
    left = MOST_SUBSETS
    for losses, cost_s in sorted(costs_s.items(), key=lambda each: -each[1]):
        if cost_s <= harmless_s:
            break

        def costs_without(subsets: Sequence[tuple[Loss, ...]]) -> list[float]:
            changes: list[Changes] = [(without_losses(base, subset),) for subset in subsets]
            trials.perform(changes)
            return [trials.cost_s(each) for each in changes]

        found, tried = needed_of(losses, costs_without, EXPLAINED * cost_s, left)
        needed |= found
        left -= tried
    return needed


def needed_of(
    losses: tuple[Loss, ...],
    costs_s: Callable[[Sequence[tuple[Loss, ...]]], Sequence[float]],
    least_s: float,
    most: int,
) -> tuple[dict[tuple[Loss, ...], Needed], int]:
    """Which of some losses, which together cost at least `least_s`, are needed for that, and the same of the fewest
    that were found; and how many subsets were tried, at most `most`. `costs_s` is minus infinity for a subset whose run
    shows no cost: then it is not known whether fewer would do."""
    is_known = True

    def has_cost(subsets: Sequence[tuple[Loss, ...]]) -> list[bool]:
        nonlocal is_known
        found_s = costs_s(subsets)
        is_known = is_known and -inf not in found_s
        return [each_s >= least_s for each_s in found_s]

    search = fewest(losses, has_cost, most)
    needed: dict[tuple[Loss, ...], Needed] = {losses: "some"} if search.left != losses else {}
    return needed | ({search.left: "all"} if search.is_least and is_known else {}), search.tried


@dataclass(frozen=True)
class _Trial:
    """A run with changes: its aim, the effect of the changes, its times and its directory."""

    aim: Aim
    effect: Effect
    times: Times
    run: Path


Key = tuple[tuple[Loss, ...], frozenset[Change]]


class Trials:
    """The runs with changes of a recorded run. Each set of changes is performed once, and again as long as its losses
    hit other packets or its waits are not skipped."""

    def __init__(self, base: Base, perform: Perform) -> None:
        self._base, self._perform = base, perform
        self._trials: dict[Key, _Trial] = {}
        self._changes: dict[Key, Changes] = {}
        self.runs = 0

    def perform(self, sets: Sequence[Changes]) -> list[Counterfactual]:
        """Perform these sets of changes, and return all runs so far; an empty list if the run without a change differs
        from the recorded one. Raises OwltError, OSError."""
        new = {_key(changes): changes for changes in reversed(sets) if _key(changes) not in self._trials}
        self._changes |= new
        due = {key: expected_aim(self._base, changes) for key, changes in reversed(new.items())}
        for _ in range(MOST_ATTEMPTS):
            tried = self._batch(due)
            self._trials |= tried
            if self.difference():
                break
            due = {key: trial.effect.correct for key, trial in tried.items() if trial.effect.correct != trial.aim}
        if self.difference():
            return []
        return [self._counterfactual(key) for key in self._trials if self._changes[key]]

    def cost_s(self, changes: Changes) -> float:
        """The cost of changes that were performed; minus infinity if their run shows no cost."""
        found = [self._counterfactual(key) for key in [_key(changes)] if key in self._trials]
        return max((each.cost_s for each in conclusive(found, self.base_times)), default=-inf)

    @property
    def base_times(self) -> Times:
        """The times of the run without a change."""
        return self._trials[_key(())].times

    def difference(self) -> str:
        """How the run without a change differs from the recorded one; "" if it takes the same time."""
        if _key(()) not in self._trials:
            return "the run without a change has no packets, or was aborted"
        recorded, again = self._base.times, self.base_times
        for what, before, after in (
            ("session time", recorded.session_s, again.session_s),
            ("time to delivery", recorded.delivered_s, again.delivered_s),
        ):
            if not _is_same(before, after):
                now, then = ("none" if each is None else f"{each:.6f} s" for each in (after, before))
                return f"with the recorded losses alone, the {what} is {now} instead of {then}"
        return ""

    def _batch(self, due: dict[Key, Aim]) -> dict[Key, _Trial]:
        """Perform the run with each set of changes; runs with other advertised values are in a separate plan."""
        tried: dict[Key, _Trial] = {}
        for is_advertised in (False, True):
            own = {key: aim for key, aim in due.items() if _is_advertised(self._changes[key]) == is_advertised}
            if not own:
                continue
            plan = plan_of(self._base, [(self._changes[key], aim) for key, aim in own.items()])
            plan = without_advertised(plan, self._base.run) if is_advertised else plan
            results = self._perform(plan, str(self.runs))
            self.runs += len(own)
            for (key, aim), run in zip(own.items(), plan.runs, strict=True):
                directory = run_directory(results, run.run_id)
                if (times := times_of(directory)) is not None:
                    effect = effect_of(self._base, self._changes[key], aim, directory)
                    tried[key] = _Trial(aim, effect, times, directory)
        return tried

    def _counterfactual(self, key: Key) -> Counterfactual:
        trial, base = self._trials[key], self.base_times
        both = base.delivered_s, trial.times.delivered_s
        return Counterfactual(
            self._changes[key],
            trial.times,
            base.ended_s - trial.times.ended_s,
            None if both[0] is None or both[1] is None else both[0] - both[1],
            sum(trial.aim.places.get(loss) != place for loss, place in trial.effect.correct.places.items()),
            trial.run,
            trial.effect.problem,
        )


def _key(changes: Changes) -> Key:
    """An identifier of a set of changes, equal for sets that remove the same losses."""
    return removed_by(changes), frozenset(change for change in changes if not change.losses)


def _is_advertised(changes: Changes) -> bool:
    return any(change.kind == "advertised" for change in changes)


def _is_same(before: float | None, after: float | None) -> bool:
    if before is None or after is None:
        return before is after
    return abs(before - after) <= max(SAME_S, SAME_SHARE * before)


def conclusive(found: Sequence[Counterfactual], base: Times) -> list[Counterfactual]:
    """The runs that show the cost of their changes: all changes had an effect, and the file was delivered, unless it is
    not delivered without a change either. A transfer that gives up is short, but saves nothing."""
    effective = [each for each in found if not each.problem]
    return [each for each in effective if base.delivered_s is None or each.times.delivered_s is not None]


def greedy_order(found: Sequence[Counterfactual], harmless_s: float) -> Changes:
    """The changes in the order in which they are combined: those that remove losses, skip waits or change advertised
    values, the largest cost first; of about equal costs, the change with the fewest losses or waits first."""
    costly = [each for each in found if each.is_of_transfer and each.cost_s > harmless_s]
    costly = [each for each in costly if not _is_sum(each, costly)]
    costly.sort(key=lambda each: (-round(each.cost_s / harmless_s) if harmless_s else -each.cost_s, _rank(each)))
    chosen: Changes = ()
    covered: set[Part] = set()
    for each in costly:
        parts = _parts(each)
        if not parts <= covered:
            chosen, covered = (*chosen, *each.changes), covered | parts
    return chosen[:MOST_LEAST]


def without_useless(order: Changes, cost_s: Callable[[Changes], float], harmless_s: float) -> Changes:
    """The ordered changes without those that save nothing in addition to the changes before them, such as the timer
    that waits for a packet that now arrives. A change is kept if its cost is not known (minus infinity)."""
    kept: Changes = ()
    before_s = 0.0
    for count, change in enumerate(order, start=1):
        each_s = cost_s(order[:count])
        if each_s == -inf or each_s > before_s + harmless_s:
            kept = (*kept, change)
        before_s = max(before_s, each_s)
    return kept


def first_changes(order: Changes) -> list[Changes]:
    """The first two, the first three, and so on, of ordered changes, as long as one run can skip all of their waits."""
    sets = (order[:count] for count in range(2, len(order) + 1))
    return [each for each in sets if sum(len(change.waits) for change in each) <= MOST_WAITS]


def is_larger_than_needed(each: Counterfactual, others: Sequence[Counterfactual]) -> bool:
    """Whether fewer of its losses, or of its waits, cost nearly as much."""
    parts = _parts(each)
    return any(_parts(other) < parts and other.cost_s >= EXPLAINED * each.cost_s for other in others if other.changes)


def is_part_of_larger(each: Counterfactual, others: Sequence[Counterfactual]) -> bool:
    """Whether it skips some of the waits of another change that saves more and needs all of them."""
    waits = {wait for change in each.changes for wait in change.waits}
    return bool(waits) and any(
        waits < _parts(other) and other.cost_s > each.cost_s and not is_larger_than_needed(other, others)
        for other in others
    )


Part = Loss | TimedWait | Change
"""A part of some changes: a loss that is removed, a wait that is skipped, or another change."""


def _parts(each: Counterfactual) -> set[Part]:
    waits = (wait for change in each.changes for wait in change.waits)
    return {*each.losses, *waits, *(change for change in each.changes if not change.losses and not change.waits)}


def _rank(each: Counterfactual) -> tuple[bool, int]:
    """The rank among changes of equal costs: a loss before the timer that waits for it, few losses or waits before
    many."""
    return not each.losses, len(_parts(each))


def _is_sum(whole: Counterfactual, others: Sequence[Counterfactual]) -> bool:
    """Whether the costs of disjoint smaller sets of its losses add up to nearly its cost."""
    left, sum_s = set(whole.losses), 0.0
    for part in sorted(others, key=lambda each: -each.cost_s):
        if part.losses and left.issuperset(part.losses) and len(part.losses) < len(whole.losses):
            left -= set(part.losses)
            sum_s += part.cost_s
    return sum_s >= EXPLAINED * whole.cost_s


def _alike(found: Sequence[Counterfactual], harmless_s: float) -> list[Changes]:
    """Pairs of single losses that cost about the same: both may cost the same time."""
    singles = [each for each in found if len(each.losses) == 1 and each.cost_s > harmless_s]
    pairs: list[Changes] = [
        (*one.changes, *other.changes)
        for one, other in combinations(singles, 2)
        if abs(one.cost_s - other.cost_s) <= harmless_s
    ]
    return pairs[:MOST_PAIRS]


def least_of(found: Sequence[Counterfactual], order: Changes) -> Counterfactual | None:
    """The fewest of the ordered changes that explain nearly all of the time that changes of the transfer explain; None
    if they explain nothing."""
    by_key = {_key(each.changes): each for each in found if each.is_of_transfer}
    most_s = max((each.cost_s for each in by_key.values()), default=0.0)
    for count in range(1, len(order) + 1):
        each = by_key.get(_key(order[:count]))
        if each is not None and each.cost_s >= EXPLAINED * most_s:
            return replace(each, changes=order[:count])
    return max(by_key.values(), key=lambda each: each.cost_s) if order else None


def interactions(found: Sequence[Counterfactual], harmless_s: float, round_s: float) -> Iterator[Interaction]:
    """The losses whose costs do not add up, among those that were removed one by one."""
    removed = [each for each in found if all(change.kind == "losses" for change in each.changes)]
    alone_s = {each.losses[0]: each.cost_s for each in removed if len(each.losses) == 1}
    known: list[set[Loss]] = []
    for each in sorted(removed, key=lambda each: len(each.losses)):
        losses = set(each.losses)
        if len(losses) < 2 or each.cost_s < round_s or not losses <= alone_s.keys():
            continue
        is_shared = max(alone_s[loss] for loss in losses) <= harmless_s
        is_redundant = min(alone_s[loss] for loss in losses) >= each.cost_s - harmless_s
        if (is_shared or is_redundant) and not any(smaller <= losses for smaller in known):
            known.append(losses)
            yield Interaction(is_shared, each.losses, each.cost_s)

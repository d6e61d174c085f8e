"""The repetitions of a plan: which of its runs are due, and what their number can decide.

With adaptive repetitions those runs are due that the results call for, else all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Protocol

from owlt.captures.accounting.summary import load_summary
from owlt.inputs.mistake import Invalid, Mistake, got
from owlt.inputs.quantities import parse_share
from owlt.inputs.sweep import MOST_LOOKS
from owlt.orchestrator.planning.plan import Plan, Run, read_plan
from owlt.results.permutation import Permutation
from owlt.results.record import SUMMARY, Signature, signature
from owlt.results.recorded_runs import RUNS, read_recorded, results_root

if TYPE_CHECKING:  # scipy takes most of a second, and only what plans repetitions needs it
    from owlt.reports.comparison.stopping import Stop


class Recorded(Protocol):
    """The part of a run's record that decides."""

    @property
    def outcome(self) -> str: ...


@dataclass(frozen=True)
class DueRuns:
    """The decision for each permutation from the results so far, by which runs are due or still possible."""

    stops: Mapping[Permutation, Stop]

    def is_due(self, run: Run) -> bool:
        """Whether the results call for a run, recorded or not."""
        return run.repetition <= self.stops[run.permutation].repetitions

    def is_possible(self, run: Run) -> bool:
        """Whether a run is due, or may become so."""
        return self.is_due(run) or self.stops[run.permutation].reason == "open"

    def text(self, point: Permutation) -> str:
        """The decision for a permutation in words."""
        decision = self.stops[point]
        width = "" if decision.width_percent is None else f"{decision.width_percent:.3g} % "
        return f"{decision.reason}: {width}after {decision.repetitions}" if decision.reason != "open" else "open"


@lru_cache(maxsize=1 << 17)
def _goodput(directory: Path, outcome: str, _written: Signature) -> tuple[float | None, ...]:
    """The goodput of a run whose summary has this signature: read once by this process, as long as the file stays."""
    from owlt.reports.results.load import repetition_goodput

    return repetition_goodput(directory, outcome, partial(load_summary, directory))


class Repeating:
    """Decides again and again; a process reads the goodput of a run once, as long as its files stay the same."""

    def __init__(self, plan: Plan, results: Path) -> None:
        self._plan = plan
        self._results = results

    def due(self, records: Mapping[str, Recorded]) -> DueRuns | None:
        """The decisions from these records; None if every run of the plan is due."""
        if self._plan.sweep.adaptive is None:
            return None
        from owlt.reports.comparison.stopping import stops

        goodputs: dict[Permutation, dict[int, float | None]] = {run.permutation: {} for run in self._plan.runs}
        for run in self._plan.runs:
            for goodput in self.goodput(run.run_id, records.get(run.run_id)):
                goodputs[run.permutation][run.repetition] = goodput
        plan = self._plan
        drawn = {run.permutation for run in plan.runs if plan.draws(run)}
        return DueRuns(stops(self._plan.sweep, goodputs, drawn.__contains__))

    def goodput(self, run_id: str, record: Recorded | None) -> tuple[float | None, ...]:
        """The goodput as `repetition_goodput` returns it; () without a record."""
        if record is None:
            return ()
        directory = self._results / RUNS / run_id
        found = signature(directory / SUMMARY)
        read = _goodput if found else _goodput.__wrapped__  # a run without a summary may be analysed later
        return read(directory, record.outcome, found)


def due_runs(plan: Plan, results: Path, records: Mapping[str, Recorded]) -> set[str]:
    """The names of the runs that are due, and of those that have a record."""
    due = Repeating(plan, results).due(records) if plan.sweep.adaptive else None
    return {run.run_id for run in plan.runs if due is None or due.is_due(run) or run.run_id in records}


def counts(stops: Iterable[Stop]) -> dict[str, int]:
    """The number of permutations by the reason of their decision."""
    from owlt.reports.comparison.stopping import REASONS

    numbers: dict[str, int] = dict.fromkeys(REASONS, 0)
    for each in stops:
        numbers[each.reason] += 1
    return numbers


SPREADS = (0.01, 0.05, 0.2)
"""The spreads that are examples as long as that of a sweep is unknown."""
WORTH_DETECTING = 1.05
"""A plan that detects only larger ratios says how many repetitions detect this one."""
MOST_CELLS = 60
"""Only so many permutations are read for their spread, from all parts of the grid."""


@dataclass(frozen=True)
class Spread:
    """How far apart the goodputs of the runs of a permutation are: the standard deviation of their logarithms, about
    that of the goodput relative to its mean (0.05 is 5 %)."""

    typical: float
    """The median of all permutations that were read."""
    largest: float
    permutation: str = ""
    """The permutation with the largest spread; "": the spread was stated."""
    source: str = ""


@dataclass(frozen=True)
class Sensitivity:
    """What the repetitions of a sweep can decide between the implementations of a cell. Ratios are of the goodput."""

    implementations: int
    """The most that a cell has."""
    repetitions: int
    """With adaptive repetitions, the least number; the largest one with `until: decided`."""
    least: int
    """With fewer repetitions, no implementation can be excluded where channels have random errors."""
    key: str
    """The key of the sweep that has the repetitions."""
    spread: Spread | None
    """None: unknown."""
    ratios: Mapping[float, float]
    """The ratio that is detected, by spread, with the repetitions, or with `least` if that is more."""
    repetitions_worth: int | None = None
    """The repetitions that detect WORTH_DETECTING at the typical spread; None: the sweep does, or too many."""
    skippable: int = 0
    """The runs of channels without random errors that `until: decided` skips, or would skip, if the first two of a
    permutation have the same packets; 0: not on the clock exact, or none."""
    is_skipping: bool = False
    """Whether the sweep says `until: decided`."""
    is_without_chance: bool = False
    """Whether no channel has random errors, on the clock exact."""

    def texts(self) -> Iterator[str]:
        """The lines for users."""
        from owlt.reports.comparison.choice import Rule
        from owlt.reports.comparison.stopping import DETECTION

        if self.skippable:
            skipped = f"{self.skippable} runs of channels without random errors"
            if self.is_skipping:
                yield f"{skipped} are skipped if the first two of a permutation are identical"
            else:
                least = Rule(looks=MOST_LOOKS).least_repetitions(self.implementations)
                yield (
                    f"{skipped} add nothing if the first two of a permutation are identical; to skip them, write "
                    f"'repetitions: {{at_least: {least}, at_most: {max(self.repetitions, least + 1)}, "
                    "until: decided}'"
                )
        among = f"between {self.implementations} implementations"
        if self.repetitions < self.least and not self.is_without_chance:
            yield (
                f"warning: {self.key}: {self.repetitions}: too few to exclude any of {self.implementations} "
                f"implementations; write at least {self._written(self.least)}"
            )
        detected = f"{max(self.repetitions, self.least)} repetitions detect a difference {among}"
        detected += f" with a probability of {_percent(DETECTION)} if it is "
        spread, ratios = self.spread, self.ratios
        if spread is None:
            examples = [f"{_difference(ratios[each])} (spread of the goodput {_percent(each)})" for each in SPREADS]
            yield f"{detected}{', '.join(examples)}; for yours: owlt plan --spread RESULTS, or --spread 5%"
            return
        where = f" in {spread.source}" if spread.source else ""
        if spread.largest == 0:
            yield f"the runs of each cell are identical{where}: any difference {among} is detected"
            return
        line = (
            f"{detected}{_difference(ratios[spread.typical])} (spread of the goodput {_percent(spread.typical)}{where})"
        )
        if spread.largest > spread.typical:
            largest = f"in {spread.permutation}, where the spread is {_percent(spread.largest)}"
            line += f", or {_difference(ratios[spread.largest])} {largest}"
        if self.repetitions_worth:
            line += f"; for {_difference(WORTH_DETECTING)}, write {self._written(self.repetitions_worth)}"
        yield line

    def _written(self, number: int) -> str:
        """A number of repetitions as the sweep has it."""
        more = " with a larger 'at_most'" if self.key == "at_least" else ""
        return f"'{self.key}: {number}'{more}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def _difference(ratio: float) -> str:
    return _percent(ratio - 1) if ratio < 2 else f"a factor of {ratio:.2g}"


def sensitivity(plan: Plan, spread: Spread | None) -> Sensitivity | None:
    """What the repetitions of a plan can decide; None: no cell has two implementations."""
    from owlt.reports.comparison.stopping import IDENTICAL, detectable_ratio, repetitions_for, rule_of

    by_cell: dict[str, set[str]] = {}
    for run in plan.runs:
        by_cell.setdefault(run.permutation.cell, set()).add(run.permutation.implementation)
    implementations = max(map(len, by_cell.values()), default=0)
    if implementations < 2:
        return None
    adaptive = plan.sweep.adaptive
    repetitions = adaptive.at_least if adaptive and not adaptive.until else plan.sweep.most_repetitions
    rule = rule_of(plan.sweep)
    least = rule.least_repetitions(implementations)
    number = max(repetitions, least)
    spreads = (spread.typical, spread.largest) if spread else SPREADS
    ratios = {each: ratio for each in spreads if (ratio := detectable_ratio(each, number, implementations, rule))}
    needed = repetitions_for(WORTH_DETECTING, spread.typical, implementations, rule) if spread else None
    worth = needed if needed and needed > number else None
    key = "repetitions" if adaptive is None else "at_most" if adaptive.until else "at_least"
    fixed = [run for run in plan.runs if plan.sweep.clock == "exact" and not plan.draws(run)]
    return Sensitivity(
        implementations=implementations,
        repetitions=repetitions,
        least=least,
        key=key,
        spread=spread,
        ratios=ratios,
        repetitions_worth=worth,
        skippable=sum(run.repetition > IDENTICAL and not run.is_baseline for run in fixed),
        is_skipping=bool(adaptive and adaptive.until),
        is_without_chance=len(fixed) == len(plan.runs),
    )


def parse_spread(text: str) -> Spread:
    """The spread that a user states, as a share in percent or as a results directory. Raises Invalid."""
    if re.fullmatch(r"[-+0-9.,\s%]+", text):
        if 0 < (share := parse_share(text)) < 1:
            return Spread(share, share)
        raise Invalid(Mistake(got(text), "more than 0% and less than 100%, such as 5%"))
    if spread := spread_of(results_root(Path(text))):
        return spread
    problem = f"{text}: has no permutation with three completed runs, or is not a results directory"
    raise Invalid(Mistake(problem, "a share such as 5%, or results with repetitions"))


def spread_of(results: Path) -> Spread | None:
    """The spread of recorded runs; None: no permutation has enough of them, or there is no plan."""
    from owlt.reports.comparison.stopping import spread

    try:
        plan = read_plan(results)
    except FileNotFoundError:
        return None
    runs: dict[Permutation, list[Run]] = {}
    for run in plan.runs:
        if not run.is_baseline and (results / RUNS / run.run_id).is_dir():
            runs.setdefault(run.permutation, []).append(run)
    points = list(runs)[:: -(-len(runs) // MOST_CELLS) or 1]
    records = read_recorded(results, {run.run_id for point in points for run in runs[point]}).records
    repeating = Repeating(plan, results)
    spreads = {}
    for point in points:
        goodputs = [each for run in runs[point] for each in repeating.goodput(run.run_id, records.get(run.run_id))]
        value = spread([each for each in goodputs if each is not None])
        if value is not None:
            spreads[point] = value
    if not spreads:
        return None
    widest = max(spreads, key=lambda point: spreads[point])
    return Spread(median(spreads.values()), spreads[widest], widest.slug, str(results))

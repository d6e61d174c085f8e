"""Why one implementation is faster than another in a cell: on what the sessions of the slower one spend more time.

The times are means over the runs whose file was delivered, so their differences add up to that of the session times.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from owlt.captures.frames.session import Host
from owlt.captures.inspection.critical_path import PHASES, Kind, Phase
from owlt.captures.inspection.time_account import TimeAccount
from owlt.reports.answer.cell_verdicts import Verdict
from owlt.reports.answer.regions import Dimension, Region, place_text
from owlt.reports.answer.sentences import percent_text
from owlt.reports.comparison.cells import GOODPUT, TO_DELIVERY, Cell, Criterion, Point, Sample
from owlt.reports.units import listed

Accounts = Mapping[str, TimeAccount]
"""The time account of each run that has one, by its id."""


@dataclass(frozen=True)
class _Purpose:
    """What time is spent on; `text` follows "spends 0.61 s". `is_avoidable`: another protocol might not need it.

    `ways`: all of the time, only one propagation delay to the receiver, or all but that delay.
    """

    text: str
    kinds: tuple[Kind, ...]
    phases: tuple[Phase, ...] = PHASES
    host: Host | None = None
    is_avoidable: bool = True
    ways: Literal["all", "one", "all but one"] = "all"

    def total_ns(self, account: TimeAccount, phases: Collection[Phase]) -> int:
        """How long it took in some phases of a session."""
        total_ns = account.total_ns(self.kinds, {*self.phases} & {*phases}, self.host)
        if self.ways == "all":
            return total_ns
        one_ns = total_ns if account.least_ns is None else account.least_ns - account.total_ns(["new data"])
        return min(total_ns, one_ns) if self.ways == "one" else max(total_ns - one_ns, 0)


_WAYS: tuple[Kind, ...] = ("propagation", "in the channel")
_PURPOSES = (
    _Purpose("on the first transmission of the file", ("new data",), is_avoidable=False),
    _Purpose("on retransmissions and control packets", ("serialization",)),
    _Purpose("on queueing", ("queueing",)),
    _Purpose("on round trips before the first data packet", _WAYS, ("opening",)),
    _Purpose("on propagation of the file", _WAYS, ("transfer",), is_avoidable=False, ways="one"),
    _Purpose("on round trips during the first transmission of the file", _WAYS, ("transfer",), ways="all but one"),
    _Purpose("on round trips during loss recovery", _WAYS, ("recovery",)),
    _Purpose("on round trips after delivery", _WAYS, ("closing",), is_avoidable=False),
    _Purpose("on host processing", ("processing",)),
    _Purpose("on timers of the sender", ("timer",), host="sender"),
    _Purpose("on timers of the receiver", ("timer",), host="receiver"),
    _Purpose("on unexplained idle time of the sender", ("waiting",), host="sender"),
    _Purpose("on unexplained idle time of the receiver", ("waiting",), host="receiver"),
)
"""Each part of a session belongs to exactly one of them."""
MOST_PURPOSES = 2
"""The most purposes that a sentence names."""
LEAST_PART = 0.15
"""The smallest part of a difference for which a sentence names a purpose."""
LEAST_SHARE = 0.1
"""The smallest share of the session time for which a purpose gets a sentence."""


class _Compared(NamedTuple):
    """The phases of a session that decide a criterion, and the words around the difference."""

    phases: tuple[Phase, ...]
    verb: str
    less: str


_COMPARED: Mapping[str, _Compared] = {
    GOODPUT.slug: _Compared(PHASES, "takes", "less"),
    TO_DELIVERY.slug: _Compared(PHASES[:-1], "delivers", "earlier"),
}
"""By the slug of a criterion: of the others, time is not what is compared."""


def reasons(
    regions: Sequence[Region],
    cells: Sequence[Cell],
    criterion: Criterion,
    dimensions: Sequence[Dimension],
    accounts: Accounts,
) -> list[str]:
    """A sentence for each region, "" where it has no reason: why the first choice is faster than the next one that is
    shown to be worse, in the cell of the region where it gains most."""
    compared = _COMPARED.get(criterion.slug)
    if compared is None or not accounts:
        return [""] * len(regions)
    of_point = {cell.point: cell for cell in cells}
    sentences = []
    for region in regions:
        pairs = [pair for verdict in region.verdicts if (pair := _pair(verdict, region, of_point, compared, accounts))]
        pair = max(pairs, key=lambda each: each.gain_s, default=None)
        sentences.append(_reason(pair, compared, dimensions) if pair and pair.gain_s > 0 else "")
    return sentences


class _Pair(NamedTuple):
    """Two implementations in a cell, and what each of them spends on each purpose, in s."""

    point: Point
    best: str
    other: str
    best_s: list[float]
    other_s: list[float]

    @property
    def gain_s(self) -> float:
        """How much less the better one spends."""
        return sum(self.other_s) - sum(self.best_s)


def _reason(pair: _Pair, compared: _Compared, dimensions: Sequence[Dimension]) -> str:
    more = [other - best for best, other in zip(pair.best_s, pair.other_s, strict=True)]
    largest = sorted(range(len(more)), key=lambda place: -more[place])[:MOST_PURPOSES]
    named = [place for place in largest if more[place] >= LEAST_PART * pair.gain_s]
    at = f" at {place_text(pair.point, dimensions)}" if dimensions else ""
    difference = f"{compared.verb} {_seconds(pair.gain_s)} {compared.less} than {pair.other}{at}"
    spends = listed([f"{_seconds(pair.other_s[place])} {_PURPOSES[place].text}" for place in named])
    own = listed([_seconds(pair.best_s[place]) for place in named])
    return f"{pair.best} {difference}: {pair.other} spends {spends}; {pair.best} spends {own}."


def _pair(
    verdict: Verdict, region: Region, cells: Mapping[Point, Cell], compared: _Compared, accounts: Accounts
) -> _Pair | None:
    """The first choice and the next one that is shown to be worse; None if there is none with time accounts."""
    if region.is_undecided or not region.take:
        return None
    samples = cells[verdict.point].samples
    best_s = _spent_s(samples[region.take[0]], accounts, compared.phases)
    worse = [each.name for each in verdict.standings if each.relation == "worse"]
    for name in worse:
        if best_s and (other_s := _spent_s(samples[name], accounts, compared.phases)):
            return _Pair(verdict.point, region.take[0], name, best_s, other_s)
    return None


def _spent_s(sample: Sample, accounts: Accounts, phases: Sequence[Phase] = PHASES) -> list[float] | None:
    """What a session of the sample spends on each purpose, in s, on average; None if not all delivered files have an
    account."""
    found = [accounts.get(row["run_id"]) for row in sample.delivered_rows]
    known = [each for each in found if each is not None]
    if not known or len(known) < len(found):
        return None
    return [sum(purpose.total_ns(each, phases) for each in known) / len(known) / 1e9 for purpose in _PURPOSES]


def largest_shares(cells: Sequence[Cell], dimensions: Sequence[Dimension], accounts: Accounts) -> list[str]:
    """A sentence for each implementation: the largest share of its session time that another protocol might not need,
    in the cell where this share is largest. Implementations without such a share are omitted."""
    largest: dict[str, tuple[float, str, Point]] = {}
    for cell in cells:
        for name, sample in cell.samples.items():
            spent_s = _spent_s(sample, accounts) or []
            for purpose, seconds in zip(_PURPOSES, spent_s, strict=False):
                share = seconds / sum(spent_s)
                if purpose.is_avoidable and share > max(LEAST_SHARE, largest.get(name, (0.0, "", cell.point))[0]):
                    largest[name] = share, purpose.text, cell.point
    return [
        f"{name} spends {percent_text(share)} of its session time {text}"
        + (f" at {place_text(point, dimensions)}." if dimensions else ".")
        for name, (share, text, point) in sorted(largest.items(), key=lambda item: -item[1][0])
    ]


def _seconds(seconds: float) -> str:
    """A time with three significant digits, and at most ms: "0.61 s", "1.94 s", "0 s"."""
    digits = f"{seconds:.3f}" if seconds < 0.1 else f"{seconds:.3g}" if seconds < 999.5 else f"{seconds:.0f}"
    return f"{digits.rstrip('0').rstrip('.') if '.' in digits else digits} s"

"""One sweep on several clocks, and on a lab rig: runs with the same seed meet the same channel errors, and are compared
pair by pair.

The means of the logarithms of ratios are tested against 1 ± MARGIN, and those of differences of times on a lab rig
against ± LAB_MARGIN_S. Disturbed runs, which owlt marks as suspect,
decide nothing about times; numbers of packets are compared in all pairs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log

from owlt.reports.comparison.estimates import Estimate, estimate
from owlt.reports.results.rows import Row
from tests.validation.equivalence import (
    Equivalence,
    Statement,
    equivalence,
    interval_text,
    outside_of,
    percent_text,
    verdict_of_all,
)

MARGIN = 0.01
LAB_MARGIN_S = 0.05
"""On a lab rig, times may differ by this much: of sessions of 3 to 10 s, 27 to 39 ms are of programs that compute on
one processor with the rest of the rig."""
REFERENCE = "exact"
SETTINGS = {
    "skip": "On the clock skip",
    "real": "On the clock real",
    "lab": "On a lab rig of namespaces",
}
"""What is compared with REFERENCE, and how sentences call it: clocks of the virtual rig, and the lab rig."""
MEASURES = {
    "session_s": "session time",
    "delivery_s": "time to delivery",
    "str_sent": "number of packets of the sender",
}
"""The measures of a pair, and their names in sentences."""
WITHOUT_TIMES = ("str_sent",)
"""Measures of which a disturbed run decides as well as any other."""

CellKey = tuple[str, int, float]
"""Implementation, one-way delay in ns, packet error rate."""


@dataclass(frozen=True)
class ClockCell:
    """One measure of one cell in a setting and on REFERENCE. Ratios are of the setting to REFERENCE."""

    setting: str
    measure: str
    key: CellKey
    reference: Estimate | None
    """Of all completed runs of the cell; the same for `measured`."""
    measured: Estimate | None
    pairs: int
    disturbed: int
    """Pairs with a run that is suspect."""
    test: Equivalence | None
    """Of the ratios of the pairs that count; its mean and interval are logarithms. Of a time on a lab rig: of their
    differences in s. None: no pair counts."""
    of_all: Equivalence | None
    """Of the ratios of all pairs, disturbed ones too."""


def setting_of(row: Row) -> str:
    """The setting of a run: its clock, or `lab`."""
    return "lab" if row["rig"] == "lab" else str(row["clock"])


def clock_cells(rows: Iterable[Row], setting: str) -> list[ClockCell]:
    """Every measure of every cell that has completed runs in the setting and on REFERENCE, in the order of the rows."""
    runs: dict[str, dict[CellKey, dict[int, Row]]] = {REFERENCE: defaultdict(dict), setting: defaultdict(dict)}
    for row in rows:
        if row["outcome"] == "completed" and setting_of(row) in runs and row["session_s"]:
            key = row["implementation"], row["delay_ns"], row["packet_error_rate"]
            runs[setting_of(row)][key][row["seed"]] = row
    return [
        _cell(setting, measure, key, runs[REFERENCE][key], runs[setting][key])
        for measure in MEASURES
        for key in runs[REFERENCE]
        if key in runs[setting]
    ]


def value_of(row: Row, measure: str) -> float:
    """A measure of a completed run."""
    if measure == "delivery_s":
        return float(8 * row["file_size_bytes"] / row["goodput_to_delivery_bps"])
    return float(row[measure])


def clock_statements(cells: Sequence[ClockCell], setting: str, planned: int) -> list[Statement]:
    """A statement for each measure; `planned` is the number of cells of the sweep."""
    return [
        _statement([cell for cell in cells if cell.measure == measure], setting, measure, planned)
        for measure in MEASURES
    ]


def _cell(setting: str, measure: str, key: CellKey, reference: dict[int, Row], measured: dict[int, Row]) -> ClockCell:
    pairs = [(reference[seed], measured[seed]) for seed in sorted(reference) if seed in measured]
    values = [(value_of(one, measure), value_of(other, measure)) for one, other in pairs]
    is_disturbed = [bool(one["suspect"] or other["suspect"]) for one, other in pairs]
    counted = [
        pair for pair, disturbed in zip(values, is_disturbed, strict=True) if measure in WITHOUT_TIMES or not disturbed
    ]
    return ClockCell(
        setting,
        measure,
        key,
        estimate([value_of(row, measure) for row in reference.values()]),
        estimate([value_of(row, measure) for row in measured.values()]),
        len(pairs),
        sum(is_disturbed),
        _test_of_differences(counted) if has_margin_in_s(setting, measure) else _test_of_ratios(counted),
        _test_of_ratios(values),
    )


def has_margin_in_s(setting: str, measure: str) -> bool:
    """Whether a measure is compared by its difference in s, instead of its ratio."""
    return setting == "lab" and measure not in WITHOUT_TIMES


Pairs = Sequence[tuple[float, float]]
"""The value on REFERENCE, and that in the setting."""


def _test_of_ratios(pairs: Pairs) -> Equivalence | None:
    return equivalence([log(other / one) for one, other in pairs], -log(1 + MARGIN), log(1 + MARGIN))


def _test_of_differences(pairs: Pairs) -> Equivalence | None:
    return equivalence([other - one for one, other in pairs], -LAB_MARGIN_S, LAB_MARGIN_S)


def _statement(cells: Sequence[ClockCell], setting: str, measure: str, planned: int) -> Statement:
    tests = [cell.test for cell in cells]
    inside = sum(test is not None and test.place == "inside" for test in tests)
    outside = sum(outside_of(tests))
    verdict = verdict_of_all(tests)
    if verdict == "passed" and len(cells) < planned:
        verdict = "undecidable"
    margin = f"{1000 * LAB_MARGIN_S:g} ms" if has_margin_in_s(setting, measure) else f"{100 * MARGIN:g} %"
    numbers = (
        f"{inside} of {planned} cells inside ±{margin}, {outside} outside, "
        f"{planned - inside - outside} undecided; {sum(cell.pairs for cell in cells)} pairs, "
        f"{sum(cell.disturbed for cell in cells)} of them disturbed"
    )
    ratios = sorted(exp(cell.of_all.mean) for cell in cells if cell.of_all)
    if ratios:
        numbers += f"; all pairs: {percent_text(ratios[0])} to {percent_text(ratios[-1])} (means of cells)"
    return Statement(
        f"{setting}-{measure.replace('_', '-')}",
        f"{SETTINGS[setting]}, the {MEASURES[measure]} is that on {REFERENCE} within {margin} in every cell",
        verdict,
        numbers,
    )


def cell_table(cells: Sequence[ClockCell]) -> tuple[list[str], list[tuple[object, ...]]]:
    """The headings and a row for each cell and measure."""
    headings = ["setting", "measure", "implementation", "delay_ms", "packet_error_rate", "median_exact", "low", "high"]
    headings += ["median", "low_", "high_", "pairs", "disturbed", "ratio_percent", "interval_percent", "verdict"]
    return headings, [_table_row(cell) for cell in cells]


def _table_row(cell: ClockCell) -> tuple[object, ...]:
    is_ratio = not has_margin_in_s(cell.setting, cell.measure)
    shown = cell.test if is_ratio and cell.test and cell.test.n > 1 else cell.of_all
    has_interval = shown is not None and shown.n > 1
    return (
        cell.setting,
        cell.measure,
        cell.key[0],
        cell.key[1] / 1e6,
        cell.key[2],
        *_estimate_numbers(cell.reference),
        *_estimate_numbers(cell.measured),
        cell.pairs,
        cell.disturbed,
        "" if shown is None else percent_text(exp(shown.mean)),
        interval_text(exp(shown.low), exp(shown.high)) if shown is not None and has_interval else "",
        cell.test.place if cell.test else "undecided",
    )


def _estimate_numbers(of: Estimate | None) -> tuple[object, ...]:
    if of is None:
        return "", "", ""
    return (of.median, of.interval.low, of.interval.high) if of.interval else (of.median, "", "")


@dataclass(frozen=True)
class ClockSummary:
    """One implementation in one setting: the range of its cells' session times against REFERENCE."""

    setting: str
    implementation: str
    cells: Sequence[ClockCell]

    def row(self) -> tuple[object, ...]:
        """Setting, implementation, cells, pairs, disturbed, and the median, least and greatest ratio of a cell."""
        ratios = sorted(exp(cell.of_all.mean) for cell in self.cells if cell.of_all)
        middle = estimate(ratios)
        return (
            self.setting,
            self.implementation,
            len(self.cells),
            sum(cell.pairs for cell in self.cells),
            sum(cell.disturbed for cell in self.cells),
            percent_text(middle.median) if middle else "",
            f"{percent_text(ratios[0])} to {percent_text(ratios[-1])}" if ratios else "",
        )


def summaries(cells: Sequence[ClockCell], measure: str = "session_s") -> list[ClockSummary]:
    """A summary for each setting and implementation, of one measure."""
    groups: dict[tuple[str, str], list[ClockCell]] = defaultdict(list)
    for cell in cells:
        if cell.measure == measure:
            groups[cell.setting, cell.key[0]].append(cell)
    return [ClockSummary(setting, name, of_group) for (setting, name), of_group in groups.items()]

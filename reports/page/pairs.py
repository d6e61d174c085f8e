"""The section of the page about pairs: the matrices, and the pairs that failed, with where they stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

from owlt.captures.accounting.derived_files import CAPTURES
from owlt.captures.accounting.packet_pairs import load_pairs
from owlt.captures.accounting.summary import read_both
from owlt.captures.files.blocks import NotACapture
from owlt.captures.frames.session import Session
from owlt.captures.inspection.inspection import Case, inspect, refusal_notes
from owlt.captures.protocols.ladder import unanswered
from owlt.inputs.axes import base_name
from owlt.reports.answer.regions import dimensions_of, place_text
from owlt.reports.comparison.cells import Cell
from owlt.reports.comparison.matrices import Matrix, matrices_of
from owlt.reports.results.load import Results, Run
from owlt.reports.sessions.protocols import ShownRun
from owlt.reports.sessions.session_figures import Drawn
from owlt.results.plain_files import is_plain

MOST_FAILED = 20
"""The most failed pairs whose captures are read."""


@dataclass(frozen=True)
class FailedPair:
    """The first failed run of a pair."""

    run_id: str
    reason: str
    unanswered: str
    """The packets without an answer, in words; "" if the captures do not tell."""
    ladder: str
    """The address of its ladder: in the page that `owlt analyse` writes, or a figure of the report; "" if neither is
    there."""
    directory: str


def pairs_section(
    results: Results, cells: Sequence[Cell], shown: Sequence[ShownRun], sessions: Mapping[str, Drawn]
) -> dict[str, Any]:
    """The values that the template of the section names; without pairs it has no matrices.

    `shown` are the runs that `sessions` are drawn from, by implementation.
    """
    matrices = matrices_of(cells, results.profiles, results.left_out_pairs)
    dimensions = dimensions_of([cell.point for cell in cells])
    alone = set(map(base_name, results.profiles))
    return {
        "matrices": matrices,
        "impossible": {name: why for name, why in results.left_out_pairs.items() if name not in alone},
        "pair_place": partial(place_text, dimensions=dimensions),
        "failed_pairs": list(
            _failed(results, matrices, {each.run.record.run_id: each.name for each in shown}, sessions)
        ),
    }


def _failed(
    results: Results, matrices: Sequence[Matrix], shown: Mapping[str, str], sessions: Mapping[str, Drawn]
) -> Iterator[FailedPair]:
    """One failed run of each pair: the one that is drawn if it is among them, else the first."""
    runs = {run.record.run_id: run for run in results.runs}
    failed: dict[str, list[str]] = {}
    for matrix in matrices:
        for entry in matrix.entries:
            failed.setdefault(entry.name, []).extend(row["run_id"] for row in entry.failed)
    chosen = [next((each for each in run_ids if each in shown), run_ids[0]) for run_ids in failed.values() if run_ids]
    for place, run in enumerate(map(runs.__getitem__, chosen)):
        drawn = sessions.get(shown.get(run.record.run_id, ""))
        yield FailedPair(
            run_id=run.record.run_id,
            reason=run.record.reason,
            unanswered=_where_it_stopped(run, results) if place < MOST_FAILED else "",
            ladder=_ladder(run, drawn),
            directory=f"RESULTS/runs/{run.record.run_id}",
        )


def _ladder(run: Run, drawn: Drawn | None) -> str:
    if is_plain(run.directory / "analysis" / "index.html"):
        return f"../runs/{quote(run.record.run_id)}/analysis/index.html"
    return f"figures/{quote(drawn.ladder.name)}.svg" if drawn and drawn.ladder else ""


def _where_it_stopped(run: Run, results: Results) -> str:
    """The packets of a run without an answer, and the refusals of its hosts; "" if its captures do not tell."""
    if not run.record.session or not all(is_plain(run.directory / name) for name in CAPTURES):
        return ""
    case = Case(
        Session.model_validate(run.record.session),
        results.profiles[run.record.implementation].dissector,
        outcome=run.record.outcome.value,
    )
    try:
        both = read_both(*(run.directory / name for name in CAPTURES))
        inspection = inspect(*both, case, crossing=load_pairs(run.directory, *both, case.session))
    except (NotACapture, ValueError, OSError):
        return ""
    left = unanswered(inspection.rungs)
    return "; ".join([*refusal_notes(inspection.exchange), *([left.text] if left else [])])

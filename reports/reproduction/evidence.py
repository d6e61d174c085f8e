"""The data that a page of a reproduction is made from: a database of its runs, and their provenance."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from owlt.reports.page.provenance import provenance_of
from owlt.reports.reproduction.claims import Reproduction
from owlt.reports.reproduction.database import database
from owlt.reports.results.load import Results
from owlt.results.record import ON_THE_RECEIVER
from owlt.results.reproduced import Performance, Reproduced, read_reproduced

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

QUICK = "-quick"
"""The end of the name of a sweep that is a part of the grid."""
NOT_RUN = "not_run"


class Facts(BaseModel):
    """Where the runs of a reproduction come from, for people."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: tuple[tuple[str, str, str], ...]
    """The sweep, what it is, and its value; several values if runs differ."""
    reproduced: dict[str, Reproduced | None]
    """The claims that each sweep's results recorded at the start of their runs, in the order of the sweeps."""


@dataclass(frozen=True)
class Evidence:
    """The database, and the facts."""

    connection: DuckDBPyConnection
    facts: Facts

    @property
    def runs_text(self) -> str:
        """The number of runs with each outcome, for each sweep."""
        sweeps = list(self.facts.reproduced)
        texts = [self._outcomes_text(sweep) for sweep in sweeps]
        if len(sweeps) == 1:
            return texts[0]
        return "; ".join(f"{sweep}: {text}" for sweep, text in zip(sweeps, texts, strict=True))

    def _outcomes_text(self, sweep: str) -> str:
        query = (
            "SELECT outcome, count(*), count(suspect) FROM all_runs WHERE sweep = ? GROUP BY outcome ORDER BY 2 DESC, 1"
        )
        rows = self.connection.execute(query, [sweep]).fetchall()
        parts = [f"{count} {outcome.replace('_', ' ')}" for outcome, count, _ in rows if outcome != NOT_RUN]
        parts += [f"{count} not performed" for outcome, count, _ in rows if outcome == NOT_RUN]
        suspect = sum(count for *_, count in rows)
        return f"{', '.join(parts)} ({suspect} suspect)" if suspect else ", ".join(parts)

    @property
    def form_text(self) -> str:
        """Which of its two sweeps the results have, and how often it was performed."""
        sweep = next(iter(self.facts.reproduced))
        query = "SELECT run_id, outcome != ? FROM all_runs WHERE sweep = ?"
        rows = self.connection.execute(query, [NOT_RUN, sweep]).fetchall()
        counts: Counter[str] = Counter()
        for run_id, is_performed in rows:
            counts[run_id.rpartition("_r")[0]] += is_performed
        least, most = min(counts.values()), max(counts.values())
        if least < most:
            return (
                f"The numbers on this page come from {counts.total():,} of the {len(rows):,} runs of the complete "
                f"grid: its {len(counts)} cells were performed {least} to {most} times each."
            )
        often = "once" if most == 1 else f"{most} times"
        if sweep.endswith(QUICK):
            return f"The numbers on this page come from the quick form, a fraction of the grid, performed {often}."
        return f"The numbers on this page come from the complete grid, performed {often}."


@contextmanager
def evidence_of(results: Sequence[Results], reproduction: Reproduction) -> Iterator[Evidence]:
    """The evidence in results directories. Raises BadQuery and ReportError."""
    facts = facts_of(results)
    with database(results, reproduction) as connection:
        yield Evidence(connection, facts)


def facts_of(results: Sequence[Results]) -> Facts:
    """The facts of results directories. Raises ReportError."""
    reproduced = {each.sweep.name: read_reproduced(each.directory) for each in results}
    rows = [row for each in results for row in _rows_of(each, reproduced[each.sweep.name])]
    return Facts(rows=tuple(rows), reproduced=reproduced)


def _rows_of(results: Results, reproduced: Reproduced | None) -> Iterator[tuple[str, str, str]]:
    provenance, sweep = provenance_of(results), results.sweep.name
    for fact in provenance.facts:
        yield sweep, fact.name, "; ".join(fact.values)
    yield sweep, "seeds of runs", f"{provenance.seeds:,}, derived from the seed of the sweep"
    for each in provenance.implementations:
        yield sweep, each.name, "; ".join(map(short_version, each.versions)) or "unknown version"
    if reproduced and reproduced.performances:
        yield from ((sweep, name, text) for name, text in _of_performances(reproduced.performances))


def short_version(version: str) -> str:
    """Of a version that a program printed in several lines, the first line; and the digests of its files, which stand
    behind the last line (`orchestrator.run.versions`)."""
    sides = [re.sub(r"\n.*?(?=( \([^()]*\))?$)", "", side, flags=re.DOTALL) for side in version.split(ON_THE_RECEIVER)]
    return ON_THE_RECEIVER.join(dict.fromkeys(sides))


def _of_performances(performances: Sequence[Performance]) -> Iterator[tuple[str, str]]:
    dates = [f"{datetime.fromtimestamp(each.started_at_s, UTC):%Y-%m-%d %H:%M}" for each in performances]
    yield "started (UTC)", "; ".join(dates)
    minutes, seconds = divmod(round(sum(each.seconds for each in performances)), 60)
    yield "time taken", f"{minutes} min {seconds} s"
    yield "processor", "; ".join(dict.fromkeys(f"{each.processors} x {each.processor}" for each in performances))

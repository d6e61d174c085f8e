"""The host baselines of a sweep on a lab rig: the goodput of each implementation without a channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from owlt.captures.files.plain_files import directories_in
from owlt.reports.results.load import Run, load_results
from owlt.reports.results.records import ReportError

DIRECTORY_NAME = "host-baselines"
CPU_BOUND = "CPU-bound"
"""How a record says that a host may have limited a run."""


@dataclass(frozen=True)
class HostBaseline:
    """One implementation before and after a start of the sweep, which counts from 1; None: it was not performed."""

    start: int
    title: str
    load: str
    """What was sent: "100 MB", "10 s"."""
    before: Run | None
    after: Run | None

    @property
    def cpu_bound(self) -> list[str]:
        """Why a host, and not the link, may have been the limit; each sentence once."""
        runs = [run for run in (self.before, self.after) if run is not None]
        return list(dict.fromkeys(each for run in runs for each in run.record.suspect if each.startswith(CPU_BOUND)))


def host_baselines_of(directory: Path) -> tuple[HostBaseline, ...]:
    """The host baselines in a results directory, in the order of the starts."""
    starts = [path for path in directories_in(directory / DIRECTORY_NAME) if path.name.isdecimal()]
    return tuple(each for start in sorted(starts, key=lambda path: int(path.name)) for each in _of_start(start))


def _of_start(start: Path) -> Iterator[HostBaseline]:
    for kind in ("files", "iperf3"):
        before, after = (_runs(start / moment / kind) for moment in ("before", "after"))
        for name in dict.fromkeys([*before, *after]):
            runs = before.get(name), after.get(name)
            record = next(run.record for run in runs if run is not None)
            yield HostBaseline(int(start.name), record.title, record.permutation.load_text, *runs)


def _runs(directory: Path) -> dict[str, Run]:
    """The one run of each implementation; none if nothing can be read."""
    try:
        return {run.record.implementation: run for run in load_results(directory).runs}
    except ReportError:
        return {}

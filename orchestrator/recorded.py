"""Which runs of a results directory have a record that stands, which a damaged one, and what else lies beside them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.record import RECORD_NAME, DamagedRecord, RunRecord, read_record
from orchestrator.retries import is_repeated_later

RUNS = "runs"


@dataclass(frozen=True)
class Recorded:
    """What `runs/` of a results directory holds."""

    records: dict[str, RunRecord] = field(default_factory=dict)
    """By run."""
    damaged: dict[str, str] = field(default_factory=dict)
    """By run, what is wrong with its record."""
    strays: tuple[Path, ...] = ()
    """What is no run of the plan."""

    @property
    def warnings(self) -> list[str]:
        """A sentence for everything that is not used."""
        unused = [f"{problem}; 'owlt run' performs the run again" for problem in self.damaged.values()]
        return [*unused, *(f"{stray}: is no run of this sweep, and is ignored; move it away" for stray in self.strays)]


def read_recorded(results: Path, planned: Collection[str]) -> Recorded:
    """The records of the planned runs. Raises ResultsConflict when another version of owlt wrote one."""
    records, damaged, strays = {}, {}, []
    for path in sorted(_entries(results)):
        if path.name not in planned or not path.is_dir():
            strays.append(path)
            continue
        try:
            record = read_record(path)
        except FileNotFoundError:
            continue
        except DamagedRecord as problem:
            damaged[path.name] = str(problem)
            continue
        if record.run_id == path.name:
            records[path.name] = record
        else:
            damaged[path.name] = f"{path / RECORD_NAME}: is the record of another run, {record.run_id}"
    return Recorded(records, damaged, tuple(strays))


def standing(recorded: Recorded) -> set[str]:
    """The runs that a start of the sweep need not perform."""
    return {run_id for run_id, record in recorded.records.items() if not is_repeated_later(record)}


def _entries(results: Path) -> list[Path]:
    runs = results / RUNS
    return list(runs.iterdir()) if runs.is_dir() else []

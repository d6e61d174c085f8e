"""The names of the files of a results directory, and the models of small ones: sources, journal, written channels,
and the claims and commands of a reproduction.

Only keys that readers need are named here; other keys are ignored. `results.record`, `results.plan` and
`results.certificates` have a file each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from owlt.inputs.mistake import Mistake, OwltError, Place
from owlt.inputs.validation import first_error
from owlt.results.plain_files import make_directory, read_json, write_whole
from owlt.results.record import RECORD_NAME, RunRecord, load_record
from owlt.results.upgrades import NewerVersion

PLAN_NAME = "plan.json"
JOURNAL_NAME = "journal.jsonl"
CERTIFICATES = "certificates"
MACHINES = "machines"
"""The directory that has, by machine, the digest of each file that the packets depend on."""
FAILURE_NAME = "analysis-failed.txt"
"""The file beside a run that could not be analysed: the reason in the first line, then the traceback."""
SAMPLES_NAME = "tcp-sender.csv"
"""The file beside a run with the samples of the sender's TCP sockets."""
KEPT_NAME = "kept"
"""The directory, in that of a run, of the ends of its hosts' files."""
BASELINES_NAME = "host-baselines"
"""The directory of the transfers over the unrestricted link of a lab rig, in that of the sweep."""
DIGEST_LENGTH = 16


class ReportError(OwltError):
    """A results directory from which no report can be made."""


class DamagedFile(ReportError):
    """A file that cannot be read by any version of owlt."""


@contextmanager
def stating_problems_of(path: Path) -> Iterator[None]:
    """Raise DamagedFile or ReportError, which name the file, instead of what reading and checking it raises; a
    FileNotFoundError stays."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise DamagedFile(f"{path}: damaged ({problem.strerror})") from None
    except NewerVersion as newer:
        raise ReportError(
            Mistake(
                f"a newer version of owlt wrote it ({newer})",
                fix="make the report with that version",
                where=Place(str(path)),
            )
        ) from None
    except ValidationError as problem:
        where, message = first_error(problem)
        if not where:
            raise DamagedFile(f"{path}: damaged ({message})") from None
        raise ReportError(
            Mistake(
                f"{where}: {message}",
                fix="make the report with the version of owlt that wrote it",
                where=Place(str(path)),
            )
        ) from None
    except ValueError as problem:
        raise DamagedFile(f"{path}: damaged ({problem})") from None


def read_reported_record(directory: Path) -> RunRecord:
    """The record in the directory of a run. Keys that this version does not know are ignored. Raises as
    `results.plan.read_written_plan` does."""
    with stating_problems_of(directory / RECORD_NAME):
        return load_record(directory, ignore_unknown=True)


class _FromFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def read(cls, path: Path) -> Self:
        """The value in a JSON file. Raises FileNotFoundError if the file does not exist, DamagedFile if it cannot be
        read, ReportError, naming file and key, if a key is missing."""
        with stating_problems_of(path):
            return cls.model_validate(read_json(path))


class Step(_FromFile):
    """The changes of a channel at one time, in the written form."""

    at: str
    forward: dict[str, Any] = {}
    reverse: dict[str, Any] = {}


class Timeline(_FromFile):
    """How a channel changes; `loop_after` None: its last step is held."""

    steps: tuple[Step, ...]
    loop_after: str | None = None


class WrittenChannel(_FromFile):
    """A specified channel in the written form; a link's keys without a value are omitted."""

    forward: dict[str, Any] = {}
    reverse: dict[str, Any] = {}
    bypass: bool = False
    timeline: Timeline | None = None
    faults: list[dict[str, Any]] = []


class Source(_FromFile):
    """A directory that a combined one is made of."""

    directory: str
    label: str
    sweep: str
    seed: int
    runs: int
    duplicates: int = 0
    """Runs that an earlier directory has with the same seed and result; they are not counted again."""
    apart: dict[str, tuple[str, ...]] = {}
    """Implementations that are not pooled with those of an earlier directory, and why."""


class Sources(_FromFile):
    """sources.json of a combined directory."""

    sources: tuple[Source, ...]


class Event(_FromFile):
    """A line of journal.jsonl: something happened, at a time of this world's clock, in seconds since 1970."""

    at_s: float


REPRODUCED_NAME = "reproduction.json"


class Performance(_FromFile):
    """One command that performed runs of a reproduction."""

    started_at_s: float
    """Of this world's clock, in s since 1970."""
    seconds: float
    owlt: str
    """Version and commit."""
    processor: str
    processors: int
    guests: int | None = None
    """How many runs side by side; None: one on each processor."""


class Reproduced(_FromFile):
    """The contents of reproduction.json: the claims at the start of its runs, and the commands that ran them.

    It shows whether a bound was chosen before the runs that it judges. Results of `owlt run` have no such file.
    """

    claims_sha256: str
    """Digest of the file of claims when the first of these commands started."""
    claims: dict[str, str]
    """Digest of what judges each claim, by its id: query, bounds, kind, and the views."""
    runs_before: int = 0
    """Runs that had a record then."""
    performances: tuple[Performance, ...] = ()


def read_reproduced(results: Path) -> Reproduced | None:
    """The reproduction.json of a results directory; None if there is none. Raises DamagedFile or ReportError."""
    try:
        return Reproduced.read(results / REPRODUCED_NAME)
    except FileNotFoundError:
        return None


def write_reproduced(results: Path, reproduced: Reproduced) -> Path:
    """Write reproduction.json, and make the directory if it does not exist. Raises OSError."""
    return write_whole(make_directory(results) / REPRODUCED_NAME, reproduced.model_dump_json(indent=2) + "\n")

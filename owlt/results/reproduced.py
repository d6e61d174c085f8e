"""`reproduction.json` of a results directory: the claims at the start of its runs, and the commands that ran them.

It shows whether a bound was chosen before the runs that it judges. Results that `owlt run` performed have no such file.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict

from owlt.results.files import stating_problems_of
from owlt.results.plain_files import make_directory, read_json, write_whole

REPRODUCED_NAME = "reproduction.json"


class Performance(BaseModel):
    """One command that performed runs."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    started_at_s: float
    """Of this world's clock, in s since 1970."""
    seconds: float
    owlt: str
    """Version and commit."""
    processor: str
    processors: int
    guests: int | None = None
    """How many runs side by side; None: one on each processor."""


class Reproduced(BaseModel):
    """The contents of the file."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    claims_sha256: str
    """Digest of the file of claims when the first of these commands started."""
    claims: dict[str, str]
    """Digest of what judges each claim, by its id: query, bounds, kind, and the views."""
    runs_before: int = 0
    """Runs that had a record then."""
    performances: tuple[Performance, ...] = ()


def read_reproduced(results: Path) -> Reproduced | None:
    """The file of a results directory; None if there is none. Raises DamagedFile or ReportError."""
    path = results / REPRODUCED_NAME
    try:
        with stating_problems_of(path):
            return Reproduced.model_validate(read_json(path))
    except FileNotFoundError:
        return None


def write_reproduced(results: Path, reproduced: Reproduced) -> Path:
    """Write the file, and make the directory if it does not exist. Raises OSError."""
    return write_whole(make_directory(results) / REPRODUCED_NAME, reproduced.model_dump_json(indent=2) + "\n")

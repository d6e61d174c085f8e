"""Copying runs and attempts from one results directory to another."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from orchestrator.results.record import RECORD_NAME
from orchestrator.results.same_failures import ATTEMPTS


def copy_directory(source: Path, target: Path) -> Path:
    """Copy a directory, without its permissions: the source may be read-only, the copy must not be."""
    target.mkdir()
    for entry in sorted(source.iterdir()):
        if entry.is_dir():
            copy_directory(entry, target / entry.name)
        else:
            shutil.copyfile(entry, target / entry.name)
    return target


def copy_attempts(
    into: Path, sources: Sequence[Path], chosen: Mapping[str, Path], recorded: Collection[str], drafts: Path
) -> None:
    """Copy the earlier attempts at runs: of a recorded run, from the source that it is `chosen` from, of a run without
    a record, from all sources. Attempts that are there already are not copied again."""
    for source in sources:
        for run in sorted((source / ATTEMPTS).glob("*")):
            if chosen.get(run.name) == source or run.name not in recorded:
                _copy_attempts_at(run, into / ATTEMPTS / run.name, drafts)


def _copy_attempts_at(source: Path, target: Path, drafts: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    there = {_record(path) for path in _numbered(target)}
    for attempt in _numbered(source):
        if _record(attempt) not in there:
            last = max((int(path.name) for path in _numbered(target)), default=0)
            copy_directory(attempt, drafts / f"{source.name}-{attempt.name}").rename(target / str(last + 1))


def _numbered(of_run: Path) -> list[Path]:
    return sorted((path for path in of_run.iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))


def _record(attempt: Path) -> bytes:
    """What distinguishes two attempts; an attempt whose record was lost is identified by its files."""
    path = attempt / RECORD_NAME
    return path.read_bytes() if path.exists() else repr(sorted(each.name for each in attempt.iterdir())).encode()

"""Copying runs and attempts from one results directory to another."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from owlt.captures.files.plain_files import (
    NotPlain,
    create,
    directories_in,
    files_in,
    is_plain,
    link,
    make_directory,
    move,
    names_in,
    open_plain,
    read_plain,
)
from owlt.orchestrator.results.record import RECORD_NAME
from owlt.orchestrator.results.same_failures import ATTEMPTS

COPIED_BYTES = 1 << 20


def copy_directory(source: Path, target: Path) -> Path:
    """Copy a directory, without its permissions: the source may be read-only, the copy must not be."""
    target.mkdir()
    for directory in directories_in(source):
        copy_directory(directory, target / directory.name)
    for file in files_in(source):
        copy_file(file, target / file.name)
    return target


def copy_file(source: Path, target: Path) -> None:
    """Copy the content of a plain file to a new one. Raises NotPlain, OSError."""
    with open_plain(source) as file, create(target) as copy:
        shutil.copyfileobj(file, copy, COPIED_BYTES)


def link_or_copy(source: Path, target: Path) -> None:
    """Create a hard link to a plain file; if that is not possible, copy it, with its modification time.

    Raises NotPlain, OSError.
    """
    try:
        link(source, target)
    except NotPlain:
        raise
    except OSError:  # another file system, one without links, or a file of another user
        copy_file(source, target)
        status = source.lstat()
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns), follow_symlinks=False)


def copy_attempts(
    into: Path, sources: Sequence[Path], chosen: Mapping[str, Path], recorded: Collection[str], drafts: Path
) -> None:
    """Copy the earlier attempts at runs: of a recorded run, from the source that it is `chosen` from, of a run without
    a record, from all sources. Attempts that are there already are not copied again."""
    for source in sources:
        for run in directories_in(source / ATTEMPTS):
            if chosen.get(run.name) == source or run.name not in recorded:
                _copy_attempts_at(run, into / ATTEMPTS / run.name, drafts)


def _copy_attempts_at(source: Path, target: Path, drafts: Path) -> None:
    make_directory(target)
    there = {_record(path) for path in _numbered(target)}
    for attempt in _numbered(source):
        if _record(attempt) not in there:
            last = max((int(path.name) for path in _numbered(target)), default=0)
            move(copy_directory(attempt, drafts / f"{source.name}-{attempt.name}"), target / str(last + 1))


def _numbered(of_run: Path) -> list[Path]:
    return sorted((path for path in directories_in(of_run) if path.name.isdecimal()), key=lambda path: int(path.name))


def _record(attempt: Path) -> bytes:
    """What distinguishes two attempts; an attempt whose record was lost is identified by its files."""
    path = attempt / RECORD_NAME
    return read_plain(path) if is_plain(path) else repr(names_in(attempt)).encode()

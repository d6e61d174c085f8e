"""Temporary directories that belong to one process: those of processes that were killed are removed by later ones."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_START_FIELD = 19
"""Of /proc/PID/stat, behind the name of the program: when the process started, in ticks since boot (proc(5))."""


@contextmanager
def process_directory(purpose: str) -> Iterator[Path]:
    """A directory of this process among the machine's temporary files, until the end of the context.

    A process that is killed leaves its directory behind. It is named after the process, so the next one that needs such
    a directory removes it.
    """
    _remove_abandoned(purpose)
    with tempfile.TemporaryDirectory(
        prefix=f"owlt-{purpose}-{_namespace()}-{os.getpid()}-{_start(os.getpid())}-", ignore_cleanup_errors=True
    ) as name:
        yield Path(name).resolve()


def _remove_abandoned(purpose: str) -> None:
    """Remove the directories of this user's processes that have ended, in this PID namespace."""
    pattern = re.compile(rf"owlt-{re.escape(purpose)}-{_namespace()}-(\d+)-(\d+)-\w+")
    for path in Path(tempfile.gettempdir()).glob(f"owlt-{purpose}-*"):
        match = pattern.fullmatch(path.name)
        if match and _start(int(match[1])) != int(match[2]):
            with suppress(FileNotFoundError):  # another process removes it too
                if path.lstat().st_uid == os.geteuid():
                    shutil.rmtree(path, ignore_errors=True)


def _namespace() -> str:
    """The number of the PID namespace: a process number means nothing in another one."""
    return Path("/proc/self/ns/pid").readlink().name.removeprefix("pid:[").removesuffix("]")


def _start(pid: int) -> int | None:
    """When a process started; None if none of this number runs."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = status.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[_START_FIELD])

"""The directories that owlt has for itself: in the user's cache, shared by processes; temporary ones, one process's."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from owlt.inputs.mistake import Mistake, Place
from owlt.installation import cache_directory
from owlt.orchestrator.errors import Missing

_START_FIELD = 19
"""The field of /proc/PID/stat, after the name of the program, with the time at which the process started, in ticks
since boot (proc(5))."""


def third_party_directory() -> Path:
    """Where third-party programs are installed, in NAME/bin each."""
    return cache_directory() / "third-party"


@contextmanager
def only_process(directory: Path, temporary: str, waits: Callable[[], None]) -> Iterator[None]:
    """Be the only process that works in a directory of the cache, which is made if it does not exist.

    `waits` is called if another process works there. Afterwards, what killed processes left is removed: paths whose
    names begin with `temporary`. Raises Missing if the directory is not writable.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / ".lock").open("w")
    except OSError as problem:
        raise Missing(
            Mistake(
                f"cannot be used: {problem.strerror}",
                fix="set XDG_CACHE_HOME to a directory that you can write to",
                where=Place(str(directory)),
            )
        ) from problem
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in directory.glob(f"{temporary}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


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

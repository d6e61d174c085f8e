"""One input for one target, watched: what it raised, how long it computed, how much memory it took."""

from __future__ import annotations

import atexit
import hashlib
import resource
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import NamedTuple

LONGEST_CPU_S = 5.0
MOST_GROWTH_BYTES = 256 << 20


class Target(NamedTuple):
    """Something that reads the bytes of others. `refuses` are the exceptions that say no.

    `seeds` are inputs that are read. In memory, one call may take `floor_bytes` and a small multiple of its input.
    """

    run: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...]
    seeds: list[bytes]
    floor_bytes: int = 1 << 20


class TooLong(BaseException):
    """A call took more processor time than it may. Not an Exception: nobody is to catch it."""


class TooMuch(Exception):
    """A call took more memory than it may."""


class Finding(NamedTuple):
    """What an input brought to light. Two of one `place` are one."""

    place: str
    story: str
    octets: bytes

    def write(self, directory: Path, name: str) -> Path:
        """Put the input and its story side by side; returns the path of the input."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{name}-{hashlib.sha256(self.octets).hexdigest()[:12]}.bin"
        path.write_bytes(self.octets)
        path.with_suffix(".txt").write_text(self.story, encoding="utf-8", errors="backslashreplace")
        return path


def scratch_directory() -> Path:
    """A new directory, which is removed when this process ends."""
    path = Path(tempfile.mkdtemp(prefix="owlt-fuzz-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return path


def arm() -> None:
    """Let a call that computes for too long end in TooLong."""
    signal.signal(signal.SIGVTALRM, _give_up)


def _give_up(_number: int, _frame: FrameType | None) -> None:
    raise TooLong(f"more than {LONGEST_CPU_S} s of computing")


def examine(target: Target, octets: bytes) -> Finding | None:
    """Run one input. None: it was read, or refused as it should be."""
    before_bytes = _peak_bytes()
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST_CPU_S)
    try:
        target.run(octets)
    except target.refuses:
        pass
    except (Exception, TooLong) as error:
        return _finding(error, octets)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    grown_bytes = _peak_bytes() - before_bytes
    if grown_bytes > MOST_GROWTH_BYTES:
        return _finding(TooMuch(f"{len(octets)} bytes of input took {grown_bytes} bytes of memory"), octets)
    return None


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _finding(error: BaseException, octets: bytes) -> Finding:
    frames = traceback.extract_tb(error.__traceback__)
    innermost = f"{frames[-1].filename}:{frames[-1].lineno}" if frames and not isinstance(error, TooLong) else ""
    story = "".join(traceback.format_exception(error))
    return Finding(f"{type(error).__name__} {innermost}", story, octets)

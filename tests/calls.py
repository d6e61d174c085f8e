"""The cost of code as a number that no load of the machine changes: calls by the interpreter."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType


class TooManyCalls(BaseException):
    """The code has made more calls than it may. Not an Exception: no handler in that code is to stop it."""


@contextmanager
def calls_limited_to(most: int) -> Iterator[None]:
    """Raises TooManyCalls from the call after `most`. A call and a return are two, of a function in C too."""
    numbers = count(1)

    def note(_frame: FrameType, _event: str, _argument: object) -> None:
        if next(numbers) > most:
            raise TooManyCalls(f"more than {most} calls and returns")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)

"""Contact windows, in which two stations see each other, as steps that set both links up and down."""

import itertools
from collections.abc import Sequence
from typing import Any

from owlt.emulator.channel.quantities import format_delay, parse_delay_ns
from owlt.inputs.mistake import Invalid, Mistake, Place, got, keys_below

Window = tuple[int, int]
"""Start and end of a contact, in ns from the timeline's start."""


def parse_windows(written: object) -> list[Window]:
    """Return the windows of a list such as [["0 s", "600 s"], ["90 min", "100 min"]].

    Raises Invalid if one ends before it begins, or if they overlap, touch or are out of order.
    """
    if not isinstance(written, list) or not written:
        raise Invalid(Mistake(got(written), "a list of windows such as [[0 s, 600 s]]", where=_at()))
    windows = []
    for number, each in enumerate(written):
        with keys_below("contacts", number):
            windows.append(_window(each))
    for number, (before, after) in enumerate(itertools.pairwise(windows), start=1):
        if after[0] <= before[1]:
            problem = f"got a window from {format_delay(after[0])}"
            expected = f"it to start after {format_delay(before[1])}, the end of the previous window"
            raise Invalid(Mistake(problem, expected, "merge windows that overlap or touch", _at(number)))
    return windows


def contact_steps(windows: Sequence[Window], outside: str, loop_after_ns: int | None) -> list[dict[str, Any]]:
    """Return the steps, as written: both links up at each start and down at each end.

    `outside` is the links' `while_down`. Raises Invalid if a window lies behind the loop, or if packets would
    be held for ever.
    """
    down = {"both": {"up": False, "while_down": outside}}
    first_ns, last_ns = windows[0][0], windows[-1][1]
    if loop_after_ns is not None and last_ns > loop_after_ns:
        expected = f"an end by {format_delay(loop_after_ns)}, where the timeline loops"
        raise Invalid(Mistake(f"got an end at {format_delay(last_ns)}", expected, where=_at(len(windows) - 1)))
    if outside == "hold" and loop_after_ns is None:
        problem = "got 'hold', but nothing ends the hold after the last contact"
        raise Invalid(
            Mistake(problem, fix="use 'drop', or set loop_after to a later time", where=Place(key=("outside",)))
        )
    steps = [{"at": "0 s"} | down] if first_ns > 0 else []
    for begin_ns, end_ns in windows:
        steps.append({"at": format_delay(begin_ns), "both": {"up": True}})
        steps += [{"at": format_delay(end_ns)} | down] if end_ns != loop_after_ns else []
    return steps


def _window(written: object) -> Window:
    if not isinstance(written, list) or len(written) != 2:
        raise Invalid(Mistake(got(written), "start and end, as in [0 s, 600 s]"))
    begin_ns, end_ns = map(parse_delay_ns, written)
    if end_ns <= begin_ns:
        raise Invalid(Mistake(got(written), "an end after the start"))
    return begin_ns, end_ns


def _at(*number: int) -> Place:
    return Place(key=("contacts", *number))

"""Contact windows: when two stations see each other, as steps that take both links up and down."""

import itertools
from collections.abc import Sequence
from typing import Any

from emulator.quantities import format_delay, parse_delay_ns

Window = tuple[int, int]
"""Begin and end of a contact, in ns from the timeline's start."""


def parse_windows(written: object) -> list[Window]:
    """Return the windows of a list such as [["0 s", "600 s"], ["90 min", "100 min"]].

    Raises ValueError if one ends before it begins, or if they overlap, touch or are out of order.
    """
    if not isinstance(written, list) or not written:
        raise ValueError(f"contacts: got {written!r:.60}, wanted a list of windows such as [[0 s, 600 s]]")
    windows = [_window(number, each) for number, each in enumerate(written)]
    for number, (before, after) in enumerate(itertools.pairwise(windows), start=1):
        if after[0] <= before[1]:
            raise ValueError(
                f"contacts.{number}: got a window from {format_delay(after[0])}, wanted it to begin after "
                f"{format_delay(before[1])}, the end of the one before; join windows that touch"
            )
    return windows


def contact_steps(windows: Sequence[Window], outside: str, loop_after_ns: int | None) -> list[dict[str, Any]]:
    """Return the steps, as written: both links up at each begin and down at each end.

    `outside` is the links' `while_down`. Raises ValueError if a window lies behind the loop, or if packets would
    be held for ever.
    """
    down = {"both": {"up": False, "while_down": outside}}
    first_ns, last_ns = windows[0][0], windows[-1][1]
    if loop_after_ns is not None and last_ns > loop_after_ns:
        raise ValueError(
            f"contacts.{len(windows) - 1}: got an end at {format_delay(last_ns)}, "
            f"wanted one by {format_delay(loop_after_ns)}, where the timeline loops"
        )
    if outside == "hold" and loop_after_ns is None:
        raise ValueError(
            "outside: got 'hold', but no contact follows the last one; wanted 'drop', or a loop_after behind it"
        )
    steps = [{"at": "0 s"} | down] if first_ns > 0 else []
    for begin_ns, end_ns in windows:
        steps.append({"at": format_delay(begin_ns), "both": {"up": True}})
        steps += [{"at": format_delay(end_ns)} | down] if end_ns != loop_after_ns else []
    return steps


def _window(number: int, written: object) -> Window:
    if not isinstance(written, list) or len(written) != 2:
        raise ValueError(f"contacts.{number}: got {written!r:.60}, wanted begin and end, as in [0 s, 600 s]")
    try:
        begin_ns, end_ns = map(parse_delay_ns, written)
    except ValueError as error:
        raise ValueError(f"contacts.{number}: {error}") from None
    if end_ns <= begin_ns:
        raise ValueError(f"contacts.{number}: got {written!r}, wanted an end after the begin")
    return begin_ns, end_ns

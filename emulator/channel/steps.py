"""Steps of a timeline that are not written as steps: rows of a trace, and contact windows.

A trace is a recorded or computed channel as a CSV table over time; each row is a step. Its first column is `t`, in
seconds; every other is DIRECTION.FIELD_UNIT, such as forward.delay_ms or both.rate_kbps. An empty cell means
"unchanged", "none" removes a value. Lines that begin with # are comments. Contact windows, in which two stations see
each other, set both links up and down.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Any

from owlt.emulator.channel.link import impairments, key_of
from owlt.inputs.mistake import Invalid, Mistake, Place, got, keys_below, unexpected
from owlt.inputs.quantities import format_delay, parse_delay_ns

_WAYS = ("forward", "reverse", "both")
_TABLE = "jitter_table"
NONE = "none"
"""The text that removes the value, in a cell of any column."""
_HEADER = re.compile(rf"(?P<way>{'|'.join(_WAYS)})\.(?P<rest>[A-Za-z_]+)")


@dataclass(frozen=True)
class TraceStep:
    """One row: the step as written, and its line in the file."""

    line: int
    step: dict[str, Any]


@dataclass(frozen=True)
class _Column:
    header: str
    way: str
    field: str
    read: Callable[[str], Any]


def parse_trace(text: str, file: str) -> list[TraceStep]:
    """Return the rows of a trace in their order.

    `file` is its name in messages. Raises Invalid with file, line and column.
    """
    rows = csv.reader(text.removeprefix("\ufeff").splitlines(), skipinitialspace=True)
    columns: list[_Column] = []
    steps: list[TraceStep] = []
    before_ns = -1
    for row in rows:
        if not any(cell.strip() for cell in row) or row[0].lstrip().startswith("#"):
            continue
        where = Place(file, rows.line_num)
        if not columns:
            columns = _header(row, where)
            continue
        if len(row) != len(columns) + 1:
            raise Invalid(Mistake(f"got {len(row)} cells", f"{len(columns) + 1}, as in the header", where=where))
        at_ns = _time_ns(row[0], where)
        if at_ns <= before_ns:
            expected = f"more than in the row before, {format_delay(before_ns)}"
            raise Invalid(Mistake(f"got {row[0].strip()}", expected, where=_in_column("t", where)))
        before_ns = at_ns
        steps.append(TraceStep(rows.line_num, {"at": format_delay(at_ns)} | _changes(columns, row[1:], where)))
    if not steps:
        expected = "a header such as t,forward.delay_ms and a row for each step"
        raise Invalid(Mistake("got no rows", expected, where=Place(file)))
    return steps


def _header(row: list[str], where: Place) -> list[_Column]:
    headers = [cell.strip() for cell in row]
    if headers[0] != "t" or len(headers) == 1:
        raise Invalid(Mistake(f"got the header {','.join(headers)!r:.80}", "t and then columns of links", where=where))
    columns = [_column(header, where) for header in headers[1:]]
    for number, column in enumerate(columns):
        for other in columns[:number]:
            if column.field == other.field and (column.way == other.way or "both" in (column.way, other.way)):
                problem = f"got the columns {other.header} and {column.header}"
                raise Invalid(Mistake(problem, f"one column for {column.field}", where=where))
    return columns


def _column(header: str, where: Place) -> _Column:
    match = _HEADER.fullmatch(header)
    way, rest = (match["way"], match["rest"]) if match else ("", "")
    if rest == _TABLE:
        return _Column(header, way, "jitter", _table)
    for field, row in ((key_of(name), row) for name, row in impairments().items()):
        if rest == field and row.quantity in ("share", "switch"):
            return _Column(header, way, field, _number if row.quantity == "share" else _switch)
        unit = row.trace_units.get(rest.removeprefix(f"{field}_"))
        if unit is not None and rest.startswith(f"{field}_"):
            return _Column(header, way, field, _jitter(unit) if row.quantity == "jitter" else _quantity(unit))
    expected = f"{'|'.join(_WAYS)}, a dot and one of {', '.join([*_column_names(), _TABLE])}"
    raise Invalid(Mistake(f"got the column {header!r:.60}", expected, where=where))


def _column_names() -> Iterator[str]:
    """The part of a column's name after its direction, with the possible units."""
    for name, row in impairments().items():
        if row.trace_units:
            yield f"{key_of(name)}_{'|'.join(row.trace_units)}"
        elif row.quantity in ("share", "switch"):
            yield key_of(name)


def _changes(columns: list[_Column], cells: list[str], where: Place) -> dict[str, dict[str, Any]]:
    changes: dict[str, dict[str, Any]] = {}
    for column, cell in zip(columns, map(str.strip, cells), strict=True):
        if cell:
            try:
                changes.setdefault(column.way, {})[column.field] = NONE if cell == NONE else column.read(cell)
            except Invalid as error:
                place = _in_column(column.header, where)
                raise Invalid(*(replace(each, problem=got(cell), where=place) for each in error.mistakes)) from None
    return changes


def _time_ns(cell: str, where: Place) -> int:
    try:
        at_ns = _decimal(cell) * 10**9
        if at_ns == at_ns.to_integral_value():
            return int(at_ns)
    except Invalid:
        pass
    expected = "seconds, at least 0, to the nanosecond at most"
    raise Invalid(Mistake(got(cell), expected, where=_in_column("t", where)))


def _in_column(header: str, where: Place) -> Place:
    return replace(where, key=(f"column {header}",))


def _decimal(cell: str) -> Decimal:
    try:
        number = Decimal(cell.strip())
    except InvalidOperation:
        raise unexpected("a number") from None
    if not number.is_finite() or number < 0 or abs(number.adjusted()) > 30:
        raise unexpected("a number of at least 0")
    return number


def _number(cell: str) -> float:
    return float(_decimal(cell))


def _switch(cell: str) -> bool:
    if cell not in ("0", "1"):
        raise unexpected("0 or 1")
    return cell == "1"


def _quantity(unit: str) -> Callable[[str], str]:
    return lambda cell: cell if cell == "unlimited" and unit.endswith("bit/s") else f"{_decimal(cell):f} {unit}"


def _jitter(unit: str) -> Callable[[str], Any]:
    """The amount of the jitter; 0 is no jitter."""

    def read(cell: str) -> Any:
        return {"amount": f"{number:f} {unit}"} if (number := _decimal(cell)) else NONE

    return read


def _table(cell: str) -> dict[str, list[float]]:
    """The values of the jitter's table; its amount is that of the link."""
    return {"table": [float(_decimal(part)) for part in cell.split()]}


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
    be held without end.
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

"""A channel recorded or computed elsewhere: a CSV table over time, each row a step.

The first column is `t`, in seconds; every other is DIRECTION.FIELD_UNIT, such as forward.delay_ms or both.rate_kbps.
An empty cell means "as before", "none" that there is none from then on. Lines that begin with # are notes.
"""

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from emulator.quantities import format_delay

_WAYS = ("forward", "reverse", "both")
_TIMES = {"s": "s", "ms": "ms", "us": "us", "ns": "ns"}
_RATES = {"bps": "bit/s", "kbps": "kbit/s", "Mbps": "Mbit/s", "Gbps": "Gbit/s"}
_SIZES = {"B": "B", "kB": "kB"}
_UNITS = {
    "delay": _TIMES,
    "jitter": _TIMES,
    "rate": _RATES,
    "queue": {"packets": "packets", "BDP": "BDP", **_SIZES, **_TIMES},
    "mtu": _SIZES,
    "overhead": _SIZES,
}
"""The fields that have a unit: how a column names it, and how it is written."""
_SHARES = ("packet_error_rate", "bit_error_rate", "duplication_rate")
_SWITCHES = ("up", "keeps_order")
NONE = "none"
"""In a cell of any column: takes away what was there."""
_HEADER = re.compile(rf"(?P<way>{'|'.join(_WAYS)})\.(?P<rest>[A-Za-z_]+)")


@dataclass(frozen=True)
class TraceStep:
    """One row: the step as it is written, and the line of the file that it stands in."""

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

    `file` is its name in messages. Raises ValueError naming file, line and column, what was got and what was wanted.
    """
    rows = csv.reader(text.removeprefix("\ufeff").splitlines(), skipinitialspace=True)
    columns: list[_Column] = []
    steps: list[TraceStep] = []
    before_ns = -1
    for row in rows:
        if not any(cell.strip() for cell in row) or row[0].lstrip().startswith("#"):
            continue
        where = f"{file}:{rows.line_num}"
        if not columns:
            columns = _header(row, where)
            continue
        if len(row) != len(columns) + 1:
            raise ValueError(f"{where}: got {len(row)} cells, wanted {len(columns) + 1}, as in the header")
        at_ns = _time_ns(row[0], where)
        if at_ns <= before_ns:
            raise ValueError(
                f"{where}: column t: got {row[0].strip()}, wanted more than the row before, {format_delay(before_ns)}"
            )
        before_ns = at_ns
        steps.append(TraceStep(rows.line_num, {"at": format_delay(at_ns)} | _changes(columns, row[1:], where)))
    if not steps:
        raise ValueError(f"{file}: got no rows, wanted a header such as t,forward.delay_ms and a row for each step")
    return steps


def _header(row: list[str], where: str) -> list[_Column]:
    headers = [cell.strip() for cell in row]
    if headers[0] != "t" or len(headers) == 1:
        raise ValueError(f"{where}: got the header {','.join(headers)!r:.80}, wanted t and then columns of links")
    columns = [_column(header, where) for header in headers[1:]]
    for number, column in enumerate(columns):
        for other in columns[:number]:
            if column.field == other.field and (column.way == other.way or "both" in (column.way, other.way)):
                raise ValueError(
                    f"{where}: got the columns {other.header} and {column.header}, wanted one for {column.field}"
                )
    return columns


def _column(header: str, where: str) -> _Column:
    match = _HEADER.fullmatch(header)
    way, rest = (match["way"], match["rest"]) if match else ("", "")
    if rest in _SHARES:
        return _Column(header, way, rest, _number)
    if rest in _SWITCHES:
        return _Column(header, way, rest, _switch)
    field, _, unit = rest.partition("_")
    if unit in _UNITS.get(field, {}):
        written = _UNITS[field][unit]
        return _Column(header, way, field, _jitter(written) if field == "jitter" else _quantity(written))
    wanted = [f"{name}_{'|'.join(units)}" for name, units in _UNITS.items()]
    raise ValueError(
        f"{where}: got the column {header!r:.60}, wanted {'|'.join(_WAYS)}, a dot and one of "
        f"{', '.join([*wanted, *_SHARES, *_SWITCHES])}"
    )


def _changes(columns: list[_Column], cells: list[str], where: str) -> dict[str, dict[str, Any]]:
    changes: dict[str, dict[str, Any]] = {}
    for column, cell in zip(columns, map(str.strip, cells), strict=True):
        if cell:
            try:
                changes.setdefault(column.way, {})[column.field] = NONE if cell == NONE else column.read(cell)
            except ValueError as error:
                raise ValueError(f"{where}: column {column.header}: got {cell!r:.40}, wanted {error}") from None
    return changes


def _time_ns(cell: str, where: str) -> int:
    try:
        at_ns = _decimal(cell) * 10**9
        if at_ns == at_ns.to_integral_value():
            return int(at_ns)
    except ValueError:
        pass
    raise ValueError(f"{where}: column t: got {cell!r:.40}, wanted seconds, at least 0, to the nanosecond at most")


def _decimal(cell: str) -> Decimal:
    try:
        number = Decimal(cell.strip())
    except InvalidOperation:
        raise ValueError("a number") from None
    if not number.is_finite() or number < 0 or abs(number.adjusted()) > 30:
        raise ValueError("a number of at least 0")
    return number


def _number(cell: str) -> float:
    return float(_decimal(cell))


def _switch(cell: str) -> bool:
    if cell not in ("0", "1"):
        raise ValueError("0 or 1")
    return cell == "1"


def _quantity(unit: str) -> Callable[[str], str]:
    return lambda cell: cell if cell == "unlimited" and unit in _RATES.values() else f"{_decimal(cell):f} {unit}"


def _jitter(unit: str) -> Callable[[str], Any]:
    """Its amount; 0 is no jitter."""

    def read(cell: str) -> Any:
        return {"amount": f"{number:f} {unit}"} if (number := _decimal(cell)) else NONE

    return read

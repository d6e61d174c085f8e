"""Channel profiles: a channel in a YAML 1.2 file, with its name, its title and the source of its values.

The file has the written form of a channel, and in its timeline also `trace` (a CSV file beside it), `contacts` (contact
windows) and `outside` (what happens to packets between them), which become steps here.

A trace is a recorded or computed channel as a CSV table over time; each row is a step. Its first column is `t`, in
seconds; every other is DIRECTION.FIELD_UNIT, such as forward.delay_ms or both.rate_kbps. An empty cell means
"unchanged", "none" removes a value. Lines that begin with # are comments. Contact windows, in which two stations see
each other, set both links up and down.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from owlt.emulator.channel.link import impairments, key_of
from owlt.emulator.channel.spec import CHANNEL_KEYS, DIRECTIONS, MOST_STEPS, ChannelSpec
from owlt.emulator.faults import InvalidChannel
from owlt.inputs.mistake import Invalid, Key, Mistake, Place, got, keys_below, unexpected
from owlt.inputs.quantities import format_delay, parse_delay_ns
from owlt.inputs.reader import Document, NotYaml, Positions, parse_yaml, read_text
from owlt.inputs.validation import unknown_key

Changes = Mapping[str, Mapping[str, Any]]
"""Values that replace a profile's own: for each direction, keys of a link and their values as written."""

_ABOUT = ("name", "title", "source")
_TIMELINE_KEYS = ("steps", "loop_after", "trace", "contacts", "outside")
CHANNEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""Runs, and so directories, are named after their channel."""

_WAYS = ("forward", "reverse", "both")
_JITTER_TABLE = "jitter_table"
_NONE = "none"
"""The text that removes the value, in a cell of any column."""
_TRACE_HEADER = re.compile(rf"(?P<way>{'|'.join(_WAYS)})\.(?P<rest>[A-Za-z_]+)")


@dataclass(frozen=True)
class ChannelProfile:
    """A channel with its name, its title and the source of its values."""

    name: str
    title: str
    source: str
    channel: ChannelSpec


@dataclass(frozen=True)
class _PlacedStep:
    """A step as written, and where."""

    step: dict[str, Any]
    place: Place


def load_channel(path: Path, changes: Changes | None = None) -> ChannelProfile:
    """Read a profile, and the trace that it names, and apply `changes` to its links.

    Raises InvalidChannel with every mistake: file and line, or the key of the change.
    """
    try:
        text = read_text(path)
    except NotYaml as error:
        raise InvalidChannel(*error.mistakes) from None
    return parse_channel(text, str(path), lambda name: read_text(path.parent / name), changes)


def parse_channel(
    text: str, file: str, trace_text: Callable[[str], str], changes: Changes | None = None
) -> ChannelProfile:
    """Return the profile in `text`; `trace_text` gives the text of a trace by the name that the profile has."""
    try:
        return _profile(parse_yaml(text, file), file, trace_text, changes or {})
    except Invalid as error:
        raise InvalidChannel(*error.mistakes) from None


def _profile(document: Document, file: str, trace_text: Callable[[str], str], changes: Changes) -> ChannelProfile:
    if not isinstance(document.value, dict):
        raise Invalid(Mistake(got(document.value), "keys such as forward: {delay: 25 ms}", where=Place(file)))
    places = _Places(document.positions, file, changes)
    about = {key: document.value.get(key, "") for key in _ABOUT}
    _check_about(about, places)
    written = {key: value for key, value in document.value.items() if key in CHANNEL_KEYS}
    unknown = [key for key in document.value if key not in (*CHANNEL_KEYS, *_ABOUT)]
    channel = _channel(_with_changes(written, changes), places, trace_text, _unknown_keys(unknown, places))
    return ChannelProfile(about["name"] or Path(file).stem, about["title"], " ".join(about["source"].split()), channel)


def _unknown_keys(unknown: list[Any], places: _Places) -> list[Mistake]:
    return [unknown_key(places.of((str(key),)), (*CHANNEL_KEYS, *_ABOUT)) for key in unknown]


def _check_about(about: dict[str, Any], places: _Places) -> None:
    for key, value in about.items():
        if not isinstance(value, str):
            raise Invalid(Mistake(got(value), "text", "put quotes around it", places.of((key,))))
    if about["name"] and not re.fullmatch(CHANNEL_NAME, about["name"]):
        expected = "letters, digits, dots, hyphens and underscores, a letter or digit first, such as geo-2"
        raise Invalid(Mistake(got(about["name"]), expected, where=places.of(("name",))))


def _channel(
    written: dict[str, Any], places: _Places, trace_text: Callable[[str], str], mistakes: list[Mistake]
) -> ChannelSpec:
    """The channel at its start. Raises Invalid with these and its own mistakes."""
    steps = _placed_steps(written, places, trace_text)
    if steps is not None:
        timeline = {"steps": [each.step for each in steps]}
        timeline |= {key: value for key, value in written["timeline"].items() if key == "loop_after"}
        written = {**written, "timeline": timeline}
    try:
        channel = _as_it_begins(ChannelSpec.from_wire(written))
        channel.refuse_to_begin_held()
    except InvalidChannel as error:
        own = dict.fromkeys(places.located(each, steps) for each in error.mistakes)
        raise Invalid(*mistakes, *own) from None
    if mistakes:
        raise Invalid(*mistakes)
    return channel


def _as_it_begins(channel: ChannelSpec) -> ChannelSpec:
    """The channel with the links of the step at 0 s, if there is one, as its links before the timeline.

    Otherwise the links before the timeline would never be used. A link that holds packets in an outage is not taken
    over: before the timeline starts, nothing ends an outage.
    """
    first = channel.timeline.steps[0] if channel.timeline else None
    if first is None or first.at_ns > 0:
        return channel
    links = {name: getattr(first, name) for name in DIRECTIONS}
    begins = {name: link for name, link in links.items() if link.up or link.while_down == "drop"}
    return channel.model_copy(update=begins)


@dataclass(frozen=True)
class _Places:
    """Where the keys of a channel are written: in the file, or in the changes to it."""

    positions: Positions
    file: str
    changes: Changes

    def of(self, key: Key) -> Place:
        """The place of a key, which the file may not have: it is in `both`, in the changes, or missing."""
        if len(key) > 1 and key[1] in self.changes.get(str(key[0]), {}):
            return Place(f"{self.file} with the given changes", None, key)
        depth, line = self.positions.deepest(key)
        if key and key[0] in DIRECTIONS and depth < min(2, len(key)):
            shared = ("both", *key[1:])
            shared_depth, shared_line = self.positions.deepest(shared)
            if shared_depth > depth or shared_depth == len(key):
                return Place(self.file, shared_line, shared)
        return Place(self.file, line, key)

    def located(self, mistake: Mistake, steps: list[_PlacedStep] | None) -> Mistake:
        """A mistake in a channel with the place of its key; a step may come from a trace or from contacts."""
        match mistake.where.key:
            case ("timeline", "steps", int(number), *rest) if steps is not None:
                place = steps[number].place
                return mistake.at(replace(place, key=_key_in_step(rest, steps[number].step)))
        return mistake.at(self.of(mistake.where.key))


def _key_in_step(key: list[str | int], step: Mapping[str, Any]) -> Key:
    """A key of a step as it is written: below `both` unless its direction is there."""
    if key and key[0] in DIRECTIONS and key[0] not in step and "both" in step:
        return ("both", *key[1:])
    return tuple(key) or ("step",)


def _with_changes(document: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """Changes override `both` and the keys of a direction; values with keys of their own are changed key by key."""
    both = document.get("both", {})
    changed = dict(document)
    for direction, fields in changes.items():
        own = document.get(direction, {})
        if not isinstance(own, Mapping) or not isinstance(both, Mapping):
            continue
        link = {**both, **own}
        changed[direction] = {**own, **{key: _merged(link.get(key), value) for key, value in fields.items()}}
    return changed


def _merged(before: Any, now: Any) -> Any:
    return {**before, **now} if isinstance(before, Mapping) and isinstance(now, Mapping) else now


def _placed_steps(
    document: Mapping[str, Any], places: _Places, trace_text: Callable[[str], str]
) -> list[_PlacedStep] | None:
    """All steps of the timeline in order, from all sources; None if there is no timeline."""
    timeline = document.get("timeline")
    if not isinstance(timeline, Mapping):
        return None
    if unknown := [key for key in timeline if key not in _TIMELINE_KEYS]:
        raise Invalid(unknown_key(places.of(("timeline", unknown[0])), _TIMELINE_KEYS))
    if "outside" in timeline and "contacts" not in timeline:
        raise Invalid(Mistake("needs contacts", "both or neither", where=places.of(("timeline", "outside"))))
    if not {"trace", "contacts"} & set(timeline):
        return _steps_as_given(timeline, places)
    sources = [
        *([_steps_as_given(timeline, places) or []] if "steps" in timeline else []),
        *([_trace_steps(timeline["trace"], places, trace_text)] if "trace" in timeline else []),
    ]
    if "contacts" in timeline:
        if setting := next((each for each in itertools.chain(*sources) if _sets_up(each.step)), None):
            raise Invalid(Mistake("got up", "contacts alone to set it", "remove one of them", setting.place))
        sources.append(_contacts(timeline, places))
    own_jitter = {name: _own_jitter(document, name) for name in DIRECTIONS}
    return [_with_own_jitter(each, own_jitter) for each in _in_one(sources)]


def _steps_as_given(timeline: Mapping[str, Any], places: _Places) -> list[_PlacedStep] | None:
    steps = timeline.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
        if "steps" in timeline:
            raise Invalid(Mistake(got(steps), "a list of steps with `at`", where=places.of(("timeline", "steps"))))
        raise Invalid(Mistake("got no steps", "steps, a trace or contacts", where=places.of(("timeline",))))
    return [_PlacedStep(dict(step), places.of(("timeline", "steps", number))) for number, step in enumerate(steps)]


def _trace_steps(name: object, places: _Places, trace_text: Callable[[str], str]) -> list[_PlacedStep]:
    where = places.of(("timeline", "trace"))
    if not isinstance(name, str):
        raise Invalid(Mistake(got(name), "the name of a CSV file", where=where))
    file = str(Path(places.file).parent / name)
    try:
        text = trace_text(name)
    except NotYaml as error:
        raise Invalid(*(Mistake(str(each), where=where) for each in error.mistakes)) from None
    steps = parse_trace(text, file)
    if len(steps) > MOST_STEPS:
        raise Invalid(Mistake(f"got {len(steps)} rows", f"{MOST_STEPS} at most", where=Place(file)))
    return [_PlacedStep(each.step, Place(file, each.line)) for each in steps]


def _contacts(timeline: Mapping[str, Any], places: _Places) -> list[_PlacedStep]:
    outside = timeline.get("outside", "drop")
    if outside not in ("drop", "hold"):
        raise Invalid(Mistake(got(outside), "drop or hold", where=places.of(("timeline", "outside"))))
    try:
        with keys_below("timeline"):
            with keys_below("loop_after"):
                loop_after_ns = parse_delay_ns(timeline["loop_after"]) if "loop_after" in timeline else None
            steps = contact_steps(parse_windows(timeline["contacts"]), outside, loop_after_ns)
    except Invalid as error:
        raise Invalid(*(mistake.at(places.of(mistake.where.key)) for mistake in error.mistakes)) from None
    return [_PlacedStep(step, places.of(("timeline", "contacts"))) for step in steps]


def _in_one(sources: list[list[_PlacedStep]]) -> list[_PlacedStep]:
    """The steps of all sources by time; steps at the same time are joined. Each source keeps its own order."""
    if len(sources) == 1:
        return sources[0]
    at: dict[int, list[_PlacedStep]] = {}
    for source in sources:
        before_ns = -1
        for each in source:
            try:
                at_ns = parse_delay_ns(each.step.get("at"))
            except Invalid as error:
                raise Invalid(*(mistake.at(_time_place(each)) for mistake in error.mistakes)) from None
            if at_ns <= before_ns:
                raise Invalid(
                    Mistake(got(each.step["at"]), "steps in increasing order of time", where=_time_place(each))
                )
            before_ns = at_ns
            at.setdefault(at_ns, []).append(each)
    return [_joined(at[at_ns]) for at_ns in sorted(at)]


def _time_place(step: _PlacedStep) -> Place:
    return replace(step.place, key=(*step.place.key, "at"))


def _joined(steps: list[_PlacedStep]) -> _PlacedStep:
    joined = steps[0]
    for each in steps[1:]:
        links: dict[str, Any] = {}
        for direction in DIRECTIONS:
            one, other = _fields(joined.step, direction), _fields(each.step, direction)
            if twice := sorted(set(one) & set(other)):
                problem = f"got {twice[0]}, which {joined.place} sets too"
                raise Invalid(Mistake(problem, "it once", where=each.place))
            links |= {direction: {**one, **other}} if one or other else {}
        joined = _PlacedStep({"at": each.step["at"], **links}, Place(f"{joined.place} and {each.place}"))
    return joined


def _fields(step: Mapping[str, Any], direction: str) -> dict[str, Any]:
    both, own = step.get("both", {}), step.get(direction, {})
    return {**both, **own} if isinstance(both, Mapping) and isinstance(own, Mapping) else {}


def _sets_up(step: Mapping[str, Any]) -> bool:
    return any("up" in _fields(step, direction) for direction in DIRECTIONS)


def _own_jitter(document: Mapping[str, Any], direction: str) -> Mapping[str, Any]:
    jitter = _fields(document, direction).get("jitter")
    return jitter if isinstance(jitter, Mapping) else {}


def _with_own_jitter(placed: _PlacedStep, own: Mapping[str, Mapping[str, Any]]) -> _PlacedStep:
    """A trace has only the amount of the jitter: the distribution stays that of the link."""
    links = {}
    for direction in DIRECTIONS:
        fields = _fields(placed.step, direction)
        jitter = fields.get("jitter")
        if own[direction] and isinstance(jitter, Mapping):
            links[direction] = {**fields, "jitter": {**own[direction], **jitter}}
    if not links:
        return placed
    whole = {direction: links.get(direction, _fields(placed.step, direction)) for direction in DIRECTIONS}
    return _PlacedStep({"at": placed.step["at"], **whole}, placed.place)


@dataclass(frozen=True)
class TraceStep:
    """One row of a trace: the step as written, and its line in the file."""

    line: int
    step: dict[str, Any]


@dataclass(frozen=True)
class _TraceColumn:
    header: str
    way: str
    field: str
    read: Callable[[str], Any]


def parse_trace(text: str, file: str) -> list[TraceStep]:
    """Return the rows of a trace in their order.

    `file` is its name in messages. Raises Invalid with file, line and column.
    """
    rows = csv.reader(text.removeprefix("\ufeff").splitlines(), skipinitialspace=True)
    columns: list[_TraceColumn] = []
    steps: list[TraceStep] = []
    before_ns = -1
    for row in rows:
        if not any(cell.strip() for cell in row) or row[0].lstrip().startswith("#"):
            continue
        where = Place(file, rows.line_num)
        if not columns:
            columns = _trace_columns(row, where)
            continue
        if len(row) != len(columns) + 1:
            raise Invalid(Mistake(f"got {len(row)} cells", f"{len(columns) + 1}, as in the header", where=where))
        at_ns = _time_ns(row[0], where)
        if at_ns <= before_ns:
            expected = f"more than in the row before, {format_delay(before_ns)}"
            raise Invalid(Mistake(f"got {row[0].strip()}", expected, where=_cell_place("t", where)))
        before_ns = at_ns
        steps.append(TraceStep(rows.line_num, {"at": format_delay(at_ns)} | _changes_in_row(columns, row[1:], where)))
    if not steps:
        expected = "a header such as t,forward.delay_ms and a row for each step"
        raise Invalid(Mistake("got no rows", expected, where=Place(file)))
    return steps


def _trace_columns(row: list[str], where: Place) -> list[_TraceColumn]:
    headers = [cell.strip() for cell in row]
    if headers[0] != "t" or len(headers) == 1:
        raise Invalid(Mistake(f"got the header {','.join(headers)!r:.80}", "t and then columns of links", where=where))
    columns = [_trace_column(header, where) for header in headers[1:]]
    for number, column in enumerate(columns):
        for other in columns[:number]:
            if column.field == other.field and (column.way == other.way or "both" in (column.way, other.way)):
                problem = f"got the columns {other.header} and {column.header}"
                raise Invalid(Mistake(problem, f"one column for {column.field}", where=where))
    return columns


def _trace_column(header: str, where: Place) -> _TraceColumn:
    match = _TRACE_HEADER.fullmatch(header)
    way, rest = (match["way"], match["rest"]) if match else ("", "")
    if rest == _JITTER_TABLE:
        return _TraceColumn(header, way, "jitter", _table)
    for field, row in ((key_of(name), row) for name, row in impairments().items()):
        if rest == field and row.quantity in ("share", "switch"):
            return _TraceColumn(header, way, field, _number if row.quantity == "share" else _switch)
        unit = row.trace_units.get(rest.removeprefix(f"{field}_"))
        if unit is not None and rest.startswith(f"{field}_"):
            return _TraceColumn(header, way, field, _jitter(unit) if row.quantity == "jitter" else _quantity(unit))
    expected = f"{'|'.join(_WAYS)}, a dot and one of {', '.join([*_trace_column_names(), _JITTER_TABLE])}"
    raise Invalid(Mistake(f"got the column {header!r:.60}", expected, where=where))


def _trace_column_names() -> Iterator[str]:
    """The part of a column's name after its direction, with the possible units."""
    for name, row in impairments().items():
        if row.trace_units:
            yield f"{key_of(name)}_{'|'.join(row.trace_units)}"
        elif row.quantity in ("share", "switch"):
            yield key_of(name)


def _changes_in_row(columns: list[_TraceColumn], cells: list[str], where: Place) -> dict[str, dict[str, Any]]:
    changes: dict[str, dict[str, Any]] = {}
    for column, cell in zip(columns, map(str.strip, cells), strict=True):
        if cell:
            try:
                changes.setdefault(column.way, {})[column.field] = _NONE if cell == _NONE else column.read(cell)
            except Invalid as error:
                place = _cell_place(column.header, where)
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
    raise Invalid(Mistake(got(cell), expected, where=_cell_place("t", where)))


def _cell_place(header: str, where: Place) -> Place:
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
        return {"amount": f"{number:f} {unit}"} if (number := _decimal(cell)) else _NONE

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
        raise Invalid(Mistake(got(written), "a list of windows such as [[0 s, 600 s]]", where=_contact_place()))
    windows = []
    for number, each in enumerate(written):
        with keys_below("contacts", number):
            windows.append(_window(each))
    for number, (before, after) in enumerate(itertools.pairwise(windows), start=1):
        if after[0] <= before[1]:
            problem = f"got a window from {format_delay(after[0])}"
            expected = f"it to start after {format_delay(before[1])}, the end of the previous window"
            raise Invalid(Mistake(problem, expected, "merge windows that overlap or touch", _contact_place(number)))
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
        raise Invalid(
            Mistake(f"got an end at {format_delay(last_ns)}", expected, where=_contact_place(len(windows) - 1))
        )
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


def _contact_place(*number: int) -> Place:
    return Place(key=("contacts", *number))

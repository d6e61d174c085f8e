"""Channel profiles: a channel in a YAML 1.2 file, with its name, its title and the source of its values.

The file has the written form of a channel, and in its timeline also `trace` (a CSV file beside it), `contacts` (contact
windows) and `outside` (what happens to packets between them), which become steps here.
"""

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from owlt.emulator.channel.spec import CHANNEL_KEYS, DIRECTIONS, MOST_STEPS, ChannelSpec
from owlt.emulator.channel.steps import contact_steps, parse_trace, parse_windows
from owlt.emulator.faults import InvalidChannel
from owlt.inputs.mistake import Invalid, Key, Mistake, Place, got, keys_below
from owlt.inputs.quantities import parse_delay_ns
from owlt.inputs.reader import Document, NotYaml, Positions, parse_yaml, read_text
from owlt.inputs.validation import unknown_key

Changes = Mapping[str, Mapping[str, Any]]
"""Values that replace a profile's own: for each direction, keys of a link and their values as written."""

_ABOUT = ("name", "title", "source")
_TIMELINE_KEYS = ("steps", "loop_after", "trace", "contacts", "outside")
CHANNEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""Runs, and so directories, are named after their channel."""


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


def _unknown_keys(unknown: list[Any], places: "_Places") -> list[Mistake]:
    return [unknown_key(places.of((str(key),)), (*CHANNEL_KEYS, *_ABOUT)) for key in unknown]


def _check_about(about: dict[str, Any], places: "_Places") -> None:
    for key, value in about.items():
        if not isinstance(value, str):
            raise Invalid(Mistake(got(value), "text", "put quotes around it", places.of((key,))))
    if about["name"] and not re.fullmatch(CHANNEL_NAME, about["name"]):
        expected = "letters, digits, dots, hyphens and underscores, a letter or digit first, such as geo-2"
        raise Invalid(Mistake(got(about["name"]), expected, where=places.of(("name",))))


def _channel(
    written: dict[str, Any], places: "_Places", trace_text: Callable[[str], str], mistakes: list[Mistake]
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
                raise Invalid(*(mistake.at(_at(each)) for mistake in error.mistakes)) from None
            if at_ns <= before_ns:
                raise Invalid(Mistake(got(each.step["at"]), "steps in increasing order of time", where=_at(each)))
            before_ns = at_ns
            at.setdefault(at_ns, []).append(each)
    return [_joined(at[at_ns]) for at_ns in sorted(at)]


def _at(step: _PlacedStep) -> Place:
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

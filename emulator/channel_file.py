"""Channel profiles: a channel in a YAML 1.2 file, with its name, its title and where its figures come from.

The file has the written form of a channel, and in its timeline also `trace` (a CSV file beside it), `contacts` (contact
windows) and `outside` (what is done with packets between them), which become steps here.
"""

import itertools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from emulator.channel import CHANNEL_KEYS, DIRECTIONS, MOST_STEPS, ChannelSpec
from emulator.contacts import contact_steps, parse_windows
from emulator.faults import InvalidChannel
from emulator.quantities import parse_delay_ns
from emulator.trace import parse_trace

Changes = Mapping[str, Mapping[str, Any]]
"""What replaces a profile's own: for each direction, keys of a link and their values as written."""

_ABOUT = ("name", "title", "source")
_TIMELINE_KEYS = ("steps", "loop_after", "trace", "contacts", "outside")
CHANNEL_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"
"""Runs, and so directories, are named after their channel."""
_VALUE_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What ruamel raises for a value that its tag or its shape does not let it make, such as `2001-99-99`."""

_NEXT_COMPLAINT = re.compile(r"; (?=[a-z][\w.]*: got )")


@dataclass(frozen=True)
class ChannelProfile:
    """A channel and what is said about it."""

    name: str
    title: str
    source: str
    channel: ChannelSpec


@dataclass(frozen=True)
class _Placed:
    """A step as written, and where: the file and line in front of a message about it."""

    step: dict[str, Any]
    place: str


def load_channel(path: Path, changes: Changes | None = None) -> ChannelProfile:
    """Read a profile, and the trace that it names, and apply `changes` to its links.

    Raises InvalidChannel with every mistake: the file and line, the key, what was got and what was wanted.
    """
    return parse_channel(_text(path), str(path), lambda name: _text(path.parent / name), changes)


def parse_channel(
    text: str, file: str, trace_text: Callable[[str], str], changes: Changes | None = None
) -> ChannelProfile:
    """Return the profile that `text` is; `trace_text` gives the text of a trace by the name that the profile has."""
    try:
        node = YAML(typ="safe", pure=True).compose(text)
        document = YAML(typ="safe", pure=True).load(text)
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise InvalidChannel(f"{file}:{line}: got no YAML, wanted it: {error.problem}") from None
    except YAMLError as error:
        raise InvalidChannel(f"{file}: got no YAML, wanted it: {error}") from None
    except _VALUE_ERRORS as error:
        raise InvalidChannel(f"{file}: got a value that cannot be read, wanted YAML: {str(error)[:200]}") from None
    if not isinstance(document, dict):
        raise InvalidChannel(f"{file}: got {document!r:.60}, wanted keys such as forward: {{delay: 25 ms}}")
    about = {key: document.pop(key, "") for key in _ABOUT}
    places = _Places(file, node, changes or {})
    if wrong := [key for key, value in about.items() if not isinstance(value, str)]:
        raise InvalidChannel(f"{places.of(wrong[0])}: got {about[wrong[0]]!r:.60}, wanted text; next: quote it")
    if about["name"] and not re.fullmatch(CHANNEL_NAME, about["name"]):
        raise InvalidChannel(
            f"{places.of('name')}: got {about['name']!r:.60}, wanted letters, digits, dots, hyphens and underscores, "
            "a letter or digit first, such as geo-2"
        )
    changed = _with_changes(document, changes or {})
    steps = _placed_steps(changed, places, trace_text)
    if steps is not None:
        timeline = {"steps": [each.step for each in steps]}
        timeline |= {key: value for key, value in changed["timeline"].items() if key == "loop_after"}
        changed = {**changed, "timeline": timeline}
    try:
        channel = _as_it_begins(ChannelSpec.from_wire(changed))
        channel.refuse_to_begin_held()
    except InvalidChannel as error:
        complaints = _NEXT_COMPLAINT.split(str(error))
        raise InvalidChannel("\n".join(dict.fromkeys(places.named(each, steps) for each in complaints))) from None
    return ChannelProfile(about["name"] or Path(file).stem, about["title"], " ".join(about["source"].split()), channel)


def _as_it_begins(channel: ChannelSpec) -> ChannelSpec:
    """The channel with the links of its step at 0 s, if there is one, as those that it has before its timeline.

    No packet meets the others. A link that holds in an outage stays out of it: before the timeline nobody ends one.
    """
    first = channel.timeline.steps[0] if channel.timeline else None
    if first is None or first.at_ns > 0:
        return channel
    links = {name: getattr(first, name) for name in DIRECTIONS}
    begins = {name: link for name, link in links.items() if link.up or link.while_down == "drop"}
    return channel.model_copy(update=begins)


@dataclass(frozen=True)
class _Places:
    """Where the keys of a document stand."""

    file: str
    node: Node | None
    changes: Changes

    def of(self, key: str) -> str:
        """File, line and key; `key` may be deeper than the file goes, or come from `both` or from the changes."""
        path = key.split(".")
        if len(path) > 1 and path[1] in self.changes.get(path[0], {}):
            return f"{self.file}, changed: {key}"
        deep, line = _deepest(self.node, path)
        if path[0] in DIRECTIONS and deep < min(2, len(path)):
            shared_deep, shared_line = _deepest(self.node, ["both", *path[1:]])
            if shared_deep > deep or shared_deep == len(path):
                return f"{self.file}:{shared_line}: {'.'.join(['both', *path[1:]])}"
        return f"{self.file}:{line}: {key}"

    def named(self, complaint: str, steps: list[_Placed] | None) -> str:
        """A complaint of the form "KEY: got ..., wanted ..." with the place of its key in front."""
        key, _, rest = complaint.partition(": ")
        path = key.split(".")
        if steps is not None and path[:2] == ["timeline", "steps"] and len(path) > 2 and path[2].isdigit():
            placed = steps[int(path[2])]
            tail = path[3:]
            if tail and tail[0] in DIRECTIONS and tail[0] not in placed.step and "both" in placed.step:
                tail[0] = "both"
            return f"{placed.place}: {'.'.join(tail) or 'step'}: {rest}"
        about = f", {', '.join(_ABOUT)}" if rest.endswith(f"but {', '.join(CHANNEL_KEYS)}") else ""
        return f"{self.of(key)}: {rest}{about}"


def _deepest(node: Node | None, path: list[str]) -> tuple[int, int]:
    """How far along its path a key is found, and the line of what was found."""
    deep, line = 0, node.start_mark.line + 1 if node else 1
    for part in path:
        found = None
        if isinstance(node, MappingNode):
            found = next(((key, value) for key, value in node.value if key.value == part), None)
        elif isinstance(node, SequenceNode) and part.isdigit() and int(part) < len(node.value):
            found = (node.value[int(part)],) * 2
        if found is None:
            break
        deep, line, node = deep + 1, found[0].start_mark.line + 1, found[1]
    return deep, line


def _with_changes(document: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """The changes stand above `both` and above a direction's own; what has keys of its own is changed key by key."""
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
) -> list[_Placed] | None:
    """All steps of the timeline in their order, from wherever they come; None where there is no timeline to read."""
    timeline = document.get("timeline")
    if not isinstance(timeline, Mapping):
        return None
    if unknown := [key for key in timeline if key not in _TIMELINE_KEYS]:
        raise InvalidChannel(
            f"{places.of(f'timeline.{unknown[0]}')}: got {timeline[unknown[0]]!r:.60}, "
            f"wanted no such key but {', '.join(_TIMELINE_KEYS)}"
        )
    if "outside" in timeline and "contacts" not in timeline:
        raise InvalidChannel(f"{places.of('timeline.outside')}: got it without contacts, wanted both or neither")
    if not {"trace", "contacts"} & set(timeline):
        return _steps_as_given(timeline, places)
    sources = [
        *([_steps_as_given(timeline, places) or []] if "steps" in timeline else []),
        *([_trace_steps(timeline["trace"], places, trace_text)] if "trace" in timeline else []),
    ]
    if "contacts" in timeline:
        if setting := next((each for each in itertools.chain(*sources) if _sets_up(each.step)), None):
            raise InvalidChannel(f"{setting.place}: got up, wanted contacts alone to say it; next: leave out either")
        sources.append(_contacts(timeline, places))
    own_jitter = {name: _own_jitter(document, name) for name in DIRECTIONS}
    return [_with_own_jitter(each, own_jitter) for each in _in_one(sources)]


def _steps_as_given(timeline: Mapping[str, Any], places: _Places) -> list[_Placed] | None:
    steps = timeline.get("steps")
    if not isinstance(steps, list) or not all(isinstance(step, Mapping) for step in steps):
        if "steps" in timeline:
            raise InvalidChannel(f"{places.of('timeline.steps')}: got {steps!r:.60}, wanted a list of steps with `at`")
        raise InvalidChannel(f"{places.of('timeline')}: got no steps, wanted steps, a trace or contacts")
    return [_Placed(dict(step), places.of(f"timeline.steps.{number}")) for number, step in enumerate(steps)]


def _trace_steps(name: object, places: _Places, trace_text: Callable[[str], str]) -> list[_Placed]:
    where = places.of("timeline.trace")
    if not isinstance(name, str):
        raise InvalidChannel(f"{where}: got {name!r:.60}, wanted the name of a CSV file")
    file = str(Path(places.file).parent / name)
    try:
        steps = parse_trace(trace_text(name), file)
    except InvalidChannel as error:
        raise InvalidChannel(f"{where}: {error}") from None
    except ValueError as error:
        raise InvalidChannel(str(error)) from None
    if len(steps) > MOST_STEPS:
        raise InvalidChannel(f"{file}: got {len(steps)} rows, wanted {MOST_STEPS} at most")
    return [_Placed(each.step, f"{file}:{each.line}") for each in steps]


def _contacts(timeline: Mapping[str, Any], places: _Places) -> list[_Placed]:
    outside = timeline.get("outside", "drop")
    if outside not in ("drop", "hold"):
        raise InvalidChannel(f"{places.of('timeline.outside')}: got {outside!r:.60}, wanted drop or hold")
    try:
        loop_after_ns = parse_delay_ns(timeline["loop_after"]) if "loop_after" in timeline else None
    except ValueError as error:
        raise InvalidChannel(f"{places.of('timeline.loop_after')}: {error}") from None
    try:
        steps = contact_steps(parse_windows(timeline["contacts"]), outside, loop_after_ns)
    except ValueError as error:
        key, _, rest = str(error).partition(": ")
        raise InvalidChannel(f"{places.of(f'timeline.{key}')}: {rest}") from None
    return [_Placed(step, places.of("timeline.contacts")) for step in steps]


def _in_one(sources: list[list[_Placed]]) -> list[_Placed]:
    """The steps of all sources by their time, those of the same time made one; each source keeps its own order."""
    if len(sources) == 1:
        return sources[0]
    at: dict[int, list[_Placed]] = {}
    for source in sources:
        before_ns = -1
        for each in source:
            try:
                at_ns = parse_delay_ns(each.step.get("at"))
            except ValueError as error:
                raise InvalidChannel(f"{each.place}: at: {error}") from None
            if at_ns <= before_ns:
                raise InvalidChannel(f"{each.place}: at: got {each.step['at']!r}, wanted steps in rising order of time")
            before_ns = at_ns
            at.setdefault(at_ns, []).append(each)
    return [_joined(at[at_ns]) for at_ns in sorted(at)]


def _joined(steps: list[_Placed]) -> _Placed:
    joined = steps[0]
    for each in steps[1:]:
        links: dict[str, Any] = {}
        for direction in DIRECTIONS:
            one, other = _fields(joined.step, direction), _fields(each.step, direction)
            if twice := sorted(set(one) & set(other)):
                raise InvalidChannel(f"{each.place}: got {twice[0]}, which {joined.place} sets too; wanted it once")
            links |= {direction: {**one, **other}} if one or other else {}
        joined = _Placed({"at": each.step["at"], **links}, f"{joined.place} and {each.place}")
    return joined


def _fields(step: Mapping[str, Any], direction: str) -> dict[str, Any]:
    both, own = step.get("both", {}), step.get(direction, {})
    return {**both, **own} if isinstance(both, Mapping) and isinstance(own, Mapping) else {}


def _sets_up(step: Mapping[str, Any]) -> bool:
    return any("up" in _fields(step, direction) for direction in DIRECTIONS)


def _own_jitter(document: Mapping[str, Any], direction: str) -> Mapping[str, Any]:
    jitter = _fields(document, direction).get("jitter")
    return jitter if isinstance(jitter, Mapping) else {}


def _with_own_jitter(placed: _Placed, own: Mapping[str, Mapping[str, Any]]) -> _Placed:
    """A trace has the amount of the jitter alone: its distribution stays that of the link."""
    links = {}
    for direction in DIRECTIONS:
        fields = _fields(placed.step, direction)
        jitter = fields.get("jitter")
        if own[direction] and isinstance(jitter, Mapping):
            links[direction] = {**fields, "jitter": {**own[direction], **jitter}}
    if not links:
        return placed
    whole = {direction: links.get(direction, _fields(placed.step, direction)) for direction in DIRECTIONS}
    return _Placed({"at": placed.step["at"], **whole}, placed.place)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InvalidChannel(f"{path}: there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidChannel(f"{path}: cannot be read: {error}") from None

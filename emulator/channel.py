"""What is asked of a channel: one link each way, and how they change with time.

Every value has one written form, the same in profiles, over XML-RPC and on the command line (`written`): `to_wire`
writes it, `from_wire` reads it. How the kernel is told is left to `stages`.
"""

import itertools
import re
from collections.abc import Mapping
from reprlib import repr as short_repr
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, model_validator

from emulator.faults import InvalidChannel
from emulator.impairments import FourState, GilbertElliott, Jitter, Pattern, Reordering
from emulator.link import LinkSpec
from emulator.written import FORM, QUEUE_UNITS, Moment, Value, as_written, listed, wanted_value

__all__ = ["DIRECTIONS", "ChannelSpec", "LinkSpec", "Step", "Timeline"]

DIRECTIONS = ("forward", "reverse")
MOST_STEPS = 100_000


class Step(Value):
    """What the links are from a moment on, counted from the timeline's start."""

    at_ns: Annotated[Moment, as_written("at")]
    forward: LinkSpec
    reverse: LinkSpec


class Timeline(Value):
    """How a channel changes: its last step is held, or everything begins anew after `loop_after_ns`."""

    steps: Annotated[tuple[Step, ...], BeforeValidator(listed), Field(min_length=1, max_length=MOST_STEPS)]
    loop_after_ns: Annotated[Moment | None, as_written("loop_after")] = None

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        times_ns = [step.at_ns for step in self.steps]
        if any(later <= earlier for earlier, later in itertools.pairwise(times_ns)):
            raise ValueError("steps in rising order of time, each time once")
        if self.loop_after_ns is not None and self.loop_after_ns <= times_ns[-1]:
            raise ValueError("loop_after behind the last step")
        return self


class ChannelSpec(Value):
    """Both directions: forward is from the sender's port to the receiver's, reverse the way back.

    The links are those before the timeline's first step, and again when it loops.
    """

    forward: LinkSpec = LinkSpec()
    reverse: LinkSpec = LinkSpec()
    timeline: Timeline | None = None
    bypass: bool = False
    """True: a plain bridge, and said so: the baseline that a channel is compared with."""

    @model_validator(mode="before")
    @classmethod
    def _in_full(cls, given: Any, info: ValidationInfo) -> Any:
        return _with_whole_steps(_with_both(given)) if info.context is FORM else given

    @model_validator(mode="after")
    def _nothing_in_a_bypass(self) -> Self:
        if self.bypass and (self.timeline is not None or not self.forward.unimpaired or not self.reverse.unimpaired):
            raise ValueError("either bypass or links that do something")
        return self

    @model_validator(mode="after")
    def _held_until_known(self) -> Self:
        last = self.timeline.steps[-1] if self.timeline and self.timeline.loop_after_ns is None else None
        for direction in DIRECTIONS:
            last_link: LinkSpec | None = getattr(last, direction, None)
            if last_link is not None and not last_link.up and last_link.while_down == "hold":
                raise ValueError(f"{direction}: a later step that ends the outage, or 'while_down: drop'")
        return self

    def refuse_to_begin_held(self) -> None:
        """Raise InvalidChannel if an outage that holds is there from the beginning: nobody would end it."""
        for direction in DIRECTIONS:
            link = self.link(direction)
            if not link.up and link.while_down == "hold":
                raise InvalidChannel(
                    f"{direction}: got an outage that holds and has no end, wanted one in the steps of a timeline ("
                    "at: 0 s for the beginning), or 'while_down: drop'"
                )

    @property
    def unimpaired(self) -> bool:
        """True if nothing is asked for in either direction, ever, so that the kernel needs to do nothing."""
        return self.timeline is None and self.forward.unimpaired and self.reverse.unimpaired

    @property
    def rtt_ns(self) -> int:
        """The round trip of light alone."""
        return self.forward.delay_ns + self.reverse.delay_ns

    @property
    def states(self) -> list[dict[str, LinkSpec]]:
        """The links by direction: those of the beginning, then those of each step of the timeline."""
        later = self.timeline.steps if self.timeline is not None else ()
        return [{direction: getattr(state, direction) for direction in DIRECTIONS} for state in (self, *later)]

    def link(self, direction: str) -> LinkSpec:
        """Return the link of "forward" or "reverse"."""
        return {"forward": self.forward, "reverse": self.reverse}[direction]

    def to_wire(self) -> dict[str, Any]:
        """Return the channel as it is written: plain values that XML-RPC carries exactly."""
        wire: dict[str, Any] = {direction: self.link(direction).to_wire() for direction in DIRECTIONS}
        wire |= {"bypass": True} if self.bypass else {}
        return wire if self.timeline is None else wire | {"timeline": self._timeline_to_wire(self.timeline)}

    def _timeline_to_wire(self, timeline: Timeline) -> dict[str, Any]:
        steps, before = [], {direction: self.link(direction).to_wire() for direction in DIRECTIONS}
        for step in timeline.steps:
            written = step.model_dump(mode="json", by_alias=True, include={"at_ns"})
            for direction in DIRECTIONS:
                now = getattr(step, direction).to_wire()
                changed = {name: value for name, value in now.items() if before[direction].get(name) != value}
                gone = {name: _default(name) for name in before[direction] if name not in now}
                written |= {direction: changed | gone} if changed or gone else {}
                before[direction] = now
            steps.append(written)
        return {"steps": steps} | timeline.model_dump(
            mode="json", by_alias=True, include={"loop_after_ns"}, exclude_none=True
        )

    @classmethod
    def from_wire(cls, wire: object) -> Self:
        """Return the channel that is written so.

        `both` gives what the two directions share. A step of a timeline gives what changes with it; "none" takes
        something away, as does "unlimited" a rate. Raises InvalidChannel, which names every key that is wrong,
        what was got and what was wanted.
        """
        try:
            return cls.model_validate(wire, context=FORM, by_alias=True, by_name=False)
        except ValidationError as error:
            raise InvalidChannel("; ".join(map(_told, error.errors()))) from None


def _default(name: str) -> Any:
    """What takes a written key of a link back to where it is in a link of nothing."""
    if name == "queue":
        return f"{LinkSpec().queue_packets} packets"
    (value,) = (
        field.default for key, field in LinkSpec.model_fields.items() if name in (key, field.serialization_alias)
    )
    return {"delay": "0 s", "overhead": "0 B"}.get(name, "none" if value is None else value)


def _with_both(given: Any) -> Any:
    if not isinstance(given, Mapping) or not isinstance(given.get("both", {}), Mapping):
        return given
    shared = given.get("both", {})
    links = {name: given.get(name, {}) for name in DIRECTIONS}
    rest = {name: value for name, value in given.items() if name != "both"}
    return rest | {name: _merged(shared, link) for name, link in links.items()}


def _with_whole_steps(given: Any) -> Any:
    """Give each step all of both links: what came before it, and what changes."""
    timeline = given.get("timeline") if isinstance(given, Mapping) else None
    steps = timeline.get("steps") if isinstance(timeline, Mapping) else None
    if not isinstance(steps, list):
        return given
    whole, links = [], {name: given.get(name, {}) for name in DIRECTIONS}
    for step in map(_with_both, steps):
        if isinstance(step, Mapping):
            links = {name: _merged(link, step.get(name, {})) for name, link in links.items()}
            step = {**step, **links}
        whole.append(step)
    return {**given, "timeline": {**timeline, "steps": whole}}  # type: ignore[dict-item]


def _merged(before: Any, change: Any) -> Any:
    return {**before, **change} if isinstance(before, Mapping) and isinstance(change, Mapping) else change


CHANNEL_KEYS = ("both", *ChannelSpec.model_fields)
_KINDS: dict[object, type[Value]] = {
    "forward": LinkSpec,
    "reverse": LinkSpec,
    "both": LinkSpec,
    "timeline": Timeline,
    "jitter": Jitter,
    "reordering": Reordering,
    "pattern": Pattern,
    "gilbert_elliott": GilbertElliott,
    "four_state": FourState,
}
"""What stands under a key, or under the name of a model of losses."""
_OWN_COMPLAINT = re.compile(r"(?P<key>queue): (?P<rest>got .*)", re.DOTALL)


def _told(error: Any) -> str:
    """One mistake: its key, what was got and what was wanted, in the words in which values are written."""
    path = tuple(part for part in error["loc"] if part not in ("gilbert_elliott", "four_state"))
    own = _OWN_COMPLAINT.fullmatch(error["msg"].removeprefix("Value error, "))
    if own and isinstance(error["input"], Mapping):
        return f"{_joined((*path, own['key']))}: {own['rest']}"
    got = "nothing" if error["type"] == "missing" else short_repr(error["input"])
    if path and path[-1] in QUEUE_UNITS:
        got = repr(f"{error['input']!s:.40} {QUEUE_UNITS[path[-1]]}")
        path = (*path[:-1], "queue")
    if error["type"] == "union_tag_invalid":
        path, got = (*path, "model"), short_repr(error["ctx"]["tag"])
    return f"{_joined(path)}: got {got}, wanted {_wanted(error)}"


def _joined(path: tuple[object, ...]) -> str:
    return ".".join(map(str, path)) or "channel"


def _wanted(error: Any) -> str:
    kind, at, owner = error["type"], error["loc"], _kind_at(error["loc"][:-1])
    if kind == "extra_forbidden":
        if at[-1] == "both":
            return f"the keys of a link: {', '.join(_keys(LinkSpec))}"
        return f"no such key but {', '.join(_keys(owner))}"
    if kind == "missing":
        return f"a value: {' and '.join(_needed(owner))} must be there"
    if kind in ("model_type", "model_attributes_type"):
        return f"keys and values: {_LOSS_KEYS if at[-1:] == ('loss',) else ', '.join(_keys(_kind_at(at)))}"
    if kind.startswith("union_tag"):
        return _LOSS_KEYS.removeprefix("" if kind.endswith("found") else "model: ")
    return wanted_value(error, in_link=owner is LinkSpec)


_LOSS_KEYS = "model: gilbert_elliott or four_state"


def _kind_at(path: tuple[object, ...]) -> type[Value]:
    """What the keys behind a path belong to: a channel, a link, a step or what has keys of its own."""
    if not path:
        return ChannelSpec
    return _KINDS.get(path[-1], Step if path[-2:-1] == ("steps",) else ChannelSpec)


def _keys(kind: type[Value]) -> tuple[str, ...]:
    """The keys of a value as they are written."""
    if kind is ChannelSpec:
        return CHANNEL_KEYS
    if kind is Step:
        return ("at", "both", *DIRECTIONS)
    names = [str(field.validation_alias or name) for name, field in kind.model_fields.items()]
    return tuple(dict.fromkeys("queue" if name in QUEUE_UNITS else name for name in names))


def _needed(kind: type[Value]) -> list[str]:
    if kind is Step:
        return ["at"]
    return [str(field.validation_alias or name) for name, field in kind.model_fields.items() if field.is_required()]

"""The specification of a channel: one link in each direction, and how they change with time.

Every value has one written form, the same in profiles, over XML-RPC and on the command line (`written`): `to_wire`
writes it, `from_wire` reads it. Applying it to the kernel belongs to `emulator.kernel`.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Any, Self, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo, model_validator
from pydantic_core import ErrorDetails

from owlt.emulator.channel.aimed_fault import EXPECTED_ACTION, MOST_FAULTS, Action, Aim, Fault, check_faults, compiled
from owlt.emulator.channel.link import LinkSpec, key_of
from owlt.emulator.channel.loss_models import FourState, GilbertElliott
from owlt.emulator.channel.text import FORM, QUEUE_UNITS, Moment, Value, as_written, expected_value, parse_list
from owlt.emulator.faults import InvalidChannel
from owlt.inputs.mistake import Invalid, Key, Mistake, Place, got, unexpected
from owlt.inputs.validation import raised, unknown_key

__all__ = ["DIRECTIONS", "ChannelSpec", "LinkSpec", "Step", "Timeline"]

DIRECTIONS = ("forward", "reverse")
MOST_STEPS = 100_000
MOST_LISTED = 1_000_000
"""Values of jitter tables and listed errors in all steps together; a step repeats lists that it does not replace."""
LONGEST_SCOPE = 4000
MOST_MISTAKES = 100
"""The largest number of mistakes in an error: a request of 16 MiB can contain hundreds of thousands."""
ETHERNET_MTU_BYTES = 1500
"""The MTU of Ethernet without jumbo frames, which every test path supports."""


class Step(Value):
    """The links from a time on, which is counted from the start of the timeline."""

    at_ns: Annotated[Moment, as_written("at")]
    forward: LinkSpec
    reverse: LinkSpec


class Timeline(Value):
    """How a channel changes over time. The last step stays, unless the timeline starts again after `loop_after_ns`."""

    steps: Annotated[tuple[Step, ...], BeforeValidator(parse_list), Field(min_length=1, max_length=MOST_STEPS)]
    loop_after_ns: Annotated[Moment | None, as_written("loop_after")] = None

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        times_ns = [step.at_ns for step in self.steps]
        if any(later <= earlier for earlier, later in itertools.pairwise(times_ns)):
            raise unexpected("steps in increasing order of time")
        if self.loop_after_ns is not None and self.loop_after_ns <= times_ns[-1]:
            raise unexpected("loop_after later than the last step")
        return self


class ChannelSpec(Value):
    """Both directions: forward is from the sender's port to the receiver's, reverse is the opposite.

    The links are those before the timeline's first step, and again when it loops.
    """

    forward: LinkSpec = LinkSpec()
    reverse: LinkSpec = LinkSpec()
    timeline: Timeline | None = None
    faults: Annotated[
        tuple[Fault, ...],
        BeforeValidator(parse_list),
        AfterValidator(check_faults),
        Field(max_length=MOST_FAULTS, description="aimed faults: which packets are dropped, delayed or changed"),
    ] = ()
    fault_scope: Annotated[str, Field(max_length=LONGEST_SCOPE)] = ""
    """The packets that faults count, as an expression of pcap-filter(7): a run gives those of its session. "": all."""
    bypass: bool = False
    """True: explicitly a transparent bridge, as the baseline for comparing channels."""

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, given: Any, info: ValidationInfo) -> Any:
        return _with_complete_steps(_with_both(given)) if info.context is FORM else given

    @model_validator(mode="after")
    def _check_scope(self) -> Self:
        for fault in self.faults:
            compiled(fault.packet, self.fault_scope)
        return self

    @model_validator(mode="after")
    def _check_bypass(self) -> Self:
        if self.bypass and not self.model_copy(update={"bypass": False}).unimpaired:
            raise unexpected("bypass without links, faults and a timeline, or links without bypass")
        return self

    @model_validator(mode="after")
    def _check_outages_end(self) -> Self:
        last = self.timeline.steps[-1] if self.timeline and self.timeline.loop_after_ns is None else None
        for direction in DIRECTIONS:
            last_link: LinkSpec | None = getattr(last, direction, None)
            if last_link is not None and not last_link.up and last_link.while_down == "hold":
                raise unexpected(f"{direction}: a later step that ends the outage, or 'while_down: drop'")
        return self

    @property
    def path_mtu_bytes(self) -> int:
        """The MTU that the interfaces on the test path need: more than that of Ethernet if both links have more."""
        least = min(link.mtu_bytes or ETHERNET_MTU_BYTES for link in (self.forward, self.reverse))
        return max(ETHERNET_MTU_BYTES, least)

    def refuse_to_begin_held(self) -> None:
        """Raise InvalidChannel if the channel starts with an outage that holds packets: nothing would end it."""
        for direction in DIRECTIONS:
            link = self.link(direction)
            if not link.up and link.while_down == "hold":
                expected = "it as a step of a timeline (at: 0 s if it holds from the start), or 'while_down: drop'"
                where = Place(key=(direction,))
                raise InvalidChannel(Mistake("got an outage that holds packets and has no end", expected, where=where))

    @property
    def unimpaired(self) -> bool:
        """True if neither direction ever has an effect, so that the kernel needs no configuration."""
        changes = self.timeline is not None or bool(self.faults)
        return not changes and self.forward.unimpaired and self.reverse.unimpaired

    @property
    def draws(self) -> bool:
        """True if a direction makes random choices at some time."""
        by_fault = any(fault.probability < 1 for fault in self.faults)
        return by_fault or any(link.draws for links in self.states for link in links.values())

    @property
    def rtt_ns(self) -> int:
        """The round trip: the propagation delays of both directions."""
        return self.forward.delay_ns + self.reverse.delay_ns

    @property
    def states(self) -> list[dict[str, LinkSpec]]:
        """The links by direction: at the start, then at each step of the timeline."""
        later = self.timeline.steps if self.timeline is not None else ()
        return [{direction: getattr(state, direction) for direction in DIRECTIONS} for state in (self, *later)]

    def link(self, direction: str) -> LinkSpec:
        """Return the link of "forward" or "reverse"."""
        return {"forward": self.forward, "reverse": self.reverse}[direction]

    def to_wire(self) -> dict[str, Any]:
        """Return the channel as it is written: plain values that XML-RPC carries exactly."""
        wire: dict[str, Any] = {direction: self.link(direction).to_wire() for direction in DIRECTIONS}
        wire |= {"bypass": True} if self.bypass else {}
        wire |= self.model_dump(mode="json", by_alias=True, include={"faults", "fault_scope"}, exclude_defaults=True)
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
        """Return the channel that has this written form.

        `both` has the values of both directions. A step of a timeline has the values that change; "none" removes a
        value, and "unlimited" removes a rate. Raises InvalidChannel with a mistake for every key that is wrong.
        """
        try:
            return cls.model_validate(wire, context=FORM, by_alias=True, by_name=False)
        except ValidationError as error:
            errors = error.errors(include_url=False)
            more = [Mistake(f"{len(errors) - MOST_MISTAKES} more mistakes")] if len(errors) > MOST_MISTAKES else []
            mistakes = itertools.chain.from_iterable(map(_mistakes, errors[:MOST_MISTAKES]))
            raise InvalidChannel(*mistakes, *more) from None


def _default(name: str) -> Any:
    """The written value that resets a key of a link to its default."""
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


def _with_complete_steps(given: Any) -> Any:
    """Give each step both complete links: the previous ones with the changes."""
    timeline = given.get("timeline") if isinstance(given, Mapping) else None
    steps = timeline.get("steps") if isinstance(timeline, Mapping) else None
    if not isinstance(steps, list):
        return given
    whole: list[Any] = []
    links, listed = {name: given.get(name, {}) for name in DIRECTIONS}, 0
    for step in map(_with_both, steps):
        if isinstance(step, Mapping):
            links = {name: _merged(link, step.get(name, {})) for name, link in links.items()}
            step = {**step, **links}
            listed += sum(map(_listed, links.values()))
        if listed > MOST_LISTED:
            where = Place(key=("timeline", "steps"))
            expected = f"at most {MOST_LISTED:,} values of jitter tables and listed errors in all steps"
            fix = "use fewer values or fewer steps: a step that does not replace a list repeats that of the step before"
            raise Invalid(Mistake(f"has more by step {len(whole) + 1}", expected, fix, where))
        whole.append(step)
    return {**given, "timeline": {**timeline, "steps": whole}}  # type: ignore[dict-item]


def _listed(link: Any) -> int:
    """How many values the lists of a link have, in its jitter table and its pattern."""
    parts = [part for part in link.values() if isinstance(part, Mapping)] if isinstance(link, Mapping) else []
    return sum(len(values) for part in parts for values in part.values() if isinstance(values, list))


def _merged(before: Any, change: Any) -> Any:
    return {**before, **change} if isinstance(before, Mapping) and isinstance(change, Mapping) else change


CHANNEL_KEYS = ("both", *ChannelSpec.model_fields)
_KINDS: dict[object, type[Value]] = {
    "forward": LinkSpec,
    "reverse": LinkSpec,
    "both": LinkSpec,
    "timeline": Timeline,
    **{
        key_of(name): kind
        for name, field in LinkSpec.model_fields.items()
        for kind in get_args(field.annotation)
        if isinstance(kind, type) and issubclass(kind, Value)
    },
    "gilbert_elliott": GilbertElliott,
    "four_state": FourState,
    "action": Action,
    "hold_until_packet": Aim,
}
"""The model of the value of a key, or of a loss model by its name."""
_KINDS_IN_LISTS: dict[object, type[Value]] = {"steps": Step, "faults": Fault}


def _mistakes(error: ErrorDetails) -> Iterable[Mistake]:
    """The mistakes of one error of pydantic, with the keys of the written form."""
    key: Key = tuple(part for part in error["loc"] if part not in ("gilbert_elliott", "four_state")) or ("channel",)
    if own := raised(error):
        return [replace(each, problem=each.problem or got(error["input"])).below(*key) for each in own.mistakes]
    if error["type"] == "extra_forbidden" and key[-1] != "both":
        return [unknown_key(Place(key=key), _keys(_kind_at(error["loc"][:-1])))]
    if error["type"] == "missing":
        needed = ", ".join(_needed(_kind_at(error["loc"][:-1])))
        return [Mistake("is missing", fix=f"add it (required: {needed})", where=Place(key=key))]
    problem = got(error["input"])
    if key[-1] in QUEUE_UNITS:
        problem = got(f"{error['input']!s:.40} {QUEUE_UNITS[str(key[-1])]}")
        key = (*key[:-1], "queue")
    if error["type"] == "union_tag_invalid":
        key, problem = (*key, "model"), got(error["ctx"]["tag"])
    return [Mistake(problem, _expected(error), where=Place(key=key))]


def _expected(error: ErrorDetails) -> str:
    kind, at, owner = error["type"], error["loc"], _kind_at(error["loc"][:-1])
    if kind == "extra_forbidden":  # `both`, which stays only if its value is no mapping
        return f"the keys of a link: {', '.join(_keys(LinkSpec))}"
    if kind in ("model_type", "model_attributes_type"):
        if _kind_at(at) is Action:
            return EXPECTED_ACTION
        return f"keys and values: {_LOSS_KEYS if at[-1:] == ('loss',) else ', '.join(_keys(_kind_at(at)))}"
    if kind == "union_tag_invalid":
        return _LOSS_MODELS
    if kind == "union_tag_not_found":
        return _LOSS_KEYS
    return expected_value(error, in_link=owner is LinkSpec)


_LOSS_MODELS = "gilbert_elliott or four_state"
_LOSS_KEYS = f"model: {_LOSS_MODELS}"


def _kind_at(path: tuple[object, ...]) -> type[Value]:
    """The model that holds the keys at a path: a channel, a link, a step or another value with keys."""
    if not path:
        return ChannelSpec
    return _KINDS.get(path[-1], _KINDS_IN_LISTS.get(path[-2], ChannelSpec) if len(path) > 1 else ChannelSpec)


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

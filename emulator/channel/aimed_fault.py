"""Aimed faults: what happens to which packets of a direction, chosen by their class and their occurrence.

Random errors show how fast an implementation is; an aimed fault shows whether it is right: "drop the second EOF".
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationInfo,
    WithJsonSchema,
    model_serializer,
    model_validator,
)

from owlt.emulator.channel.packet_filter import ANY, compiled
from owlt.emulator.channel.text import FORM, Delay, Moment, Positions, Probability, Value, Whole, as_written
from owlt.inputs.mistake import Invalid, Mistake, unexpected

MOST_FAULTS = 64
MOST_OCCURRENCE = 2**53 - 1
MOST_RANGES = 64
MOST_RULES = 64
MOST_CLASSES = 16
"""What the kernel's program has for a direction."""
MOST_DUPLICATES = 1_000_000
MOST_OVERTAKING = 100_000
ALL = "all"
_RANGE = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?")
_FIELD = re.compile(r"(ether|ip|ip6|udp|tcp|sctp)\[(\d{1,5})(?::([124]))?\]\s*=\s*(0x[0-9a-fA-F]{1,8}|\d{1,10})")


class Range(NamedTuple):
    """The occurrences `first`, `first + step`, ... up to `last`, counted from 1."""

    first: int = 1
    last: int = MOST_OCCURRENCE
    step: int = 1


_EXPECTED_OCCURRENCE = 'a number from 1, a range such as "3-5", a list of these, {every: 10} or all'


def _parse_occurrences(written: Any, info: ValidationInfo) -> Any:
    if info.context is not FORM:
        return written
    if written == ALL:
        return (Range(),)
    if isinstance(written, dict):
        every: Any = written.get("every")
        if list(written) != ["every"] or not _is_whole(every) or every < 1:
            raise unexpected(_EXPECTED_OCCURRENCE)
        return (Range(int(every), MOST_OCCURRENCE, int(every)),)
    listed = written if isinstance(written, list) else [written]
    if not 1 <= len(listed) <= MOST_RANGES:
        raise unexpected(f"1 to {MOST_RANGES} occurrences")
    return tuple(map(_range_of, listed))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)


def _range_of(written: Any) -> Range:
    match = _RANGE.fullmatch(str(int(written)) if _is_whole(written) else written if isinstance(written, str) else "")
    if match is None:
        raise unexpected(_EXPECTED_OCCURRENCE)
    first = int(match[1])
    last = int(match[2] or first)
    if not 1 <= first <= last <= MOST_OCCURRENCE:
        raise unexpected(_EXPECTED_OCCURRENCE)
    return Range(first, last)


def _write_occurrences(ranges: tuple[Range, ...]) -> Any:
    written = [_write_range(each) for each in ranges]
    return written[0] if len(written) == 1 else written


def _write_range(each: Range) -> Any:
    if each == Range():
        return ALL
    if each.step > 1:
        return {"every": _plain(each.step)}
    return _plain(each.first) if each.first == each.last else f"{each.first}-{each.last}"


def _plain(number: int) -> float:
    """A number as XML-RPC carries it, whose integers have 32 bits."""
    return number if number < 2**31 else float(number)


Occurrences = Annotated[
    tuple[Range, ...],
    BeforeValidator(_parse_occurrences),
    PlainSerializer(_write_occurrences, when_used="json"),
    WithJsonSchema(
        {
            "examples": [1, "3-5", [1, 4], {"every": 10}, ALL],
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string"},
                {"type": "array", "items": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]}},
                {"type": "object", "properties": {"every": {"type": "integer", "minimum": 1}}},
            ],
        }
    ),
]


def occurrences_text(ranges: tuple[Range, ...]) -> str:
    """The occurrences in words: "#2", "#3-5", "every 10th", "all"."""
    return ", ".join(_range_text(each) for each in ranges)


def _range_text(each: Range) -> str:
    if each == Range():
        return ALL
    if each.step > 1:
        return f"every {each.step}th"
    return f"#{each.first}" if each.first == each.last else f"#{each.first}-{each.last}"


def _check_packet(packet: str) -> str:
    compiled(packet)
    return packet


Packet = Annotated[
    str,
    AfterValidator(_check_packet),
    Field(
        description="class of packets: any, a name that `owlt channel packets` prints, or an expression of "
        "pcap-filter(7); only packets of the session count"
    ),
]
DirectionName = Annotated[
    Literal["forward", "reverse"],
    Field(description="forward: from the sender to the receiver; reverse: the opposite"),
]


class Aim(Value):
    """Packets of a direction: a class of them, and which of its packets, counted from 1 since the run's launch."""

    direction: DirectionName
    packet: Packet = ANY
    occurrences: Annotated[
        Occurrences,
        as_written("occurrence"),
        Field(description="which packets of the class, counted from 1: a number, range, list, {every: N} or all"),
    ] = (Range(),)

    @property
    def text(self) -> str:
        """The packets in words, such as "cfdp.eof #2"."""
        return f"{'packet' if self.packet == ANY else self.packet} {occurrences_text(self.occurrences)}"


class FieldChange(NamedTuple):
    """A field of a packet that is overwritten: `layer` and `offset` as in pcap-filter(7), with the value's bytes."""

    layer: Literal["ether", "ip", "ip6", "udp", "tcp", "sctp"]
    offset: int
    value: bytes


def _parse_field(written: Any, info: ValidationInfo) -> Any:
    if info.context is not FORM:
        return written
    match = _FIELD.fullmatch(written) if isinstance(written, str) else None
    if match is None:
        raise unexpected('a field as in pcap-filter(7) and its value, such as "udp[11] = 0" or "udp[8:2] = 0x3007"')
    length, value = int(match[3] or 1), int(match[4], 0)
    if value >= 1 << 8 * length:
        raise unexpected(f"a value below {1 << 8 * length} for a field of {length} B")
    return FieldChange(match[1], int(match[2]), value.to_bytes(length))  # type: ignore[arg-type]


def _write_field(change: FieldChange) -> str:
    return f"{change.layer}[{change.offset}:{len(change.value)}] = 0x{change.value.hex()}"


FieldText = Annotated[
    FieldChange,
    BeforeValidator(_parse_field),
    PlainSerializer(_write_field, when_used="json"),
    WithJsonSchema({"type": "string", "examples": ["udp[11] = 0", "udp[8:2] = 0x3007"]}),
]


class Action(Value):
    """What happens to a packet that is hit: one of these."""

    drop: Annotated[bool, Field(description="true: it is lost")] = False
    delay_ns: Annotated[
        Delay | None,
        as_written("delay"),
        Field(description="it is delayed by so much, in addition to the link's delay"),
    ] = None
    hold_until_ns: Annotated[
        Moment | None, as_written("hold_until"), Field(description="it is held until then, counted from the launch")
    ] = None
    hold_until_packet: Annotated[
        Aim | None,
        Field(description="it is held until one of these packets has been sent: direction, packet, occurrence"),
    ] = None
    duplicate: Annotated[
        int | None, Field(ge=1, le=MOST_DUPLICATES, description="so many further copies of it follow at once")
    ] = None
    corrupt_bits: Annotated[
        Positions, Field(description="these bits of the frame are flipped; 0 is the first of the Ethernet header")
    ] = ()
    corrupt_field: Annotated[
        FieldText | None,
        Field(description="a field gets another value, and the checksums are made right: udp[11] = 0"),
    ] = None
    reorder_behind: Annotated[
        int | None,
        Field(ge=1, le=MOST_OVERTAKING, description="the next so many packets of the session overtake it"),
    ] = None
    replay_after_ns: Annotated[
        Delay | None, as_written("replay_after"), Field(description="a copy of it follows after so long")
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _parse_drop(cls, given: Any, info: ValidationInfo) -> Any:
        return {"drop": True} if info.context is FORM and given == "drop" else given

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        fields = type(self).model_fields.items()
        if sum(getattr(self, name) != field.default for name, field in fields) != 1:
            raise unexpected(EXPECTED_ACTION)
        return self

    @model_serializer(mode="wrap")
    def _write(self, handler: Any) -> Any:
        return "drop" if self.drop else handler(self)

    @property
    def text(self) -> str:
        """What happened, for example "dropped", "delayed by 5 s"."""
        if self.drop:
            return _ACTION_TEXTS["drop"]
        if self.hold_until_packet is not None:
            return _ACTION_TEXTS["hold_until_packet"].format(self.hold_until_packet.text)
        if self.corrupt_bits:
            return _ACTION_TEXTS["corrupt_bits"].format(", ".join(map(str, map(int, self.corrupt_bits))))
        ((key, value),) = self.model_dump(mode="json", by_alias=True, exclude_defaults=True).items()
        return _ACTION_TEXTS[key].format(value)


_ACTION_TEXTS = {
    "drop": "dropped",
    "delay": "delayed by {}",
    "hold_until": "held until {}",
    "hold_until_packet": "held until {}",
    "duplicate": "duplicated, {} more copies",
    "corrupt_bits": "corrupted, bits {}",
    "corrupt_field": "corrupted, {}",
    "reorder_behind": "overtaken by the next {}",
    "replay_after": "replayed after {}",
}


EXPECTED_ACTION = f"drop, or one of {', '.join(f'{{{key}: ...}}' for key in _ACTION_TEXTS if key != 'drop')}"


class Fault(Aim):
    """A fault that is aimed at packets of the session. If several faults hit a packet, the first of them acts.

    Occurrences are counted from the launch of the run, or from the moment `from`, or from the first packet that the
    fault named `after` has hit. Packets are counted where they enter the link, behind its queue.
    """

    name: Annotated[str, Field(max_length=60, description="name of the fault, for `after`")] = ""
    probability: Annotated[
        Probability, Field(description="probability that an occurrence is hit; the run's seed draws")
    ] = 1.0
    from_ns: Annotated[
        Moment, as_written("from"), Field(description="occurrences count from then on; 0 s is the launch of the run")
    ] = 0
    until_ns: Annotated[
        Moment | None, as_written("until"), Field(description="occurrences count until then, from the launch")
    ] = None
    after: Annotated[str, Field(description="name of a fault; occurrences count from its first hit on")] = ""
    action: Annotated[Action, Field(description="what happens to the packet: drop, or one of the keys below")]
    seed: Whole | None = None
    """Determines which occurrences a probability hits."""

    @model_validator(mode="after")
    def _check_until(self) -> Self:
        if self.until_ns is not None and self.until_ns <= self.from_ns:
            raise unexpected("until later than from")
        return self

    @property
    def text(self) -> str:
        """The packets, or the fault's name and the packets."""
        return f"{self.name} ({super().text})" if self.name else super().text


def check_faults(faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """Return the faults. Raises Invalid for two of one name, for `after` without a fault of that name before it, and
    for more than the kernel's program can have.
    """
    names: list[str] = []
    for fault in faults:
        if fault.name and fault.name in names:
            raise unexpected(f"one fault named {fault.name}")
        if fault.after and fault.after not in names:
            raise unexpected(f"a fault named {fault.after} before the one that comes after it")
        names.append(fault.name)
    for direction in ("forward", "reverse"):
        aims = [aim for fault in faults for aim in _aims_of(fault) if aim.direction == direction]
        ranges, classes = sum(len(aim.occurrences) for aim in aims), len({aim.packet for aim in aims})
        if ranges > MOST_RULES or classes > MOST_CLASSES:
            problem = f"got {ranges} numbers and ranges of occurrences of {classes} classes for {direction}"
            raise Invalid(Mistake(problem, f"at most {MOST_RULES} of {MOST_CLASSES} classes"))
    return faults


def _aims_of(fault: Fault) -> list[Aim]:
    """All packets that the kernel counts for a fault: those that it hits, release what it holds, or overtake that."""
    aims: list[Aim] = [fault]
    if fault.action.hold_until_packet is not None:
        aims.append(fault.action.hold_until_packet)
    if fault.action.reorder_behind is not None:
        aims.append(Aim(direction=fault.direction))
    return aims

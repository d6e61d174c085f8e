"""Aimed faults: what happens to which packets of a direction, chosen by their class and their occurrence.

Random errors show how fast an implementation is; an aimed fault shows whether it is right: "drop the second EOF". A
class is an expression of pcap-filter(7), or has a name in profiles/packets/. libpcap compiles an expression to classic
BPF, as tcpdump does. In libpcap, `udp[...]` and `tcp[...]` match only IPv4; here they also match IPv6 without
extension headers.
"""

from __future__ import annotations

import ctypes
import re
import struct
from functools import cache, lru_cache
from ipaddress import ip_network
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

from owlt import PACKAGE
from owlt.emulator.channel.text import FORM, Delay, Moment, Positions, Probability, Value, Whole, as_written
from owlt.inputs.mistake import Invalid, Mistake, did_you_mean, got, unexpected
from owlt.inputs.reader import read_yaml

ANY = "any"
"""The class of all packets of the session."""
NUMBERS = {"udp": 17, "tcp": 6, "sctp": 132}
"""The numbers of the transports (IANA)."""
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


LONGEST_EXPRESSION = 4000
_CLASSES = PACKAGE / "profiles" / "packets"
_NAME = re.compile(r"[a-z0-9-]+\.[a-z0-9-]+")
_VERSION = re.compile(r"v?\d+$")
_INDEX = re.compile(r"\b(udp|tcp|sctp)\s*\[")


_LIBRARIES = ("libpcap.so.0.8", "libpcap.so.1")
"""The names of the library: Debian's, and the usual one."""
_ETHERNET, _LONGEST_FRAME, _NO_NETMASK = 1, 65_535, 0xFFFF_FFFF
_INSTRUCTION_BYTES = 8
_MOST_INSTRUCTIONS = 4096
"""BPF_MAXINSNS: the kernel accepts no longer program."""


def named_classes() -> dict[str, tuple[str, str]]:
    """The expression and the meaning of each class, by its name, such as "cfdp.eof"."""
    return {
        f"{file.stem}.{name}": (described["filter"], described["meaning"])
        for file in sorted(_CLASSES.glob("*.yaml"))
        for name, described in _content(file.stem)["packets"].items()
    }


@cache
def _content(protocol: str) -> dict[str, Any]:
    return dict(read_yaml(_CLASSES / f"{protocol}.yaml").value)


def classes_of(protocol: str) -> list[str]:
    """The names of the classes of a protocol, such as "CFDP", of each of its versions."""
    family = _VERSION.sub("", protocol.lower())
    return [name for name in named_classes() if _VERSION.sub("", name.partition(".")[0]) == family]


def expression_of(packet: str) -> str:
    """The expression of pcap-filter(7) for a named class; "" for `any`; an expression is returned unchanged.

    Raises Invalid if there is no class of that name.
    """
    if packet == ANY:
        return ""
    if not _NAME.fullmatch(packet):
        return packet
    protocol, _, name = packet.partition(".")
    protocols = [file.stem for file in sorted(_CLASSES.glob("*.yaml"))]
    known = list(_content(protocol)["packets"]) if protocol in protocols else []
    if name in known:
        return str(_content(protocol)["packets"][name]["filter"])
    names = list(named_classes())
    listed = f"the classes of {protocol} are {', '.join(known)}" if known else f"protocols: {', '.join(protocols)}"
    fix = did_you_mean(packet, names, listed)
    raise Invalid(Mistake(got(packet), "a class of packets, any, or an expression of pcap-filter(7)", fix))


def over_both_versions(expression: str) -> str:
    """The expression for IPv4 or IPv6: indices into UDP, TCP and SCTP are those into the payload of an IPv6 header.

    pcap-filter(7) has no such index for IPv6; "udp[8:2]" is "ip6[40+8:2]" where the next header is UDP.
    """
    transports = sorted({match[1] for match in _INDEX.finditer(expression)})
    if not transports:
        return expression
    over_ipv6 = _INDEX.sub("ip6[40+", expression)
    is_next = " or ".join(f"ip6[6] = {NUMBERS[transport]}" for transport in transports)
    return f"(ip and ({expression})) or (ip6 and ({is_next}) and ({over_ipv6}))"


def compiled(packet: str, scope: str = "") -> bytes:
    """The classic BPF program (struct sock_filter, 8 bytes per instruction) that passes Ethernet frames of a class, if
    the expression `scope` passes them too. Raises Invalid with libpcap's message.
    """
    expression = expression_of(packet)
    if len(expression) > LONGEST_EXPRESSION:
        problem = f"got {len(expression):,} characters"
        raise Invalid(Mistake(problem, f"an expression of at most {LONGEST_EXPRESSION:,}"))
    _require_no_names(expression, packet)
    _require_no_names(scope, scope)
    alone = _compiled(expression, packet)  # with a parenthesis too many, it might escape from the scope
    both = [part for part in (scope, over_both_versions(expression)) if part]
    try:
        return _compiled(" and ".join(f"({part})" for part in both), packet) if both else alone
    except Invalid as error:
        if scope and _REJECTS_ALL in str(error):
            return _PASS_NONE
        raise


def passes(program: bytes, frame: bytes, frame_bytes: int) -> bool:
    """Whether a compiled class passes a frame of `frame_bytes`, of which a capture has the first bytes, as `frame`."""
    code = ctypes.create_string_buffer(program, len(program))
    compiled_program = _Program(len(program) // _INSTRUCTION_BYTES, ctypes.addressof(code))
    header = _Header(captured_bytes=len(frame), frame_bytes=frame_bytes)
    return bool(_library().pcap_offline_filter(ctypes.byref(compiled_program), ctypes.byref(header), frame))


_WORD = re.compile(r"[\w.:\\-]+")
_NUMBER = re.compile(r"\d{1,10}|0[xX][0-9a-fA-F]{1,8}|\d*:\d*|(?:[0-9a-fA-F]{1,2}:){5}[0-9a-fA-F]{1,2}")
_PORTS = re.compile(r"\d{1,5}-\d{1,5}")
_KEYWORDS = frozenset(
    re.findall(
        r"[\w-]+",
        "and or not src dst host net mask port portrange proto protochain inbound outbound ether ip ip6 arp rarp tcp "
        "udp icmp icmp6 igmp sctp esp ah vlan mpls pppoes broadcast multicast less greater len length "
        "icmptype icmpcode icmp6type icmp6code icmp-echo icmp-echoreply icmp-unreach icmp-timxceed icmp6-echo "
        "icmp6-echoreply icmp6-packettoobig tcpflags tcp-fin tcp-syn tcp-rst tcp-push tcp-ack tcp-urg tcp-ece tcp-cwr",
    )
)


def _require_no_names(expression: str, packet: str) -> None:
    """Raise Invalid for names of hosts, networks, ports and protocols: libpcap would ask name servers, which may take
    minutes, and another machine may have another answer.
    """
    before = ""
    for word in (each.lstrip("-") for each in _WORD.findall(expression)):  # "udp[8]-1"
        is_range = before == "portrange" and _PORTS.fullmatch(word)
        if word and not (word in _KEYWORDS or _NUMBER.fullmatch(word) or _is_network(word) or is_range):
            expected = "keywords of pcap-filter(7), addresses and numbers, separated by spaces"
            fix = "write names as addresses or numbers; 'owlt channel packets' lists the named classes"
            raise Invalid(Mistake(f"{got(packet)}: {word!r}", expected, fix))
        before = word


def _is_network(word: str) -> bool:
    try:
        return bool(ip_network(word, strict=False))
    except ValueError:
        return bool(re.fullmatch(r"\d{1,3}(\.\d{1,3}){1,2}", word))  # "net 10.1"


_REJECTS_ALL = "rejects all packets"
_PASS_NONE = struct.pack("=HBBI", 0x06, 0, 0, 0)  # BPF_RET | BPF_K: 0


@lru_cache(maxsize=256)
def _compiled(expression: str, packet: str) -> bytes:
    """The program of an expression; `packet` is the expression or class as the user wrote it. Raises Invalid."""
    library = _library()
    handle = library.pcap_open_dead(_ETHERNET, _LONGEST_FRAME)
    program = _Program()
    try:
        if library.pcap_compile(handle, ctypes.byref(program), expression.encode(), 1, _NO_NETMASK):
            said = library.pcap_geterr(handle).decode(errors="replace")
            problem, fix = f"{got(packet)}: libpcap: {said}", "'owlt channel packets' lists the named classes"
            raise Invalid(Mistake(problem, "a class of packets, any, or an expression of pcap-filter(7)", fix))
        if program.length > _MOST_INSTRUCTIONS:
            problem = f"got an expression of {program.length:,} instructions"
            raise Invalid(Mistake(problem, f"at most {_MOST_INSTRUCTIONS:,}", "use a simpler one"))
        instructions = ctypes.string_at(program.instructions, program.length * _INSTRUCTION_BYTES)
        library.pcap_freecode(ctypes.byref(program))
        return instructions
    finally:
        library.pcap_close(handle)


class _Program(ctypes.Structure):
    """libpcap's struct bpf_program."""

    _fields_ = [("length", ctypes.c_uint), ("instructions", ctypes.c_void_p)]


class _Header(ctypes.Structure):
    """libpcap's struct pcap_pkthdr."""

    _fields_ = [
        ("seconds", ctypes.c_long),
        ("microseconds", ctypes.c_long),
        ("captured_bytes", ctypes.c_uint32),
        ("frame_bytes", ctypes.c_uint32),
    ]


@cache
def _library() -> Any:
    for name in _LIBRARIES:
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        library.pcap_open_dead.restype = ctypes.c_void_p
        library.pcap_compile.argtypes = [
            *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32)
        ]
        library.pcap_geterr.restype, library.pcap_geterr.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
        library.pcap_offline_filter.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p]
        library.pcap_freecode.argtypes = library.pcap_close.argtypes = [ctypes.c_void_p]
        return library
    raise Invalid(Mistake("packets: libpcap is not installed", fix="install tcpdump (Debian), which needs it"))

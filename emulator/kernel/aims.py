"""Aimed faults in the kernel, for one direction: filters that find the packets of each class, the program that counts
them and picks those that are hit, and the tap through which the emulator gets the packets that are hit. The program
is `bpf/programs/aims.bpf.c`; what becomes of a packet is decided by `emulator.service.fault_player`.

Filters and program run where packets leave the emulator, before errors and delay, so a packet that the emulator sends
again passes both like any other.

libpcap compiles a class into classic BPF. `as_classifier` translates that program into an eBPF filter, which sets a bit
of the mark of each packet of the class, and lets the next filter see all packets. The kernel translates classic filters
itself, but a filter that matches ends the search, unless it has an action (act_bpf), which some kernels do not have.
Sources: bpf(4) of FreeBSD, and Linux, Documentation/networking/filter.rst and
Documentation/bpf/standardization/instruction-set.rst, which define both sets of instructions.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self

from owlt.emulator.channel.aimed_fault import ANY, MOST_RULES, compiled
from owlt.emulator.kernel.bpf.loading import BpfError, Classifier
from owlt.emulator.kernel.bpf_stages import ProgramStage
from owlt.emulator.kernel.kernel_requests import AIMS, FIRST_CLASS, add_program, clsact, silence
from owlt.emulator.kernel.ports import EGRESS_FILTERS
from owlt.emulator.kernel.rtnetlink import IPRoute
from owlt.inputs.mistake import Invalid

TAP_PREFIX = "owlt-tap"
LONGEST_FRAME_BYTES = 65_535
_INJECTED = 0x8000_0000
_NEVER = 2**64 - 1
_CERTAIN = 2**53
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x4004_54CA, 0x0002, 0x1000  # linux/if_tun.h
_TAP_MTU_BYTES = 65_521
_TAP_QUEUE_PACKETS = 10_000
_SO_MARK = 36  # asm-generic/socket.h


@dataclass(frozen=True)
class Rule:
    """The occurrences `first`, `first + step`, ... up to `last` of a class, by its number, each with a probability."""

    class_number: int
    first: int
    last: int
    step: int = 1
    probability: float = 1.0


class HitPacket(NamedTuple):
    """A packet that a rule has hit, and which one of its packets it was; the time is of CLOCK_MONOTONIC."""

    rule: int
    occurrence: int
    at_ns: int
    frame: bytes


_HEADER = struct.Struct("=QQQ")


class Tap:
    """The interface through which the program gives packets to this process. It is gone when this is closed."""

    def __init__(self, netlink: IPRoute, name: str) -> None:
        """Make it in the network namespace of this process. Raises OSError."""
        self._descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fcntl.ioctl(self._descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
            (self.index,) = netlink.link_lookup(ifname=name)
            silence(netlink, self.index)
            netlink.link("set", index=self.index, mtu=_TAP_MTU_BYTES, txqlen=_TAP_QUEUE_PACKETS, state="up")
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Its file descriptor, for select."""
        return self._descriptor

    def packet(self) -> HitPacket | None:
        """The next packet; None if there is none now."""
        while True:
            try:
                given = os.read(self._descriptor, _HEADER.size + LONGEST_FRAME_BYTES)
            except BlockingIOError:
                return None
            if len(given) > _HEADER.size:
                rule, occurrence, at_ns = _HEADER.unpack_from(given)
                return HitPacket(rule, occurrence, at_ns, given[_HEADER.size :])

    def close(self) -> None:
        """Remove it."""
        os.close(self._descriptor)


def injector(interface: str) -> socket.socket:
    """A socket whose frames leave an interface without being counted as packets of a class."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    made.setsockopt(socket.SOL_SOCKET, _SO_MARK, struct.pack("=I", _INJECTED))
    made.bind((interface, 0))
    return made


class AimStage(ProgramStage):
    """The rules of a direction, in its program. A rule has no effect before it is started."""

    _program = "aims"
    _parent = EGRESS_FILTERS
    _counters = ("packets", "hit_packets", "failed_packets")
    _process = struct.Struct("=4xIQ")
    _rule = struct.Struct("=IIQQQQQQ")

    @classmethod
    def load(cls, rules: Sequence[Rule], first_id: int, tap_index: int, seed: int) -> Self:
        """Return a stage that is not attached yet, whose rules are numbered from `first_id` on."""
        stage = cls._loaded()
        stage._settings = cls._process.pack(tap_index, seed)
        stage.aim(rules, first_id)
        return stage

    _settings: bytes
    _first_id: int
    _from_ns: list[int]
    _until_ns: list[int]

    def aim(self, rules: Sequence[Rule], first_id: int) -> None:
        """Replace the rules by others, of the classes whose filters are attached; all counts begin at 0."""
        self._first_id = first_id
        self._from_ns, self._until_ns = [_NEVER] * MOST_RULES, [_NEVER] * MOST_RULES
        written = b"".join(self._written(rule, first_id + number) for number, rule in enumerate(rules))
        value = self._settings + written.ljust(MOST_RULES * self._rule.size, b"\0")
        self._object.write("processes", value, locked=True)
        self._write_times()

    @classmethod
    def _written(cls, rule: Rule, number: int) -> bytes:
        share = round(rule.probability * _CERTAIN)
        return cls._rule.pack(1 << rule.class_number, number, rule.first, rule.last, rule.step, share, 0, 0)

    def attach_with(self, netlink: IPRoute, index: int, classes: Sequence[bytes]) -> None:
        """Let all frames that leave an interface pass the filters of the classes, then the program."""
        with clsact(netlink, index):
            for number, code in enumerate(classes):
                with Classifier(as_classifier(code, 1 << number)) as loaded:
                    name, priority = f"owlt-class-{number}", FIRST_CLASS + number
                    add_program(netlink, index, self._parent, loaded.program, name, priority, decides=False)
            self.attach(netlink, index, AIMS)

    def start(self, number: int, from_ns: int, until_ns: int = _NEVER) -> None:
        """Let a rule count from a moment of CLOCK_MONOTONIC on, until another one."""
        self._from_ns[number - self._first_id] = from_ns
        self._until_ns[number - self._first_id] = until_ns
        self._write_times()

    def stop(self, number: int) -> None:
        """Let a rule count no more."""
        self.start(number, _NEVER)

    def _write_times(self) -> None:
        self._object.write("times", struct.pack(f"={2 * MOST_RULES}Q", *self._from_ns, *self._until_ns))

    def counts(self) -> list[tuple[int, int]]:
        """For each rule, how many packets of its class it has counted, and how many it has hit."""
        size = self._process.size + MOST_RULES * self._rule.size
        value = self._object.read("processes", size, locked=True)[self._process.size :]
        rules = list(self._rule.iter_unpack(value))
        return [(seen, hits) for bit, *_, seen, hits in rules if bit]


def aims_reason(netlink: IPRoute, index: int) -> str:
    """Return why this kernel cannot aim faults; "" if it can. Leaves filters on the interface."""
    try:
        tap = Tap(netlink, f"{TAP_PREFIX}-probe")
    except OSError as error:
        return f"/dev/net/tun: {error.strerror}; next: run the emulator as root, with the module tun"
    try:
        with closing(AimStage.load([Rule(0, 1, 1)], 0, tap.index, 0)) as stage:
            stage.attach_with(netlink, index, [compiled(ANY)])
    except (BpfError, Invalid) as error:
        return str(error)
    finally:
        tap.close()
    return ""


_CLASSIC = struct.Struct("=HBBI")
_RESULT, _WORK, _CONTEXT, _ACCUMULATOR, _INDEX, _STACK = 0, 1, 6, 7, 8, 10
"""Registers: loads from the packet leave their result in the first, and expect the context in the third."""
_LENGTH_AT, _MARK_AT = 0, 8
"""Of struct __sk_buff."""
_LD, _LDX, _ST, _STX, _ALU, _JMP, _RET = range(7)
_FROM_INDEX = 0x08
_DIVISIONS = (0x30, 0x90)
_EXIT, _JUMP, _JUMP_IF_EQUAL = 0x95, 0x05, 0x16
_MOVE, _MOVE_REGISTER, _COPY_CONTEXT = 0xB4, 0xBC, 0xBF
_LOAD, _STORE, _STORE_VALUE = 0x61, 0x63, 0x62
_AND, _SHIFT_LEFT, _OR = 0x54, 0x64, 0x44
_LOAD_OCTET = 0x30


class _Step(NamedTuple):
    """An instruction of the classic program."""

    code: int
    if_true: int
    if_false: int
    value: int


@dataclass(frozen=True)
class _Instruction:
    """An instruction of eBPF, whose jump leads to a classic instruction or to one of the two ends."""

    code: int
    target: int = 0
    source: int = 0
    offset: int = 0
    value: int = 0
    jump: int | Literal["pass", "end"] | None = None

    def written(self) -> bytes:
        """As the kernel takes it."""
        value = self.value - (1 << 32) if self.value >= 1 << 31 else self.value
        return struct.pack("=BBhi", self.code, self.target | self.source << 4, self.offset, value)


def as_classifier(program: bytes, mark: int) -> bytes:
    """The eBPF program for a classic one. Raises ValueError for an instruction that libpcap does not write."""
    steps = [_Step(*fields) for fields in _CLASSIC.iter_unpack(program)]
    written: list[_Instruction] = [
        _Instruction(_COPY_CONTEXT, _CONTEXT, 1),
        _Instruction(_MOVE, _ACCUMULATOR),
        _Instruction(_MOVE, _INDEX),
        *(_Instruction(_STORE_VALUE, _STACK, offset=_place(number)) for number in _memory(steps)),
    ]
    places: dict[int | str, int] = {}
    for number, step in enumerate(steps):
        places[number] = len(written)
        written += _translated(number, step)
    places["pass"] = len(written)
    if any(each.jump == "pass" for each in written):  # the kernel refuses instructions that are never reached
        written += [
            _Instruction(_LOAD, _WORK, _CONTEXT, _MARK_AT),
            _Instruction(_OR, _WORK, value=mark),
            _Instruction(_STORE, _CONTEXT, _WORK, _MARK_AT),
        ]
    places["end"] = len(written)
    written += [_Instruction(_MOVE, _RESULT), _Instruction(_EXIT)]
    return b"".join(
        (each if each.jump is None else replace(each, offset=places[each.jump] - at - 1)).written()
        for at, each in enumerate(written)
    )


def _place(number: int) -> int:
    """Of a word of the classic program's memory, on the stack."""
    return -4 * (number + 1)


def _memory(steps: list[_Step]) -> list[int]:
    """The words of memory that a program uses."""
    kinds = [(step, step.code & 7) for step in steps]
    return sorted(
        {
            step.value
            for step, kind in kinds
            if kind in (_ST, _STX) or (kind in (_LD, _LDX) and step.code & 0xE0 == 0x60)
        }
    )


def _translated(number: int, step: _Step) -> Iterator[_Instruction]:
    kind = step.code & 7
    if kind in (_LD, _LDX):
        yield from _load(step, _ACCUMULATOR if kind == _LD else _INDEX)
    elif kind in (_ST, _STX):
        source = _ACCUMULATOR if kind == _ST else _INDEX
        yield _Instruction(_STORE, _STACK, source, _place(step.value))
    elif kind == _ALU:
        yield from _calculation(step)
    elif kind == _JMP:
        yield from _jumps(number, step)
    elif kind == _RET:
        if step.code & 0x18 == 0x10:  # the accumulator
            yield _Instruction(_JUMP_IF_EQUAL, _ACCUMULATOR, jump="end")
        is_passed = bool(step.value) or step.code & 0x18 == 0x10
        yield _Instruction(_JUMP, jump="pass" if is_passed else "end")
    else:
        target, source = (_INDEX, _ACCUMULATOR) if step.code & 0x80 == 0 else (_ACCUMULATOR, _INDEX)
        yield _Instruction(_MOVE_REGISTER, target, source)


def _load(step: _Step, target: int) -> Iterator[_Instruction]:
    mode = step.code & 0xE0
    if mode == 0x00:
        yield _Instruction(_MOVE, target, value=step.value)
    elif mode in (0x20, 0x40):  # from the packet; a load behind its end ends the program, with 0
        yield _Instruction(step.code & 0x78, 0, _INDEX if mode == 0x40 else 0, value=step.value)
        yield _Instruction(_MOVE_REGISTER, target, _RESULT)
    elif mode == 0x60:
        yield _Instruction(_LOAD, target, _STACK, _place(step.value))
    elif mode == 0x80:
        yield _Instruction(_LOAD, target, _CONTEXT, _LENGTH_AT)
    elif mode == 0xA0:  # the length of an IPv4 header
        yield _Instruction(_LOAD_OCTET, value=step.value)
        yield _Instruction(_AND, _RESULT, value=0x0F)
        yield _Instruction(_SHIFT_LEFT, _RESULT, value=2)
        yield _Instruction(_MOVE_REGISTER, target, _RESULT)
    else:
        raise ValueError(f"classic BPF: a load {step.code:#x}")


def _calculation(step: _Step) -> Iterator[_Instruction]:
    """The codes of 32-bit calculations are the same in classic BPF and in eBPF."""
    from_index = bool(step.code & _FROM_INDEX)
    if from_index and step.code & 0xF0 in _DIVISIONS:
        yield _Instruction(_JUMP_IF_EQUAL, _INDEX, jump="end")
    source, value = (_INDEX, 0) if from_index else (0, step.value)
    yield _Instruction(step.code & 0xFF, _ACCUMULATOR, source, value=value)


def _jumps(number: int, step: _Step) -> Iterator[_Instruction]:
    """The codes of comparisons are the same as those of eBPF's 32-bit ones, but for the class."""
    if step.code & 0xF0 == 0:
        yield _Instruction(_JUMP, jump=number + 1 + step.value)
        return
    from_index = bool(step.code & _FROM_INDEX)
    source, value = (_INDEX, 0) if from_index else (0, step.value)
    yield _Instruction(step.code & 0xF8 | 0x06, _ACCUMULATOR, source, value=value, jump=number + 1 + step.if_true)
    yield _Instruction(_JUMP, jump=number + 1 + step.if_false)

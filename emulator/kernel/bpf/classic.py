"""Classic BPF, which libpcap compiles, as eBPF for a filter of a queueing discipline: it sets a bit of the mark of each
packet that the classic program passes, and lets the next filter see all packets.

The kernel translates classic filters itself, but a filter that matches ends the search, unless it has an action
(act_bpf), which some kernels do not have. Sources: bpf(4) of FreeBSD, and Linux, Documentation/networking/filter.rst
and Documentation/bpf/standardization/instruction-set.rst, which define both sets of instructions.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

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
    """The codes of 32-bit calculations are the same in both."""
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

"""The common part of the stages that are eBPF programs, and the stage that makes errors in a direction's stream of
bits, with the settings of its program.

Each stage has programs and maps of its own in the kernel. Its interface must have a clsact qdisc already. To detach a
stage, delete its filter, and keep the stage until then.

A kernel has no floating point, so the gap between two errors, floor(E / -ln(1 - p)) with E exponential of mean 1,
is made of integers: E from a table of logarithms, and the factor of E as a `Factor`. A gap's distribution
function is within 1e-8 of the geometric one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from math import expm1, frexp, ldexp, log, log1p
from typing import Literal, Self, get_args

from owlt.emulator.kernel.bpf.loading import BpfObject, find_object
from owlt.emulator.kernel.kernel_requests import PROGRAM, add_program
from owlt.emulator.kernel.ports import EGRESS_FILTERS
from owlt.emulator.kernel.rtnetlink import IPRoute

MOST_POSITIONS = 16383
_LOG_BITS = 12
_LOG_SCALE = 58
_DE_BRUIJN = 0x03F7_9D71_B4CB_0A89
_U64 = 2**64


ETHERNET_HEADER_BYTES = 14


Unit = Literal["bit", "packet", "block"]
Effect = Literal["flip", "drop"]
_UNITS: tuple[Unit, ...] = get_args(Unit)
_EFFECTS: tuple[Effect, ...] = get_args(Effect)
"""By their numbers in the program's settings."""
_NONE = _U64 - 1


class ProgramStage:
    """The common part of the stages: one program of one object, attached as a direct-action filter."""

    _program: str
    _parent: int
    _counters: tuple[str, ...]

    def __init__(self, loaded: BpfObject) -> None:
        self._object = loaded

    @classmethod
    def _loaded(cls) -> Self:
        return cls(BpfObject(find_object(cls._program)))

    def attach(self, netlink: IPRoute, index: int, priority: int = PROGRAM) -> None:
        """Let all frames of an interface pass the program."""
        add_program(netlink, index, self._parent, self.program, f"owlt-{self._program}", priority)

    @property
    def program(self) -> int:
        """The program's file descriptor."""
        return self._object.program(self._program)

    def counters(self) -> dict[str, int]:
        """Return what was counted since the stage was loaded."""
        layout = struct.Struct(f"={len(self._counters)}Q")
        return dict(zip(self._counters, layout.unpack(self._object.read("counters", layout.size)), strict=True))

    def close(self) -> None:
        """Release the program and its maps."""
        self._object.close()


class ErrorStage(ProgramStage):
    """Errors in the stream of frames that leave an interface, before its queueing discipline.

    Its transmit checksum offload has to be off: a checksum that is filled in later would hide an error. A frame with
    more errors than a program may work on (952) gets no more, and is counted as unfinished.
    """

    _program = "errors"
    _parent = EGRESS_FILTERS
    _counters = ("packets", "bytes", "hit_packets", "flipped_bits", "dropped_packets", "unfinished_frames")
    _layout = struct.Struct("=4x3IQ2Id6Q")
    _positions_bytes = 8 * (MOST_POSITIONS + 1)

    @classmethod
    def load(cls, process: ErrorProcess) -> Self:
        """Return a stage that is not attached yet; BpfError if the kernel refuses it."""
        stage = cls._loaded()
        stage._object.write("logarithms", _logarithms())
        stage.replace(process)
        return stage

    def begin_anew(self, process: ErrorProcess) -> None:
        """Reset to the state after loading."""
        self._object.write("counters", bytes(8 * len(self._counters)))
        self.replace(process)

    def replace(self, process: ErrorProcess) -> None:
        """Start another stream, or the same again, between two frames; the counters go on."""
        factor = factor_of(process.rate) if process.rate else Factor(0, 0)
        settings = self._layout.pack(
            _UNITS.index(process.unit),
            _EFFECTS.index(process.effect),
            process.rate > 0,
            factor.multiplier,
            factor.shift,
            len(process.positions),
            process.rate,
            process.block_bytes,
            process.seed,
            process.seed,
            0,
            _NONE,
            0,
        )
        positions = struct.pack(f"={len(process.positions)}Q", *process.positions)
        self._object.write("processes", settings + positions.ljust(self._positions_bytes, b"\xff"), locked=True)

    def read_back(self) -> ErrorProcess:
        """Return the error process that the kernel has.

        Its rate is the written one if the kernel's factor belongs to that rate.
        """
        value = self._object.read("processes", self._layout.size + self._positions_bytes, locked=True)
        unit, effect, drawn, multiplier, shift, count, rate, block_bytes, seed, *_ = self._layout.unpack_from(value)
        if drawn:
            factor = Factor(multiplier, shift)
            rate = rate if factor_of(rate) == factor else rate_of(factor)
        return ErrorProcess(
            unit=_UNITS[unit],
            effect=_EFFECTS[effect],
            rate=rate if drawn else 0.0,
            positions=struct.unpack_from(f"={count}Q", value, self._layout.size),
            seed=seed,
            block_bytes=block_bytes,
        )


@cache
def _logarithms() -> bytes:
    tables = (*logarithms_of_mantissas(), *logarithms_of_powers())
    return struct.pack(f"={len(tables)}Q", *tables)


@dataclass(frozen=True)
class ErrorProcess:
    """Errors at a `rate` per unit, independent of each other, or at `positions` of the stream, counted from 0.

    A bit is one of a frame from its Ethernet header on, without its checksum; the first of a byte is its highest.
    An error in a packet flips one bit of it, drawn by the seed, or drops it. A block has `block_bytes` of the stream of
    frames, wherever these begin and end; an error in it drops every packet that has a byte of it.
    """

    unit: Unit
    effect: Effect
    rate: float = 0.0
    positions: tuple[int, ...] = ()
    seed: int = 0
    block_bytes: int = 0

    def __post_init__(self) -> None:
        """Refuse values that are no error process."""
        if not 0 <= self.rate <= 1:
            raise ValueError(f"error rate: expected 0..1, got {self.rate}")
        if self.rate and self.positions:
            raise ValueError("errors: expected a rate or positions, got both")
        if len(self.positions) > MOST_POSITIONS:
            raise ValueError(f"error positions: expected at most {MOST_POSITIONS}, got {len(self.positions)}")
        if not _ascends(self.positions):
            raise ValueError("error positions: expected different numbers from 0 on, ascending")
        if (self.unit == "block") != bool(self.block_bytes) or self.block_bytes < 0:
            raise ValueError("block_bytes: expected it with the unit block, and only with it")
        if self.unit == "block" and (self.effect == "flip" or self.positions):
            raise ValueError("blocks: expected a rate and the effect drop")
        if not 0 <= self.seed < _U64:
            raise ValueError(f"error seed: expected 0..2^64-1, got {self.seed}")


@dataclass(frozen=True)
class Factor:
    """1 / -ln(1 - p) as multiplier * 2^(-6 - shift): a product's high half, shifted, undoes the 2^58 of E."""

    multiplier: int
    shift: int


def factor_of(rate: float) -> Factor:
    """Return the factor for a rate over 0; it is 0 for a rate of 1, where every unit has an error."""
    if rate == 1:
        return Factor(0, 0)
    mantissa, exponent = frexp(-1 / log1p(-rate))
    shift = _LOG_SCALE - exponent
    if shift < 0:
        raise ValueError(f"error rate: expected 0, or at least {ldexp(1, -_LOG_SCALE):.1g}, got {rate}")
    return Factor(int(ldexp(mantissa, 64)), shift)


def rate_of(factor: Factor) -> float:
    """Return the rate that a factor makes."""
    if factor.multiplier == 0:
        return 1.0
    return -expm1(-1 / ldexp(factor.multiplier, -6 - factor.shift))


@cache
def logarithms_of_mantissas() -> tuple[int, ...]:
    """Return ln(m) * 2^58 of 1 <= m <= 2, in 4096 equal steps; linear interpolation between them is at most 7.5e-9 too
    low."""
    rows = 1 << _LOG_BITS
    return tuple(round(ldexp(log1p(row / rows), _LOG_SCALE)) for row in range(rows + 1))


@cache
def logarithms_of_powers() -> tuple[int, ...]:
    """Return (n + 1) ln(2) * 2^58 for n from 0 to 63, in the order in which a de Bruijn sequence has their six bits."""
    rows = [0] * 64
    for n in range(64):
        rows[(_DE_BRUIJN << n) % _U64 >> 58] = (n + 1) * round(ldexp(log(2), _LOG_SCALE))
    return tuple(rows)


def _ascends(positions: Sequence[int]) -> bool:
    bounds = (-1, *positions, _NONE)
    return all(before < after for before, after in pairwise(bounds))

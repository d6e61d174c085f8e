"""The common part of the stages that are eBPF programs, and the stage that makes errors in a direction's stream of
bits.

Each stage has programs and maps of its own in the kernel, and its interface a clsact qdisc already. To detach one,
delete its filter; keep it until then.
"""

import struct
from functools import cache
from typing import Any, Self, cast

from owlt.emulator.kernel.bpf.loading import BpfObject, find_object
from owlt.emulator.kernel.kernel_requests import PROGRAM, add_program
from owlt.emulator.kernel.ports import EGRESS_FILTERS
from owlt.emulator.kernel.program_settings import (
    MOST_POSITIONS,
    ErrorProcess,
    Factor,
    factor_of,
    logarithms_of_mantissas,
    logarithms_of_powers,
    rate_of,
)
from owlt.emulator.kernel.rtnetlink import IPRoute

_UNITS = ("bit", "packet", "block")
_EFFECTS = ("flip", "drop")
_NONE = 2**64 - 1


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
            unit=cast(Any, _UNITS[unit]),
            effect=cast(Any, _EFFECTS[effect]),
            rate=rate if drawn else 0.0,
            positions=struct.unpack_from(f"={count}Q", value, self._layout.size),
            seed=seed,
            block_bytes=block_bytes,
        )


@cache
def _logarithms() -> bytes:
    tables = (*logarithms_of_mantissas(), *logarithms_of_powers())
    return struct.pack(f"={len(tables)}Q", *tables)

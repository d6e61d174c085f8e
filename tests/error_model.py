"""The error process once more, in Python's integers and on its own: what the eBPF program is held against."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat

from owlt.emulator.kernel import bpf_stages
from owlt.emulator.kernel.bpf_stages import ErrorProcess

U64 = 2**64
NEVER = U64


def exponential(x: int) -> int:
    """-ln(U) * 2^58 for the U that 64 drawn bits stand for."""
    mantissas, powers = bpf_stages.logarithms_of_mantissas(), sorted(bpf_stages.logarithms_of_powers())
    power = (x & -x).bit_length() - 1
    mantissa = x & (x - 1)
    row, fraction = mantissa >> 52, (mantissa >> 20) % 2**32
    rise = (mantissas[row + 1] - mantissas[row]) >> 14
    return powers[power] - mantissas[row] - (rise * fraction >> 18)


def gap(x: int, rate: float) -> int:
    """The units between two errors at a rate, for 64 drawn bits."""
    factor = bpf_stages.factor_of(rate)
    return exponential(x) * factor.multiplier >> 64 >> factor.shift


class ErrorModel:
    """A stream that frames pass."""

    def __init__(self, process: ErrorProcess) -> None:
        self.process = process
        self._state = process.seed
        self._passed = 0
        self._positions = self._all_positions()
        self._next = next(self._positions)

    def draw(self) -> int:
        """64 bits, by splitmix64."""
        self._state = x = (self._state + 0x9E3779B97F4A7C15) % U64
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % U64
        x = (x ^ x >> 27) * 0x94D049BB133111EB % U64
        return x ^ x >> 31

    def errors_of(self, frame_bytes: int) -> list[int]:
        """The bits that are hit in the next frame; of a packet that is hit, the bit that was drawn; of a block, 0."""
        if self.process.unit == "block":
            return [0] * self._is_in_hit_block(frame_bytes)
        bits = frame_bytes * 8
        units = bits if self.process.unit == "bit" else 1
        start, self._passed = self._passed, self._passed + units
        found = []
        while self._next < self._passed:
            found.append(self._next - start)
            self._next = next(self._positions)
        return found if self.process.unit == "bit" else [(self.draw() >> 20) * bits >> 44 for _ in found]

    def _is_in_hit_block(self, frame_bytes: int) -> bool:
        """Whether a block of which the next frame has a byte is hit."""
        first = self._passed // self.process.block_bytes
        self._passed += frame_bytes
        last = (self._passed - 1) // self.process.block_bytes
        while self._next < first:
            self._next = next(self._positions)
        return self._next <= last

    def _all_positions(self) -> Iterator[int]:
        if not self.process.rate:
            yield from chain(self.process.positions, repeat(NEVER))
        position = -1
        while True:
            position += 1 + gap(self.draw(), self.process.rate)
            yield position

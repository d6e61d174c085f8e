"""The packet blocks of a pcapng file, many at once, and the first one that is damaged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import LONGEST_FRAME_BYTES
from owlt.captures.files.pcapng_interfaces import Interface


@dataclass(frozen=True, eq=False)
class PacketBlocks:
    """The packet blocks of a buffer, one element a block: the words of their headers, and `room`, the bytes that a
    block has for frame and options. `interface` is its number in the file."""

    file_offset: NDArray[np.int64]
    kind: NDArray[np.uint32]
    length: NDArray[np.int64]
    length_again: NDArray[np.uint32]
    interface: NDArray[np.int64]
    ticks: NDArray[np.uint64]
    starts: NDArray[np.int64]
    captured_bytes: NDArray[np.int64]
    wire_bytes: NDArray[np.int64]
    room: NDArray[np.int64]
    missed: NDArray[np.int64]
    is_big: NDArray[np.bool_]

    def sound(self, interfaces: list[Interface]) -> int:
        """How many blocks there are before the first damaged one."""
        fits = (self.captured_bytes <= np.minimum(self.room, LONGEST_FRAME_BYTES)) & (self.length_again == self.length)
        fits &= self.length % 4 == 0
        is_sound = fits & self._has_interface(interfaces)
        return len(is_sound) if is_sound.all() else int(is_sound.argmin())

    def _has_interface(self, interfaces: list[Interface]) -> NDArray[np.bool_]:
        known_at = np.array([interface.known_at for interface in interfaces] or [2**63 - 1])
        described: NDArray[np.bool_] = known_at[np.minimum(self.interface, len(known_at) - 1)] <= self.file_offset
        return described & (self.interface < len(interfaces))

    def damage(self, row: int, interfaces: list[Interface]) -> str:
        """What is wrong with a damaged block."""
        place = self.file_offset[row]
        if self.length_again[row] != self.length[row]:
            return unequal_lengths(place, self.length[row], self.length_again[row])
        if not self._has_interface(interfaces)[row]:
            return f"the packet at byte {place} is from an interface that the file does not describe: it cannot be read"
        claimed = self.captured_bytes[row]
        return f"the packet at byte {place} claims {claimed} bytes: the file is damaged from there on"


def unequal_lengths(place: int, length: int, again: int) -> str:
    """The damage of a block whose two lengths differ."""
    return (
        f"the block at byte {place} claims {length} bytes at its start and {again} at its end: "
        f"the file is damaged from there on"
    )

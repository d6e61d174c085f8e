"""What passes at a port, with the kernel's nanoseconds, from a ring that the kernel shares with us (packet(7)).

On its way in a frame is seen before the port's filters, on its way out after its queueing discipline. A ring has a
slot for each frame (TPACKET_V2), so that all that has come is taken in one step, as an array. Layout:
include/uapi/linux/if_packet.h.
"""

from __future__ import annotations

import mmap
import socket
import struct
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from owlt.emulator.faults import EmulatorError

SLOTS = 1024
"""Frames that can wait to be taken."""
_BLOCK_BYTES = 1 << 16
_HEADER_BYTES = 128
"""More than the slot's header, the sender's address and the gap before the frame (66 bytes) take."""

_SOL_PACKET, _RX_RING, _STATISTICS, _VERSION, _IGNORE_OUTGOING = 263, 5, 6, 10, 23
_TPACKET_V2 = 1
_ETH_P_ALL = 3
_OUTGOING = 4  # PACKET_OUTGOING
_READY = 1  # TP_STATUS_USER; 0 gives the slot back
_STATUS, _FRAME_BYTES, _CAPTURED, _SECONDS, _NANOSECONDS = 0, 1, 2, 4, 5  # in words of 32 bits
_FRAME_AT, _PACKET_TYPE_AT = 12, 42  # in bytes


class MeasurementFailed(EmulatorError):
    """The probes were not captured completely, so nothing is known of the channel."""


@dataclass(frozen=True)
class Frames:
    """Frames in the order in which they passed. The rows of `content` are as long as the longest may be."""

    times_ns: NDArray[np.int64]
    lengths_bytes: NDArray[np.int64]
    content: NDArray[np.uint8]


class Tap:
    """What goes in, or what goes out, at one interface, from now on."""

    def __init__(self, index: int, *, outgoing: bool, keep_bytes: int) -> None:
        """Keep the first bytes of every frame; `index` is the interface's."""
        self._outgoing = outgoing
        self._keep_bytes = keep_bytes
        slot_bytes = 1 << (_HEADER_BYTES + keep_bytes - 1).bit_length()
        blocks = -(-SLOTS * slot_bytes // _BLOCK_BYTES)
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            self.socket.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V2)
            self.socket.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, int(not outgoing))
            ring = struct.pack("=4I", _BLOCK_BYTES, blocks, slot_bytes, SLOTS)
            self.socket.setsockopt(_SOL_PACKET, _RX_RING, ring)
            memory = mmap.mmap(self.socket.fileno(), blocks * _BLOCK_BYTES)
            self._slots = np.frombuffer(memory, np.uint8)[: SLOTS * slot_bytes].reshape(SLOTS, slot_bytes)
            self._words = self._slots.view(np.uint32)
            self._next = 0
            self.socket.bind((socket.if_indextoname(index), _ETH_P_ALL))
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop. The ring goes with the last array that shows some of it."""
        self.socket.close()

    def take(self) -> list[Frames]:
        """Return all that has passed since the last call, in order. What goes the other way is left out."""
        taken: list[Frames] = []
        while True:
            waiting = self._words[self._next :, _STATUS] & _READY
            count = len(waiting) if waiting.all() else int(waiting.argmin())
            if not count:
                return taken
            taken.append(self._copied(slice(self._next, self._next + count)))
            self._words[self._next : self._next + count, _STATUS] = 0
            self._next = (self._next + count) % SLOTS

    def check(self) -> None:
        """Raise MeasurementFailed if a frame found the ring full since the last call."""
        seen, missed = struct.unpack("=2I", self.socket.getsockopt(_SOL_PACKET, _STATISTICS, 8))
        if missed:
            raise MeasurementFailed(
                f"capture: expected all {seen} frames, got {seen - missed}: the machine was too busy to read them in "
                "time, or other programs send over the ports: try again without these"
            )

    def _copied(self, run: slice) -> Frames:
        slots, words = self._slots[run], self._words[run]
        if self._outgoing:
            ours = slots[:, _PACKET_TYPE_AT] == _OUTGOING
            if not ours.all():
                slots, words = slots[ours], words[ours]
        begins = slots[:, _FRAME_AT : _FRAME_AT + 2].copy().view(np.uint16)[:, 0]
        begin = int(begins[0]) if len(begins) else 0
        if (begins != begin).any():
            raise MeasurementFailed("capture: expected Ethernet ports, got frames with and without an Ethernet header")
        return Frames(
            words[:, _SECONDS].astype(np.int64) * 10**9 + words[:, _NANOSECONDS],
            words[:, _FRAME_BYTES].astype(np.int64),
            slots[:, begin : begin + self._keep_bytes].copy(),
        )


def concatenated(arrays: list[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    """Return the arrays as one; an empty one if there are none."""
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)

"""Numbered frames sent through the emulator's own ports, and the fate of each: when, how often, which bits.

A probe carries its number several times over and then bytes that are the same in every probe, so that a damaged copy is
still recognised, and comparing it with what was sent shows every flipped bit. A `Tap` captures what passes at a port,
with the kernel's nanoseconds, from a ring that the kernel shares with us (packet(7), TPACKET_V2; layout:
include/uapi/linux/if_packet.h). Incoming frames are captured before the port's filters, outgoing ones after its
queueing discipline.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import select
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from owlt.emulator.certification.injection import LONGEST_FRAME_BYTES, injecting
from owlt.emulator.faults import EmulatorError
from owlt.emulator.kernel.rtnetlink import IPRoute

SLOTS = 1024
"""The number of frames that the ring holds."""
_BLOCK_BYTES = 1 << 16
_HEADER_BYTES = 128
"""More than the slot's header, the sender's address and the gap before the frame need (66 bytes)."""

_SOL_PACKET, _RX_RING, _STATISTICS, _VERSION, _IGNORE_OUTGOING = 263, 5, 6, 10, 23
_TPACKET_V2 = 1
_ETH_P_ALL = 3
_OUTGOING = 4  # PACKET_OUTGOING
_READY = 1  # TP_STATUS_USER; 0 gives the slot back
_STATUS, _FRAME_BYTES, _SECONDS, _NANOSECONDS = 0, 1, 4, 5  # in words of 32 bits
_FRAME_AT, _PACKET_TYPE_AT = 12, 42  # in bytes


class MeasurementFailed(EmulatorError):
    """The probes were not captured completely, so nothing is known of the channel."""


@dataclass(frozen=True)
class Frames:
    """Frames in the order in which they passed. The rows of `content` have the length of the longest possible frame."""

    times_ns: NDArray[np.int64]
    lengths_bytes: NDArray[np.int64]
    content: NDArray[np.uint8]


class Tap:
    """Captures incoming or outgoing frames at one interface, from now on."""

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
        """Stop. The ring is freed with the last array that refers to it."""
        self.socket.close()

    def take(self) -> list[Frames]:
        """Return all frames since the last call, in order, without those of the other direction."""
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


DESTINATION = bytes.fromhex("02004f574c01")
"""A locally administered address of no host: a bridge floods it."""
SOURCE = bytes.fromhex("02004f574c02")
ETHERTYPE = bytes.fromhex("88b5")
"""IEEE 802 local experimental ethertype 1."""

HEADER = DESTINATION + SOURCE + ETHERTYPE
"""The first bytes of a probe, unless it has to be a packet of a protocol."""

AT_ONCE = SLOTS // 4
"""The most probes sent before the captured frames are read: as many may arrive meanwhile, and as many again."""
SHORTEST_FRAME_BYTES = 64

_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30
_COPIES = 7
_NUMBER_BYTES = 4
_NUMBERS_BYTES = _COPIES * _NUMBER_BYTES
_ALIKE = 1 / 8
"""A frame with a smaller share of different bits than this is a probe; in other frames about half of the bits
differ."""


@dataclass(frozen=True)
class ProbeResult:
    """The probes that were sent, by number from 0, and the copies that were delivered, in the order of their arrival.
    `flipped_bits` has the number of each copy; `flip_copy` and `flip_position` list each: in which copy, and which bit
    of the frame, from its first, the most significant bit of a byte first.
    """

    lengths_bytes: NDArray[np.int64]
    sent_ns: NDArray[np.int64]
    copy_number: NDArray[np.int64]
    copy_length_bytes: NDArray[np.int64]
    delivered_ns: NDArray[np.int64]
    flipped_bits: NDArray[np.int64]
    flip_copy: NDArray[np.int64]
    flip_position: NDArray[np.int64]


@dataclass(frozen=True)
class Probes:
    """The probes to send: the length of each, and its time in ns from the first, ascending."""

    lengths_bytes: NDArray[np.int64]
    due_ns: NDArray[np.int64]
    settle_ns: int
    """How long to wait for the last."""
    look_ns: int
    """The interval between reads while they arrive: at most a quarter of the ring may fill in this time."""
    keeps_gaps: bool
    """Whether probes after a late one are equally late; otherwise they make up for it."""
    header: bytes = HEADER
    """The first bytes of each frame, before its number."""


@contextmanager
def prober(netlink: IPRoute, entrance: int, exit: int, longest_bytes: int) -> Iterator[Prober]:
    """Yield a prober that injects probes at the interface `entrance` and captures them at `exit` (both by index)."""
    with ExitStack() as stack:
        stack.enter_context(_precise_sleep())
        out = stack.enter_context(injecting(netlink, entrance))
        into = stack.enter_context(Tap(entrance, outgoing=False, keep_bytes=SHORTEST_FRAME_BYTES))
        outof = stack.enter_context(Tap(exit, outgoing=True, keep_bytes=longest_bytes))
        yield Prober(out, into, outof)


class Prober:
    """One way through the emulator."""

    def __init__(self, out: socket.socket, entrance: Tap, exit: Tap) -> None:
        self._out, self._entrance, self._exit = out, entrance, exit
        self._first_number = 0
        self._came_in: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        self._went_out: list[_Copies] = []
        self._lengths: NDArray[np.int64]
        self._header = HEADER

    def send(self, probes: Probes) -> ProbeResult:
        """Send the probes, wait, and return the result; MeasurementFailed if the capture is incomplete."""
        self._came_in, self._went_out, self._lengths = [], [], probes.lengths_bytes
        self._header = probes.header
        self._send_all(probes)
        self._wait_until(time.monotonic_ns() + probes.settle_ns, probes.look_ns)
        self._take()
        self._entrance.check()
        self._exit.check()
        result = self._result()
        self._first_number += len(probes.lengths_bytes)
        return result

    def _send_all(self, probes: Probes) -> None:
        late_ns, start_ns, due_ns = 0, time.monotonic_ns(), probes.due_ns.tolist()
        for first in range(0, len(due_ns), AT_ONCE):
            part = slice(first, first + AT_ONCE)
            frames = _Outgoing(self._header, self._first_number + first, probes.lengths_bytes[part])
            sent = 0
            for moment_ns, together in groupby(due_ns[part]):
                self._wait_until(start_ns + late_ns + moment_ns, probes.look_ns)
                if probes.keeps_gaps:
                    late_ns = max(time.monotonic_ns() - start_ns - moment_ns, late_ns)
                count = len(list(together))
                frames.send(self._out, sent, count)
                sent += count
            self._take()

    def _wait_until(self, moment_ns: int, look_ns: int) -> None:
        while (left_ns := moment_ns - time.monotonic_ns()) > 0:
            if left_ns > look_ns and select.select([self._exit.socket], [], [], (left_ns - look_ns) / 1e9)[0]:
                time.sleep(look_ns / 1e9)
                self._take()
            elif left_ns <= look_ns:
                time.sleep(left_ns / 1e9)

    def _take(self) -> None:
        self._came_in += [_numbered(frames, self._header) for frames in self._entrance.take()]
        self._went_out += [
            _compared(frames, self._header, self._first_number, self._lengths) for frames in self._exit.take()
        ]

    def _result(self) -> ProbeResult:
        count = len(self._lengths)
        sent_ns = np.full(count, -1)
        for absolute, times_ns in self._came_in:
            numbers = absolute - self._first_number
            known = (numbers >= 0) & (numbers < count)
            sent_ns[numbers[known]] = times_ns[known]
        if missing := int((sent_ns < 0).sum()):
            raise MeasurementFailed(
                f"probes: expected all {count} at the port where they enter, got {count - missing}: "
                "is the port up, and free of other programs' ingress filters?"
            )
        copies, base, flips = self._went_out, 0, []
        for copy in copies:
            flips.append(copy.flip_copy + base)
            base += len(copy.number)
        return ProbeResult(
            self._lengths,
            sent_ns,
            concatenated([copy.number for copy in copies], np.int64),
            concatenated([copy.length_bytes for copy in copies], np.int64),
            concatenated([copy.delivered_ns for copy in copies], np.int64),
            concatenated([copy.flipped_bits for copy in copies], np.int64),
            concatenated(flips, np.int64),
            concatenated([copy.flip_position for copy in copies], np.int64),
        )


_IOVEC = np.dtype([("base", np.uintp), ("length", np.uintp)])
_MMSGHDR = np.dtype(
    [
        *(("name", np.uintp), ("name_length", np.uint32)),
        *(("vectors", np.uintp), ("vector_count", np.uintp)),
        *(("control", np.uintp), ("control_length", np.uintp), ("flags", np.uintp)),
        ("sent_bytes", np.uintp),
    ],
    align=True,
)
"""struct mmsghdr of sendmmsg(2) where pointers have 8 bytes; the last two have 4, and 4 that fill up."""


@dataclass(frozen=True)
class _Copies:
    """Some of the copies of `ProbeResult`; `flip_copy` counts from the first of these."""

    number: NDArray[np.int64]
    length_bytes: NDArray[np.int64]
    delivered_ns: NDArray[np.int64]
    flipped_bits: NDArray[np.int64]
    flip_copy: NDArray[np.int64]
    flip_position: NDArray[np.int64]


@contextmanager
def _precise_sleep() -> Iterator[None]:
    """Make sleeps of this thread precise: by default the kernel delays a wake-up by up to 50 us."""
    prctl = _libc().prctl
    before_ns = prctl(_PR_GET_TIMERSLACK)
    prctl(_PR_SET_TIMERSLACK, 1)
    try:
        yield
    finally:
        prctl(_PR_SET_TIMERSLACK, before_ns)


@cache
def _pattern(header: bytes) -> NDArray[np.uint8]:
    """A probe of the greatest length without its number: the header, space for the numbers, and pseudorandom bytes."""
    noise = np.random.default_rng(0x4F574C54).integers(0, 256, LONGEST_FRAME_BYTES, np.uint8)
    noise[: len(header)] = np.frombuffer(header, np.uint8)
    noise[_numbers_in(header)] = 0
    return noise


def _numbers_in(header: bytes) -> slice:
    """The position of the numbers in a probe with a header."""
    return slice(len(header), len(header) + _NUMBERS_BYTES)


def _marks(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Return each number, big-endian, repeated as in a probe."""
    return np.tile(numbers.astype(">u4")[:, None], _COPIES).view(np.uint8)


class _Outgoing:
    """Probes of these numbers and lengths, laid out for sendmmsg(2): one system call per probe would take most of the
    time."""

    def __init__(self, header: bytes, first_number: int, lengths_bytes: NDArray[np.int64]) -> None:
        count = len(lengths_bytes)
        self._content = np.tile(_pattern(header)[: int(lengths_bytes.max())], (count, 1))
        self._content[:, _numbers_in(header)] = _marks(first_number + np.arange(count))
        self._vectors = np.zeros(count, _IOVEC)
        self._vectors["base"] = self._content.ctypes.data + np.arange(count) * self._content.shape[1]
        self._vectors["length"] = lengths_bytes
        self._messages = np.zeros(count, _MMSGHDR)
        self._messages["vectors"] = self._vectors.ctypes.data + np.arange(count) * _IOVEC.itemsize
        self._messages["vector_count"] = 1

    def send(self, out: socket.socket, first: int, count: int) -> None:
        """Send a number of probes from a position on. Raises OSError."""
        sendmmsg, last = _libc().sendmmsg, first + count
        while first < last:
            address = self._messages.ctypes.data + first * _MMSGHDR.itemsize
            sent = sendmmsg(out.fileno(), ctypes.c_void_p(address), last - first, 0)
            if sent < 0 and ctypes.get_errno() != errno.EINTR:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            first += max(sent, 0)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _numbers(content: NDArray[np.uint8], header: bytes) -> NDArray[np.int64]:
    """Return the number of each probe: every bit by majority of its copies."""
    bits = np.unpackbits(content[:, _numbers_in(header)], axis=1).reshape(-1, _COPIES, 8 * _NUMBER_BYTES)
    most = np.packbits(bits.sum(axis=1, dtype=np.uint8) > _COPIES // 2, axis=1)
    return most.view(">u4")[:, 0].astype(np.int64)


def _numbered(frames: Frames, header: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers and the times of the probes among undamaged frames."""
    ours = (frames.content[:, : len(header)] == np.frombuffer(header, np.uint8)).all(axis=1)
    return _numbers(frames.content[ours], header), frames.times_ns[ours]


def _compared(frames: Frames, header: bytes, first_number: int, lengths_bytes: NDArray[np.int64]) -> _Copies:
    """Return the probe of each frame, and how the frame differs from it. Other frames are omitted."""
    numbers = _numbers(frames.content, header) - first_number
    known = np.flatnonzero((numbers >= 0) & (numbers < len(lengths_bytes)))
    flipped = np.zeros(len(numbers), np.int64)
    where: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for length in np.unique(frames.lengths_bytes[known]).tolist():
        rows = known[frames.lengths_bytes[known] == length]
        difference = frames.content[rows, :length] ^ _pattern(header)[:length]
        difference[:, _numbers_in(header)] ^= _marks(first_number + numbers[rows])
        hit = np.flatnonzero(difference.any(axis=1))
        counts = np.bitwise_count(difference[hit]).sum(axis=1, dtype=np.int64)
        flipped[rows[hit]] = counts
        hit = hit[counts < _ALIKE * 8 * length]
        row, position = np.nonzero(np.unpackbits(difference[hit], axis=1))
        where.append((rows[hit][row], position))
    ours = known[flipped[known] < _ALIKE * 8 * frames.lengths_bytes[known]]
    place = np.full(len(numbers), -1)
    place[ours] = np.arange(len(ours))
    copy = place[concatenated([rows for rows, _ in where], np.int64)]
    return _Copies(
        numbers[ours],
        frames.lengths_bytes[ours],
        frames.times_ns[ours],
        flipped[ours],
        copy,
        concatenated([position for _, position in where], np.int64),
    )

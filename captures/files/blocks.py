"""The common part of the readers of both capture formats: blocks of frames, limits, and refused files.

The formats belong to pcap.py and pcapng.py, the contents of a frame to captures.frames.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

LONGEST_FRAME_BYTES = 262_144
"""libpcap and Wireshark refuse a longer frame on Ethernet: its length must be damaged."""

BLOCK_BYTES = 3 << 20
"""Fits the processor's last cache together with the results computed from it, and the overhead of numpy's calls is
small (measured: 1 MB and 6 MB are slower)."""
STEPS = 128
"""The number of records that are walked one by one before the first search for a run of equal ones, and after each
search that finds at least as many; after any other search it is doubled."""
_ALIKE = 16
"""The number of records of equal length that such a search requires."""
MARGIN_BYTES = 64 << 10
"""Bytes after a block that may be read and are never used, so that reads of fixed width need no special case."""

ETHERNET, RAW_IP, LINUX_COOKED, RAW_IPV4, RAW_IPV6, LINUX_COOKED_2 = 1, 101, 113, 228, 229, 276
LINK_TYPES = (ETHERNET, RAW_IP, LINUX_COOKED, RAW_IPV4, RAW_IPV6, LINUX_COOKED_2)
"""The link types that are read, by their numbers at tcpdump.org/linktypes.html."""
ETHERNET_BYTES = 14
"""The length of an Ethernet header without tags."""

Starts = NDArray[np.int64]
ReadLength = Callable[[memoryview, int], tuple[int]]
"""The length in the header of the record at this place; struct.error if there is none."""


class NotACapture(ValueError):
    """The file cannot be read as a capture of frames with IP; the text says why and what to do."""


class CutShort(NotACapture):
    """The file ends within its header."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some consecutive frames of a capture file, one element of each array a frame.

    `starts` are the indices in `data` of the frames' first bytes, and `data[0]` is the byte at `file_offset`; `data` is
    overwritten when the next block is asked for. `link_types` are the numbers of `LINK_TYPES`. `untimed_frames` are
    those without a time in the file, whose `time_ns` is 0. `other_records` is how many other records the file has so
    far besides packets and their description; tshark may number them as frames. `comments` are those at and between
    these frames. `dropped` is how many packets the capture missed, according to the file so far. `damage`, on the last
    block only, states what is wrong with the file.
    """

    data: NDArray[np.uint8]
    file_offset: int
    starts: Starts
    captured_bytes: NDArray[np.int64]
    wire_bytes: NDArray[np.int64]
    time_ns: NDArray[np.int64]
    link_types: NDArray[np.int64]
    untimed_frames: int = 0
    other_records: int = 0
    comments: tuple[str, ...] = ()
    dropped: int | None = None
    damage: str = ""


def refuse_link_type(path: Path, link_type: int) -> None:
    """Raise NotACapture unless frames of the link type can be read."""
    if link_type not in LINK_TYPES:
        raise NotACapture(
            f"{path}: link type {link_type}, expected 1 (Ethernet), 101, 228 or 229 (raw IP), 113 or 276 (Linux "
            f"cooked); capture on an Ethernet port"
        )


def gather(data: NDArray[np.uint8], starts: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """A matrix with the `width` bytes from each start on as rows; `starts + width` must be inside `data`."""
    everywhere: NDArray[np.void] = np.ndarray((len(data) - width + 1,), f"V{width}", data, 0, (1,))
    return everywhere[starts].view(np.uint8).reshape(len(starts), width)


def follow(view: memoryview, start: int, read_length: ReadLength, header_bytes: int, most: int) -> list[int]:
    """`start` and the ends of up to `most` records from there on, each as long as it says, and `header_bytes` more.
    All but the last are in `view`."""
    ends = [start]
    with suppress(struct.error):
        for _ in range(most):
            start += read_length(view, start)[0] + header_bytes
            ends.append(start)
    return ends


def follow_alike(data: NDArray[np.uint8], ends: list[int], filled: int, field_at: int) -> tuple[Starts, int]:
    """Where the records behind the last of `ends` begin that are like the one that ends there, and where they end:
    as long, and with the same 8 bytes `field_at` bytes behind their start; these must include the length. All are
    before `filled`.

    They are only looked for where the last ones of `ends` are equally far apart.
    """
    end = ends[-1]
    step = end - ends[-2] if len(ends) > _ALIKE else 0
    most = (filled - end) // step if step else 0
    if not most or end - ends[-1 - _ALIKE] != _ALIKE * step:
        return np.zeros(0, np.int64), end
    fields = gather(data, end + field_at + step * np.arange(-1, most), 8).view(np.uint64)[:, 0]
    alike = fields[1:] == fields[0]
    count = most if alike.all() else int(alike.argmin())
    return end + step * np.arange(count), end + step * count


def next_steps(steps: int, alike: int) -> int:
    """How many records to walk before the next look, after one behind `steps` that found so many alike."""
    return STEPS if alike >= STEPS else 2 * steps

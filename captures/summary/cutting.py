"""Cutting captures to the headers of their data packets once what is to be known of these is kept: a tenth of the room.

Only the packets of the sender are cut, and not its first few: what the receiver answers, and how a session is opened,
stays complete, so that messages are the same before and after. Which frames those are belongs to the caller.
"""

from __future__ import annotations

import struct
from io import BufferedReader
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.pcap import LONGEST_FRAME_BYTES, read_header
from owlt.captures.files.plain_files import create, open_capture
from owlt.captures.files.tcpdump_command import WHOLE_FRAMES
from owlt.captures.frames.columns import Columns, by_time

HEADER_BYTES = 96
"""Ethernet, IPv4 and TCP with all options; or 54 bytes of what UDP carries."""

_MAGIC_NS = 0xA1B23C4D


def is_cut(path: Path) -> bool:
    """Whether the capture at `path` was cut: its header then says how long its longest frame is, and tcpdump's say
    `WHOLE_FRAMES`. Raises NotACapture, OSError."""
    return read_header(path).snaplen_bytes < WHOLE_FRAMES


def write_cut(capture: Columns, rows: NDArray[np.int64], target: Path, frame_bytes: int = HEADER_BYTES) -> None:
    """Write the capture to `target`, of the frames in `rows` the first `frame_bytes` only: a pcap with ns.

    Times to the nanosecond and original lengths stay. Raises OSError; ValueError for a capture of several link types.
    """
    lengths = capture.captured_bytes.astype(np.int64)
    lengths[rows] = np.minimum(lengths[rows], frame_bytes)
    write_frames(capture, np.arange(len(capture)), lengths, target, longest_bytes=int(lengths.max(initial=frame_bytes)))


def write_by_time(capture: Columns, target: Path) -> None:
    """Write the frames of a capture to `target` in the order of their times, as a pcap with ns. Raises as
    `write_cut`."""
    write_frames(capture, by_time(capture, np.arange(len(capture))), capture.captured_bytes.astype(np.int64), target)


def write_frames(
    capture: Columns,
    rows: NDArray[np.int64],
    lengths: NDArray[np.int64],
    target: Path,
    longest_bytes: int = LONGEST_FRAME_BYTES,
) -> None:
    """Write the frames of these rows to `target`, a pcap with ns, and nothing else from the file. `lengths` are the
    numbers of bytes to keep of all frames of the capture. Frames without a time get the time 0. Raises as `write_cut`.
    """
    if not capture.link_type and len(capture):
        raise ValueError(f"{capture.path}: has frames of several link types, expected one link type")
    seconds, fraction_ns = np.divmod(capture.time_ns, 1_000_000_000)
    heads = np.column_stack([seconds, fraction_ns, lengths, capture.wire_bytes]).astype("<u4")[rows]
    with BufferedReader(open_capture(capture.path)) as source, create(target) as file:
        file.write(struct.pack("<IHHiIII", _MAGIC_NS, 2, 4, 0, 0, longest_bytes, capture.link_type))
        for head, offset, length in zip(heads, capture.offset[rows].tolist(), lengths[rows].tolist(), strict=True):
            source.seek(offset)
            file.write(head.tobytes() + source.read(length))

"""Writing captures: in the order of time, some of their frames, or with data packets cut to their headers.

A cut capture needs a tenth of the space. It is made once the summary of a run and the fate of each packet are stored.
Only the packets of the sender are cut, except its first few: the receiver's packets, and the start of a session, stay
complete, so that messages are the same before and after.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from owlt.captures.accounting.derived_files import (
    CAPTURES,
    PAIRS,
    DerivedFile,
    StoredPairs,
    is_of,
    keep,
    load,
    load_or_match,
)
from owlt.captures.accounting.summary import CaptureSummary, load_summary, read_both
from owlt.captures.files.blocks import LONGEST_FRAME_BYTES
from owlt.captures.files.pcap import read_snaplen
from owlt.captures.files.tcpdump_command import WHOLE_FRAMES
from owlt.captures.frames.columns import Columns, by_time
from owlt.captures.frames.session import Session
from owlt.results.plain_files import create, move, open_capture
from owlt.results.record import SUMMARY

HEADER_BYTES = 96
"""Enough for Ethernet, IPv4 and TCP with all options; or for 54 bytes of UDP payload."""

_KEPT_COMPLETE = 8
"""The number of the sender's first packets that are not cut: they include a handshake."""

_MAGIC_NS = 0xA1B23C4D


def keep_only_headers(run_dir: Path, session: Session, also: Mapping[str, type[DerivedFile]]) -> None:
    """Cut the sender's packets in both captures of the run to their headers.

    `also` has the names and types of the other files derived from these captures. If this is interrupted, each capture
    is complete or cut, and the derived files are valid for both. Raises RuntimeError if no summary of these very
    captures is kept, NotACapture, OSError.
    """
    summary = load_summary(run_dir)
    if summary is None or summary.source is None or not is_of(summary.source, run_dir):
        raise RuntimeError(
            f"{run_dir}: expected a summary of these captures before they are cut, because headers alone do not show "
            f"every damaged bit: call load_or_summarise first"
        )
    at_sender, at_receiver = read_both(*(run_dir / name for name in CAPTURES))
    forward = load_or_match(run_dir, at_sender, at_receiver, session).forward
    left = np.sort(forward.near)[_KEPT_COMPLETE:]
    arrived = np.sort(np.union1d(forward.delivered, forward.far))[_KEPT_COMPLETE:]
    partial = {name: run_dir / f".{name}.partial" for name in CAPTURES}
    for name, capture, rows in zip(CAPTURES, (at_sender, at_receiver), (left, arrived), strict=True):
        write_cut(capture, rows, partial[name])
    kinds: dict[str, type[DerivedFile]] = {SUMMARY: CaptureSummary, PAIRS: StoredPairs, **also}
    for name, kind in kinds.items():
        stored = load(run_dir / name, kind)
        if stored and stored.source and is_of(stored.source, run_dir):
            keep(run_dir / name, stored.model_copy(update={"source": stored.source.with_forms(partial)}))
    for name, path in partial.items():
        move(path, run_dir / name)


def is_cut(path: Path) -> bool:
    """Whether the capture at `path` was cut: its header then has the length of its longest frame; tcpdump writes
    `WHOLE_FRAMES`. Raises NotACapture, OSError."""
    return read_snaplen(path) < WHOLE_FRAMES


def write_cut(capture: Columns, rows: NDArray[np.int64], target: Path) -> None:
    """Write the capture to `target`, of the frames in `rows` the first HEADER_BYTES only: a pcap with ns.

    Times to the nanosecond and original lengths stay. Raises OSError; ValueError for a capture of several link types.
    """
    lengths = capture.captured_bytes.astype(np.int64)
    lengths[rows] = np.minimum(lengths[rows], HEADER_BYTES)
    write_frames(
        capture, np.arange(len(capture)), lengths, target, longest_bytes=int(lengths.max(initial=HEADER_BYTES))
    )


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

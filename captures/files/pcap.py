"""Capture files of either format, pcap and pcapng: what their headers say, their blocks, frames by their offset.

Each format belongs to its module, savefile.py and pcapng.py; what a frame holds to columns.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import LONGEST_FRAME_BYTES, Block, CutShort, NotACapture
from owlt.captures.files.pcapng import MAGIC, read_pcapng_blocks, read_pcapng_snaplen
from owlt.captures.files.plain_files import open_capture
from owlt.captures.files.savefile import read_pcap_blocks, read_pcap_header

__all__ = [
    "LONGEST_FRAME_BYTES",
    "CaptureHeader",
    "CutShort",
    "NotACapture",
    "read_blocks",
    "read_frames",
    "read_header",
]

_COMPRESSED = {b"\x1f\x8b": "gunzip", b"\x28\xb5\x2f\xfd": "unzstd", b"\xfd7zXZ": "unxz", b"\x04\x22\x4d\x18": "unlz4"}


@dataclass(frozen=True)
class CaptureHeader:
    """What is known before the first frame: how many bytes of a frame the capture keeps at most."""

    snaplen_bytes: int


def read_header(path: Path) -> CaptureHeader:
    """The header of the capture at `path`; of the interfaces of a pcapng, as far as they are described before
    its packets, the smallest snapshot length. Raises NotACapture, OSError."""
    if _is_pcapng(path):
        return CaptureHeader(read_pcapng_snaplen(path))
    return CaptureHeader(read_pcap_header(path).snaplen_bytes)


def read_blocks(path: Path) -> Iterator[Block]:
    """The frames of the capture block by block, in bounded memory: at least one block, which may be empty.

    Raises NotACapture, OSError.
    """
    return read_pcapng_blocks(path) if _is_pcapng(path) else read_pcap_blocks(path)


def _is_pcapng(path: Path) -> bool:
    if path.is_fifo() or path.is_char_device() or path.is_block_device() or path.is_socket():
        raise NotACapture(
            f"{path}: expected a file, because it is read several times, got a pipe or a device: "
            f"save it first: cat {path} > FILE.pcap"
        )
    with open_capture(path) as file:
        head = file.read(5)
    for magic, command in _COMPRESSED.items():
        if head.startswith(magic):
            raise NotACapture(
                f"{path}: expected a pcap or pcapng file, got a compressed one: unpack it first: {command} -k {path}"
            )
    return head.startswith(MAGIC)


def read_frames(path: Path, offsets: NDArray[np.int64], lengths: NDArray[np.uint32]) -> list[bytes]:
    """The frames that begin at the given file offsets, `lengths` bytes of each."""
    with open_capture(path) as file:
        spans = zip(lengths.tolist(), offsets.tolist(), strict=True)
        return [os.pread(file.fileno(), length, offset) for length, offset in spans]

"""The pcap file format: its header, its records block by block in bounded memory, and frames by their offset.

What a frame holds is left to columns.py. Format: draft-ietf-opsawg-pcap, pcap-savefile(5).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

RECORD_HEADER_BYTES = 16
FILE_HEADER_BYTES = 24
LONGEST_FRAME_BYTES = 262_144
"""libpcap and Wireshark refuse a longer record on Ethernet: its length must be damaged."""

_BLOCK_BYTES = 2 << 20
"""Fits the processor's cache with what is computed from it (measured: twice as fast as 32 MB)."""
_MARGIN_BYTES = 128
"""Bytes behind a block that may be gathered, and are never used: reads of fixed width need no edge case."""

_ETHERNET = 1
_MAGIC = {  # as read in little-endian order: (byte order, ns in one unit of the fraction)
    0xA1B2C3D4: ("<", 1000),
    0xD4C3B2A1: (">", 1000),
    0xA1B23C4D: ("<", 1),
    0x4D3CB2A1: (">", 1),
}
_PCAPNG = 0x0A0D0D0A


class NotACapture(ValueError):
    """The file cannot be read as a pcap of Ethernet frames; the text says why and what to do."""


@dataclass(frozen=True)
class PcapHeader:
    """What the file's header says: byte order ("<" or ">"), resolution of the times, snapshot length.

    A snapshot length of 0, as some programs write it, stands for whole frames.
    """

    byte_order: str
    tick_ns: int
    snaplen_bytes: int


@dataclass(frozen=True)
class Block:
    """Some consecutive records: `records` are the indices in `data` where their headers begin.

    `data[0]` is the byte at `file_offset`. `data` is overwritten when the next block is asked for.
    `damage` says, on the last block only, why the file could not be read to its end.
    """

    data: NDArray[np.uint8]
    file_offset: int
    records: NDArray[np.int64]
    damage: str


def read_header(path: Path) -> PcapHeader:
    """The header of the pcap at `path`; NotACapture if it is none, or not of Ethernet."""
    with path.open("rb") as file:
        head = file.read(FILE_HEADER_BYTES)
    if len(head) < FILE_HEADER_BYTES:
        raise NotACapture(
            f"{path}: got {len(head)} bytes, wanted a pcap header of {FILE_HEADER_BYTES}; "
            f"tcpdump ended before it listened: see what it wrote to stderr"
        )
    magic = struct.unpack_from("<I", head)[0]
    if magic == _PCAPNG:
        raise NotACapture(f"{path}: got pcapng, wanted pcap; convert it: editcap -F nsecpcap IN OUT")
    if magic not in _MAGIC:
        raise NotACapture(f"{path}: begins with {head[:4].hex()}, wanted the magic number of a pcap file")
    byte_order, tick_ns = _MAGIC[magic]
    snaplen_bytes, link = struct.unpack_from(byte_order + "II", head, 16)
    if link & 0xFFFF != _ETHERNET:
        raise NotACapture(f"{path}: link type {link & 0xFFFF}, wanted 1 (Ethernet); capture on a port, not on 'any'")
    return PcapHeader(byte_order, tick_ns, snaplen_bytes or LONGEST_FRAME_BYTES)


def read_blocks(path: Path, header: PcapHeader) -> Iterator[Block]:
    """The records of the file in blocks of two megabytes: at least one block, which may be empty."""
    buffer = np.zeros(_BLOCK_BYTES + _MARGIN_BYTES, np.uint8)
    view = buffer.data
    offset, filled = FILE_HEADER_BYTES, 0
    with path.open("rb", buffering=0) as file:
        file.seek(offset)
        while True:
            filled += (got := file.readinto(view[filled:_BLOCK_BYTES]) or 0)
            records, end, implausible = _walk(view, filled, header.byte_order)
            at_end = got == 0 or implausible is not None
            damage = _damage(offset + end, filled - end, implausible) if at_end else ""
            if records or at_end:
                yield Block(buffer, offset, np.array(records, np.int64), damage)
            if at_end:
                return
            buffer[: filled - end] = buffer[end:filled].copy()
            offset, filled = offset + end, filled - end


def _walk(view: memoryview, filled: int, byte_order: str) -> tuple[list[int], int, int | None]:
    """Where the whole records begin, where the last one ends, and the length that cannot be true, if any."""
    captured_bytes = struct.Struct(byte_order + "8xI").unpack_from
    starts: list[int] = []
    position, last = 0, filled - RECORD_HEADER_BYTES
    while position <= last:
        length = captured_bytes(view, position)[0]
        if length > LONGEST_FRAME_BYTES:
            return starts, position, length
        following = position + RECORD_HEADER_BYTES + length
        if following > filled:
            break
        starts.append(position)
        position = following
    return starts, position, None


def _damage(file_offset: int, left_bytes: int, implausible: int | None) -> str:
    if implausible is not None:
        return f"the record at byte {file_offset} claims {implausible} bytes: the file is damaged from there on"
    if left_bytes:
        return f"the record at byte {file_offset} is cut short: {left_bytes} bytes of it are there"
    return ""


def read_frames(path: Path, offsets: NDArray[np.int64], lengths: NDArray[np.uint32]) -> list[bytes]:
    """The frames that begin at the given file offsets, `lengths` bytes of each."""
    with path.open("rb", buffering=0) as file:
        spans = zip(lengths.tolist(), offsets.tolist(), strict=True)
        return [os.pread(file.fileno(), length, offset) for length, offset in spans]

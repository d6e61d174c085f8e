"""Capture files of either format: their snapshot length, their blocks of frames, and frames by their offset.

The pcap format is read here (draft-ietf-opsawg-pcap, pcap-savefile(5)), block by block in bounded memory. pcapng.py
reads the other format; the contents of a frame belong to captures.frames.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import (
    BLOCK_BYTES,
    LONGEST_FRAME_BYTES,
    MARGIN_BYTES,
    STEPS,
    Block,
    CutShort,
    NotACapture,
    ReadLength,
    follow,
    follow_alike,
    gather,
    next_steps,
    refuse_link_type,
)
from owlt.captures.files.pcapng import MAGIC, read_pcapng_blocks, read_pcapng_snaplen
from owlt.results.plain_files import open_capture

FILE_HEADER_BYTES = 24
RECORD_HEADER_BYTES = 16
_LENGTH_AT = 8

_MAGIC = {  # as read in little-endian order: (byte order, ns in one unit of the fraction)
    0xA1B2C3D4: ("<", 1000),
    0xD4C3B2A1: (">", 1000),
    0xA1B23C4D: ("<", 1),
    0x4D3CB2A1: (">", 1),
}

_COMPRESSED = {b"\x1f\x8b": "gunzip", b"\x28\xb5\x2f\xfd": "unzstd", b"\xfd7zXZ": "unxz", b"\x04\x22\x4d\x18": "unlz4"}


def read_snaplen(path: Path) -> int:
    """How many bytes of a frame the capture at `path` keeps at most, by its header; of the interfaces of a pcapng that
    are described before its packets, the smallest snapshot length. Raises NotACapture, OSError."""
    return read_pcapng_snaplen(path) if _is_pcapng(path) else _read_pcap_header(path).snaplen_bytes


def read_blocks(path: Path) -> Iterator[Block]:
    """The frames of the capture block by block, in bounded memory: at least one block, which may be empty.

    Raises NotACapture, OSError.
    """
    return read_pcapng_blocks(path) if _is_pcapng(path) else _read_pcap_blocks(path)


def read_frames(path: Path, offsets: NDArray[np.int64], lengths: NDArray[np.uint32]) -> list[bytes]:
    """The frames that begin at the given file offsets, `lengths` bytes of each."""
    with open_capture(path) as file:
        spans = zip(lengths.tolist(), offsets.tolist(), strict=True)
        return [os.pread(file.fileno(), length, offset) for length, offset in spans]


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


@dataclass(frozen=True)
class _PcapHeader:
    """The values in the file's header: byte order ("<" or ">"), resolution of the times, snapshot length. A snapshot
    length of 0, as some programs write it, means complete frames.
    """

    byte_order: str
    tick_ns: int
    snaplen_bytes: int
    link_type: int


def _read_pcap_header(path: Path) -> _PcapHeader:
    """The header of the pcap at `path`; NotACapture if it is none, or of a link type that is not read."""
    with open_capture(path) as file:
        head = file.read(FILE_HEADER_BYTES)
    if len(head) < FILE_HEADER_BYTES:
        raise CutShort(
            f"{path}: not a complete pcap file: it ends at byte {len(head)}, within its header; expected at least "
            f"{FILE_HEADER_BYTES} bytes"
        )
    magic = struct.unpack_from("<I", head)[0]
    if magic not in _MAGIC:
        raise NotACapture(f"{path}: is not a pcap or pcapng file (it begins with {head[:4].hex()})")
    byte_order, tick_ns = _MAGIC[magic]
    snaplen_bytes, link = struct.unpack_from(byte_order + "II", head, 16)
    refuse_link_type(path, link & 0xFFFF)
    return _PcapHeader(byte_order, tick_ns, snaplen_bytes or LONGEST_FRAME_BYTES, link & 0xFFFF)


def _read_pcap_blocks(path: Path) -> Iterator[Block]:
    """The records of the file in blocks of at most `BLOCK_BYTES`: at least one block, which may be empty."""
    header = _read_pcap_header(path)
    buffer = np.zeros(BLOCK_BYTES + MARGIN_BYTES, np.uint8)
    offset, filled = FILE_HEADER_BYTES, 0
    with open_capture(path) as file:
        file.seek(offset)
        while True:
            filled += (got := file.readinto(buffer.data[filled:BLOCK_BYTES]) or 0)
            records, end, implausible = _walk(buffer, filled, header.byte_order)
            at_end = got == 0 or implausible is not None
            damage = _damage(offset + end, filled - end, implausible) if at_end else ""
            if len(records) or at_end:
                yield _block(buffer, offset, records, header, damage)
            if at_end:
                return
            buffer[: filled - end] = buffer[end:filled].copy()
            offset, filled = offset + end, filled - end


def _block(
    buffer: NDArray[np.uint8], offset: int, records: NDArray[np.int64], header: _PcapHeader, damage: str
) -> Block:
    words = gather(buffer, records, RECORD_HEADER_BYTES).view(header.byte_order + "u4")
    seconds, fraction, captured_bytes, wire_bytes = words.T.astype(np.int64)
    return Block(
        data=buffer,
        file_offset=offset,
        starts=records + RECORD_HEADER_BYTES,
        captured_bytes=captured_bytes,
        wire_bytes=wire_bytes,
        time_ns=seconds * 1_000_000_000 + fraction * header.tick_ns,
        link_types=np.full(len(records), header.link_type, np.int64),
        damage=damage,
    )


def _walk(data: NDArray[np.uint8], filled: int, byte_order: str) -> tuple[NDArray[np.int64], int, int | None]:
    """Where the complete records begin, where the last one ends, and the first impossible length, if any."""
    read_length: ReadLength = struct.Struct(byte_order + "8xI").unpack_from
    view = data.data[:filled]
    runs: list[NDArray[np.int64]] = []
    position, steps, is_end = 0, STEPS, False
    while not is_end:
        ends = follow(view, position, read_length, RECORD_HEADER_BYTES, steps)
        is_end = len(ends) <= steps or ends[-1] > filled
        if ends[-1] > filled:
            ends.pop()
        alike, position = follow_alike(data, ends, filled, _LENGTH_AT)
        runs += [np.array(ends[:-1], np.int64), alike]
        steps = next_steps(steps, len(alike))
    records = np.concatenate(runs)
    lengths = np.diff(records, append=position) - RECORD_HEADER_BYTES
    if lengths.max(initial=0) > LONGEST_FRAME_BYTES:
        first = int((lengths > LONGEST_FRAME_BYTES).argmax())
        return records[:first], int(records[first]), int(lengths[first])
    if filled - position >= RECORD_HEADER_BYTES and (length := read_length(view, position)[0]) > LONGEST_FRAME_BYTES:
        return records, position, length
    return records, position, None


def _damage(file_offset: int, left_bytes: int, implausible: int | None) -> str:
    if implausible is not None:
        return f"the record at byte {file_offset} claims {implausible} bytes: the file is damaged from there on"
    if left_bytes:
        return f"the record at byte {file_offset} is incomplete: {left_bytes} bytes of it are there"
    return ""

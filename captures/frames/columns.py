"""The frames of a capture as numpy columns: times, lengths, addresses, ports, TCP fields, hashes; one row a frame.

Every frame is a row. Beside the columns, a few octets of many frames are read straight from the file (`read_heads`).
decoding.py reads the headers of many frames at once, and session.py decides which frames belong to a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import BLOCK_BYTES, ETHERNET, ETHERNET_BYTES, LONGEST_FRAME_BYTES
from owlt.captures.files.pcap import read_blocks, read_frames
from owlt.captures.frames.decoding import AddressNumbers, decode
from owlt.captures.frames.packets import IPV4_TYPE, IPV6_TYPE, find_network

_SPARE = 1.02
_MOST_GROWTH = 8
"""The largest factor by which the number of rows grows at once; the first rows of a file may be shorter than the
others."""
_AT_LEAST_ROWS = 1 << 20


class GrowingColumns:
    """Arrays of equal length by name that grow while a file is read: the same rows are never in memory twice.

    They are zero until something is written to them. Pages that were never written take no memory, so unused rows cost
    nothing, nor does a column of zeros.
    """

    def __init__(self, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        self._columns: dict[str, NDArray[Any]] = {name: np.zeros(0, dtype) for name, dtype in dtypes.items()}
        self._written: set[str] = set()
        self._rows = self._room = 0

    def append(self, block: Mapping[str, NDArray[Any]], read_fraction: float) -> None:
        """Add the rows of the block; missing columns are 0.

        `read_fraction` is the part of the file read so far, from which the space for the rest is estimated.
        """
        start, end = self._rows, self._rows + len(next(iter(block.values())))
        if end > self._room:
            expected = int(end * _SPARE / read_fraction) if read_fraction < 1 else end
            self._make_room(min(expected, max(_MOST_GROWTH * end, _AT_LEAST_ROWS)))
        for name, values in block.items():
            self._columns[name][start:end] = values
        self._written.update(block)
        self._rows = end

    def _make_room(self, rows: int) -> None:
        for name, column in self._columns.items():
            larger = np.zeros(rows, column.dtype)
            if name in self._written:
                larger[: self._rows] = column[: self._rows]
            self._columns[name] = larger
        self._room = rows

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The filled part of the columns."""
        return {name: column[: self._rows] for name, column in self._columns.items()}


Rows = NDArray[np.int64]
"""Indices of frames in the columns."""


@dataclass(frozen=True, eq=False)
class Columns:
    """One row for each frame of the capture at `path`, in the file's order.

    `time_ns` is since the epoch, 0 for the `untimed_frames` that have no time in the file. `offset` is the file
    offset of a frame's first byte. `network` is 4 or 6 where an IP header can be read, else 0, and with it
    `protocol` (of IPv6: the one behind the extension headers), `identification` (of IPv4), `source` and
    `destination`: IPv4 addresses as integers, for IPv6 indices into `addresses`. Ports are 0 if there are none. `ecn`
    are the two bits of RFC 3168, `checksum` is that of UDP, TCP or SCTP, 0 where it is not within the `hashed_bytes`.

    `payload_bytes` is the payload after the header of the transport, by the lengths in the headers and within the sent
    frame; 0 in fragments, in other packets, and if these lengths are not captured or impossible. `sequence`,
    `acknowledgment`, `tcp_flags` (12 bits, reserved ones too) and `window` (as sent, not scaled) are those of TCP, 0
    where they are not captured; all but the first also where the TCP header claims less than its fixed length.

    `header_hash` is of the frame up to the end of its IP header, `body_hash` of what the IP packet carries, without
    the padding behind it and as if its `checksum` were 0, `payload_hash` of the bytes that `payload_bytes` counts, 0 if
    there are none. All three only as far as captured, and within the first `hashed_bytes` of the frame: equal payloads
    have equal hashes in any two captures where as many bytes of them are within that; of whole frames, with any header.

    `link_type` is that of all frames (a number of `captures.files.blocks.LINK_TYPES`), 0 if they have several.
    `slow_frames` were read one by one, for their headers are not Ethernet and IPv4. `comments` are the file's own,
    `other_records` are what it has besides packets, which tshark may number as frames (pcapng's custom blocks),
    `dropped` is how many packets it says the capture missed, None if it says nothing. `damage` says why the
    file could not be read to its end, and is empty when it could.
    """

    path: Path
    hashed_bytes: int
    damage: str
    time_ns: NDArray[np.int64]
    offset: NDArray[np.int64]
    captured_bytes: NDArray[np.uint32]
    wire_bytes: NDArray[np.uint32]
    kind: NDArray[np.uint8]
    network: NDArray[np.uint8]
    protocol: NDArray[np.uint8]
    source: NDArray[np.uint32]
    destination: NDArray[np.uint32]
    identification: NDArray[np.uint16]
    ecn: NDArray[np.uint8]
    source_port: NDArray[np.uint16]
    destination_port: NDArray[np.uint16]
    payload_bytes: NDArray[np.uint32]
    sequence: NDArray[np.uint32]
    acknowledgment: NDArray[np.uint32]
    tcp_flags: NDArray[np.uint16]
    window: NDArray[np.uint16]
    checksum: NDArray[np.uint32]
    header_hash: NDArray[np.uint64]
    body_hash: NDArray[np.uint64]
    payload_hash: NDArray[np.uint64]
    link_type: int = ETHERNET
    addresses: tuple[IPv6Address, ...] = ()
    slow_frames: int = 0
    untimed_frames: int = 0
    other_records: int = 0
    comments: tuple[str, ...] = ()
    dropped: int | None = None

    def __len__(self) -> int:
        return len(self.time_ns)

    @property
    def is_cut(self) -> NDArray[np.bool_]:
        """For each frame, whether less was captured than was sent."""
        return self.captured_bytes < self.wire_bytes


def by_time(capture: Columns, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows in the order of their times; those with the same time in the order of the rows."""
    return rows[np.argsort(capture.time_ns[rows], kind="stable")]


_DTYPES = {
    name: np.dtype(dtype)
    for dtype, names in {
        "i8": ("time_ns", "offset"),
        "u8": ("header_hash", "body_hash", "payload_hash"),
        "u4": (
            *("captured_bytes", "wire_bytes", "source", "destination"),
            *("payload_bytes", "sequence", "acknowledgment", "checksum"),
        ),
        "u2": ("identification", "source_port", "destination_port", "tcp_flags", "window"),
        "u1": ("kind", "network", "protocol", "ecn"),
    }.items()
    for name in names
}


def read_columns(path: Path, hashed_bytes: int = LONGEST_FRAME_BYTES) -> Columns:
    """The columns of the pcap or pcapng at `path`, in bounded memory beside the columns.

    The hashes look at the first `hashed_bytes` of each frame: with the smaller of two captures' snapshot
    lengths, their hashes can be compared. Raises NotACapture, OSError.
    """
    rows = GrowingColumns(_DTYPES)
    addresses = AddressNumbers()
    comments: list[str] = []
    link_types: set[int] = set()
    slow_frames = untimed_frames = 0
    file_bytes = path.stat().st_size
    for block in read_blocks(path):
        decoded, slow = decode(block, hashed_bytes, addresses)
        rows.append(decoded, (block.file_offset + BLOCK_BYTES) / max(file_bytes, 1))
        slow_frames += slow
        untimed_frames += block.untimed_frames
        comments += block.comments
        link_types.update(np.flatnonzero(np.bincount(block.link_types)).tolist())
    damage = "; ".join(text for text in (block.damage, addresses.damage) if text)
    return Columns(
        path,
        hashed_bytes,
        damage,
        **rows.arrays(),
        link_type=link_types.pop() if len(link_types) == 1 else 0,
        addresses=addresses.known,
        slow_frames=slow_frames,
        untimed_frames=untimed_frames,
        other_records=block.other_records,
        comments=tuple(comments),
        dropped=block.dropped,
    )


_LONGEST_LINK_HEADER_BYTES = 160
"""A length with more tags than are read."""


def read_heads(
    capture: Columns, rows: NDArray[np.int64], width: int, first: NDArray[np.int64] | int = 0
) -> NDArray[np.uint8]:
    """`width` bytes of each of the rows' frames from its `first` byte on, as a matrix; zero where nothing was captured.

    Within the capture's `hashed_bytes`. Raises OSError.
    """
    if not len(rows):
        return np.zeros((0, width), np.uint8)
    data = np.memmap(capture.path, np.uint8, "r")
    there = np.minimum(capture.captured_bytes[rows], capture.hashed_bytes).astype(np.int64)[:, None]
    columns = np.broadcast_to(first, len(rows))[:, None] + np.arange(width)
    places = np.clip(capture.offset[rows][:, None] + columns, 0, len(data) - 1)
    heads: NDArray[np.uint8] = np.where((columns >= 0) & (columns < there), data[places], 0).astype(np.uint8)
    return heads


def ip_starts(capture: Columns, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where in each of the rows' frames the IP header begins; the frames must have one. Raises OSError."""
    starts = np.full(len(rows), ETHERNET_BYTES, np.int64)
    types = read_heads(capture, rows, 2, ETHERNET_BYTES - 2).astype(np.int64) @ np.array([256, 1])
    others = np.flatnonzero(~np.isin(types, (IPV4_TYPE, IPV6_TYPE)) | (capture.link_type != ETHERNET))
    for index, head in zip(others.tolist(), read_heads(capture, rows[others], _LONGEST_LINK_HEADER_BYTES), strict=True):
        starts[index] = find_network(head.tobytes(), capture.link_type or ETHERNET)[1]
    return starts


def first_difference(one: Path, other: Path) -> str:
    """Where two captures first differ, as a phrase; "" if they have the same frames.

    Captures that keep only headers are compared as far as both go. Raises NotACapture, OSError.
    """
    a, b = read_columns(one), read_columns(other)
    frames = min(len(a.time_ns), len(b.time_ns))
    differing = [place for place in (_first_of_columns(a, b, frames), _first_of_octets(a, b, frames)) if place]
    if differing:
        number, what = min(differing)
        return f"frame {number + 1}: {what}"
    if len(a.time_ns) != len(b.time_ns):
        return f"{len(a.time_ns)} frames and {len(b.time_ns)}"
    return ""


def _first_of_columns(a: Columns, b: Columns, frames: int) -> tuple[int, str] | None:
    """The first frame with another length or time, and the difference."""
    for values, others, what, unit in (
        (a.wire_bytes, b.wire_bytes, "lengths", "bytes"),
        (a.time_ns, b.time_ns, "times", "ns"),
    ):
        places = np.flatnonzero(values[:frames] != others[:frames])
        if places.size:
            number = int(places[0])
            return number, f"{what} {values[number]} and {others[number]} {unit}"
    return None


def _first_of_octets(a: Columns, b: Columns, frames: int) -> tuple[int, str] | None:
    """The first frame with other octets, as far as both captures have them."""
    lengths = np.minimum(a.captured_bytes[:frames], b.captured_bytes[:frames])
    pairs = zip(
        read_frames(a.path, a.offset[:frames], lengths), read_frames(b.path, b.offset[:frames], lengths), strict=True
    )
    number = next((number for number, (octets, others) in enumerate(pairs) if octets != others), None)
    return None if number is None else (number, "other octets")

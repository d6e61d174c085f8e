"""The frames of a capture as numpy columns: times, lengths, addresses, ports, TCP fields, hashes; one row a frame.

Every frame is a row. decoding.py reads the headers of many frames at once; pcap.py reads the file; which frames belong
to a run is decided in session.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import BLOCK_BYTES, ETHERNET, LONGEST_FRAME_BYTES
from owlt.captures.files.growing import GrowingColumns
from owlt.captures.files.pcap import read_blocks
from owlt.captures.frames.address_numbers import AddressNumbers
from owlt.captures.frames.decoding import decode


@dataclass(frozen=True, eq=False)
class Columns:
    """One row for each frame of the capture at `path`, in the file's order.

    `time_ns` is since the epoch, 0 for the `untimed_frames` that have no time in the file. `offset` is the file
    offset of a frame's first byte. `network` is 4 or 6 where an IP header can be read, else 0, and with it
    `protocol` (of IPv6: the one behind the extension headers), `identification` (of IPv4), `source` and
    `destination`: IPv4 addresses as integers, for IPv6 indices into `addresses`. Ports are 0 if there are none. `ecn`
    are the two bits of RFC 3168, `checksum` is that of UDP or TCP, 0 where it is not within the `hashed_bytes`.

    `payload_bytes` is what the packet carries behind its UDP or TCP header, by the lengths in its headers and
    within what was sent; 0 in fragments, in all that is neither, and where these lengths are not captured or
    cannot be true.
    `sequence`, `acknowledgment`, `tcp_flags` (12 bits, reserved ones too) and `window` (as sent, not scaled) are 0
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
    checksum: NDArray[np.uint16]
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
        """Of which frames less was captured than was sent."""
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
            *("payload_bytes", "sequence", "acknowledgment"),
        ),
        "u2": ("identification", "source_port", "destination_port", "tcp_flags", "window", "checksum"),
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

"""UDP datagrams that need no tshark: their octets behind UDP's header, and whether their checksums are right.

These are whole datagrams in Ethernet and IPv4 without options, whose lengths agree with each other. All others belong
to tshark.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import ETHERNET
from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.decoding import UDP, Kind

Rows = NDArray[np.int64]

_HEADERS = np.dtype(  # IEEE 802.3, RFC 791, RFC 768
    [
        ("ethernet_addresses", "S12"),
        ("ethernet_type", ">u2"),
        ("version_and_length", "u1"),
        ("type_of_service", "u1"),
        ("total_length", ">u2"),
        ("identification", "S6"),
        ("checksum", ">u2"),
        ("addresses", "S8"),
        ("ports", "S4"),
        ("udp_length", ">u2"),
        ("udp_checksum", ">u2"),
    ]
)
_IPV4_TYPE, _WITHOUT_OPTIONS = 0x0800, 0x45
_IP_AT, _ADDRESSES_AT, _UDP_AT = 14, 26, 34
_IP_BYTES, _UDP_BYTES = 20, 8
_MOST_PACKET_BYTES = 16_384
"""Longer packets are left to tshark, which completes cut packets up to this length."""
_ONES = 0xFFFF
_SWAPPED = 256
"""A sum of 16-bit words, modulo 0xFFFF, is multiplied by this if each word has its octets swapped (RFC 1071)."""


@dataclass(frozen=True, slots=True)
class Datagram:
    """What is behind UDP's header: `payload` as far as captured, `payload_bytes` as long as it was on the wire.

    `checksums` say whether that of the IPv4 header is right, and that of UDP: None if there is none, or not all that it
    covers was captured.
    """

    payload: bytes
    payload_bytes: int
    checksums: tuple[bool, bool | None]


def plain_datagrams(columns: Columns, rows: Rows) -> list[Datagram | None]:
    """The datagram of each row; None if it is none of these. Raises OSError."""
    if columns.link_type != ETHERNET:
        return [None] * len(rows)
    frames = read_frames(columns.path, columns.offset[rows], columns.captured_bytes[rows])
    heads = b"".join(frame[: _HEADERS.itemsize].ljust(_HEADERS.itemsize, b"\0") for frame in frames)
    fields = np.frombuffer(heads, _HEADERS)
    ends = _IP_AT + fields["total_length"].astype(np.int64)
    captured_bytes = columns.captured_bytes[rows].astype(np.int64)
    is_plain = (
        (columns.kind[rows] == Kind.UDP)
        & (fields["ethernet_type"] == _IPV4_TYPE)
        & (fields["version_and_length"] == _WITHOUT_OPTIONS)
        & (captured_bytes >= _HEADERS.itemsize)
        & (ends >= _HEADERS.itemsize)
        & (ends <= columns.wire_bytes[rows])
        & (ends <= _MOST_PACKET_BYTES)
        & (fields["udp_length"] == ends - _UDP_AT)
    )
    octets = np.frombuffer(heads, np.uint8).reshape(-1, _HEADERS.itemsize)
    ip_is_right = _words(octets[:, _IP_AT:_UDP_AT]).sum(axis=1, dtype=np.int64) % _ONES == 0
    is_covered = is_plain & (fields["udp_checksum"] != 0) & (captured_bytes >= ends)
    udp_is_right = _udp_checksums(frames, octets, ends, np.flatnonzero(is_covered))
    return [
        Datagram(frame[_HEADERS.itemsize : end], end - _HEADERS.itemsize, (ip_right, udp_right if covered else None))
        if plain
        else None
        for frame, end, ip_right, udp_right, covered, plain in zip(
            frames, ends.tolist(), ip_is_right.tolist(), udp_is_right.tolist(), is_covered.tolist(), is_plain.tolist(),
            strict=True,
        )
    ]  # fmt: skip


def _udp_checksums(
    frames: Sequence[bytes], heads: NDArray[np.uint8], ends: NDArray[np.int64], rows: Rows
) -> NDArray[np.bool_]:
    """Whether UDP's checksum is right in these rows of the frames; False in others."""
    is_right = np.zeros(len(frames), np.bool_)
    if not len(rows):
        return is_right
    segments = [frames[row][_UDP_AT:end] for row, end in zip(rows.tolist(), ends[rows].tolist(), strict=True)]
    words = np.frombuffer(b"".join(octets + b"\0" * (len(octets) % 2) for octets in segments), "<u2")
    word_counts = (ends[rows] - _UDP_AT + 1) // 2
    sums = np.add.reduceat(words, np.cumsum(word_counts) - word_counts, dtype=np.int64)
    sums += _words(heads[rows, _ADDRESSES_AT:_UDP_AT]).sum(axis=1, dtype=np.int64)
    sums += (ends[rows] - _UDP_AT + UDP) * _SWAPPED
    is_right[rows] = sums % _ONES == 0
    return is_right


def _words(octets: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Rows of octets as rows of 16-bit words, each with its octets swapped."""
    words: NDArray[np.uint16] = np.ascontiguousarray(octets).view("<u2")
    return words

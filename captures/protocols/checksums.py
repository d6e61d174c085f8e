"""Checksums of IPv4, UDP and TCP of many packets at once (RFC 791, RFC 768, RFC 9293; computed as RFC 1071 says)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from owlt.captures.frames.columns import Rows

WITHOUT_OPTIONS = 0x45
"""The first octet of an IPv4 header without options."""
_IP_AT, _ADDRESSES_AT, _TRANSPORT_AT = 14, 26, 34
_ONES = 0xFFFF
_SWAPPED = 256
"""A sum of 16-bit words, modulo 0xFFFF, is multiplied by this if each word has its octets swapped (RFC 1071)."""


def header_is_right(heads: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether the checksum of the IPv4 header is right, of Ethernet frames by their first octets."""
    right: NDArray[np.bool_] = _words(heads[:, _IP_AT:_TRANSPORT_AT]).sum(axis=1, dtype=np.int64) % _ONES == 0
    return right


def transport_is_right(
    frames: Sequence[bytes], heads: NDArray[np.uint8], ends: NDArray[np.int64], rows: Rows, protocol: int
) -> NDArray[np.bool_]:
    """Whether the checksum of UDP or TCP is right in these rows of the frames; False in others. `heads` are their first
    octets, and `ends` is where their IPv4 packets end."""
    is_right = np.zeros(len(frames), np.bool_)
    if not len(rows):
        return is_right
    segments = [frames[row][_TRANSPORT_AT:end] for row, end in zip(rows.tolist(), ends[rows].tolist(), strict=True)]
    words = np.frombuffer(b"".join(octets + b"\0" * (len(octets) % 2) for octets in segments), "<u2")
    word_counts = (ends[rows] - _TRANSPORT_AT + 1) // 2
    sums = np.add.reduceat(words, np.cumsum(word_counts) - word_counts, dtype=np.int64)
    sums += _words(heads[rows, _ADDRESSES_AT:_TRANSPORT_AT]).sum(axis=1, dtype=np.int64)
    sums += (ends[rows] - _TRANSPORT_AT + protocol) * _SWAPPED
    is_right[rows] = sums % _ONES == 0
    return is_right


def _words(octets: NDArray[np.uint8]) -> NDArray[np.uint16]:
    """Rows of octets as rows of 16-bit words, each with its octets swapped."""
    words: NDArray[np.uint16] = np.ascontiguousarray(octets).view("<u2")
    return words

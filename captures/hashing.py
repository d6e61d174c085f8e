"""64-bit hashes of many byte spans of one buffer at once.

A multilinear hash (Lemire and Kaser, "Strongly universal string hashing is fast", 2014) over 64-bit words
with fixed random odd weights: the same in every process, and no protection against an adversary.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from captures.pcap import LONGEST_FRAME_BYTES

_WORD_BYTES = 8
_WEIGHTS = np.random.Generator(np.random.PCG64(2014)).integers(
    0, 2**64, LONGEST_FRAME_BYTES // _WORD_BYTES + 1, dtype=np.uint64
) | np.uint64(1)
_KEPT = np.array([2**64 - 1] + [2 ** (8 * n) - 1 for n in range(1, _WORD_BYTES)], np.uint64)
"""By length modulo 8: the mask that keeps the span's own bytes of its last little-endian word."""


def gather(data: NDArray[np.uint8], starts: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """A matrix with the `width` bytes from each start on as rows; `starts + width` must be inside `data`."""
    return sliding_window_view(data, width)[starts]


def hash_spans(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The hash of each span; up to 7 bytes after a span must be inside `data`."""
    hashes: NDArray[np.uint64] = lengths.astype(np.uint64) * _WEIGHTS[-1]
    words = -(-lengths // _WORD_BYTES)
    for count in np.flatnonzero(np.bincount(words)[1:]) + 1:
        rows = np.flatnonzero(words == count)
        spans = gather(data, starts[rows], int(count) * _WORD_BYTES).view("<u8")
        spans[:, -1] &= _KEPT[lengths[rows] % _WORD_BYTES]
        spans ^= spans >> np.uint64(32)  # the low bits of a product know nothing of the word's high bits
        hashes[rows] += spans @ _WEIGHTS[:count]
    return hashes

"""64-bit hashes of many byte spans of one buffer at once.

A multilinear hash (Lemire and Kaser, "Strongly universal string hashing is fast", 2014) over 64-bit words
with fixed random odd weights: the same in every process, and no protection against an adversary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import LONGEST_FRAME_BYTES, gather

ODD_1, ODD_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
"""Factors for one key of several columns: x * ODD_1 + y * ODD_2 modulo 2^64."""
_WORD_BYTES = 8
_WEIGHTS = np.random.Generator(np.random.PCG64(2014)).integers(
    0, 2**64, LONGEST_FRAME_BYTES // _WORD_BYTES + 1, dtype=np.uint64
) | np.uint64(1)
_KEPT = np.array([2**64 - 1] + [2 ** (8 * n) - 1 for n in range(1, _WORD_BYTES)], np.uint64)
"""By length modulo 8: the mask that keeps the span's own bytes of its last little-endian word."""
_WORDS_AT_ONCE = 1 << 15
"""What is computed from them stays in the processor's cache; for larger arrays the C library asks the kernel for new
memory each time."""
_WIDTHS = np.unique(np.append(np.arange(9), 2.0 ** np.arange(3, 15.2, 0.25))).astype(np.int64)
"""Numbers of words: spans from one of them to the next, a fifth longer at most, are hashed together."""


def hash_spans(data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The hash of each span, 0 for an empty one; a quarter of its length and 8 bytes behind a span must be
    inside `data`."""
    hashes: NDArray[np.uint64] = lengths.astype(np.uint64) * _WEIGHTS[-1]
    words = (lengths + (_WORD_BYTES - 1)) // _WORD_BYTES
    if not len(words) or not (most := words.max()):
        return hashes
    if words.min() == most:
        hashes += _hash_rows(data, starts, lengths, words)
        return hashes
    widths = np.searchsorted(_WIDTHS, words)
    for width in np.flatnonzero(np.bincount(widths)[1:]) + 1:
        rows = np.flatnonzero(widths == width)
        hashes[rows] += _hash_rows(data, starts[rows], lengths[rows], words[rows])
    return hashes


def _hash_rows(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], words: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """The weighted sums of spans of about the same, not zero, number of words."""
    least, most = int(words.min()), int(words.max())
    sums: NDArray[np.uint64] = np.empty(len(starts), np.uint64)
    step = max(_WORDS_AT_ONCE // most, 1)
    for first in range(0, len(starts), step):
        part = slice(first, first + step)
        spans = gather(data, starts[part], most * _WORD_BYTES).view("<u8")
        rest = lengths[part] % _WORD_BYTES
        if least == most:
            spans[:, -1] &= _KEPT[rest]
        else:
            spans[np.arange(len(spans)), words[part] - 1] &= _KEPT[rest]
            spans[:, least:] *= np.arange(least, most) < words[part, None]
        spans ^= spans >> np.uint64(32)  # the low bits of a product know nothing of the word's high bits
        np.einsum("ij,j->i", spans, _WEIGHTS[:most], out=sums[part])
    return sums

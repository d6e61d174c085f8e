"""The first bytes of many frames at once, straight from the file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from captures.frames.columns import Columns


def read_heads(capture: Columns, rows: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """The first `width` bytes of each of the rows' frames, as a matrix; zero where nothing was captured.

    Within the capture's `hashed_bytes`. Raises OSError.
    """
    if not len(rows):
        return np.zeros((0, width), np.uint8)
    data = np.memmap(capture.path, np.uint8, "r")
    there = np.minimum(capture.captured_bytes[rows], capture.hashed_bytes).astype(np.int64)[:, None]
    columns = np.arange(width)
    places = np.minimum(capture.offset[rows][:, None] + columns, len(data) - 1)
    heads: NDArray[np.uint8] = np.where(columns < there, data[places], 0).astype(np.uint8)
    return heads

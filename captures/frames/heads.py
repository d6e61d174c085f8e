"""The first bytes of many frames at once, straight from the file."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from owlt.captures.files.blocks import ETHERNET
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.decoding import ETHERNET_BYTES
from owlt.captures.frames.slow_frames import find_network

_IP_TYPES = (0x0800, 0x86DD)
_LONGEST_LINK_HEADER_BYTES = 160
"""Length with more tags than are read."""


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
    others = np.flatnonzero(~np.isin(types, _IP_TYPES) | (capture.link_type != ETHERNET))
    for index, head in zip(others.tolist(), read_heads(capture, rows[others], _LONGEST_LINK_HEADER_BYTES), strict=True):
        starts[index] = find_network(head.tobytes(), capture.link_type or ETHERNET)[1]
    return starts

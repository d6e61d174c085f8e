"""Columns that grow while a file is read, each in one array: never the same rows twice in memory.

Pages that nothing was written to take no memory, so room for rows that do not come costs nothing, nor does a column
of zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SPARE = 1.02
_MOST_GROWTH = 8
"""So many times as many rows as there are; the first rows of a file may be shorter than the others."""
_AT_LEAST_ROWS = 1 << 20


class GrowingColumns:
    """Arrays of equal length by name, all zero until something is written to them."""

    def __init__(self, dtypes: Mapping[str, np.dtype[Any]]) -> None:
        self._columns: dict[str, NDArray[Any]] = {name: np.zeros(0, dtype) for name, dtype in dtypes.items()}
        self._written: set[str] = set()
        self._rows = self._room = 0

    def append(self, block: Mapping[str, NDArray[Any]], read_fraction: float) -> None:
        """Add the rows of the block, which may lack columns: these are 0. `read_fraction` of the file is read then,
        and tells how much room the rest will need."""
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
        """The columns as far as they are filled."""
        return {name: column[: self._rows] for name, column in self._columns.items()}

"""Columns that grow."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from owlt.captures.frames.columns import GrowingColumns

DTYPES = {"number": np.dtype("u4"), "flags": np.dtype("u2")}


@given(st.lists(st.tuples(st.lists(st.integers(0, 2**16 - 1)), st.floats(0.01, 2), st.booleans())))
def test_rows_come_out_as_they_went_in_however_much_of_the_file_was_read(
    blocks: list[tuple[list[int], float, bool]],
) -> None:
    columns, numbers, flags = GrowingColumns(DTYPES), [], []
    for rows, read_fraction, has_flags in blocks:
        block = {"number": np.array(rows, np.int64), "flags": np.array(rows, np.uint16)}
        columns.append(block if has_flags else {"number": block["number"]}, read_fraction)
        numbers += rows
        flags += rows if has_flags else [0] * len(rows)
    arrays = columns.arrays()
    assert arrays["number"].tolist() == numbers
    assert arrays["flags"].tolist() == flags
    assert {name: array.dtype for name, array in arrays.items()} == DTYPES


def test_room_is_made_for_no_more_than_a_file_promises() -> None:
    columns = GrowingColumns(DTYPES)
    columns.append({"number": np.zeros(1000, np.int64)}, 1e-9)
    assert columns._room <= 1 << 20

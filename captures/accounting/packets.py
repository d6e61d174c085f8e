"""Every packet of a session as a row, with what became of it; tables as CSV and Parquet.

Finding that out is matching.py's and ledger.py's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from owlt.captures.accounting.ledger import Account
from owlt.captures.frames.columns import Columns
from owlt.captures.matches.delivery import INTACT, Delivery
from owlt.captures.session.session import Host

Table = Mapping[str, NDArray[np.generic]]
"""Columns of equal length by name; what is masked is not there."""
Format = Literal["csv", "parquet"]


def packet_rows(near: Columns, far: Columns, delivery: Delivery, account: Account, host: Host) -> Table:
    """A row for each packet that the host sent, in the order of its capture.

    `frame` is its number there, from 1; `fate` is "delivered", "corrupted", "unknown" where it arrived and a cut in the
    captures hides whether it was damaged, or the ledger's name of why it did not arrive, "undetermined" where that
    cannot be told. `far_frame`, `arrived_ns` and `delay_ns` are of its first copy, masked where it has none; `copies`
    is how many there are.
    """
    first = delivery.first_copies
    place = np.full(len(near), -1, np.int64)
    place[delivery.near] = np.arange(len(delivery.near))
    packet = place[delivery.sent[first]]
    fate = np.full(len(delivery.near), "undetermined", dtype="<U12")
    for cause, rows in account.missing.items():
        fate[place[rows]] = cause
    is_hidden = account.hides_damage & (near.is_cut[delivery.sent[first]] | far.is_cut[delivery.delivered[first]])
    seems_intact = np.where(is_hidden, "unknown", "delivered")
    fate[packet] = np.where(delivery.flipped_bit[first] == INTACT, seems_intact, "corrupted")
    far_frame, arrived_ns, delay_ns = (np.ma.array(np.zeros(len(delivery.near), np.int64), mask=True) for _ in range(3))
    far_frame[packet] = delivery.delivered[first] + 1
    arrived_ns[packet] = far.time_ns[delivery.delivered[first]]
    delay_ns[packet] = delivery.delay_ns[first]
    return {
        "host": np.full(len(delivery.near), host),
        "frame": delivery.near + 1,
        "sent_ns": near.time_ns[delivery.near],
        "wire_bytes": near.wire_bytes[delivery.near],
        "payload_bytes": near.payload_bytes[delivery.near],
        "fate": fate,
        "copies": np.bincount(place[delivery.sent], minlength=len(delivery.near)),
        "far_frame": far_frame,
        "arrived_ns": arrived_ns,
        "delay_ns": delay_ns,
    }


def joined(*tables: Table) -> Table:
    """The rows of tables that have the same columns, one table after the other."""
    return {name: _stacked([table[name] for table in tables]) for name in tables[0]}


def _stacked(columns: list[NDArray[np.generic]]) -> NDArray[np.generic]:
    if not any(isinstance(column, np.ma.MaskedArray) for column in columns):
        return np.concatenate(columns)
    stacked: NDArray[np.generic] = np.ma.concatenate(columns)  # type: ignore[no-untyped-call]
    return stacked


def write_table(table: Table, path: Path) -> Path:
    """Write the table as the path's ending says, .csv or .parquet; what is masked is empty or NULL. Raises OSError."""
    import duckdb

    as_objects = {name: column.astype(object) if column.dtype.kind == "U" else column for name, column in table.items()}
    how = {".csv": "FORMAT csv, HEADER", ".parquet": "FORMAT parquet, COMPRESSION zstd"}[path.suffix]
    with duckdb.connect() as database:
        database.register("rows", as_objects)
        try:
            database.execute(f"COPY rows TO '{str(path).replace(chr(39), chr(39) * 2)}' ({how})")
        except duckdb.IOException as problem:
            raise OSError(f"{path}: cannot be written: {problem}") from problem
    return path

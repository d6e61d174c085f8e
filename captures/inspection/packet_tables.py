"""The packets of a session and its traces as tables, and writing tables as CSV and Parquet.

A session's packets are rows with what became of each; finding that out belongs to ledger.py. Times of traces are in s
since the session's first packet.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from owlt.captures.accounting.ledger import Account
from owlt.captures.inspection.traces import Delays, Integers, Throughput, Traces, Way, throughput
from owlt.captures.matches.delivery import INTACT, Crossing, OneWay
from owlt.captures.protocols.ladder import Fates

Table = Mapping[str, NDArray[np.generic]]
"""Columns of equal length by name; masked cells have no value."""


def packet_table(crossing: Crossing, accounts: tuple[Account, Account]) -> Table:
    """A row for each packet of the session, as `packet_rows` makes it: those of the sender, then of the receiver."""
    tables = [packet_rows(way, account) for way, account in zip(crossing.ways, accounts, strict=True)]
    return {name: _stacked([table[name] for table in tables]) for name in tables[0]}


def packet_rows(way: OneWay, account: Account) -> Table:
    """A row for each packet that the host sent, in the order of its capture.

    `frame` is its number there, from 1; `fate` is "delivered", "corrupted", "unknown" where it arrived and a cut in the
    captures hides whether it was damaged, or the cause of its loss, as the ledger names it, "undetermined" if that is
    not known. `far_frame`, `arrived_ns` and `delay_ns` are of its first copy, masked where it has none; `copies` is how
    many there are.
    """
    near, far, delivery = way.near, way.far, way.delivery
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
        "host": np.full(len(delivery.near), way.host),
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


def fates_of(packets: Table) -> Fates:
    """The fate of each packet of a session's table, by its host and frame."""
    hosts, frames, fates = (packets[name].tolist() for name in ("host", "frame", "fate"))
    return dict(zip(zip(hosts, frames, strict=True), fates, strict=True))


def _stacked(columns: list[NDArray[np.generic]]) -> NDArray[np.generic]:
    if not any(isinstance(column, np.ma.MaskedArray) for column in columns):
        return np.concatenate(columns)
    stacked: NDArray[np.generic] = np.ma.concatenate(columns)  # type: ignore[no-untyped-call]
    return stacked


def write_table(table: Table, path: Path) -> Path:
    """Write the table in the format of the path's suffix, .csv or .parquet; masked cells are empty or NULL.

    Raises OSError.
    """
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


def trace_rows(traces: Traces, interval_ns: int | None = None) -> dict[str, Table]:
    """Every trace that there is as a table, by name.

    throughput, data, acknowledgements, and each way, if both ports were seen, delays_*, queue_*, losses_*. Raises
    ValueError as `throughput`.
    """
    tables: dict[str, Table] = {"throughput": _throughput_table(throughput(traces, interval_ns))}
    if (data := traces.data) is not None:
        tables["data"] = {
            "time_s": data.sent_ns / 1e9,
            "frame": data.frame,
            "first_byte": data.first_byte,
            "byte_count": data.byte_count,
            "new_bytes": data.new_bytes,
        }
    if (acknowledgements := traces.acknowledgements) is not None:
        tables["acknowledgements"] = {
            "time_s": acknowledgements.arrived_ns / 1e9,
            "frame": acknowledgements.frame,
            "acknowledged_bytes": acknowledgements.acknowledged_bytes,
        }
    for name, way in (("forward", traces.forward), ("reverse", traces.reverse)):
        if not (way.seen_departing and way.seen_arriving):
            continue
        tables[f"delays_{name}"] = _delays_table(way.delays)
        if way.queue is not None:
            tables[f"queue_{name}"] = {
                "time_s": way.queue.time_ns / 1e9,
                "packets": way.queue.packets,
                "wire_bytes": way.queue.wire_bytes,
            }
        tables[f"losses_{name}"] = _losses_table(way)
    return tables


def _throughput_table(counted: Throughput) -> Table:
    table: dict[str, NDArray[np.generic]] = {"time_s": counted.start_ns / 1e9}
    for name in ("forward_sent", "forward_delivered", "reverse_sent", "reverse_delivered", "new", "again"):
        table |= _bytes_and_bps(counted, name)
    return table | _bytes_and_bps(counted, "acknowledging")


def _bytes_and_bps(counted: Throughput, name: str) -> dict[str, NDArray[np.generic]]:
    interval_bytes: Integers | None = getattr(counted, f"{name}_bytes")
    if interval_bytes is None:
        return {}
    return {f"{name}_bytes": interval_bytes, f"{name}_bps": counted.bps(interval_bytes)}


def _delays_table(delays: Delays) -> Table:
    table: dict[str, NDArray[np.generic]] = {
        "time_s": delays.sent_ns / 1e9,
        "delay_ns": delays.delay_ns,
        "wire_bytes": delays.wire_bytes,
    }
    return table if delays.waiting_ns is None else table | {"waiting_ns": delays.waiting_ns}


def _losses_table(way: Way) -> Table:
    """When packets were sent that were lost or damaged."""
    time_ns = np.concatenate([way.lost_ns, way.damaged_ns])
    order = np.argsort(time_ns, kind="stable")
    what = np.repeat(["lost", "damaged"], [len(way.lost_ns), len(way.damaged_ns)])
    return {"time_s": time_ns[order] / 1e9, "what": what[order]}

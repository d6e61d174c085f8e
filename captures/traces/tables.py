"""Traces as tables, as they are written to files. Times are in s since the session's first packet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from owlt.captures.accounting.packets import Table
from owlt.captures.traces.throughput import Throughput, throughput
from owlt.captures.traces.tracing import Delays, Traces, Way

Integers = NDArray[np.int64]


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

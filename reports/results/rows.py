"""The rows of the table of runs, from a results directory: every planned run, with any outcome; and the table as files.

The files are `runs.csv`, the same as `runs.parquet`, and the columns in `runs-columns.csv`. The same rows give the same
bytes. The shares of timeouts, fast retransmissions and spurious ones over TCP are our formulas: the paper whose tables
these follow (Tauran et al. 2017) gives none.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from owlt.captures.accounting.ledger import Ledger
from owlt.captures.accounting.measures import DelaySummary
from owlt.captures.accounting.summary import CaptureSummary
from owlt.captures.inspection.critical_path import KINDS
from owlt.captures.inspection.time_account import TimeAccount
from owlt.captures.protocols.view import ProtocolView
from owlt.emulator.channel.link import LinkSpec, impairments, key_of
from owlt.inputs.axes import AXES
from owlt.inputs.quantities import parse_delay_ns, parse_rate_bps, parse_size_bytes
from owlt.reports.results.columns import (
    COLUMNS,
    COUNTERS,
    DUCKDB_TYPES,
    LINK_FIELDS,
    NAMES,
    NOT_RUN,
    RECEIVER_COUNTERS,
    TABLE_VERSION,
    Column,
    time_column,
)
from owlt.reports.results.load import Results, Run
from owlt.results.files import WrittenChannel
from owlt.results.judgements import known_failure
from owlt.results.plan import Run as PlanRun
from owlt.results.record import HostTcp, RunRecord


@dataclass(frozen=True)
class TcpRun:
    """The kernels' counters of one run. `spurious` is None if the receiver does not report duplicates."""

    packets_sent: int
    goodput_bps: float | None
    sent_again: int
    timeouts: int
    fast_retransmissions: int
    spurious: int | None
    at_most: frozenset[str]
    """The counts that are of all the host's connections, if another one retransmitted too."""

    @property
    def timeout_percent(self) -> float:
        """100 × timeouts / packets sent."""
        return 100 * self.timeouts / self.packets_sent

    @property
    def fast_percent(self) -> float:
        """100 × segments retransmitted in fast recovery / packets sent."""
        return 100 * self.fast_retransmissions / self.packets_sent

    @property
    def spurious_percent(self) -> float | None:
        """100 × segments received twice / packets sent."""
        return None if self.spurious is None else 100 * self.spurious / self.packets_sent


def tcp_of(run: Run) -> TcpRun | None:
    """The numbers of a completed run over TCP that has a summary; None of any other."""
    sender, receiver = run.record.tcp.get("sender"), run.record.tcp.get("receiver")
    if not (sender and receiver and sender.sockets and run.completed and run.summary and run.summary.str_sent):
        return None
    reported = receiver.dsack and all(socket.get("sack") for socket in sender.sockets)
    timeouts = _sum(sender, "total_rto")
    of_the_host = {"fast_retransmissions"} | ({"timeouts"} if timeouts is None else set())
    return TcpRun(
        packets_sent=run.summary.str_sent,
        goodput_bps=run.summary.goodput_bps,
        sent_again=_sum(sender, "total_retrans") or 0,
        timeouts=sender.counters.get("TcpExtTCPTimeouts", 0) if timeouts is None else timeouts,
        fast_retransmissions=sender.counters.get("TcpExtTCPFastRetrans", 0),
        spurious=_sum(sender, "dsack_dups") if reported else None,
        at_most=frozenset(of_the_host if sender.others_retransmitted else ()),
    )


def _sum(host: HostTcp, name: str) -> int | None:
    """The sum over all sockets of the run; None if the kernel does not count it."""
    values = [value for socket in host.sockets if isinstance(value := socket.get(name), int)]
    return sum(values) if len(values) == len(host.sockets) else None


Row = dict[str, Any]
"""A value for each column, None if the run has none; in the order of NAMES."""

_RECORD = (
    *("run_id", "title", "protocol", "repetition", "order", "seed", "clock", "rig", "outcome", "reason_code"),
    *("reason", "attempt", "started_at_ns", "ended_at_ns", "file_delivered_at_ns", "received_bytes"),
    "certificate",
)
_SUMMARY = tuple(name for name in NAMES if name in CaptureSummary.model_fields and name not in ("suspect", "caveats"))
_VIEW = tuple(name for name in NAMES if name in ProtocolView.model_fields)
_TCP = (
    *("packets_sent", "sent_again", "timeouts", "fast_retransmissions", "spurious"),
    *("timeout_percent", "fast_percent", "spurious_percent"),
)
_POINT = tuple(axis.field for axis in AXES.values())
_BETWEEN = "; "


def run_rows(results: Results) -> list[Row]:
    """A row for each planned run, in the order of the grid; those without a record have the outcome NOT_RUN."""
    shared = {"table_version": TABLE_VERSION, "sweep": results.sweep.name}
    rows = [_complete(shared | _recorded(results, run)) for run in results.runs]
    rows += [_complete(shared | _unrecorded(results, planned)) for planned in results.unrecorded]
    places = {point: place for place, point in enumerate(results.planned)}
    by_run = {run.record.run_id: run.record.permutation for run in results.runs}
    by_run |= {planned.run_id: planned.permutation for planned in results.unrecorded}
    return sorted(rows, key=lambda row: (places[by_run[row["run_id"]]], row["repetition"]))


def _complete(values: Row) -> Row:
    return {name: values.get(name) for name in NAMES}


def _recorded(results: Results, run: Run) -> Row:
    record, summary = run.record, run.summary
    delay = record.machine_delay
    return {
        **_planned(results, record, record.channel_key, record.run_id),
        **{name: getattr(record, name) for name in _RECORD},
        "implementation_version": record.versions.get("implementation"),
        "owlt_version": record.versions.get("owlt"),
        "kernel_version": record.versions.get("kernel"),
        "parameters": _json(record.parameters),
        "advertised_rate_bps": record.advertised.get("rate_bps"),
        "advertised_one_way_delay_s": record.advertised.get("one_way_delay_s"),
        "suspect": _joined(run.suspect),
        "known_limit": known_failure(results.profiles[record.implementation], record),
        **({"waited_ns": delay.waited_ns, "dispatches": delay.dispatches} if delay else {}),
        **(_of_summary(summary) if summary else {}),
        **({name: getattr(run.view, name) for name in _VIEW} if run.view else {}),
        **(_of_time(run.time) if run.time else {}),
        **_of_tcp(run),
    }


def _unrecorded(results: Results, planned: PlanRun) -> Row:
    title = results.implementations.get(planned.permutation.implementation)
    own = {name: getattr(planned, name) for name in ("run_id", "repetition", "order", "seed")}
    of_plan = _planned(results, planned.permutation, planned.channel_key, planned.run_id)
    return {**of_plan, **own, "title": title, "outcome": NOT_RUN}


def _planned(results: Results, point: Any, channel_key: str, run_id: str) -> Row:
    """The values of a run from the plan: the point of the grid, and its channel."""
    channel = results.channels[point.permutation if isinstance(point, RunRecord) else point].specified
    links = {"forward": channel.forward, "reverse": channel.reverse}
    return {
        **point.model_dump(include=set(_POINT)),
        "channel_key": channel_key,
        "is_baseline": run_id in results.baseline,
        "rtt_ns": sum(_delay_ns(link) for link in links.values()),
        "bypass": channel.bypass,
        "timeline": _timeline(channel),
        **{f"{way}_{name}": value for way, link in links.items() for name, value in link_cells(link).items()},
    }


def link_cells(link: Mapping[str, Any]) -> Row:
    """The cells of a link in its written form, without the prefix of its direction."""
    return {name: _cell(link, field) for name, field in LINK_FIELDS.items()}


def _cell(link: Mapping[str, Any], field: str) -> Any:
    """The cell of a field of a link: in ns, bit/s or bytes, as JSON if it has keys of its own; None: no limit."""
    row = impairments()[field]
    written = link.get(key_of(field))
    if written is None and row.column and row.column.with_default:
        return LinkSpec.model_fields[field].default
    if written in (None, "none", "unlimited", {}):
        return None
    if isinstance(written, Mapping):
        return _json(written)
    return _PARSED[row.quantity](written) if row.quantity in _PARSED else written


_PARSED: dict[str, Callable[[str], Any]] = {
    "time": parse_delay_ns,
    "rate": parse_rate_bps,
    "size": parse_size_bytes,
}
"""The functions that make the cell of a written quantity."""


def _of_summary(summary: CaptureSummary) -> Row:
    ledgers = {"forward": summary.ledger_forward, "reverse": summary.ledger_reverse}
    delays = {"forward": summary.owd_forward, "reverse": summary.owd_reverse}
    return {
        **{name: getattr(summary, name) for name in _SUMMARY},
        "caveats": _joined(summary.caveats),
        **{f"{way}_{name}": getattr(ledger, name) for way, ledger in ledgers.items() for name in Ledger.model_fields},
        **{
            f"{way}_owd_{name}": getattr(delay, name)
            for way, delay in delays.items()
            for name in DelaySummary.model_fields
        },
    }


def _of_time(account: TimeAccount) -> Row:
    return {time_column(kind): account.total_ns([kind]) for kind in KINDS}


def _of_tcp(run: Run) -> Row:
    hosts = run.record.tcp
    if not hosts:
        return {}
    missing = HostTcp(problem="no counters were recorded")
    sender, receiver = hosts.get("sender", missing), hosts.get("receiver", missing)
    numbers = tcp_of(run)
    return {
        **{name: getattr(numbers, name, None) for name in _TCP},
        "others_retransmitted": sender.others_retransmitted + receiver.others_retransmitted,
        **({} if sender.problem else {name: sender.counters.get(name, 0) for name in COUNTERS}),
        **(
            {}
            if receiver.problem
            else {f"receiver_{name}": receiver.counters.get(name, 0) for name in RECEIVER_COUNTERS}
        ),
        "problem": _joined(filter(None, (sender.problem, receiver.problem))),
    }


def _delay_ns(link: Mapping[str, Any]) -> int:
    return parse_delay_ns(link.get("delay", "0 ns"))


def _timeline(channel: WrittenChannel) -> str | None:
    return None if channel.timeline is None else _json(channel.timeline.model_dump(mode="json"))


def _json(value: Any) -> str | None:
    return None if value in (None, "none", {}) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _joined(sentences: Iterable[str]) -> str:
    return _BETWEEN.join(sentences)


CSV_NAME, PARQUET_NAME = "runs.csv", "runs.parquet"


def columns_name(table: str) -> str:
    """The file that explains the columns of a table: "runs-columns.csv"."""
    return table.replace(".csv", "-columns.csv")


COLUMNS_NAME = columns_name(CSV_NAME)
FILES = (CSV_NAME, PARQUET_NAME, COLUMNS_NAME)
VERSION_KEY = "owlt_table_version"
"""The key of TABLE_VERSION in the metadata of the Parquet file."""
LONGEST_LINE_BYTES = 64_000_000
"""The longest line of the CSV file that DuckDB reads: a reason may have any length."""


def write_table(rows: Sequence[Row], directory: Path) -> None:
    """Write the three files into a directory. Raises OSError."""
    (directory / CSV_NAME).write_text(csv_text(NAMES, rows))
    write_columns(COLUMNS, directory / COLUMNS_NAME)
    _write_parquet(directory / CSV_NAME, directory / PARQUET_NAME)


def write_columns(columns: Sequence[Column], path: Path) -> None:
    """Write what the columns of a table mean. Raises OSError."""
    path.write_text(csv_text([field.name for field in fields(Column)], map(asdict, columns)))


def names_of(columns: Sequence[Column]) -> tuple[str, ...]:
    """The names of columns."""
    return tuple(column.name for column in columns)


def csv_text(columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> str:
    """Rows as CSV; a cell is empty if a row has no such value."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _write_parquet(source: Path, target: Path) -> None:
    """The CSV file as Parquet, every empty cell as null. Of one thread, so that row groups are always the same."""
    import duckdb  # here: it takes time to load, and only reports need it

    types = ", ".join(f"'{column.name}': '{DUCKDB_TYPES[column.kind]}'" for column in COLUMNS)
    with duckdb.connect(config={"threads": 1}) as database:
        database.execute(
            f"COPY (SELECT * FROM read_csv($source, header = true, auto_detect = false, delim = ',', quote = '\"', "
            f"escape = '\"', new_line = '\\n', max_line_size = {LONGEST_LINE_BYTES}, columns = {{{types}}})) "
            "TO $target "
            f"(FORMAT parquet, COMPRESSION zstd, KV_METADATA {{{VERSION_KEY}: '{TABLE_VERSION}'}})",
            {"source": str(source), "target": str(target)},
        )

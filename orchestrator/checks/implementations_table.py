"""The table of all implementations over three channels: one row per run, its outcome and why it failed."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from owlt.agents.contract.implementation import Implementation
from owlt.captures.accounting.summary import load_summary
from owlt.orchestrator.checks.verdict import Load, explanation
from owlt.orchestrator.planning.plan import Plan
from owlt.results.plain_files import write_whole
from owlt.results.record import Outcome, read_record
from owlt.results.recorded_runs import is_recorded, run_directory


@dataclass(frozen=True)
class Row:
    """One implementation over one channel. A number is None if the captures have none."""

    implementation: str
    clock: str
    channel: str
    outcome: Outcome
    goodput_bps: float | None
    str_sent: int | None
    rts_sent: int | None
    bytes_per_packet: float | None
    """Mean length of the sender's frames."""
    received_sha256: str
    remark: str
    """Why it failed, or what is suspect."""
    unexplained: bool


def table_rows(plan: Plan, results: Path, load: Load = load_summary) -> list[Row]:
    """A row for each recorded run, by implementation and channel in the order of the plan."""
    channels = list(plan.sweep.channel or [])
    names = list(plan.implementations)
    recorded = [run for run in plan.runs if is_recorded(run_directory(results, run.run_id))]
    recorded.sort(
        key=lambda run: (names.index(run.permutation.implementation), channels.index(run.permutation.channel_name))
    )
    return [_row(plan.implementations, run_directory(results, run.run_id), load) for run in recorded]


def summary(rows: list[Row], missing: Mapping[str, str], planned: int) -> str:
    """One line that counts everything; `missing` are the implementations that are not installed."""
    counts = Counter(str(row.outcome) for row in rows)
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common()) or "none"
    unexplained = [f"{row.implementation} at {row.channel}" for row in rows if row.unexplained]
    doubt = f"{len(unexplained)} unexplained or suspect" + (f" ({', '.join(unexplained)})" if unexplained else "")
    absent = f"{len(missing)} not installed" + (f" ({', '.join(missing)})" if missing else "")
    implementations = f"{len({row.implementation for row in rows})} implementations"
    runs = f"{len(rows)} of {planned} runs: {outcomes}"
    return f"implementations-table: {implementations}, {runs}; {doubt}; {absent}"


def write_csv(rows: list[Row], results: Path) -> Path:
    """Write all rows to `table.csv`; a missing number is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(field.name for field in fields(Row))
    writer.writerows(astuple(row) for row in rows)
    return write_whole(results / "table.csv", text.getvalue())


def _row(implementations: Mapping[str, Implementation], directory: Path, load: Load) -> Row:
    record, packets = read_record(directory), load(directory)
    suspicions = [*record.suspect, *(packets.suspect if packets else [])]
    completed = record.outcome is Outcome.COMPLETED
    why = None if completed else explanation(implementations[record.implementation], record)
    remarks = (
        ([why] if why else [])
        + ([] if completed else [record.reason])
        + [f"suspect: {reason}" for reason in suspicions]
    )
    return Row(
        implementation=record.implementation,
        clock=record.clock,
        channel=record.channel_name,
        outcome=record.outcome,
        goodput_bps=packets.goodput_to_delivery_bps if packets and completed else None,
        str_sent=packets.str_sent if packets else None,
        rts_sent=packets.rts_sent if packets else None,
        bytes_per_packet=packets.str_sent_bytes / packets.str_sent if packets and packets.str_sent else None,
        received_sha256=record.received_sha256 or "",
        remark="; ".join(remarks),
        unexplained=bool(suspicions) or not (completed or why or record.outcome is Outcome.UNSUPPORTED),
    )

"""The table of all builds over three channels: a row a run, with what came of it and why if it failed."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from agents.contract import Implementation
from captures.cache import load_summary
from orchestrator.plan import Plan
from orchestrator.record import RECORD_NAME, Outcome, read_record
from orchestrator.verdict import explanation


@dataclass(frozen=True)
class Row:
    """One build over one channel. Numbers are None where the packets gave none."""

    implementation: str
    clock: str
    channel: str
    outcome: Outcome
    goodput_bps: float | None
    str_sent: int | None
    rts_sent: int | None
    bytes_a_packet: float | None
    """Mean frame from the sender."""
    received_sha256: str
    remark: str
    """Why it failed, or what is suspect."""
    unexplained: bool


def rows(plan: Plan, results: Path) -> list[Row]:
    """A row for each recorded run, the channels of a build together, in the order of the plan's grid."""
    channels = list(plan.sweep.channel or [])
    names = list(plan.implementations)
    recorded = [run for run in plan.runs if (results / "runs" / run.run_id / RECORD_NAME).exists()]
    recorded.sort(
        key=lambda run: (names.index(run.permutation.implementation), channels.index(run.permutation.channel_name))
    )
    return [_row(plan.implementations, results / "runs" / run.run_id) for run in recorded]


def summary(found: list[Row], missing: Mapping[str, str], planned: int) -> str:
    """One line with counts of everything; `missing` are builds that are not installed."""
    outcomes = Counter(str(row.outcome) for row in found)
    told = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    unexplained = [f"{row.implementation} at {row.channel}" for row in found if row.unexplained]
    doubt = f"{len(unexplained)} unexplained or suspect" + (f" ({', '.join(unexplained)})" if unexplained else "")
    absent = f"{len(missing)} builds not installed" + (f" ({', '.join(missing)})" if missing else "")
    builds = len({row.implementation for row in found})
    return f"builds-table: {builds} builds, {len(found)} of {planned} runs: {told or 'none'}; {doubt}; {absent}"


def write_csv(found: list[Row], results: Path) -> Path:
    """Every row whole, in `table.csv`; an empty field where a row has no number."""
    path = results / "table.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(field.name for field in fields(Row))
        writer.writerows(astuple(row) for row in found)
    return path


def _row(builds: Mapping[str, Implementation], directory: Path) -> Row:
    record, packets = read_record(directory), load_summary(directory)
    suspicions = [*record.suspect, *(packets.suspect if packets else [])]
    completed = record.outcome is Outcome.COMPLETED
    why = None if completed else explanation(builds[record.implementation], record)
    remarks = (
        ([why] if why else []) + ([] if completed else [record.reason]) + [f"suspect: {told}" for told in suspicions]
    )
    return Row(
        implementation=record.implementation,
        clock=record.clock,
        channel=record.channel_name,
        outcome=record.outcome,
        goodput_bps=packets.goodput_until_whole_bps if packets and completed else None,
        str_sent=packets.str_sent if packets else None,
        rts_sent=packets.rts_sent if packets else None,
        bytes_a_packet=packets.str_sent_bytes / packets.str_sent if packets and packets.str_sent else None,
        received_sha256=record.received_sha256 or "",
        remark="; ".join(remarks),
        unexplained=bool(suspicions) or not (completed or why or record.outcome is Outcome.UNSUPPORTED),
    )

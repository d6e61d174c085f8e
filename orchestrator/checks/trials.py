"""Trial runs: few channels that show whether an implementation works, as plans like any other; and the table of them.

A check is one implementation over a clean, a lossy and a dead channel; the table is every implementation over a clean,
a lossy and a lossier channel, with one row per run: its outcome and why it failed. The verdict of a check is
`findings`'.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from owlt.agents.contract.implementation import Clock, Implementation
from owlt.captures.accounting.summary import CaptureSummary, load_summary
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.planning.plan import Plan, plan_sweep
from owlt.results.judgements import known_failure
from owlt.results.plain_files import write_whole
from owlt.results.record import Outcome, read_record
from owlt.results.recorded_runs import is_recorded, run_directory

BEST_FIRST: tuple[Clock, ...] = ("exact", "skip", "real")
Load = Callable[[Path], CaptureSummary | None]
"""Gives the summary of the captures in a run's directory; None if there is none."""
RATE_BPS = 10_000_000
FILE_SIZE = "1 MB"
SEED = 2012

CLEAN, LOSSY, LOSSIER, DEAD = "clean-25ms", "one-percent-250ms", "ten-percent-1250ms", "dead-25ms"


def _both_ways(delay_ms: int, packet_error_rate: float) -> ChannelSpec:
    link = LinkSpec(delay_ns=delay_ms * 1_000_000, rate_bps=RATE_BPS, packet_error_rate=packet_error_rate)
    return ChannelSpec(forward=link, reverse=link)


CHANNELS: Mapping[str, ChannelSpec] = {
    CLEAN: _both_ways(25, 0),
    LOSSY: _both_ways(250, 0.01),
    LOSSIER: _both_ways(1250, 0.1),
    DEAD: _both_ways(25, 1),
}
"""Equal in both directions. On the dead one nothing arrives: an implementation that reports success there is wrong."""


def check_plan(implementation: Implementation, channels: tuple[str, ...] = (CLEAN, LOSSY, DEAD)) -> Plan:
    """One implementation over a clean, a lossy and a dead channel, on which it must report a failure."""
    return _plan(
        f"check-{implementation.name}",
        {implementation.name: implementation},
        channels,
        "full",
        best_clock(implementation),
    )


def table_plans(implementations: Mapping[str, Implementation]) -> dict[Clock, Plan]:
    """Every implementation over a clean, a lossy and a lossier channel: one plan per clock, each on its best clock."""
    plans: dict[Clock, Plan] = {}
    for clock in BEST_FIRST:
        on_this_clock = {
            name: implementation
            for name, implementation in implementations.items()
            if best_clock(implementation) == clock
        }
        if on_this_clock:
            plans[clock] = _plan("implementations-table", on_this_clock, (CLEAN, LOSSY, LOSSIER), "headers", clock)
    return plans


def best_clock(implementation: Implementation) -> Clock:
    """The clock on which the runs of an implementation are most repeatable."""
    return next(clock for clock in BEST_FIRST if clock in implementation.clocks)


def _plan(
    name: str, implementations: Mapping[str, Implementation], channels: tuple[str, ...], packets: str, clock: Clock
) -> Plan:
    sweep = Sweep.model_validate(
        {
            "name": name.replace("_", "-").replace(".", "-"),
            "seed": SEED,
            "clock": clock,
            "implementations": list(implementations),
            "file_size": FILE_SIZE,
            "channel": list(channels),
            "certify": False,
            "keep_captures": packets,
            "runs_per_guest": 4,
        }
    )
    return plan_sweep(sweep, dict(implementations), {channel: CHANNELS[channel] for channel in channels})


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


def table_summary(rows: list[Row], missing: Mapping[str, str], planned: int) -> str:
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
    why = known_failure(implementations[record.implementation], record)
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

"""The page of one run: the measures and messages in its captures, with figures and tables beside it.

The values are captures.inspection's.
"""

from __future__ import annotations

from pathlib import Path

from owlt.captures.accounting.one_side import OneSide
from owlt.captures.inspection.inspection import Case, Inspection
from owlt.captures.inspection.traces import Traces
from owlt.captures.protocols.ladder import ending
from owlt.captures.protocols.messages import Message, message_bytes, message_counts
from owlt.reports.figures.channel_figure import save_channel
from owlt.reports.rendering import new_environment
from owlt.reports.sessions.ladder import draw_ladder
from owlt.reports.sessions.run_files import (
    message_table,
    one_side_json,
    run_json,
    run_tables,
    trace_tables,
    write_json,
    write_tables,
)
from owlt.reports.sessions.run_numbers import (
    ledger_rows,
    message_rows,
    number_rows,
    one_side_rows,
    outcome_text,
    session_text,
)
from owlt.reports.sessions.trace_figure import draw_traces


def build_run_page(
    title: str, inspection: Inspection, case: Case, directory: Path, tables: str, already_suspect: list[str]
) -> Path:
    """Write index.html, analysis.json, the figures and the tables ("csv" or "parquet"). Returns the page.

    `already_suspect` are reasons for doubt from other sources than the captures. Raises OSError.
    """
    suspect = list(dict.fromkeys([*already_suspect, *inspection.summary.suspect]))
    write_json(run_json(title, inspection, case, suspect), directory)
    view = inspection.view
    return _render(
        directory,
        title=title,
        session=session_text(case.session),
        outcome=outcome_text(case),
        has_failed=case.has_failed,
        suspect=suspect,
        notes=inspection.notes,
        rows=number_rows(inspection, case),
        figures=_run_figures(title, inspection, directory),
        messages=message_rows(view.counts, view.wire_bytes) if view else [],
        termination=view.termination if view else [],
        ledger=ledger_rows(inspection.summary.ledger_forward, inspection.summary.ledger_reverse),
        files=["analysis.json", *write_tables(run_tables(inspection), directory, tables)],
    )


def _run_figures(title: str, inspection: Inspection, directory: Path) -> dict[str, str]:
    """Draw traces.svg and ladder.svg, if there is anything to draw. Returns their captions by name."""
    captions = {}
    if inspection.summary.str_sent or inspection.summary.rts_sent:
        save_channel(draw_traces(inspection.traces, title), directory / "traces.svg")
        captions["traces"] = "Throughput, offset and acknowledgements, delay and queue over time."
    if steps := ending(inspection.rungs):
        save_channel(draw_ladder(steps, title), directory / "ladder.svg")
        captions["ladder"] = "The end of the session: from the last new data to the last packet."
    return captions


def build_one_side_page(
    title: str,
    side: OneSide,
    messages: list[Message],
    traces: Traces,
    endings: list[str],
    case: Case,
    directory: Path,
    tables: str,
) -> Path:
    """The same for a single capture, without packets, ledger and ladder, which need both. Raises OSError."""
    write_json(one_side_json(title, side, case, messages, endings), directory)
    contents = {"messages": message_table(messages)} if messages else {}
    if side.session_seen_s:
        contents |= trace_tables(traces)
    return _render(
        directory,
        title=title,
        session=session_text(case.session),
        outcome="",
        has_failed=False,
        suspect=side.suspect,
        notes=side.notes,
        rows=one_side_rows(side, case),
        figures=_one_side_figures(title, side, traces, directory),
        messages=message_rows(message_counts(messages), message_bytes(messages)),
        termination=endings,
        ledger=[],
        files=["analysis.json", *write_tables(contents, directory, tables)],
    )


def _one_side_figures(title: str, side: OneSide, traces: Traces, directory: Path) -> dict[str, str]:
    """Draw traces.svg, if there is anything to draw. Returns its caption by name."""
    if not (side.str_packets or side.rts_packets):
        return {}
    save_channel(draw_traces(traces, f"{title}, at the {side.seen_at}'s port"), directory / "traces.svg")
    return {"traces": f"Throughput, offset and acknowledgements over time, as captured at the {side.seen_at}'s port."}


def _render(directory: Path, **context: object) -> Path:
    page = directory / "index.html"
    page.write_text(new_environment().get_template("run.html").render(**context))
    return page

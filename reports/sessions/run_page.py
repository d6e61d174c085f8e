"""The page of one run: the measures and messages in its captures, with figures and tables beside it.

The values are captures.inspection's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.patches import Patch
from numpy.typing import NDArray

from owlt.captures.accounting.one_side import OneSide
from owlt.captures.inspection.causes import causes
from owlt.captures.inspection.critical_path import KINDS, PHASES, WAITS, CriticalPath, Part
from owlt.captures.inspection.inspection import Case, Inspection, OneSideInspection
from owlt.captures.inspection.packet_tables import Table, trace_rows, write_table
from owlt.captures.inspection.traces import Traces
from owlt.captures.protocols.ladder import ending
from owlt.captures.protocols.messages import Message, message_bytes, message_counts
from owlt.reports.drawing.channel import time_unit
from owlt.reports.drawing.output import save_drawing
from owlt.reports.looks import INK, MUTED, RULE, STYLE, TIME, TIME_TITLES
from owlt.reports.rendering import new_environment
from owlt.reports.replacing import replaced_files
from owlt.reports.sessions.ladder import draw_ladder
from owlt.reports.sessions.run_text import (
    cause_text,
    explanation_json,
    fault_rows,
    headline,
    ledger_rows,
    message_rows,
    number_rows,
    one_side_rows,
    outcome_text,
    session_text,
    share_rows,
    spent_ns,
)
from owlt.reports.sessions.trace_figure import draw_traces
from owlt.results.plain_files import files_in, make_directory, remove, write_whole

_WRITTEN = ("index.html", "analysis.json", "traces.svg", "ladder.svg", "time.svg")
_TABLES = ("packets", "messages", "trace-*")
ROWS = ("sender", "forward", "reverse", "receiver")
"""The rows of the waterfall."""
_WIDTH, _HEIGHT = 9.0, 3.0
_LEAST_LABEL = 0.06
"""The smallest share of the session for which a phase is labelled."""


@contextmanager
def replaced_pages(directory: Path) -> Iterator[tuple[Path, bool]]:
    """An empty directory for an analysis that replaces an earlier one when the block ends; and whether there is one.

    Raises OSError.
    """
    earlier = _earlier(directory)
    with replaced_files(directory) as draft:
        yield draft, bool(earlier)
        written = {path.name for path in draft.iterdir()}
    for path in earlier:
        if path.name not in written:
            remove(path)


def _earlier(directory: Path) -> list[Path]:
    """The files that an earlier analysis wrote into the directory."""
    if not (directory / "analysis.json").is_file():
        return []
    patterns = [*_WRITTEN, *(f"{name}.{ending}" for name in _TABLES for ending in ("csv", "parquet"))]
    return [path for path in files_in(directory) if any(fnmatch(path.name, pattern) for pattern in patterns)]


def write_json(analysis: Mapping[str, object], directory: Path) -> Path:
    """Write analysis.json into the directory, which is created if it is missing. Raises OSError."""
    return write_whole(make_directory(directory) / "analysis.json", json.dumps(analysis, indent=2) + "\n")


def run_json(title: str, inspection: Inspection, case: Case, suspect: list[str]) -> dict[str, object]:
    """The contents of analysis.json for two captures."""
    return {
        "title": title,
        "outcome": case.outcome or None,
        "reason": case.reason or None,
        "session": case.session.model_dump(mode="json"),
        "file_size_bytes": case.file_size_bytes,
        "file_delivered_at_ns": case.file_delivered_at_ns,
        "goodput_missing_reason": inspection.left_out or None,
        "summary": inspection.summary.model_dump(mode="json", exclude={"source"}),
        "protocol": inspection.view.model_dump(mode="json", exclude={"source"}) if inspection.view else None,
        "clocks": inspection.clocks.model_dump(mode="json") if inspection.clocks else None,
        "notes": inspection.notes,
        "suspect": suspect,
        "faults": [asdict(hit) | {"text": hit.text} for hit in inspection.hits],
        "time": explanation_json(inspection.path, causes(inspection.path)) if inspection.path else None,
    }


def write_tables(tables: Mapping[str, Table], directory: Path, ending: str) -> list[str]:
    """Write each table to NAME.csv or NAME.parquet; returns the names of the files. Raises OSError."""
    return [write_table(table, directory / f"{name}.{ending}").name for name, table in tables.items()]


def run_tables(inspection: Inspection) -> dict[str, Table]:
    """The tables of a run by their names: packets, messages, traces."""
    tables = {"packets": inspection.packets}
    if inspection.exchange is not None:
        tables["messages"] = message_table(inspection.exchange.sent)
    return tables | (trace_tables(inspection.traces) if inspection.summary.session_s else {})


def trace_tables(traces: Traces) -> dict[str, Table]:
    """The tables of the traces by their names: trace-data, trace-queue-forward, ..."""
    return {f"trace-{name.replace('_', '-')}": table for name, table in trace_rows(traces).items()}


def message_table(sent: list[Message]) -> Table:
    """A row for each message, a column for each field up to `unplaced`."""
    names = list(Message.__dataclass_fields__)
    shown = names[: names.index("unplaced") + 1]
    return {name: _column([getattr(message, name) for message in sent]) for name in shown}


def _column(values: list[Any]) -> NDArray[np.generic]:
    """A column of values; None is masked, in columns of numbers."""
    missing = [value is None for value in values]
    if not any(missing):
        return np.array(values)
    return np.ma.array([0 if value is None else value for value in values], mask=missing)


def one_side_json(title: str, inspection: OneSideInspection, case: Case) -> dict[str, object]:
    """The contents of analysis.json for a single capture."""
    side = inspection.side
    return {
        "title": title,
        "session": case.session.model_dump(mode="json"),
        "file_size_bytes": case.file_size_bytes,
        "one_side": side.model_dump(mode="json"),
        "messages": message_counts(inspection.messages),
        "termination": inspection.endings,
        "notes": side.notes,
        "suspect": side.suspect,
    }


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
        faults=fault_rows(inspection),
        time=_time(inspection),
        files=["analysis.json", *write_tables(run_tables(inspection), directory, tables)],
    )


def _time(inspection: Inspection) -> dict[str, object] | None:
    """The breakdown of the session time for the page; None if it is not known."""
    path = inspection.path
    if path is None:
        return None
    return {
        "headline": headline(path),
        "rows": share_rows(path),
        "causes": [cause_text(cause, path) for cause in causes(path)],
    }


def _run_figures(title: str, inspection: Inspection, directory: Path) -> dict[str, str]:
    """Draw traces.svg and ladder.svg, if there is anything to draw. Returns their captions by name."""
    captions = {}
    if inspection.summary.str_sent or inspection.summary.rts_sent:
        save_drawing(draw_traces(inspection.traces, title), directory / "traces.svg")
        captions["traces"] = "Throughput, offset and acknowledgements, delay and queue over time."
    if steps := ending(inspection.rungs):
        save_drawing(draw_ladder(steps, title, inspection.rungs[0].left_ns), directory / "ladder.svg")
        captions["ladder"] = "The end of the session: from the last new data to the last packet."
    if inspection.path is not None:
        save_drawing(draw_waterfall(inspection.path, title), directory / "time.svg")
        captions["time"] = "The critical path of the session: what it waited for at each moment."
    return captions


def build_one_side_page(title: str, inspection: OneSideInspection, case: Case, directory: Path, tables: str) -> Path:
    """Write the page of a single capture, without packets, ledger and ladder, which need both captures.

    Raises OSError.
    """
    side, messages = inspection.side, inspection.messages
    write_json(one_side_json(title, inspection, case), directory)
    contents = {"messages": message_table(messages)} if messages else {}
    if side.session_seen_s:
        contents |= trace_tables(inspection.traces)
    return _render(
        directory,
        title=title,
        session=session_text(case.session),
        outcome="",
        has_failed=False,
        suspect=side.suspect,
        notes=side.notes,
        rows=one_side_rows(side, case),
        figures=_one_side_figures(title, side, inspection.traces, directory),
        messages=message_rows(message_counts(messages), message_bytes(messages)),
        termination=inspection.endings,
        ledger=[],
        faults=[],
        time=None,
        files=["analysis.json", *write_tables(contents, directory, tables)],
    )


def _one_side_figures(title: str, side: OneSide, traces: Traces, directory: Path) -> dict[str, str]:
    """Draw traces.svg, if there is anything to draw. Returns its caption by name."""
    if not (side.str_packets or side.rts_packets):
        return {}
    save_drawing(draw_traces(traces, f"{title}, at the {side.seen_at}'s port"), directory / "traces.svg")
    return {"traces": f"Throughput, offset and acknowledgements over time, as captured at the {side.seen_at}'s port."}


def _render(directory: Path, **context: object) -> Path:
    page = directory / "index.html"
    page.write_text(new_environment().get_template("run.html").render(**context))
    return page


def row_of(part: Part) -> str:
    """The row of a part: the host that waits or processes, or the direction of its packet."""
    if part.kind in WAITS:
        return part.host
    return "forward" if part.host == "sender" else "reverse"


def draw_waterfall(path: CriticalPath, title: str) -> Canvas:
    """The figure of a path; times count from the session's first packet."""
    unit, unit_s = time_unit(path.length_ns / 1e9)
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(_WIDTH, _HEIGHT), layout="constrained")
        axes = canvas.subplots()
        for row, name in enumerate(reversed(ROWS)):
            _draw_row(axes, row, [part for part in path.parts if row_of(part) == name], path.begin_ns, unit_s)
        axes.set_yticks(range(len(ROWS)), [*reversed(ROWS)])
        axes.set_ylim(-0.5, len(ROWS) - 0.5)
        axes.set_xlim(0, path.length_ns / 1e9 / unit_s)
        axes.set_xlabel(f"time since the session's first packet ({unit})")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
        _draw_phases(axes, path, unit_s)
        axes.set_title(title, loc="left", color=INK, pad=18, fontweight="bold")
        kinds = [kind for kind in KINDS if any(part.kind == kind for part in path.parts)]
        handles = [Patch(color=TIME[kind], label=TIME_TITLES[kind]) for kind in kinds]
        canvas.legend(handles=handles, loc="outside lower left", ncols=3)
    return canvas


def _draw_row(axes: Axes, row: int, parts: list[Part], begin_ns: int, unit_s: float) -> None:
    for kind in KINDS:
        spans = [
            ((part.begin_ns - begin_ns) / 1e9 / unit_s, part.length_ns / 1e9 / unit_s)
            for part in parts
            if part.kind == kind
        ]
        if spans:
            axes.broken_barh(spans, (row - 0.35, 0.7), color=TIME[kind], linewidth=0)
    axes.axhline(row - 0.5, color=RULE, linewidth=0.5)


def _draw_phases(axes: Axes, path: CriticalPath, unit_s: float) -> None:
    """A line where each phase begins, and the names of those that are long enough."""
    spent, at_ns = spent_ns(path), 0
    for phase in PHASES:
        length_ns = sum(spent[phase].values())
        if at_ns and length_ns:
            axes.axvline(at_ns / 1e9 / unit_s, color=MUTED, linewidth=0.6, linestyle=(0, (3, 2)))
        if length_ns >= _LEAST_LABEL * path.length_ns:
            middle = (at_ns + length_ns / 2) / 1e9 / unit_s
            axes.annotate(
                phase,
                (middle, 1),
                (0, 4),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                ha="center",
                color=MUTED,
            )
        at_ns += length_ns

"""The figures of single runs: the ladder of how one ended, its traces, TCP's window.

What is in them is captures.inspection's, how they look ladder.py's, trace_figure.py's and tcp_figure.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from captures.files.blocks import NotACapture
from captures.inspection import Case, inspect
from captures.kept import CAPTURES
from captures.pairs import load_pairs
from captures.protocols.ladder import ending
from captures.session import Session
from captures.summary import read_both
from captures.traces.bottleneck import Link
from reports.channels import channel_head
from reports.cores import Share
from reports.figures import save
from reports.ladder import draw_ladder
from reports.links import link_of
from reports.load import Results
from reports.panels import file_text
from reports.protocols import Said
from reports.records import ReportError
from reports.tcp_figure import SAMPLES_NAME, draw_connection, read_connection
from reports.trace_figure import draw_traces
from reports.units import probability_text, size_text

MOST_DRAWN = 40
"""Implementations of which a run is drawn: it takes some seconds each."""


@dataclass(frozen=True)
class SessionFigure:
    """A drawn figure of one run; `name` is that of its files."""

    name: str
    caption: str


@dataclass(frozen=True)
class Drawn:
    """The figures of one run; `problem` says why there is no ladder and no trace."""

    ladder: SessionFigure | None = None
    traces: SessionFigure | None = None
    window: SessionFigure | None = None
    problem: str = ""


@dataclass(frozen=True)
class _Task:
    """What a process needs to know to draw a run."""

    name: str
    directory: Path
    session: dict[str, Any]
    dissector: tuple[str, ...]
    links: tuple[Link | None, Link | None]
    title: str
    where: str


def draw_sessions(results: Results, said: Sequence[Said], figures: Path, share: Share) -> dict[str, Drawn]:
    """Draw the runs, into `figures`; by implementation, what came of it."""
    tasks = [_task(results, each) for each in said[:MOST_DRAWN]]
    found = {task.name: drawn for task, drawn in zip(tasks, share(partial(_draw, figures=figures), tasks), strict=True)}
    left_out = f"the runs of {MOST_DRAWN} implementations are drawn, and this is one more; owlt analyse draws any run"
    return found | {each.name: Drawn(problem=left_out) for each in said[MOST_DRAWN:]}


def _task(results: Results, said: Said) -> _Task:
    record = said.run.record
    channel = results.channels[record.permutation].asked
    named = f"channel {record.channel_name}, " if record.channel_name else ""
    return _Task(
        name=said.name,
        directory=said.run.directory,
        session=record.session,
        dissector=tuple(said.view.dissector),
        links=(link_of(channel, "forward"), link_of(channel, "reverse")),
        title=results.implementations[said.name],
        where=f"{size_text(record.file_size_bytes)}, {named}{channel_head(channel)}, "
        f"packet error rate {probability_text(record.packet_error_rate)}",
    )


def _draw(task: _Task, figures: Path) -> Drawn:
    window = _draw_window(task, figures)
    if not all((task.directory / name).exists() for name in CAPTURES):
        return Drawn(window=window, problem="its captures were not kept")
    try:
        ladder, traces = _draw_packets(task, figures)
    except (NotACapture, ValueError, OSError) as problem:
        return Drawn(window=window, problem=f"its captures cannot be drawn: {problem}")
    return Drawn(ladder, traces, window, "" if ladder else "no message of its protocol was found in its captures")


def _draw_packets(task: _Task, figures: Path) -> tuple[SessionFigure | None, SessionFigure]:
    case = Case(
        Session.model_validate(task.session),
        task.dissector,
        forward_link=task.links[0],
        reverse_link=task.links[1],
    )
    both = read_both(*(task.directory / name for name in CAPTURES))
    found = inspect(*both, case, deliveries=load_pairs(task.directory, *both, case.session))
    cut = " Of frames that were cut, damage further behind is not seen." if found.summary.headers_only else ""
    ladder = None
    if found.climbed:
        ladder = SessionFigure(
            file_text(f"ladder-{task.name}"),
            f"How a session of {task.title} ended: {task.where}. An arrow for each message, as slanted as it was long "
            f"on its way; time runs downwards, from shortly before the last data that were new.{cut}",
        )
        save(draw_ladder(ending(found.climbed), task.title), figures, ladder.name)
    traces = SessionFigure(
        file_text(f"traces-{task.name}"), f"The whole session of {task.title} over time: {task.where}."
    )
    save(draw_traces(found.traces, task.title), figures, traces.name)
    return ladder, traces


def _draw_window(task: _Task, figures: Path) -> SessionFigure | None:
    samples = task.directory / SAMPLES_NAME
    try:
        connection = read_connection(samples) if samples.exists() else None
    except ReportError:
        return None
    if connection is None:
        return None
    window = SessionFigure(
        file_text(f"window-{task.name}"),
        f"TCP’s window in a run of {task.title}, as the sender’s kernel had it: {task.where}.",
    )
    save(draw_connection(connection, task.title), figures, window.name)
    return window

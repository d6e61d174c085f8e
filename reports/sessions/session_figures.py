"""The figures of single runs: the ladder of how one ended, its traces, TCP's window.

Their values are captures.inspection's; drawing them belongs to ladder.py, trace_figure.py and tcp_figure.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from owlt.captures.accounting.derived_files import CAPTURES, digest_of_file
from owlt.captures.accounting.pairs import PAIRS, load_pairs
from owlt.captures.accounting.summary import read_both
from owlt.captures.files.blocks import NotACapture
from owlt.captures.frames.session import Session
from owlt.captures.inspection.inspection import Case, inspect
from owlt.captures.matches.bottleneck import Link
from owlt.captures.protocols.ladder import ending
from owlt.reports.comparison.panels import file_text
from owlt.reports.drawing.kept import KeptFigures, Share, digest_of_drawing
from owlt.reports.drawing.sweep_figures import save
from owlt.reports.results.channels import channel_head, link_of
from owlt.reports.results.load import Results
from owlt.reports.sessions.ladder import draw_ladder
from owlt.reports.sessions.protocols import ShownRun
from owlt.reports.sessions.tcp_figure import SAMPLES_NAME, draw_connection, read_connection
from owlt.reports.sessions.trace_figure import draw_traces
from owlt.reports.units import probability_text
from owlt.results.files import ReportError
from owlt.results.plain_files import is_plain

MOST_DRAWN = 40
"""The most implementations of which a run is drawn; each takes some seconds."""


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

    @property
    def figures(self) -> list[SessionFigure]:
        """Those that there are."""
        return [figure for figure in (self.ladder, self.traces, self.window) if figure]


@dataclass(frozen=True)
class _Task:
    """A run to draw, as values that another process can be given."""

    name: str
    directory: Path
    session: dict[str, Any]
    dissector: tuple[str, ...]
    links: tuple[Link | None, Link | None]
    title: str
    where: str


def draw_sessions(
    results: Results, shown_runs: Sequence[ShownRun], kept: KeptFigures, share: Share
) -> dict[str, Drawn]:
    """Draw the runs that `kept` does not have. Returns the figures by implementation."""
    tasks = [_task(results, each) for each in shown_runs[:MOST_DRAWN]]
    drawn_from = {task.name: digest_of_drawing(_values(task)) for task in tasks}
    drawn_runs = {task.name: _read_note(kept.take(_key(task), drawn_from[task.name])) for task in tasks}
    missing = [task for task in tasks if drawn_runs[task.name] is None]
    draw = partial(_draw, figures=kept.figures, with_pdf=".pdf" in kept.suffixes)
    for task, drawn in zip(missing, share(draw, missing), strict=True):
        drawn_runs[task.name] = drawn
        files = [f"{figure.name}{suffix}" for figure in drawn.figures for suffix in kept.suffixes]
        kept.note(_key(task), drawn_from[task.name], files, asdict(drawn))
    not_drawn = f"only the runs of the first {MOST_DRAWN} implementations are drawn; owlt analyse draws any run"
    return {name: drawn for name, drawn in drawn_runs.items() if drawn} | {
        each.name: Drawn(problem=not_drawn) for each in shown_runs[MOST_DRAWN:]
    }


def _key(task: _Task) -> str:
    return f"session of {task.name}"


def _values(task: _Task) -> object:
    """All that a run is drawn from: the files by their digests."""
    paths = [task.directory / name for name in (*CAPTURES, PAIRS, SAMPLES_NAME)]
    digests = {path.name: digest_of_file(path) for path in paths if is_plain(path)}
    return [repr(replace(task, directory=Path())), digests]


def _read_note(note: Any) -> Drawn | None:
    """What was noted of a run; None if nothing was."""
    if note is None:
        return None
    figures = {name: SessionFigure(**note[name]) if note[name] else None for name in ("ladder", "traces", "window")}
    return Drawn(**figures, problem=note["problem"])


def _task(results: Results, shown: ShownRun) -> _Task:
    record = shown.run.record
    channel = results.channels[record.permutation].specified
    named = f"channel {record.channel_name}, " if record.channel_name else ""
    return _Task(
        name=shown.name,
        directory=shown.run.directory,
        session=record.session,
        dissector=tuple(shown.view.dissector),
        links=(link_of(channel, "forward"), link_of(channel, "reverse")),
        title=results.implementations[shown.name],
        where=f"{record.permutation.load_text}, {named}{channel_head(channel)}, "
        f"packet error rate {probability_text(record.packet_error_rate)}",
    )


def _draw(task: _Task, figures: Path, with_pdf: bool) -> Drawn:
    window = _draw_window(task, figures, with_pdf)
    if not all(is_plain(task.directory / name) for name in CAPTURES):
        return Drawn(window=window, problem="its captures were not kept")
    try:
        ladder, traces = _draw_packets(task, figures, with_pdf)
    except (NotACapture, ValueError, OSError) as problem:
        return Drawn(window=window, problem=f"its captures cannot be drawn: {problem}")
    return Drawn(ladder, traces, window, "" if ladder else "its captures have no message of its protocol")


def _draw_packets(task: _Task, figures: Path, with_pdf: bool) -> tuple[SessionFigure | None, SessionFigure]:
    case = Case(
        Session.model_validate(task.session),
        task.dissector,
        forward_link=task.links[0],
        reverse_link=task.links[1],
    )
    both = read_both(*(task.directory / name for name in CAPTURES))
    inspection = inspect(*both, case, crossing=load_pairs(task.directory, *both, case.session))
    cut = (
        " The captures contain only the beginning of each frame; damage beyond it is not visible."
        if inspection.summary.headers_only
        else ""
    )
    ladder = None
    if inspection.rungs:
        ladder = SessionFigure(
            file_text(f"ladder-{task.name}"),
            f"The end of a session of {task.title}: {task.where}. Each arrow is a message, from the time it was sent "
            f"to the time it arrived; time runs downwards, from shortly before the last new data.{cut}",
        )
        save(draw_ladder(ending(inspection.rungs), task.title), figures, ladder.name, with_pdf)
    traces = SessionFigure(
        file_text(f"traces-{task.name}"), f"The whole session of {task.title} over time: {task.where}."
    )
    save(draw_traces(inspection.traces, task.title), figures, traces.name, with_pdf)
    return ladder, traces


def _draw_window(task: _Task, figures: Path, with_pdf: bool) -> SessionFigure | None:
    samples = task.directory / SAMPLES_NAME
    try:
        connection = read_connection(samples) if is_plain(samples) else None
    except ReportError:
        return None
    if connection is None:
        return None
    window = SessionFigure(
        file_text(f"window-{task.name}"),
        f"The congestion window in a run of {task.title}, from the sender’s kernel: {task.where}.",
    )
    save(draw_connection(connection, task.title), figures, window.name, with_pdf)
    return window

"""The figures of single runs: the ladder of how one ended, its traces, TCP's window.

The values of ladder and traces are captures.inspection's; ladder.py and trace_figure.py draw them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from owlt.captures.accounting.derived_files import CAPTURES, PAIRS, digest_of_file, load_pairs
from owlt.captures.accounting.summary import read_both
from owlt.captures.files.blocks import NotACapture
from owlt.captures.frames.session import Session
from owlt.captures.inspection.inspection import Case, inspect
from owlt.captures.matches.bottleneck import Link
from owlt.captures.pool import Share
from owlt.captures.protocols.ladder import ending
from owlt.inputs.mistake import Mistake, Place
from owlt.reports.comparison.panels import file_text
from owlt.reports.drawing.output import KeptFigures, digest_of_drawing
from owlt.reports.drawing.sweep_figures import save
from owlt.reports.looks import MUTED, SERIES, STYLE, draw_grid
from owlt.reports.results.channels import ChannelChanges, changes_during, channel_head, link_of
from owlt.reports.results.load import Results, Run
from owlt.reports.sessions.ladder import draw_ladder
from owlt.reports.sessions.protocols import ShownRun
from owlt.reports.sessions.trace_figure import draw_traces
from owlt.reports.units import probability_text, tick_text
from owlt.results.files import SAMPLES_NAME, ReportError, WrittenChannel
from owlt.results.plain_files import is_plain, read_plain

MOST_DRAWN = 40
"""The most implementations of which a run is drawn; each takes some seconds."""
CHANGES = " Grey: outages of the channel; dotted lines: other steps of its timeline."


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
        """The figures that exist."""
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
    changes: ChannelChanges


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
    """The values that a run is drawn from: the files by their digests."""
    paths = [task.directory / name for name in (*CAPTURES, PAIRS, SAMPLES_NAME)]
    digests = {path.name: digest_of_file(path) for path in paths if is_plain(path)}
    return [repr(replace(task, directory=Path())), digests]


def _read_note(note: Any) -> Drawn | None:
    """The note on a run; None if there is none."""
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
        changes=_changes(channel, shown.run),
    )


def _changes(channel: WrittenChannel, run: Run) -> ChannelChanges:
    """The changes of the channel during a run: its timeline begins when the first program is launched."""
    record, first_ns = run.record, run.summary.first_packet_ns if run.summary else None
    if record.started_at_ns is None or record.ended_at_ns is None or first_ns is None:
        return ChannelChanges()
    launched_s, ended_s = (record.started_at_ns - first_ns) / 1e9, (record.ended_at_ns - first_ns) / 1e9
    return changes_during(channel, launched_s, ended_s)


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
    changes = CHANGES if task.changes != ChannelChanges() else ""
    ladder = None
    if inspection.rungs:
        ladder = SessionFigure(
            file_text(f"ladder-{task.name}"),
            f"The end of a session of {task.title}: {task.where}. Each arrow is a message, from the time it was sent "
            f"to the time it arrived; time runs downwards, from shortly before the last new data.{changes}{cut}",
        )
        drawn = draw_ladder(ending(inspection.rungs), task.title, inspection.rungs[0].left_ns, task.changes)
        save(drawn, figures, ladder.name, with_pdf)
    traces = SessionFigure(
        file_text(f"traces-{task.name}"), f"The whole session of {task.title} over time: {task.where}.{changes}"
    )
    save(draw_traces(inspection.traces, task.title, changes=task.changes), figures, traces.name, with_pdf)
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


WIDTH, HEIGHT = 7.0, 3.3
LEFT, RIGHT, TOP, BOTTOM, GAP, LABEL = 0.86, 0.12, 0.56, 0.48, 0.20, 0.52
"""Inches."""
WINDOW, THRESHOLD, ROUND_TRIP = SERIES[0], SERIES[1], SERIES[2]
SHADES = {"recovery": (SERIES[4], 0.22), "loss": (SERIES[6], 0.30)}
_NUMBERS = ("cwnd_segments", "ssthresh_segments", "srtt_us", "rttvar_us", "bytes_acked")
_MINUTES_FROM_S, _HOURS_FROM_S = 600.0, 3 * 3600.0

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Connection:
    """The samples of one connection: a value for each, NaN before the first.

    `time_s` counts from the first sample. `state` is Linux's congestion state: open, disorder, cwr, recovery, loss.
    """

    time_s: Numbers
    cwnd_segments: Numbers
    ssthresh_segments: Numbers
    srtt_s: Numbers
    rttvar_s: Numbers
    state: tuple[str, ...]
    others: int
    """The number of other connections of the run, which carried less data."""


def read_connection(path: Path) -> Connection | None:
    """The connection with the most bytes acknowledged, from a run's samples; None if there are no samples.

    Raises ReportError if the file is not a table of samples.
    """
    try:
        lines = read_plain(path).decode().splitlines()
        sockets = _samples_by_socket(csv.DictReader(lines))
        if not sockets:
            return None
        samples = max(sockets.values(), key=lambda rows: _number(rows[-1]["bytes_acked"]))
        return _connection(samples, others=len(sockets) - 1)
    except (OSError, KeyError, TypeError, ValueError, csv.Error) as problem:
        raise ReportError(
            Mistake(
                f"not a table of TCP samples ({type(problem).__name__}: {problem})",
                fix="perform the run again, or remove the file",
                where=Place(str(path)),
            )
        ) from problem


def _samples_by_socket(rows: Iterable[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    """The samples of each socket, with the required columns. Raises KeyError if a column is missing."""
    sockets: dict[str, list[dict[str, str]]] = {}
    for row in rows:
        sample = {name: row[name] for name in ("socket", "time_ns", "ca_state", *_NUMBERS)}
        sockets.setdefault(sample["socket"], []).append(sample)
    return sockets


def _connection(samples: list[dict[str, str]], others: int) -> Connection:
    """The values of the samples. Raises ValueError if a text is not a number, TypeError if it is missing."""
    begin_ns = int(samples[0]["time_ns"])
    columns = {name: np.array([_number(sample[name]) for sample in samples]) for name in _NUMBERS}
    return Connection(
        time_s=np.array([(int(sample["time_ns"]) - begin_ns) / 1e9 for sample in samples]),
        cwnd_segments=columns["cwnd_segments"],
        ssthresh_segments=columns["ssthresh_segments"],
        srtt_s=columns["srtt_us"] / 1e6,
        rttvar_s=columns["rttvar_us"] / 1e6,
        state=tuple(sample["ca_state"] for sample in samples),
        others=others,
    )


def _number(text: str) -> float:
    return np.nan if text == "" else float(text)


def draw_connection(connection: Connection, title: str) -> Canvas:
    """The figure of a connection, 7 inches wide."""
    with matplotlib.rc_context(STYLE):
        canvas = Canvas(figsize=(WIDTH, HEIGHT))
        canvas.text(LEFT / WIDTH, 1 - 0.16 / HEIGHT, title, fontsize=9, fontweight="bold", va="center")
        height = (HEIGHT - TOP - BOTTOM - GAP) / 2
        upper = _place(canvas, BOTTOM + height + GAP, height)
        lower = _place(canvas, BOTTOM, height)
        unit, unit_s = _time_unit(float(connection.time_s[-1]))
        time = connection.time_s / unit_s
        _draw_segments(upper, time, connection)
        _draw_round_trip(lower, time, connection)
        for axes in (upper, lower):
            _shade(axes, time, connection.state)
            axes.set_xlim(0, time[-1] or 1)
            axes.yaxis.set_label_coords(-LABEL / (WIDTH - LEFT - RIGHT), 0.5)
        upper.tick_params(labelbottom=False)
        others = f"; {connection.others} other connections not shown" if connection.others else ""
        lower.set_xlabel(f"time since the first sample of the connection ({unit}){others}")
        canvas.legend(
            handles=_legend(connection),
            loc="upper left",
            bbox_to_anchor=(LEFT / WIDTH, 1 - 0.30 / HEIGHT),
            ncols=6,
            handlelength=1.6,
        )
    return canvas


def _place(canvas: Canvas, bottom: float, height: float) -> Axes:
    axes = canvas.add_axes((LEFT / WIDTH, bottom / HEIGHT, (WIDTH - LEFT - RIGHT) / WIDTH, height / HEIGHT))
    draw_grid(axes)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(round(value, 9))))
    return axes


def _draw_segments(axes: Axes, time: Numbers, connection: Connection) -> None:
    window, threshold = connection.cwnd_segments, connection.ssthresh_segments
    axes.step(time, threshold, where="post", color=THRESHOLD, linewidth=1.0, dashes=(2.2, 1.2))
    axes.step(time, window, where="post", color=WINDOW, linewidth=1.2)
    axes.set_ylim(0, 1.12 * max(_greatest(window), _greatest(threshold), 1.0))
    axes.set_ylabel("segments")


def _draw_round_trip(axes: Axes, time: Numbers, connection: Connection) -> None:
    middle, around = 1e3 * connection.srtt_s, 1e3 * connection.rttvar_s
    axes.fill_between(time, middle - around, middle + around, step="post", color=ROUND_TRIP, alpha=0.2, linewidth=0)
    axes.step(time, middle, where="post", color=ROUND_TRIP, linewidth=1.2)
    axes.set_ylim(0, 1.12 * max(_greatest(middle + around), 1e-3))
    axes.set_ylabel("smoothed round trip\n± variation (ms)")


def _greatest(values: Numbers) -> float:
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size else 0.0


def _shade(axes: Axes, time: Numbers, state: tuple[str, ...]) -> None:
    """Shade the time from each sample in loss recovery until the next sample."""
    for begin, end, name in zip(time, time[1:], state, strict=False):
        if name in SHADES:
            colour, strength = SHADES[name]
            axes.axvspan(begin, end, color=colour, alpha=strength, linewidth=0, zorder=0)


def _legend(connection: Connection) -> list[Line2D | Patch]:
    def line(label: str, **looks: Any) -> Line2D:
        return Line2D([], [], label=label, **looks)

    handles: list[Line2D | Patch] = [line("congestion window", color=WINDOW, linewidth=1.2)]
    if np.isfinite(connection.ssthresh_segments).any():
        handles.append(line("slow start threshold", color=THRESHOLD, linewidth=1.0, dashes=(2.2, 1.2)))
    names = {"recovery": "fast recovery", "loss": "after a timeout"}
    for name, (colour, strength) in SHADES.items():
        if name in connection.state:
            handles.append(Patch(color=colour, alpha=strength, linewidth=0, label=names[name]))
    if not any(name in connection.state for name in SHADES):
        handles.append(Patch(color=MUTED, alpha=0, linewidth=0, label="no loss recovery in any sample"))
    return handles


def _time_unit(longest_s: float) -> tuple[str, float]:
    if longest_s >= _HOURS_FROM_S:
        return "h", 3600.0
    return ("min", 60.0) if longest_s >= _MINUTES_FROM_S else ("s", 1.0)

"""One TCP connection over time, from samples of the sender's kernel: congestion window, threshold, round-trip time."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
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

from owlt.inputs.mistake import Mistake, Place
from owlt.reports.looks import MUTED, RULE, SERIES, STYLE
from owlt.reports.units import tick_text
from owlt.results.files import ReportError
from owlt.results.plain_files import read_plain

SAMPLES_NAME = "tcp-sender.csv"
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
        _draw_window(upper, time, connection)
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
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=RULE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(value)))
    axes.xaxis.set_major_locator(MaxNLocator(7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick_text(round(value, 9))))
    return axes


def _draw_window(axes: Axes, time: Numbers, connection: Connection) -> None:
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
        handles.append(line("slow-start threshold", color=THRESHOLD, linewidth=1.0, dashes=(2.2, 1.2)))
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

"""The state of a sweep in words: a headline, its process, what a worker does."""

from __future__ import annotations

import time
from collections.abc import Mapping

from owlt.orchestrator.planning.estimate import duration_text
from owlt.orchestrator.results.record import Outcome
from owlt.orchestrator.status.activity import Activity
from owlt.orchestrator.status.state import AdaptiveState, Counts, SweepState


def headline(state: SweepState) -> str:
    """How far a sweep is, and how long it still takes: "demo: 5 of 9 runs recorded, 1 failed; about 4 min left"."""
    text = f"{state.sweep}: {progress_text(state.counts)}"
    if state.process.state == "running" and state.time_left_s:
        text += f"; about {duration_text(state.time_left_s)} left"
    return text


def progress_text(counts: Counts) -> str:
    """The numbers of runs that matter to a reader who is not there: "5 of 9 runs recorded, 1 failed"."""
    recorded = sum(counts.by_outcome.values())
    parts = [f"{recorded} of {counts.planned} runs recorded"]
    parts += [
        f"{number} {outcome.replace('_', ' ')}"
        for outcome, number in counts.by_outcome.items()
        if outcome != Outcome.COMPLETED
    ]
    parts += [f"{counts.suspect} suspect"] if counts.suspect else []
    return ", ".join(parts)


def repetitions_text(repetitions: AdaptiveState) -> str:
    """The rule of adaptive repetitions, and how many permutations are done."""
    numbers = repetitions.permutations
    done = [(numbers["narrow"], "narrow enough"), (numbers["bound"], "at the bound")]
    done += [(numbers["undelivered"], "without a delivery")]
    parts = [f"{number} {what}" for number, what in [*done, (numbers["open"], "open")] if number]
    return (
        f"repetitions: {repetitions.at_least} to {repetitions.at_most}, until the interval of the median goodput is "
        f"{repetitions.until_interval_percent:g} % wide; of {sum(numbers.values())} permutations {', '.join(parts)}"
    )


def process_text(state: SweepState) -> str:
    """Which process performs the sweep, or how the latest one ended."""
    process = state.process
    match process.state:
        case "running":
            return f"running: {process.holder or 'a process that has not written its name yet'}"
        case "killed":
            return f"not running: {process.holder} was killed, or its machine was restarted; 'owlt run' resumes"
        case "unknown" if process.holder:
            return f"unknown: {process.holder} did not release its lock; it may still run on that machine"
        case "unknown":
            return "unknown: its lock cannot be read"
    if state.ended_s is None:
        return "not running"
    return f"not running: ended {since(state.ended_s, state.read_at_s)}"


def activity_text(activity: Activity, channels: Mapping[str, str]) -> str:
    """What a worker does, and on which other machine: "perform ltp_1MB_..._r1: transfer (on lab2)".

    `channels` are in words, by key.
    """
    machine = f" (on {activity.machine})" if activity.machine else ""
    if activity.run_id:
        return f"{activity.what} {activity.run_id}{f': {activity.phase}' if activity.phase else ''}{machine}"
    return f"{activity.what} {channels.get(activity.channel, activity.channel)}".rstrip() + machine


def since(at_s: float, now_s: float) -> str:
    """A time and how long ago it was."""
    return f"{stamp(at_s)} ({duration(now_s - at_s)} ago)"


def stamp(at_s: float) -> str:
    """A time of this machine's clock, in its time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))


def duration(seconds: float) -> str:
    """A duration that is over; 0 if the clock was set back meanwhile."""
    return duration_text(max(seconds, 0.0))

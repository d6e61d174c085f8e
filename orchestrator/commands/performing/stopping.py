"""The options that end a sweep in time: `--until` and `--for`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.orchestrator.sweep.scheduling import StopTime

Until = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Start no run that would end after this wall-clock time, such as 07:00."),
]
For = Annotated[
    str | None,
    typer.Option(
        "--for", metavar="DURATION", help='Start no run that would end after this duration, such as 8h or "90 min".'
    ),
]


def stop_time(until: str | None, duration: str | None) -> StopTime | None:
    """The time of --until, by the machine's clock, or of --for, by one that is never set; None if neither is given."""
    from datetime import datetime

    from owlt.inputs.mistake import Invalid, keys_below
    from owlt.inputs.quantities import parse_delay_ns
    from owlt.orchestrator.steady_clock import steady_s
    from owlt.orchestrator.sweep.scheduling import StopTime, parse_until

    if until and duration:
        raise OwltError(Mistake.of("--for", "got both --until and --for", "one of them"))
    try:
        if until:
            with keys_below("--until"):
                return StopTime(parse_until(until, datetime.now().astimezone()).timestamp(), time.time)
        if duration:
            with keys_below("--for"):
                return StopTime(steady_s() + parse_delay_ns(duration, "20 min", ("min", "h")) / 1e9, steady_s)
    except Invalid as problem:
        raise OwltError(*problem.mistakes) from problem
    return None

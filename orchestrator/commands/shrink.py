"""`owlt shrink`: the fewest losses of a run that still have the same effect."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.fault_tests import (
    case_runs,
    empty_directory,
    perform_sets,
    require_repeatable,
    transfers,
    write_channel,
)
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Guests, Json, parsed
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.orchestrator.checks.fault_cases import Hits
    from owlt.orchestrator.checks.proof import Trial

SHRUNK = Path("results", "shrunk")
CHANNEL = "channel.yaml"


def shrink(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run: RESULTS/runs/NAME.")],
    slower_than: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Effect to preserve: delivery later than this; default: no delivery."),
    ] = None,
    guests: Guests = None,
    as_json: Json = False,
) -> None:
    """Find the fewest losses of a run that still have its effect.

    The effect is that the file is not delivered, or is delivered late. The transfer is repeated without random effects
    and with fewer and fewer of its losses, until none can be removed. A loss is identified as the n-th packet of a
    direction, or as the n-th packet with the same message if fewer losses remain that way. The runs remain in
    results/shrunk/NAME, with a channel file that reproduces the losses.

    Exit status: 0 if the losses are found, 1 if the losses of the run alone do not have the effect.
    """
    from owlt.inputs.quantities import parse_delay_ns
    from owlt.orchestrator.checks import shrinking
    from owlt.orchestrator.checks.fault_cases import ladder_lines
    from owlt.orchestrator.checks.proof import UNDECIDED
    from owlt.orchestrator.planning.plan import channel_of, read_plan
    from owlt.results.plain_files import real_root
    from owlt.results.record import Outcome, read_record
    from owlt.results.recorded_runs import results_root

    printer = Printer(as_json)
    limit_s = parsed("--slower-than", slower_than, parse_delay_ns) / 1e9 if slower_than else None
    directory = real_root(run.absolute())
    try:
        record, plan = read_record(directory), read_plan(results_root(directory.parent.parent))
    except FileNotFoundError:
        expected = "the directory of a recorded run, such as results/demo/runs/NAME"
        raise OwltError(Mistake.of(str(run), "is not the directory of a run", expected)) from None
    if limit_s is None and record.outcome is Outcome.COMPLETED:
        fix = "give a time: --slower-than '30 s'"
        raise OwltError(Mistake.of(str(run), "the file was delivered", "a run whose file was not", fix))
    if record.file_size_bytes is None:
        raise OwltError(Mistake.of(str(run), "data was sent for a duration", "a run that sent a file"))
    planned = next((each for each in plan.runs if each.run_id == record.run_id), None)
    if planned is None:
        raise OwltError(Mistake.of(str(run), "the run is not in the plan of its results"))
    implementation = plan.implementations[record.implementation]
    require_repeatable(implementation)
    channel = shrinking.without_random_effects(channel_of(planned, plan.channels[planned.channel_key], True))
    losses = shrinking.losses_of(directory)
    if not losses:
        raise OwltError(Mistake.of(str(run), "no packet was lost", "a run with losses"))
    results = empty_directory(SHRUNK, record.run_id)
    again = shlex.join(["owlt", "shrink", str(run), *(["--slower-than", slower_than] if slower_than else [])])
    plan_of = transfers(implementation, channel, record.file_size_bytes, record.ip)
    tried: dict[Hits, Trial] = {}

    with case_runs(printer, again, guests) as perform:

        def has_effect(sets: Sequence[Hits]) -> list[bool]:
            left = [each for each in dict.fromkeys(sets) if each not in tried]
            number = len(list(results.iterdir())) if results.exists() else 0
            for trial in perform_sets(perform, plan_of, left, results / f"round-{number + 1}"):
                if trial.outcome in UNDECIDED:
                    printer.note(f"{trial.run}: {trial.outcome}: {trial.reason}; to run it again: {again}")
                    raise typer.Exit(1)
                tried[trial.hits] = trial
            return [is_as_before(tried[each], limit_s) for each in sets]

        if not has_effect([losses])[0]:
            printer.json({"run": run, "losses": len(losses), "left": None, "channel": None, "runs": len(tried)})
            printer.text(f"{run}: the {len(losses)} losses alone do not have the effect: {tried[losses].outcome}")
            raise typer.Exit(1)
        left = shrinking.result_of(shrinking.shrink(losses), has_effect)
        if len(left) > 1:
            of_messages = shrinking.addressed_by_message(tried[left].run, left, implementation.protocol)
            fewer = shrinking.result_of(shrinking.shrink_by_message(of_messages), has_effect)
            left = min(left, fewer, key=len)
    trial = tried[left]
    path = write_channel(trial, channel, results / CHANNEL)
    printer.json({"run": run, "losses": len(losses), "left": list(trial.packets), "channel": path, "runs": len(tried)})
    lines = ladder_lines(trial.run)
    printer.text("\n  ".join([f"{trial.outcome}{f': {trial.reason}' if trial.reason else ''}:", *lines]))
    printer.text(f"{len(left)} of {len(losses)} losses are required: {trial.text}")
    printer.text(f"channel file with these losses: {path} ({len(tried)} runs)")


def is_as_before(trial: Trial, limit_s: float | None) -> bool:
    """Whether the file was not delivered, or was delivered later than a limit."""
    from owlt.results.record import NOT_DELIVERED

    if limit_s is None:
        return trial.outcome in NOT_DELIVERED
    return trial.delivered_s is not None and trial.delivered_s > limit_s

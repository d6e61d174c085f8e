"""From a sweep file to its plan: reads the sweep, its implementations and channels, and collects every mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from owlt.agents.contract.implementation import Implementation
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.mistake import Mistake, Place, got
from owlt.orchestrator.errors import ProfileError, SweepMistake
from owlt.orchestrator.planning.plan import Plan, plan_sweep
from owlt.orchestrator.profiles.catalogue import implementations_of, not_found
from owlt.orchestrator.profiles.channels import channels_of
from owlt.orchestrator.profiles.load import as_written, read_sweep_document, sweep_of

LAB = {"rig": "lab", "clock": "real"}
"""What a sweep has on a lab rig; it overrides the sweep file."""


def resolve(sweep_file: Path, in_lab: bool = False, host_captures: bool = False) -> Plan:
    """The plan of a sweep file. Raises ProfileError for what cannot be used as written, with every mistake in it.

    `in_lab`: on a lab rig, which a user names beside the file; `host_captures`: with captures at its hosts.
    """
    document = read_sweep_document(sweep_file)
    if in_lab:
        document = replace(document, value=document.value | LAB)
    if host_captures:
        document = replace(document, value=document.value | {"host_captures": True})
    located = document.positions.located
    try:
        sweep = sweep_of(document.value)
    except SweepMistake as problem:
        names = [*not_found("implementation", document.value), *not_found("channel", document.value)]
        raise ProfileError(*map(located, [*problem.mistakes, *names])) from None
    mistakes: list[Mistake] = []
    if sweep.rig != "virtual" and sweep.clock != "real":
        expected = f"real, the only clock of the {sweep.rig} rig"
        mistakes.append(Mistake(got(sweep.clock), expected, "write 'clock: real'", Place(key=("clock",))))
    if sweep.host_captures and sweep.rig != "lab":
        fix = "leave it out, or name the rig: owlt run SWEEP --rig INVENTORY"
        mistakes.append(Mistake(got(True), "a lab rig, whose hosts are machines", fix, Place(key=("host_captures",))))
    implementations: dict[str, Implementation] = {}
    channels: dict[str, ChannelSpec] = {}
    try:
        implementations = implementations_of(sweep)
    except SweepMistake as problem:
        mistakes += problem.mistakes
    try:
        channels = channels_of(sweep)
    except SweepMistake as problem:
        mistakes += problem.mistakes
    if mistakes:
        raise ProfileError(*map(located, mistakes))
    try:
        return plan_sweep(sweep, implementations, channels)
    except SweepMistake as problem:
        raise ProfileError(*(located(as_written(each, document.value)) for each in problem.mistakes)) from None
    except ProfileError as problem:
        raise ProfileError(*(mistake.at(Place(str(sweep_file))) for mistake in problem.mistakes)) from None

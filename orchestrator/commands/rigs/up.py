"""`owlt rigs up`: the local rig for experiments by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.terminal.completion import complete_channel
from owlt.orchestrator.terminal.ending import INTERRUPTED_STATUS, ended_by_signals
from owlt.orchestrator.terminal.output import Printer

if TYPE_CHECKING:
    from owlt.emulator.channel.spec import ChannelSpec
    from owlt.orchestrator.rigs.rig import Rig

WITHOUT_CAPABILITY = (
    "use a kernel that has what is missing ('owlt rigs check local'), or set the rig up without a channel: "
    "owlt rigs up; bit_error_rate and mtu can be changed without netem: owlt channel change --both bit_error_rate=1e-6"
)


def raise_local_rig(
    channel: Annotated[
        str | None,
        typer.Argument(
            metavar="CHANNEL",
            help="Name of a channel or path of its file; default: no impairments.",
            autocompletion=complete_channel,
        ),
    ] = None,
    start: Annotated[bool, typer.Option("--start", help="Start the channel's timeline too.")] = False,
    command: Annotated[
        str | None,
        typer.Option("--command", metavar="COMMAND", help="Shell command during which the rig stands."),
    ] = None,
) -> None:
    """Set up the local rig for experiments by hand, until Ctrl-C.

    Prints how to run programs on its hosts and how to change its channel. For --command, OWLT_EMULATOR and
    OWLT_TOKEN_FILE are set, so that 'owlt channel' and 'owlt dashboard' use this rig's emulator.

    Exit status: that of --command, otherwise 0.
    """
    from owlt.emulator.faults import EmulatorError
    from owlt.orchestrator.hosts.host import HostError
    from owlt.orchestrator.profiles.catalogue import find_channel
    from owlt.orchestrator.rigs import namespaces
    from owlt.orchestrator.third_party.places import third_party_directory

    spec = find_channel(channel).channel if channel else None
    if start and (spec is None or spec.timeline is None):
        raise OwltError(Mistake.of("--start", "the channel has no timeline", fix="name a channel with a timeline"))
    status = 0 if command is None else INTERRUPTED_STATUS
    with tempfile.TemporaryDirectory(prefix="owlt-rig-") as name, ended_by_signals():
        directory = Path(name)
        try:
            with namespaces.raised(directory / "rig", directory, third_party_directory()) as rig:
                configure_rig(rig, spec, start)
                environment = {
                    "OWLT_EMULATOR": rig.channel.url,
                    "OWLT_TOKEN_FILE": str(directory / "rig" / namespaces.TOKEN_NAME),
                }
                if command is not None:
                    status = subprocess.run(["sh", "-c", command], env=os.environ | environment, check=False).returncode
                else:
                    _print_use(rig, channel, environment)
                    _wait_for_signal()
        except EmulatorError as problem:
            raise OwltError(*problem.mistakes) from problem
        except HostError as problem:
            raise OwltError(Mistake(str(problem), fix="check this machine with: owlt rigs check local")) from problem
    raise typer.Exit(status)


def configure_rig(rig: Rig, spec: ChannelSpec | None, start: bool) -> None:
    """Apply the channel. Raises OwltError with the way out if the kernel cannot make it, EmulatorError."""
    from owlt.emulator.faults import NotCapable

    if spec is not None:
        try:
            rig.channel.configure(spec)
        except NotCapable as problem:
            raise OwltError(*(replace(each, fix=WITHOUT_CAPABILITY) for each in problem.mistakes)) from problem
    if start:
        rig.channel.timeline_start()


def _print_use(rig: Rig, channel: str | None, environment: dict[str, str]) -> None:
    from owlt.orchestrator.rigs.network import namespace

    printer = Printer()
    printer.table(
        ("host", "address", "to run a program there"),
        (
            ("sender", rig.sender.address, f"ip netns exec {namespace('sender')} COMMAND"),
            ("receiver", rig.receiver.address, f"ip netns exec {namespace('receiver')} COMMAND"),
            (
                "emulator",
                f"ports {rig.sender_port}, {rig.receiver_port}",
                f"ip netns exec {namespace('emulator')} COMMAND",
            ),
        ),
    )
    printer.text(f"channel: {channel or 'no impairments'}; to change it from another terminal:")
    printer.text("  export " + " ".join(f"{key}={value}" for key, value in environment.items()))
    printer.text(f"  owlt channel change --both {suggested_change(rig.channel.capabilities())}")


def suggested_change(capabilities: Mapping[str, Any]) -> str:
    """A change of the channel that a kernel with these capabilities can make."""
    return "delay=500ms" if capabilities["netem"]["available"] else "bit_error_rate=1e-6"


def _wait_for_signal() -> NoReturn:
    Printer().note("Ctrl-C or SIGTERM removes the rig")
    while True:
        signal.pause()

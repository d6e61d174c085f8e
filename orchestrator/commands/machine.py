"""`owlt doctor`, `rigs`, `kernel` and `emulator`: what this machine provides for runs, and the local rig by hand."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.output import Printer, print_requirements
from owlt.orchestrator.commands.usage import (
    Json,
    LabRigOption,
    Rig,
    StartTimeline,
    add_command,
    complete_channel,
    new_app,
)
from owlt.orchestrator.ending import INTERRUPTED_STATUS, ended_by_signals
from owlt.orchestrator.errors import OwltError, did_you_mean

if TYPE_CHECKING:
    from owlt.emulator.channel.spec import ChannelSpec
    from owlt.emulator.service.client import EmulatorClient
    from owlt.orchestrator.kernel.kernel import Kernel


rigs_app = new_app("List, show and check rigs, in which runs take place.")
kernel_app = new_app("Show and build the kernel of the virtual rig.")
emulator_app = new_app("Run the channel emulator.")

RIGS = {
    "virtual": "three namespaces in User-Mode Linux guests, one guest per core; clocks exact, skip and real",
    "local": "three namespaces on the running kernel; clock real; needs root, and netem for an impaired channel",
}
CLOCKS = {"virtual": ["exact", "skip", "real"], "local": ["real"]}


def doctor(rig: LabRigOption = None, as_json: Json = False) -> None:
    """Check this machine or a lab rig, and print how to fix it.

    For this machine, the list covers all rigs and all implementations that come with owlt. Nothing is changed.

    Exit status with --rig: 0 if nothing is missing that stops 'owlt run', 1 otherwise.
    """
    if rig is not None:
        _examine_lab(rig, Printer(as_json))
        return
    from owlt.orchestrator.checks.doctor import examine
    from owlt.orchestrator.profiles.catalogue import find_implementation, implementation_files

    printer = Printer(as_json)
    requirements = examine(find_implementation(str(path)) for path in implementation_files())
    printer.json(requirements)
    print_requirements(printer, requirements)


def _examine_lab(inventory: str, printer: Printer) -> None:
    from owlt.orchestrator.checks.lab_doctor import conclusion, examine_lab
    from owlt.orchestrator.profiles.inventory import lab_rig

    requirements = examine_lab(lab_rig(inventory)[1])
    printer.json(requirements)
    print_requirements(printer, requirements)
    printer.text(conclusion(requirements))
    raise typer.Exit(1 if any(requirement.stops_sweeps for requirement in requirements) else 0)


@add_command(rigs_app, "list")
def list_rigs(as_json: Json = False) -> None:
    """List the rigs, and whether each can be set up here."""
    printer = Printer(as_json)
    rigs = [_rig(name) for name in RIGS]
    printer.json(rigs)
    printer.table(
        ("rig", "description", "ready", "state"),
        ((rig["name"], rig["description"], not rig["missing"], rig["state"]) for rig in rigs),
    )


@add_command(rigs_app, "show")
def show_rig(rig: Rig, as_json: Json = False) -> None:
    """Show one rig: its clocks, its state, what is missing here."""
    Printer(as_json).show(_rig(_known_rig(rig)))


@add_command(rigs_app, "check")
def check_rig(rig: Rig, as_json: Json = False) -> None:
    """Check whether a rig can be set up here.

    Exit status: 0 if nothing is missing, 1 otherwise.
    """
    from owlt.orchestrator.checks.doctor import rig_requirements

    printer = Printer(as_json)
    requirements = rig_requirements(_known_rig(rig))
    printer.json(requirements)
    print_requirements(printer, requirements)
    raise typer.Exit(0 if all(requirement.found for requirement in requirements) else 1)


@add_command(rigs_app, "clear")
def clear_rigs() -> None:
    """Remove a local rig that an earlier run left behind."""
    from owlt.orchestrator.rigs import network

    removed = network.leftovers()
    network.clear()
    Printer().note(f"removed: {', '.join(removed) or 'nothing'}")


@add_command(kernel_app, "show")
def show_kernel(as_json: Json = False) -> None:
    """Show the kernel that guests would boot."""
    printer = Printer(as_json)
    kernel = needed_kernel()
    printer.json(kernel)
    printer.keys(kernel.model_dump(mode="json"))


@add_command(kernel_app, "build")
def build_kernel(
    source: Annotated[
        Path | None,
        typer.Option(metavar="TARBALL", help="Kernel source to build; default: Debian's signed source package."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Build even if a kernel is cached.")] = False,
    as_json: Json = False,
) -> None:
    """Build the virtual-time kernel, unless it is cached.

    Takes 4 to 9 minutes on two cores.
    """
    from owlt.orchestrator.kernel.kernel import find_kernel

    printer = Printer(as_json)
    kernel = (None if again or source else find_kernel()) or _build_with_progress(printer, source)
    printer.note(f"virtual-time kernel: {kernel.summary}")
    printer.json(kernel)


@emulator_app.command(
    "serve",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def serve_emulator(context: typer.Context) -> None:
    """Emulate a channel between two ports of a bridge.

    Clients control it over XML-RPC. Its options: owlt emulator serve --help
    """
    from owlt.emulator.__main__ import main as serve

    raise typer.Exit(serve(context.args, "owlt emulator serve"))


def _known_rig(name: str) -> str:
    if name not in RIGS:
        raise OwltError(Mistake(f"rig {name!r}: not found", fix=did_you_mean(name, RIGS, "known: virtual, local")))
    return name


def _rig(name: str) -> dict[str, object]:
    from owlt.orchestrator.checks.doctor import rig_requirements

    missing = [requirement.name for requirement in rig_requirements(name) if not requirement.found]
    return {
        "name": name,
        "description": RIGS[name],
        "clocks": CLOCKS[name],
        "state": _state(name),
        "missing": missing,
    }


def _state(name: str) -> str:
    from owlt.orchestrator.kernel.kernel import find_kernel
    from owlt.orchestrator.rigs import network

    if name == "virtual":
        kernel = find_kernel()
        return f"Linux {kernel.version}" if kernel else "no kernel; run: owlt kernel build"
    leftovers = network.leftovers()
    return f"exists: {', '.join(leftovers)}" if leftovers else "not set up"


def _build_with_progress(printer: Printer, source: Path | None) -> Kernel:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from owlt.orchestrator.kernel.build import build_kernel

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[message]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=printer.console) as bar:
        task = bar.add_task("kernel", total=1.0, message="")

        def observe(phase: str, fraction: float | None, message: str) -> None:
            bar.update(task, description=phase, completed=fraction, message=message)

        return build_kernel(source, observe)


WITHOUT_CAPABILITY = (
    "use a guest: owlt rigs up CHANNEL --rig virtual; or set the rig up without a channel: "
    "owlt rigs up; bit_error_rate and mtu can be changed without netem: owlt channel change --both bit_error_rate=1e-6"
)


HandRigName = Annotated[
    str,
    typer.Option(
        "--rig",
        metavar="RIG",
        help="local: network namespaces of this machine's kernel, as root; virtual: in a guest on the real clock, "
        "which needs neither root nor netem.",
    ),
]


def raise_rig(
    channel: Annotated[
        str | None,
        typer.Argument(
            metavar="CHANNEL",
            help="Name of a channel or path of its file; default: no impairments.",
            autocompletion=complete_channel,
        ),
    ] = None,
    start: StartTimeline = False,
    command: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="Set up the rig, run this shell command, remove the rig."),
    ] = None,
    rig: HandRigName = "local",
) -> None:
    """Set up a rig for experiments by hand, until Ctrl-C.

    Prints how to run programs on its hosts and how to change its channel. For --command, OWLT_EMULATOR and
    OWLT_TOKEN_FILE are set, so that 'owlt channel' and 'owlt dashboard' use this rig's emulator; with --rig virtual
    also OWLT_SSH_CONFIG, for: ssh -F $OWLT_SSH_CONFIG sender

    Exit status: that of --command, otherwise 0.
    """
    from owlt.emulator.faults import EmulatorError
    from owlt.orchestrator.hosts.host import HostError
    from owlt.orchestrator.profiles.catalogue import find_channel

    standing = {"local": _local, "virtual": _in_guest}[_known_rig(rig)]
    spec = find_channel(channel).channel if channel else None
    if start and (spec is None or spec.timeline is None):
        raise OwltError(Mistake.of("--start", "the channel has no timeline", fix="name a channel with a timeline"))
    status = 0 if command is None else INTERRUPTED_STATUS
    with tempfile.TemporaryDirectory(prefix="owlt-rig-") as name, ended_by_signals():
        directory = Path(name)
        try:
            with standing(directory) as raised:
                configure_rig(raised.client, spec, start)
                if command is not None:
                    environment = os.environ | raised.environment
                    status = subprocess.run(["sh", "-c", command], env=environment, check=False).returncode
                else:
                    _print_use(raised, channel)
                    _wait_for_signal()
        except EmulatorError as problem:
            raise OwltError(*problem.mistakes) from problem
        except HostError as problem:
            raise OwltError(Mistake(str(problem), fix=f"check this machine with: owlt rigs check {rig}")) from problem
    raise typer.Exit(status)


@dataclass(frozen=True)
class StandingRig:
    """A raised rig: its emulator, the variables by which 'owlt channel' finds it, and how to use its hosts."""

    client: EmulatorClient
    environment: dict[str, str]
    uses: list[tuple[str, str, str]]
    """Host, address, and the command that runs a program there."""


@contextmanager
def _local(directory: Path) -> Iterator[StandingRig]:
    from owlt.orchestrator.own_directories import third_party_directory
    from owlt.orchestrator.rigs import namespaces
    from owlt.orchestrator.rigs.network import namespace

    with namespaces.raised(directory / "rig", directory, third_party_directory()) as rig:
        token_file = directory / "rig" / namespaces.TOKEN_NAME
        addresses = {
            "sender": rig.sender.address,
            "receiver": rig.receiver.address,
            "emulator": f"ports {rig.sender_port}, {rig.receiver_port}",
        }
        yield StandingRig(
            rig.channel,
            {"OWLT_EMULATOR": rig.channel.url, "OWLT_TOKEN_FILE": str(token_file)},
            [(role, address, f"ip netns exec {namespace(role)} COMMAND") for role, address in addresses.items()],
        )


@contextmanager
def _in_guest(directory: Path) -> Iterator[StandingRig]:
    from owlt.emulator.service.access import read_token
    from owlt.emulator.service.client import EmulatorClient
    from owlt.orchestrator.planning.estimate import SMALLEST_GUEST_MB
    from owlt.orchestrator.rigs import guest
    from owlt.orchestrator.rigs.by_hand import raised_in_guest
    from owlt.orchestrator.rigs.rig import RECEIVER_ADDRESS, RECEIVER_PORT, SENDER_ADDRESS, SENDER_PORT

    kernel = needed_kernel()
    cpu = max(os.sched_getaffinity(0))
    guest.compile_ahead()
    boot = guest.Boot(kernel.path, "real", cpu, SMALLEST_GUEST_MB, 1, kernel.seccomp)
    with raised_in_guest(boot, directory) as rig:
        config = str(rig.directory / "ssh_config")
        addresses = {
            "sender": SENDER_ADDRESS,
            "receiver": RECEIVER_ADDRESS,
            "emulator": f"ports {SENDER_PORT}, {RECEIVER_PORT}",
        }
        yield StandingRig(
            EmulatorClient(rig.url, token=read_token(rig.token_file)),
            {"OWLT_EMULATOR": rig.url, "OWLT_TOKEN_FILE": str(rig.token_file), "OWLT_SSH_CONFIG": config},
            [(role, address, f"ssh -F $OWLT_SSH_CONFIG {role}") for role, address in addresses.items()],
        )


def needed_kernel() -> Kernel:
    """The kernel of guests. Raises OwltError if none is cached."""
    from owlt.orchestrator.kernel.kernel import find_kernel

    kernel = find_kernel()
    if kernel is None:
        raise OwltError(Mistake("no virtual-time kernel is cached", fix="run: owlt kernel build"))
    return kernel


def configure_rig(client: EmulatorClient, spec: ChannelSpec | None, start: bool) -> None:
    """Apply the channel. Raises OwltError with the way out if the kernel cannot make it, EmulatorError."""
    from owlt.emulator.faults import NotCapable

    if spec is not None:
        try:
            client.configure(spec)
        except NotCapable as problem:
            raise OwltError(*(replace(each, fix=WITHOUT_CAPABILITY) for each in problem.mistakes)) from problem
    if start:
        client.timeline_start()


def _print_use(rig: StandingRig, channel: str | None) -> None:
    printer = Printer()
    printer.text("in each other terminal, first:")
    printer.text("  export " + " ".join(f"{key}={shlex.quote(value)}" for key, value in rig.environment.items()))
    printer.table(("host", "address", "programs there"), rig.uses)
    printer.text(f"channel: {channel or 'no impairments'}; to change it:")
    printer.text(f"  owlt channel change --both {suggested_change(rig.client.capabilities())}")


def suggested_change(capabilities: Mapping[str, Any]) -> str:
    """A change of the channel that a kernel with these capabilities can make."""
    return "delay=500ms" if capabilities["netem"]["available"] else "bit_error_rate=1e-6"


def _wait_for_signal() -> NoReturn:
    Printer().note("Ctrl-C or SIGTERM removes the rig")
    while True:
        signal.pause()

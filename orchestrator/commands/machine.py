"""`owlt doctor`, `owlt rigs`, `owlt kernel` and `owlt emulator`: what this machine provides for runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import OwltError, did_you_mean
from owlt.orchestrator.terminal.options import Json, LabRigOption, Rig
from owlt.orchestrator.terminal.output import Printer, yes_or_no
from owlt.orchestrator.terminal.requirements import print_requirements
from owlt.orchestrator.terminal.usage import add_command, new_app

if TYPE_CHECKING:
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
        ((str(rig["name"]), str(rig["description"]), yes_or_no(not rig["missing"]), str(rig["state"])) for rig in rigs),
    )


@add_command(rigs_app, "show")
def show_rig(rig: Rig, as_json: Json = False) -> None:
    """Show one rig: its clocks, its state, what is missing here."""
    printer = Printer(as_json)
    shown = _rig(_known_rig(rig))
    printer.json(shown)
    printer.keys(shown)


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
    from owlt.orchestrator.kernel.build import find_kernel

    printer = Printer(as_json)
    kernel = find_kernel()
    if kernel is None:
        raise OwltError(Mistake("no virtual-time kernel is cached", fix="run: owlt kernel build"))
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
    from owlt.orchestrator.kernel.build import find_kernel

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
    from owlt.orchestrator.kernel.build import find_kernel
    from owlt.orchestrator.rigs import network

    if name == "virtual":
        kernel = find_kernel()
        return f"Linux {kernel.version}" if kernel else "no kernel; run: owlt kernel build"
    leftovers = network.leftovers()
    return f"exists: {', '.join(leftovers)}" if leftovers else "not set up"


def _build_with_progress(printer: Printer, source: Path | None) -> Kernel:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from owlt.orchestrator.kernel import build

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

        return build.build_kernel(source, observe)

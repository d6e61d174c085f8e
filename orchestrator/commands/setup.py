"""`owlt setup` and `owlt third-party`: what owlt needs on this machine beside Python packages, and the third-party
implementations that package registries offer: listed, shown, installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake
from owlt.installation import DEBIAN_PACKAGES
from owlt.orchestrator.commands.output import Printer, verbosity
from owlt.orchestrator.commands.usage import Json, add_command, complete_third_party, new_app
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.hosts.printable import printable_lines

if TYPE_CHECKING:
    from owlt.orchestrator.profiles.installing import BuildMachine, Installation
    from owlt.orchestrator.profiles.third_party import Installable

third_party_app = new_app("List, show and install third-party implementations.")

VERSION_TIMEOUT_S = 10
UNKNOWN_VERSION = "unknown"
NAME_HELP = "Name of a third-party implementation ('owlt third-party list')"

Name = Annotated[str, typer.Argument(metavar="NAME", help=f"{NAME_HELP}.", autocompletion=complete_third_party)]
Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="NAME...", help=f"{NAME_HELP}; default: all.", autocompletion=complete_third_party),
]


def setup(
    install: Annotated[
        bool, typer.Option("--install", help="Install missing Debian packages, as root or with sudo.")
    ] = False,
) -> None:
    """Install and build what owlt needs beside Python packages.

    Names missing Debian packages, or installs them with --install. Compiles the emulator's eBPF programs. Builds the
    virtual-time kernel, unless it is cached: 4 to 9 minutes on two cores, once for this user.

    Exit status: 0 if everything is there, 2 if something is missing.
    """
    from owlt.emulator.kernel.bpf.compile import compile_all
    from owlt.orchestrator.commands.machine import build_kernel

    if install:
        install_packages()
    make_the_rest([] if install else missing_packages(), compile_all, build_kernel)


def make_the_rest(
    missing: Sequence[str], compile_programs: Callable[[], list[Path]], build_kernel: Callable[[], None]
) -> None:
    """Compile the eBPF programs and build the kernel. Raises Missing if Debian packages are missing, or a compiler."""
    from owlt.emulator.kernel.bpf.compile import CompileError

    if missing:
        names = " ".join(missing)
        fix = f"owlt setup --install, or as root: apt-get install --no-install-recommends {names}"
        raise Missing(Mistake(f"Debian packages are missing: {names}", fix=fix))
    try:
        compiled = compile_programs()
    except CompileError as problem:
        raise Missing(Mistake(str(problem))) from problem
    Printer().note(f"eBPF programs: {compiled[0].parent}")
    build_kernel()


def missing_packages() -> list[str]:
    """The Debian packages that owlt needs and that are not installed; none where dpkg is missing."""
    if shutil.which("dpkg-query") is None:
        return []
    done = subprocess.run(["bash", DEBIAN_PACKAGES, "--missing"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def install_packages() -> None:
    """Install the Debian packages that are missing; the program that does it prints its own line, or why it cannot."""
    sudo = "" if os.geteuid() == 0 else os.environ.get("SUDO") or shutil.which("sudo") or ""
    done = subprocess.run(["bash", DEBIAN_PACKAGES], env=os.environ | {"SUDO": sudo}, check=False)
    if done.returncode != 0:
        raise typer.Exit(2)


@add_command(third_party_app, "list")
def list_third_party(as_json: Json = False) -> None:
    """List what can be installed, and what is installed."""
    from owlt.orchestrator.profiles.third_party import all_installables, installed_versions

    found = [(each, [other for other in installed_versions(each) if other != each]) for each in all_installables()]
    print_list(Printer(as_json), (each for pinned, others in found for each in (pinned, *others)))


def print_list(printer: Printer, installables: Iterable[Installable]) -> None:
    """Print each with its version, and whether it is installed."""
    printer.listing(map(_described, installables), "name", "version", "pinned", "installed", "required", "licence")
    printer.text("install one with: owlt third-party install NAME")


@add_command(third_party_app, "show")
def show_third_party(name: Name, as_json: Json = False) -> None:
    """Show one implementation: version, licence, source, programs."""
    from owlt.orchestrator.profiles.third_party import find_installables

    (installable,) = find_installables([name])
    Printer(as_json).show(_described(installable))


@add_command(third_party_app, "install")
def install_third_party(names: Names = None, as_json: Json = False) -> None:
    """Install third-party implementations that are missing.

    Programs are compiled into the user's cache; Debian packages are installed as root. NAME@VERSION installs another
    version of a Python package beside the pinned one, with the digest that the package index states.

    Exit status: 1 if a named or required implementation could not be installed, otherwise 0.
    """
    from owlt.orchestrator.profiles.third_party import find_installables

    if not install_and_report(Printer(as_json), find_installables(names or []), were_named=bool(names)):
        raise typer.Exit(1)


def install_and_report(
    printer: Printer, installables: Iterable[Installable], were_named: bool, machine: BuildMachine | None = None
) -> bool:
    """Install and print each failure. False if an implementation that was named, or that is required, is missing."""
    installations = _install(printer, installables, machine)
    printer.json(
        [
            {
                "name": each.installable.name,
                "installed": each.installed,
                "message": each.message,
                "next_step": each.next_step,
            }
            for each in installations
        ]
    )
    failed = [each for each in installations if not each.installed]
    for each in failed:
        printer.console.print(printable_lines(_failure_text(each)), markup=False)
    return not any(were_named or each.installable.required for each in failed)


def _install(printer: Printer, installables: Iterable[Installable], machine: BuildMachine | None) -> list[Installation]:
    """Install. The last line that the programs print is shown as the status; with -v, all lines are printed."""
    from rich.markup import escape

    from owlt.orchestrator.profiles.installing import install

    if verbosity.verbose:
        return install(installables, printer.note, printer.note, machine)
    console = printer.console
    with console.status("") as status:

        def show(line: str) -> None:
            status.update(f"[dim]{escape(line[: console.width - 4])}[/]")

        return install(installables, printer.note, show, machine)


def _failure_text(installation: Installation) -> str:
    installable = installation.installable
    kind = "required" if installable.required else "optional"
    return f"\n{installable.name} ({kind}) is not installed: {installation.message}\n  next: {installation.next_step}"


def _described(installable: Installable) -> dict[str, Any]:
    from owlt.orchestrator.profiles.third_party import home, is_installed

    installed = is_installed(installable)
    asks_program = installed and installable.version_command
    return {
        "name": installable.name,
        "title": installable.title,
        "version": _installed_version(installable) if asks_program else installable.recipe_version,
        "pinned": installable.is_pinned,
        "installed": installed,
        "required": installable.required,
        "licence": installable.licence,
        "programs": list(installable.programs),
        "recipe": installable.recipe.model_dump(mode="json"),
        "directory": str(home(installable)),
    }


def _installed_version(installable: Installable) -> str:
    """The first line that its version command prints."""
    from owlt.orchestrator.profiles.third_party import home

    command = [part.replace("{bin}", str(home(installable) / "bin")) for part in installable.version_command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=VERSION_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN_VERSION
    lines = (done.stdout.strip() or done.stderr.strip()).splitlines()
    return lines[0].strip() if lines else UNKNOWN_VERSION

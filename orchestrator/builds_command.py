"""`owlt builds`: which third-party builds are here, and getting those that are not."""

from __future__ import annotations

import subprocess
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from orchestrator.builds import Build, Ending, all_builds, find_builds, home, how_to_install, install, is_installed

builds_app = typer.Typer(no_args_is_help=True, help="Third-party builds that registries have.")
out = Console(highlight=False, soft_wrap=True)

VERSION_S = 10


@builds_app.command("list")
def list_builds() -> None:
    """List the builds that can be installed, and which of them are here."""
    table = Table(box=None, header_style="bold")
    for header in ("name", "version", "here", "required", "licence"):
        table.add_column(header, overflow="fold")
    for build in all_builds():
        here = is_installed(build)
        version = _version(build) if here and build.version_command else build.told_version
        required = "yes" if build.required else "no"
        table.add_row(build.name, version, "yes" if here else how_to_install(build), required, build.licence)
    out.print(table)


@builds_app.command("install")
def install_builds(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="As 'owlt builds list' tells; all by default.")
    ] = None,
) -> None:
    """Install builds that are not here yet. What is compiled goes into the user's cache, Debian packages are root's.

    Ends with status 1 when one that was named, or one that is required, could not be installed.
    """
    builds = find_builds(names or [])
    with out.status("") as status:
        endings = install(builds, lambda line: out.print(line), lambda line: status.update(f"[dim]{_plain(line)}[/]"))
    failed = [ending for ending in endings if not ending.installed]
    for ending in failed:
        out.print(_lament(ending), markup=False)
    if any(names or ending.build.required for ending in failed):
        raise typer.Exit(1)


def _lament(ending: Ending) -> str:
    kind = "required" if ending.build.required else "can be done without"
    return f"\n{ending.build.name} ({kind}) is not installed: {ending.told}\n  next: {ending.next_step}"


def _plain(line: str) -> str:
    return line[: out.width - 4].replace("[", r"\[")


def _version(build: Build) -> str:
    """The first line of what its version command says."""
    command = [part.replace("{bin}", str(home(build) / "bin")) for part in build.version_command]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=VERSION_S)
    except (OSError, subprocess.TimeoutExpired):
        return "does not tell"
    lines = (told.stdout.strip() or told.stderr.strip()).splitlines()
    return lines[0].strip() if lines else "does not tell"

"""The `owlt` command: reads arguments, calls what does the work, prints what came of it."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orchestrator.analyse_command import analyse
from orchestrator.builds_command import builds_app
from orchestrator.channel_command import channel_app, channel_certify
from orchestrator.dissect_command import dissect
from orchestrator.errors import OwltError
from orchestrator.implementations_command import implementations_app

if TYPE_CHECKING:
    from orchestrator.campaign import Performed

app = typer.Typer(
    no_args_is_help=True,
    help="One-way light time: compare builds of reliable space-link protocols over emulated channels.",
    pretty_exceptions_enable=False,
)
kernel_app = typer.Typer(no_args_is_help=True, help="The kernel of the virtual rig's guests.")
emulator_app = typer.Typer(no_args_is_help=True, help="The channel emulator.")
app.add_typer(kernel_app, name="kernel")
app.add_typer(emulator_app, name="emulator")
app.add_typer(channel_app, name="channel")
app.add_typer(implementations_app, name="implementations")
app.add_typer(builds_app, name="builds")
app.command()(analyse)
app.command()(dissect)
app.command("certify", help="The same as 'owlt channel certify'.")(channel_certify)

out = Console(highlight=False, soft_wrap=True)

SweepFile = Annotated[
    Path, typer.Argument(metavar="SWEEP_FILE", help="A sweep, such as profiles/sweeps/demo.yaml; see docs/sweeps.md.")
]
Results = Annotated[Path | None, typer.Option(help="Where results go; by default results/NAME of the sweep.")]
Guests = Annotated[int | None, typer.Option(min=1, help="Guests side by side; by default one per core.")]


@app.command()
def run(
    sweep_file: SweepFile,
    results: Results = None,
    guests: Guests = None,
    report: Annotated[bool, typer.Option(help="Make the report at the end.")] = True,
) -> None:
    """Perform every run of a sweep that has no record yet, then make the report.

    On an existing results directory it resumes where it stopped, and repeats runs that a fault of the rig aborted.

    Exit status: 0 when every run is recorded and analysed and none is aborted; 1 when runs are aborted, missing or not
    analysed; 2 for a mistake, or a program or file that is missing; 130 after an interrupt.
    """
    from orchestrator.campaign import perform_sweep
    from orchestrator.progress import SweepProgress

    again = _as_typed(sweep_file, results, guests, report)
    with SweepProgress(out, again, report) as observe:
        done = perform_sweep(sweep_file, results, guests, observe, again)
    out.print(done.summary, markup=False)
    if report and done.recorded:
        _report_of(done)
    if done.interrupted:
        raise typer.Exit(130)
    if not done.is_complete:
        raise typer.Exit(1)


def _as_typed(sweep_file: Path, results: Path | None, guests: int | None, report: bool) -> str:
    """The command that resumes the sweep: the same, with its options."""
    options = ["--results", str(results)] if results else []
    options += ["--guests", str(guests)] if guests else []
    options += [] if report else ["--no-report"]
    return shlex.join(["owlt", "run", str(sweep_file), *options])


def _report_of(done: Performed) -> None:
    """The report of a sweep; an interrupt skips it, as a second interrupt before it did."""
    try:
        if not done.interrupted_again:
            _print_report(done.results)
            return
    except KeyboardInterrupt:
        pass
    out.print(f"the report was skipped; make it with: owlt report {shlex.quote(str(done.results))}", markup=False)
    raise typer.Exit(130)


@app.command()
def plan(sweep_file: SweepFile, results: Results = None, guests: Guests = None) -> None:
    """Show what a sweep would run, in which order, and about how long it takes.

    If 'owlt run' would refuse the sweep, the plan is followed by the same message, and the exit status is 2.
    """
    from orchestrator.campaign import require_ready, resolve
    from orchestrator.estimate import estimate

    planned = resolve(sweep_file)
    table = _table("order", "run", "deadline", "boot" if planned.sweep.rig == "virtual" else "worker")
    for batch in planned.batches:
        for each in batch.runs:
            build = planned.implementations[each.permutation.implementation]
            table.add_row(str(each.order), each.run_id, f"{each.deadline_s(build):.0f} s", str(batch.index))
    out.print(table)
    out.print(estimate(planned, guests).told)
    require_ready(planned, results or Path("results", planned.sweep.name))


@app.command()
def report(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A results directory, such as results/demo.")],
) -> None:
    """Make the report of a results directory again, from its records and captures alone."""
    _print_report(results)


@app.command()
def doctor() -> None:
    """Tell what this machine has and lacks, each lack with the command that mends it."""
    from orchestrator.catalogue import find_implementation, implementation_files
    from orchestrator.doctor import examine

    for each in examine(find_implementation(str(path)) for path in implementation_files()):
        mark = "[green]has[/]  " if each.found else "[red]lacks[/]"
        for line in _folded(f"{each.name}: {each.detail}; for {each.wanted_for}"):
            out.print(f"{mark}  {escape(line)}")
            mark = "     "
        if not each.found:
            for line in _folded(f"next: {each.mend}"):
                out.print(f"{mark}  {escape(line)}")


def _folded(text: str) -> list[str]:
    """Lines for people that are as wide as the terminal, broken between words only: a path stays whole."""
    return textwrap.wrap(
        text, out.width - len("lacks  "), subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


@app.command()
def rigs(
    clear: Annotated[bool, typer.Option(help="Take down a local rig that was left standing.")] = False,
) -> None:
    """List the rigs that runs can happen on, and whether each can be raised here."""
    from orchestrator import kernel
    from orchestrator.rigs import namespaces

    if clear:
        namespaces.clear()
    found = kernel.find()
    standing = namespaces.leftovers()
    table = _table("rig", "what it is", "here")
    table.add_row(
        "virtual",
        "three namespaces in User-Mode Linux guests, one guest per core; clocks exact, skip, real",
        f"Linux {found.version}" if found else "no kernel yet: owlt kernel build",
    )
    table.add_row(
        "local",
        "three namespaces on this kernel; clock real; needs root, and netem for an impaired channel",
        f"stands already: {', '.join(standing)}" if standing else "not raised",
    )
    out.print(table)


@app.command()
def schema(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="One of: sweep, implementation, channel.")],
) -> None:
    """Print the JSON Schema of a kind of file, for an editor's completion.

    Such as: owlt schema sweep > sweep.json; then the first line of a sweep file that lies beside it is
    # yaml-language-server: $schema=sweep.json
    """
    from orchestrator.schemas import SCHEMAS

    if kind not in SCHEMAS:
        raise OwltError(f"schema: got {kind!r}, wanted one of {', '.join(SCHEMAS)}")
    print(json.dumps(SCHEMAS[kind](), indent=2))


@kernel_app.command("build")
def kernel_build(
    source: Annotated[
        Path | None, typer.Option(help="A kernel source tarball to use instead of Debian's package.")
    ] = None,
    again: Annotated[bool, typer.Option(help="Build even when a kernel is cached.")] = False,
) -> None:
    """Build the virtual-time kernel from Debian's signed source package, unless it is cached."""
    from orchestrator.kernel_command import build_with_progress

    build_with_progress(out, source, again)


@kernel_app.command("show")
def kernel_show() -> None:
    """Show the kernel that guests would boot."""
    from orchestrator import kernel

    found = kernel.find()
    if found is None:
        raise OwltError("no virtual-time kernel is cached; run 'owlt kernel build'")
    out.print_json(found.model_dump_json())


@emulator_app.command(
    "serve",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def emulator_serve(context: typer.Context) -> None:
    """Serve the channel between two ports of a bridge over XML-RPC. See `owlt emulator serve --help`."""
    from emulator.__main__ import main as serve

    raise typer.Exit(serve(context.args))


def _table(*headers: str) -> Table:
    """A table without lines in which nothing is cut off."""
    table = Table(box=None, header_style="bold")
    for header in headers:
        table.add_column(header, overflow="fold")
    return table


def _print_report(results: Path) -> None:
    from orchestrator.campaign import make_report

    out.print(f"report: {make_report(results)}")


def main() -> None:
    """Run the command. Exit status 2 for what the user can mend, with the text that says how."""
    try:
        app(standalone_mode=True)
    except OwltError as problem:
        print(f"owlt: {problem}", file=sys.stderr)
        sys.exit(2)

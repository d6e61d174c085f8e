"""The `owlt` command: all subcommands, the options before them, and how it ends.

Modules of subcommands import what does the work inside their functions, so that `owlt --help` is fast.
"""

from __future__ import annotations

import logging
import signal
import sys
import traceback
from typing import Annotated

import typer

from owlt.orchestrator.commands.analyse import analyse, dissect
from owlt.orchestrator.commands.answer import answer
from owlt.orchestrator.commands.bisect import bisect
from owlt.orchestrator.commands.channel import channel_app
from owlt.orchestrator.commands.compare import compare
from owlt.orchestrator.commands.conform import conform
from owlt.orchestrator.commands.edges import edges
from owlt.orchestrator.commands.figure import figure
from owlt.orchestrator.commands.implementations import implementations_app, pairs
from owlt.orchestrator.commands.machine import doctor, emulator_app, kernel_app, raise_rig, rigs_app
from owlt.orchestrator.commands.output import verbosity
from owlt.orchestrator.commands.plan import plan, schema, sweeps_app
from owlt.orchestrator.commands.prove import prove
from owlt.orchestrator.commands.replay import capsule, replay
from owlt.orchestrator.commands.report import merge, report
from owlt.orchestrator.commands.reproduce import reproduce
from owlt.orchestrator.commands.rig import rig_app
from owlt.orchestrator.commands.run import extend, retry, run
from owlt.orchestrator.commands.setup import setup, third_party_app
from owlt.orchestrator.commands.shrink import shrink
from owlt.orchestrator.commands.soak import soak
from owlt.orchestrator.commands.status import dashboard, status
from owlt.orchestrator.commands.usage import Quiet, Verbose, add_command, new_app, set_verbosity
from owlt.orchestrator.commands.why import why
from owlt.orchestrator.commands.worker import worker
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.hosts.printable import printable_lines

USER_ERROR_STATUS = 2

app = new_app("Compare implementations of reliable space-link protocols over emulated channels.")

for name, function in (
    ("run", run),
    ("plan", plan),
    ("retry", retry),
    ("replay", replay),
    ("capsule", capsule),
    ("extend", extend),
    ("merge", merge),
    ("worker", worker),
    ("status", status),
    ("report", report),
    ("reproduce", reproduce),
    ("answer", answer),
    ("pairs", pairs),
    ("compare", compare),
    ("conform", conform),
    ("prove", prove),
    ("edges", edges),
    ("shrink", shrink),
    ("bisect", bisect),
    ("soak", soak),
    ("why", why),
    ("figure", figure),
    ("dashboard", dashboard),
    ("analyse", analyse),
    ("dissect", dissect),
    ("setup", setup),
    ("doctor", doctor),
    ("schema", schema),
):
    add_command(app, name)(function)
add_command(rigs_app, "up")(raise_rig)
for name, group in (
    ("sweeps", sweeps_app),
    ("implementations", implementations_app),
    ("third-party", third_party_app),
    ("channel", channel_app),
    ("rigs", rigs_app),
    ("rig", rig_app),
    ("kernel", kernel_app),
    ("emulator", emulator_app),
):
    app.add_typer(group, name=name)


def _print_version(requested: bool) -> None:
    if requested:
        from owlt.installation import own_version

        print(f"owlt {own_version()}")
        raise typer.Exit


@app.callback()
def before_every_command(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print version and commit of owlt, and exit."
        ),
    ] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """The global options. The text of the help page is that of `app`."""
    verbosity.quiet = verbosity.verbose = False
    set_verbosity(quiet, verbose)


def main() -> None:
    """Run the command line. Exit status 2 for an error that the user can fix; its text says how.

    SIGHUP ends a command as Ctrl-C does, so that nothing is left behind, unless SIGHUP is ignored, as under nohup.
    """
    if signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.default_int_handler)
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # else it warns about a read-only home
    try:
        sys.exit(app(prog_name="owlt", standalone_mode=False))
    except OwltError as problem:
        if verbosity.verbose:
            traceback.print_exc()
        print(f"owlt: {printable_lines(str(problem))}", file=sys.stderr)
        sys.exit(USER_ERROR_STATUS)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as problem:
        if verbosity.verbose or not (problem.filename and problem.strerror):
            raise
        print(f"owlt: {printable_lines(f'{problem.filename}: {problem.strerror}')}", file=sys.stderr)
        sys.exit(USER_ERROR_STATUS)

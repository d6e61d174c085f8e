"""`owlt merge`: the shards of a sweep in one results directory."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from owlt.orchestrator.terminal.options import Json
from owlt.orchestrator.terminal.output import Printer


def merge(
    into: Annotated[Path, typer.Argument(metavar="RESULTS", help="The results directory to add runs to; may be new.")],
    sources: Annotated[list[Path], typer.Argument(metavar="SHARD...", help="Results directories of the same sweep.")],
    report: Annotated[bool, typer.Option(help="Make the report at the end.")] = True,
    accept_differences: Annotated[
        bool, typer.Option("--accept-differences", help="Merge runs of different versions and of machines that differ.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Copy the runs of a sweep's shards into one directory.

    The directories must have the same plan, and the machines that performed the runs the same kernel for guests, the
    same owlt, Python, packages, system programs and libraries, and the same programs of each implementation. A run that
    is in two directories must have the same result. If one of these is not so, nothing is changed, and the exit status
    is 2; the message names what differs.
    """
    from owlt.orchestrator.results.recorded_runs import results_root
    from owlt.orchestrator.sweep.merging import merge as merge_directories
    from owlt.orchestrator.sweep.report import make_report

    into, sources = results_root(into), [results_root(source) for source in sources]
    printer = Printer(as_json)
    merged = merge_directories(into, sources, accept_differences)
    more = f", {merged.equal} were in two directories with the same result" if merged.equal else ""
    left = f"; {merged.missing} runs of the sweep are missing" if merged.missing else ""
    printer.note(f"{merged.copied} runs copied to {into}{more}{left}")
    if merged.different:
        printer.note(f"the machines that performed the runs differ in {'; '.join(merged.different)}")
    page = make_report(into) if report else None
    if page:
        printer.note(f"report: {page}")
    printer.json({"results": into, **asdict(merged), "report": page})

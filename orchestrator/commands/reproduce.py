"""`owlt reproduce`: repeat the experiments of a paper and judge its claims."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from hashlib import sha256
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Invalid, Mistake
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Guests, Json
from owlt.orchestrator.ending import INTERRUPTED_STATUS
from owlt.orchestrator.errors import NotFound, OwltError, ProfileError, did_you_mean

if TYPE_CHECKING:
    from owlt.reports.reproduction.claim_verdicts import Judged
    from owlt.reports.reproduction.claims import Reproduction
    from owlt.results.files import Reproduced

RECORDED_STATUSES = (0, 3)
"""The exit statuses of a sweep whose runs all have a record."""


class RunsPrinter(Printer):
    """Prints the notes of a sweep, and not its JSON: the output of the command is the claims."""

    def json(self, value: Any) -> None:
        """Print nothing."""


def reproduce(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Name of a reproduction, such as acs-asymmetric-2022.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List the reproductions.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Perform a small part of the grid (a few minutes).")] = False,
    further: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="SETTINGS", help="Also perform this sweep, which is otherwise left out; repeatable."
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(metavar="DIRECTORY", help="Results directory; default: results/NAME, with --quick NAME-quick."),
    ] = None,
    judge: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH", help="Judge existing results, or an archive, without runs; repeatable for results."
        ),
    ] = None,
    archive: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a ZIP file with all the data that the page is made from.")
    ] = None,
    guests: Guests = None,
    as_json: Json = False,
) -> None:
    """Repeat the experiments of a paper and judge its claims.

    Runs that have a record are not repeated: on complete results, only the claims are judged again. The results of
    several sweeps are combined: RESULTS has the grid, RESULTS-SETTINGS the other settings. The page with verdicts and
    figures is written to RESULTS/reproduction/; with --judge, to reproduction/ in the first directory. The page of an
    archive is written beside the archive, with the claims in the archive.

    Exit status: as for 'owlt run'. A claim that is not confirmed does not change it.
    """
    printer = Printer(as_json)
    if listing or name is None:
        if name is not None:
            raise OwltError(Mistake.of("--list", f"got {name} as well", "one of them"))
        if not listing:
            raise OwltError(Mistake("NAME is missing", fix="give a name ('owlt reproduce --list')"))
        _list(printer)
        return
    directory = reproduction_directory(name)
    if judge:
        _refuse_beside_judge(quick, further, results, guests)
        _print(printer, *_judge(directory, judge, name, archive))
        return
    if quick and further:
        raise OwltError(Mistake.of("--with", "cannot be combined with --quick", "one of them", "leave out --quick"))
    requested = requested_sweep_files(directory, further or ())
    status, performed = perform_all(directory, quick, results, guests, printer, requested=requested)
    if status not in RECORDED_STATUSES:
        raise typer.Exit(status)
    _print(printer, *_judge(directory, performed, name, archive))
    raise typer.Exit(status)


def reproductions() -> list[Path]:
    """The directories of all reproductions."""
    from owlt.orchestrator.profiles.catalogue import PROFILES

    return sorted(path.parent for path in (PROFILES / "reproductions").glob("*/claims.yaml"))


def reproduction_directory(name: str) -> Path:
    """The directory of a reproduction. Raises NotFound."""
    known = {path.name: path for path in reproductions()}
    if name not in known:
        raise NotFound(
            Mistake(f"reproduction {name!r}: not found", fix=did_you_mean(name, known, "see 'owlt reproduce --list'"))
        )
    return known[name]


def _list(printer: Printer) -> None:
    from owlt.orchestrator.profiles.catalogue import resolve
    from owlt.reports.reproduction.claims import load_claims

    rows: list[dict[str, Any]] = []
    for directory in reproductions():
        loaded = load_claims(directory)
        runs = {
            quick: sum(len(resolve(path).runs) for _, path in sweep_files(directory, quick)) for quick in (False, True)
        }
        rows.append(
            {
                "name": directory.name,
                "paper": f"{loaded.paper.authors}: {loaded.paper.title} ({loaded.paper.year})",
                "claims": len(loaded.claims),
                "runs": runs[False],
                "quick_runs": runs[True],
                "path": directory,
            }
        )
    printer.json(rows)
    numbers = ("claims", "runs", "quick")
    printer.table(
        ("name", *numbers, "paper"),
        ([row[name] for name in ("name", "claims", "runs", "quick_runs", "paper")] for row in rows),
        numbers,
    )


def sweep_files(directory: Path, quick: bool) -> list[tuple[str, Path]]:
    """The sweeps of a reproduction in one of its forms: the end of the name of each one's results, and its file.

    Raises ProfileError.
    """
    if quick:
        return [("", directory / "quick.yaml")]
    loaded = _claims(directory)
    return [("", (directory / loaded.sweep).resolve()), *_named(directory, loaded.also)]


def optional_sweep_files(directory: Path) -> list[tuple[str, Path]]:
    """The sweeps of implementations that a user may have; `sweep_files` has the others. Raises ProfileError."""
    return _named(directory, _claims(directory).if_installed)


def requested_sweep_files(directory: Path, names: Iterable[str]) -> list[tuple[str, Path]]:
    """The named sweeps, which are performed only on request. Raises NotFound and ProfileError."""
    known = _claims(directory).on_request
    for name in names:
        if name not in known:
            fix = did_you_mean(name, known, "leave out --with")
            expected = (
                f"one of {', '.join(known)}" if known else f"nothing, as {directory.name} has no sweep on request"
            )
            raise NotFound(Mistake.of("--with", f"got {name}", expected, fix))
    return _named(directory, dict.fromkeys(names))


def _named(directory: Path, names: Iterable[str]) -> list[tuple[str, Path]]:
    return [(f"-{name}", directory / f"{name}.yaml") for name in names]


def _claims(directory: Path) -> Reproduction:
    from owlt.reports.reproduction.claims import load_claims

    try:
        return load_claims(directory)
    except Invalid as problem:
        raise ProfileError(*problem.mistakes) from problem


def missing_for_sweep(sweep: Path, results: Path) -> list[Mistake]:
    """The programs of implementations that are missing for the runs that a sweep still has to perform."""
    from owlt.orchestrator.checks.doctor import missing_implementations
    from owlt.orchestrator.profiles.catalogue import resolve
    from owlt.orchestrator.sweep.campaign import Start

    plan = resolve(sweep)
    missing = missing_implementations(plan)
    return missing if missing and not Start(plan, results, again="").is_finished() else []


def _refuse_beside_judge(quick: bool, further: list[str] | None, results: Path | None, guests: int | None) -> None:
    for name, value in (("--quick", quick), ("--with", further), ("--results", results), ("--guests", guests)):
        if value:
            raise OwltError(
                Mistake.of(
                    "--judge",
                    f"got {name} as well",
                    "existing results, without further runs",
                    f"leave out {name}",
                )
            )


def _perform(directory: Path, sweep: Path, results: Path | None, guests: int | None, as_json: bool) -> tuple[int, Path]:
    """Perform the missing runs. Returns the exit status of the sweep, and its results."""
    from owlt.orchestrator.commands.performing import Performing, Selected, as_typed, perform_and_conclude
    from owlt.orchestrator.profiles.catalogue import resolve
    from owlt.orchestrator.sweep.campaign import Start
    from owlt.results.recorded_runs import results_root

    plan = resolve(sweep)
    performed = results_root(results or Path("results", plan.sweep.name))
    performing = Performing(guests=guests, report=False)
    again = as_typed(str(sweep), performed, performing.words, Selected())
    try:
        start = Start(plan, performed, again, guests=guests)
        with nullcontext() if start.is_finished() else _noted(directory, performed, guests):
            perform_and_conclude(start, performing, RunsPrinter(as_json))
    except typer.Exit as end:
        return end.exit_code, performed
    return 0, performed


@contextmanager
def _noted(directory: Path, results: Path, guests: int | None) -> Iterator[None]:
    """Record the claims in the results before their first run, and the performance after the runs. Raises OwltError."""
    from owlt.installation import own_version
    from owlt.orchestrator.rigs.processor_time import processor_name
    from owlt.orchestrator.steady_clock import steady_s
    from owlt.results.files import Performance, write_reproduced

    reproduced = claims_at_start(directory, results)
    started_at_s, began_s = time(), steady_s()
    try:
        write_reproduced(results, reproduced)
        try:
            yield
        finally:
            performance = Performance(
                started_at_s=started_at_s,
                seconds=steady_s() - began_s,
                owlt=own_version(),
                processor=processor_name(),
                processors=os.cpu_count() or 1,
                guests=guests,
            )
            every = (*reproduced.performances, performance)
            write_reproduced(results, reproduced.model_copy(update={"performances": every}))
    except OSError as problem:
        raise OwltError(Mistake.of(str(results), f"cannot be written: {problem.strerror}")) from problem


def claims_at_start(directory: Path, results: Path) -> Reproduced:
    """The claims when the first run of the results started; the present ones without a run or a record of them."""
    from owlt.reports.reproduction.claims import NAME, digests_of
    from owlt.results.files import Reproduced, read_reproduced
    from owlt.results.plain_files import read_plain
    from owlt.results.recorded_runs import recorded_directories

    runs, reproduced = len(recorded_directories(results)), read_reproduced(results)
    if reproduced and runs:
        return reproduced
    return Reproduced(
        claims_sha256=sha256(read_plain(directory / NAME)).hexdigest(),
        claims=digests_of(_claims(directory)),
        runs_before=runs,
    )


Perform = Callable[[Path, Path, Path | None, int | None, bool], tuple[int, Path]]
"""What performs a sweep: from the reproduction, the sweep's file, results, guests, and whether the output is JSON; as
`_perform`."""


def perform_all(
    directory: Path,
    quick: bool,
    results: Path | None,
    guests: int | None,
    printer: Printer,
    perform: Perform = _perform,
    requested: Sequence[tuple[str, Path]] = (),
) -> tuple[int, list[Path]]:
    """Perform the missing runs of each sweep, and of those that are `requested`. Returns the first exit status that is
    not 0, and the results; no further sweep is performed after one with runs that have no record.

    A sweep of implementations that a user may have is skipped with a note if one of them is missing, and left out with
    a note if it ends with runs that have no record, unless it was interrupted.
    """
    first, statuses, performed = results, [], []
    optional = [] if quick else optional_sweep_files(directory)
    for ending, sweep in [*sweep_files(directory, quick), *requested, *optional]:
        is_optional = (ending, sweep) in optional
        place = first and first.with_name(first.name + ending)
        if place and is_optional and (missing := missing_for_sweep(sweep, place)):
            printer.note(f"{directory.name}{ending} is skipped: {'; '.join(map(str, missing))}")
            continue
        status, place = perform(directory, sweep, place, guests, printer.as_json)
        first = first or place
        if is_optional and status not in (*RECORDED_STATUSES, INTERRUPTED_STATUS):
            printer.note(
                f"{directory.name}{ending} ended with status {status} and is not on the page; "
                f"the same command performs the missing runs"
            )
            continue
        statuses.append(status)
        performed.append(place)
        if status not in RECORDED_STATUSES:
            return status, performed
    return max(statuses), performed


def _judge(directory: Path, results: list[Path], name: str, archive: Path | None) -> tuple[Path, list[Judged]]:
    from owlt.orchestrator.private_names import private_names
    from owlt.reports.reproduction.database import BadQuery
    from owlt.reports.reproduction.page import make_page, make_page_of_archive
    from owlt.results.recorded_runs import results_root

    try:
        if files := [path for path in results if path.is_file()]:
            _refuse_beside_archive(results, archive)
            return make_page_of_archive(files[0], name)
        roots = [results_root(path) for path in results]
        return make_page(directory, roots, name, archive, private_names(roots[0].parent).replaced)
    except Invalid as problem:
        raise ProfileError(*problem.mistakes) from problem
    except BadQuery as problem:
        raise OwltError(Mistake.of(name, str(problem))) from problem
    except OSError as problem:
        raise OwltError(Mistake.of(str(results[0]), f"cannot be written: {problem.strerror}")) from problem


def _refuse_beside_archive(results: list[Path], archive: Path | None) -> None:
    """Raise OwltError if one archive is not all that is judged."""
    if len(results) > 1:
        raise OwltError(
            Mistake.of("--judge", "got several paths, one of them an archive", "one archive, or directories")
        )
    if archive:
        raise OwltError(
            Mistake.of(
                "--archive", f"got {archive} as well, but --judge names an archive", "results to make an archive from"
            )
        )


def _print(printer: Printer, page: Path, verdicts: list[Judged]) -> None:
    from owlt.reports.reproduction.page import CLAIM_COLUMNS, claim_row, counts_text, number_text, ours_text

    claims = [dict(zip(CLAIM_COLUMNS, claim_row(each), strict=True)) for each in verdicts]
    printer.json({"page": page, "claims": [{key: _none(value) for key, value in claim.items()} for claim in claims]})
    rows = (
        (
            each.claim.id,
            number_text(each.claim.paper, each.claim.unit),
            ours_text(each),
            each.verdict,
            each.claim.states,
        )
        for each in verdicts
    )
    printer.table(("claim", "paper", "ours", "verdict", "statement"), rows, ("paper", "ours"))
    printer.text(counts_text(verdicts))
    printer.note(f"page: {page}")


def _none(value: Any) -> Any:
    return None if value == "" else value

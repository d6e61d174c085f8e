"""`owlt capsule` writes a recorded run into one file; `owlt replay` performs a recorded run, or the run in a capsule,
again and compares the packets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.inputs.axes import base_name
from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Json
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.orchestrator.planning.plan import Plan, Run
    from owlt.results.record import Outcome, RunRecord


def replay(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="The directory of a run, RESULTS/runs/NAME, or a capsule.")
    ],
    as_json: Json = False,
) -> None:
    """Perform a recorded run again and compare its packets.

    On the exact clock, the same seed gives the same packets. The results are not changed. A capsule contains commands
    that are executed in a guest: replay it only if you trust the person who made it.

    Exit status: 0 if outcome and packets are the same, 1 if the outcome or a frame of a capture differs.
    """
    from owlt.orchestrator.planning.plan import read_plan
    from owlt.results.record import read_record

    with run_or_capsule(run) as directory:
        try:
            record, plan = read_record(directory), read_plan(directory.parent.parent)
        except FileNotFoundError:
            expected = "the directory of a recorded run, such as results/demo/runs/NAME"
            raise OwltError(Mistake("is not the directory of a run", expected, where=Place(str(run)))) from None
        result = perform_again(plan, directory.parent.parent, record)
    print_replay(record.run_id, result, Printer(as_json))
    raise typer.Exit(0 if result.is_same else 1)


@contextmanager
def run_or_capsule(path: Path) -> Iterator[Path]:
    """The directory of a run that the user named; of a capsule, a temporary one, until the end of the context.

    Raises OwltError for a capsule that is broken or of another rig, ResultsConflict for results with links in them.
    """
    from owlt.orchestrator.own_directories import process_directory
    from owlt.orchestrator.private_names import private_names
    from owlt.orchestrator.sweep.capsules import restored
    from owlt.results.capsule import BrokenCapsule, unpack
    from owlt.results.plain_files import real_root
    from owlt.results.recorded_runs import results_root

    path = real_root(path.absolute())
    if not path.is_file():
        results_root(path.parent.parent)
        yield path
        return
    with process_directory("capsule") as directory:
        manifest = unpack(path, directory)
        try:
            run = restored(directory, manifest, private_names())
        except BrokenCapsule as broken:
            places = (replace(each.where, file=str(path)) for each in broken.mistakes)
            raise BrokenCapsule(*map(Mistake.at, broken.mistakes, places)) from None
        yield run


def print_replay(run_id: str, result: Replay, printer: Printer) -> None:
    """Print what is the same and what differs."""
    values = {"run": run_id, "is_same": result.is_same, "outcome": result.outcome}
    printer.json({**values, "captures": result.differences, "machine": result.machine, "note": result.note})
    was = "" if result.outcome is result.recorded_outcome else f", was {result.recorded_outcome}"
    printer.text(f"{run_id}: {result.outcome}{was}")
    for name, difference in result.differences.items():
        printer.text(f"  {name}: {difference or 'same frames'}")
    for difference in result.machine:
        printer.text(f"  differs on this machine: {difference}")
    if result.note:
        printer.text(f"  note: {result.note}")


SAME_IN_ITS_CLONE = ("quic-aioquic",)
"""Implementations whose keys depend on addresses in memory, and so on the path of the clone (docs/sweeps.md)."""


@dataclass(frozen=True)
class Replay:
    """A run that was performed again."""

    outcome: Outcome
    recorded_outcome: Outcome
    differences: dict[str, str]
    """By capture, where it first differs from the recorded one; "" if it has the same frames."""
    note: str = ""
    """What may be the reason, if something differs."""
    machine: Sequence[str] = ()
    """In what this machine differs from the one that recorded the run: versions, and groups of files."""

    @property
    def is_same(self) -> bool:
        """Whether outcome and packets are those of the recorded run."""
        return self.outcome is self.recorded_outcome and not any(self.differences.values())


def perform_again(plan: Plan, results: Path, record: RunRecord) -> Replay:
    """Perform a recorded run again, with its seed. The results stay as they are.

    Raises OwltError if the run cannot be repeated or compared, or its rig failed.
    """
    from owlt.captures.accounting.derived_files import CAPTURES
    from owlt.orchestrator.planning.selection import Selection
    from owlt.orchestrator.sweep.merging import copy_directory
    from owlt.results.files import CERTIFICATES
    from owlt.results.plain_files import is_plain_directory
    from owlt.results.recorded_runs import read_recorded

    run = next((run for run in plan.runs if run.run_id == record.run_id), None)
    if run is None:
        expected = f"one of the {len(plan.runs)} runs of its plan"
        raise OwltError(Mistake(f"{record.run_id} is not in the plan", expected, where=Place(str(results))))
    require_comparable(plan, results, run)
    with TemporaryDirectory(prefix="owlt-replay-") as name:
        again = Path(name).resolve() / "results"
        again.mkdir()
        if is_plain_directory(results / CERTIFICATES):
            copy_directory(results / CERTIFICATES, again / CERTIFICATES)
        alone = Selection(frozenset({run.run_id}), new_seeds={run.run_id: record.seed})
        _perform(alone.alone(alone.applied(plan)), again)
        records = read_recorded(again, {run.run_id}).records
        if run.run_id not in records:
            raise OwltError(f"{run.run_id}: the run could not be performed again")
        differences = {name: _difference(results, again, run, name) for name in CAPTURES}
        note = note_on(run, differences)
        machine = machine_differences(results, record, again, records[run.run_id])
        return Replay(records[run.run_id].outcome, record.outcome, differences, note, machine)


def machine_differences(results: Path, record: RunRecord, again: Path, performed: RunRecord) -> list[str]:
    """In what the machine that performed a run again, into the results `again`, differs from the one that recorded it:
    versions, and files that packets depend on."""
    from owlt.orchestrator.private_names import private_names
    from owlt.orchestrator.rigs.provenance import UNKNOWN_MACHINE, differences
    from owlt.orchestrator.sweep.capsules import machine_of, public_machine

    versions = [
        f"{name}: {here} here, {there} recorded"
        for name, there in record.versions.items()
        for here in [performed.versions.get(name, "none")]
        if here != there
    ]
    machines = [machine_of(record, results), machine_of(performed, again)]
    if UNKNOWN_MACHINE in machines:
        return versions
    private = private_names()
    recorded, here = (public_machine(machine, record.implementation, private) for machine in machines)
    return [*versions, *(f"files of {text}" for text in differences(here, recorded))]


def note_on(run: Run, differences: Mapping[str, str]) -> str:
    """What may be the reason of differences; "" if nothing is known."""
    name = base_name(run.permutation.implementation)
    if name not in SAME_IN_ITS_CLONE or not any(differences.values()):
        return ""
    return (
        f"{name} encrypts with keys that depend on addresses in memory: if the run was performed in another clone, or "
        "if this clone has changed, its frames have the same lengths but different encrypted octets "
        "(docs/sweeps.md, rigs and clocks)"
    )


def require_comparable(plan: Plan, results: Path, run: Run) -> None:
    """Raise OwltError unless the run's packets can be repeated, and compared with captures that were kept."""
    from owlt.captures.accounting.derived_files import CAPTURES
    from owlt.results.plain_files import is_plain
    from owlt.results.recorded_runs import run_directory

    where = Place(str(run_directory(results, run.run_id)))
    if plan.sweep.clock != "exact":
        problem = f"a run on the clock {plan.sweep.clock} cannot be repeated packet for packet"
        raise OwltError(Mistake(problem, "a run on the clock exact", where=where))
    if plan.implementations[run.permutation.implementation].not_repeatable:
        problem = f"{run.permutation.implementation} is not repeatable: {_reason(plan, run)}"
        raise OwltError(Mistake(problem, "a run of a repeatable implementation", where=where))
    if missing := [name for name in CAPTURES if not is_plain(run_directory(results, run.run_id) / name)]:
        fix = "perform sweeps that are to be compared with 'keep_captures: headers' or 'full'"
        raise OwltError(Mistake(f"{' and '.join(missing)} were not kept", "both captures", fix, where))


def _reason(plan: Plan, run: Run) -> str:
    return str(plan.implementations[run.permutation.implementation].not_repeatable)


def _perform(plan: Plan, directory: Path) -> None:
    from owlt.orchestrator.sweep.campaign import Start, perform_plan

    full = plan.model_copy(update={"sweep": plan.sweep.model_copy(update={"keep_captures": "full"})})
    perform_plan(Start(full, directory, "owlt replay", guests=1), lambda _plan, _done: lambda _event: None)


def _difference(results: Path, again: Path, run: Run, name: str) -> str:
    from owlt.captures.files.blocks import NotACapture
    from owlt.captures.frames.columns import first_difference
    from owlt.results.recorded_runs import run_directory

    kept, performed = run_directory(results, run.run_id), run_directory(again, run.run_id)
    try:
        return first_difference(kept / name, performed / name) or difference_behind(kept, performed, name)
    except (NotACapture, OSError) as problem:
        raise OwltError(f"{run.run_id}: the captures cannot be compared: {problem}") from problem


def difference_behind(kept: Path, performed: Path, name: str) -> str:
    """The difference of a complete capture from the recorded one, of which only the headers were kept, as a phrase; ""
    if they are equal, or the digest of the recorded one is not known."""
    from owlt.captures.accounting.cutting import is_cut
    from owlt.captures.accounting.derived_files import digest_of_file
    from owlt.captures.accounting.summary import load_summary

    summary = load_summary(kept)
    known = summary.source.captures.get(name, []) if summary and summary.source else []
    if len(known) < 2 or not is_cut(kept / name) or digest_of_file(performed / name) in known:
        return ""
    return "other octets in the part that was cut: the complete capture has another SHA-256"


def capsule(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The directory of a run: RESULTS/runs/NAME.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The file to write; default: NAME.capsule.zip in the current directory."),
    ] = None,
    with_programs: Annotated[
        bool,
        typer.Option(
            "--with-programs",
            help="Include the implementation's programs and their libraries, or Python and its modules.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a recorded run into one file that others can replay.

    The file contains the plan of the run, its certificate, record, losses, logs and captures (the sender's data are cut
    to headers), and the digests of the files that affect its packets. The paths of your directories and the names of
    user and host are replaced. 'owlt replay FILE' performs the run again and compares its packets.
    """
    from owlt.orchestrator.planning.plan import read_plan
    from owlt.orchestrator.private_names import private_names
    from owlt.orchestrator.sweep.capsules import contents_of
    from owlt.results.capsule import ENDING, write_capsule
    from owlt.results.plain_files import real_root
    from owlt.results.record import read_record
    from owlt.results.recorded_runs import results_root

    directory = real_root(run.absolute())
    results = results_root(directory.parent.parent)
    try:
        record, plan = read_record(directory), read_plan(results)
        planned = next(each for each in plan.runs if each.run_id == record.run_id)
    except (FileNotFoundError, StopIteration):
        expected = "the directory of a recorded run, such as results/demo/runs/NAME"
        raise OwltError(Mistake("is not the directory of a run", expected, where=Place(str(run)))) from None
    require_comparable(plan, results, planned)
    contents = contents_of(results, plan, record, private_names(results), with_programs)
    path = real_root((out or Path(f"{record.run_id}{ENDING}")).absolute())
    manifest = write_capsule(path, contents.manifest, contents.files)
    size_bytes = path.stat().st_size
    printer = Printer(as_json)
    values = {"capsule": path, "run": record.run_id, "size_bytes": size_bytes, "files": len(manifest.files)}
    printer.json({**values, "notes": manifest.notes})
    printer.text(f"{path}: {size_bytes:,} bytes, {len(manifest.files)} files")
    for note in manifest.notes:
        printer.text(f"  {note}")
    printer.text(f"to perform the run again: owlt replay {path}")

"""The contents of the capsule of a recorded run, and the results directory that is restored from a capsule.

The format of the file, and reading one that somebody else made, belong to `owlt.results.capsule`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from owlt.agents.contract.implementation import Implementation
from owlt.captures.accounting.cutting import HEADER_BYTES, is_cut, keep_only_headers
from owlt.captures.accounting.derived_files import CAPTURES, PAIRS
from owlt.captures.frames.session import Session
from owlt.captures.protocols.view import ProtocolView
from owlt.inputs.axes import AXES, BOTH_WAYS, WAYS, base_name
from owlt.inputs.mistake import Mistake, Place
from owlt.inputs.sweep import Sweep
from owlt.installation import own_version
from owlt.orchestrator.checks.shrinking import losses_of
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.own_directories import process_directory
from owlt.orchestrator.planning.plan import Plan, Run, read_plan
from owlt.orchestrator.planning.selection import Selection
from owlt.orchestrator.private_names import PrivateNames
from owlt.orchestrator.rigs.provenance import UNKNOWN_MACHINE, Provenance, read_provenances
from owlt.orchestrator.run.analysis import analyse_run
from owlt.orchestrator.run.closure import closure_of, place_of
from owlt.orchestrator.sweep.merging import copy_directory
from owlt.results.capsule import MOST_ARCHIVE_BYTES, PROGRAMS, BrokenCapsule, Manifest, is_known
from owlt.results.certificates import of_machine
from owlt.results.files import CERTIFICATES, MACHINES, PLAN_NAME
from owlt.results.plain_files import (
    as_file_name,
    directories_in,
    files_in,
    is_plain,
    make_directory,
    read_json,
    read_plain,
    write_whole,
)
from owlt.results.record import VIEW, RunRecord, read_record, write_record
from owlt.results.recorded_runs import RUNS, run_directory

_SECRET = re.compile(r"\b(api[-_]?key|passphrase|password|passwd|secret|token)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Contents:
    """The contents of a capsule: its manifest without `files`, and its files by name."""

    manifest: Manifest
    files: dict[str, bytes | Path]


def contents_of(results: Path, plan: Plan, record: RunRecord, private: PrivateNames, with_programs: bool) -> Contents:
    """What is in the capsule of a run, without private names. Its captures must be there.

    Raises OwltError if captures cannot be read, Missing if `with_programs` and a program is not installed, OSError.
    """
    run = next(each for each in plan.runs if each.run_id == record.run_id)
    alone = plan_of(plan, run)
    written = alone.model_dump_json(indent=2)
    public = private.without(written)
    notes = list(_notes_on(written, private, public))
    files: dict[str, bytes | Path] = {PLAN_NAME: _json(public.replaced(json.loads(written)))}
    losses, problem = _losses(run_directory(results, run.run_id))
    notes += [f"losses: not known: {problem}"] if problem else []
    with process_directory("capsule") as own:
        write_whole(own / PLAN_NAME, written)
        notes += _cut(
            copy_directory(run_directory(results, run.run_id), make_directory(own / RUNS) / run.run_id), alone
        )
        notes += _add_directory(own / RUNS / run.run_id, f"{RUNS}/{run.run_id}", public, files)
    certificate = of_machine(results, record.machine) / CERTIFICATES / f"{run.channel_key}.json"
    if is_plain(certificate):
        values = public.replaced(read_json(certificate, may_be_infinite=True))
        files[f"{CERTIFICATES}/{run.channel_key}.json"] = _json(values)
    machine = public_machine(machine_of(record, results), record.implementation, public)
    if machine.groups:
        files[f"{MACHINES}/{machine.name}.json"] = machine.model_dump_json(indent=1).encode()
    programs: dict[str, str] = {}
    if with_programs:
        programs, left_out = _add_programs(alone.implementations[record.implementation], public, files)
        notes += left_out
    manifest = Manifest(run_id=run.run_id, owlt=own_version(), losses=losses, notes=notes, programs=programs)
    return Contents(manifest, files)


def plan_of(plan: Plan, run: Run) -> Plan:
    """The plan with one run alone, its implementation and its channel, and a sweep of its point of the grid."""
    name = run.permutation.implementation
    alone = Selection(frozenset({run.run_id}))
    reduced = alone.alone(alone.applied(plan))
    return reduced.model_copy(
        update={
            "sweep": _sweep_of(plan.sweep, run),
            "implementations": {name: plan.implementations[name]},
            "left_out_pairs": {},
            "channels": {run.channel_key: plan.channels[run.channel_key]},
            "batches": [batch for batch in reduced.batches if batch.runs],
            "history": [],
        }
    )


def _sweep_of(sweep: Sweep, run: Run) -> Sweep:
    """The sweep of one point of the grid: what does not concern it is left out."""
    point, base = run.permutation, base_name(run.permutation.implementation)
    axes: dict[str, Any] = {}
    for key in BOTH_WAYS:
        given = sweep.channel is None or any(map(sweep.gives, (key, *(f"{way}_{key}" for way in WAYS))))
        is_own = AXES[f"reverse_{key}"].is_own(point)
        axes[key] = [AXES[key].of(point)] if given and not is_own else None
        for way in WAYS:
            axes[f"{way}_{key}"] = [AXES[f"{way}_{key}"].of(point)] if given and is_own else None
    return sweep.model_copy(
        update={
            **axes,
            "title": "",
            "implementations": [base],
            "file_size": None if point.file_size_bytes is None else [point.file_size_bytes],
            "duration": None if point.duration_ns is None else [point.duration_ns],
            "channel": [point.channel_name] if point.channel_name else None,
            "ip": [point.ip],
            "parameters": {},
            "advertised": {name: each for name, each in sweep.advertised.items() if name == base},
            **sweep.of_channel(point.channel_name, [point.channel_name]),
            **{key: [] for key in ("together", "exclude", "include", "assertions")},
            "pairs": None,
            "baseline": None,
            "repetitions": 1,
            "keep_captures": "headers",
        }
    )


def machine_of(record: RunRecord, results: Path) -> Provenance:
    """The machine that performed a run, as far as its results tell; `UNKNOWN_MACHINE`: they do not."""
    machines = list(read_provenances(results))
    same = [each for each in machines if each.digests(record.implementation) == record.provenance]
    return next(iter(same or machines[: len(machines) == 1]), UNKNOWN_MACHINE)


def public_machine(machine: Provenance, implementation: str, public: PrivateNames) -> Provenance:
    """A machine with the programs of one implementation, and without private names."""

    def renamed(group: Mapping[str, str]) -> dict[str, str]:
        return {public.replaced_paths(name): digest for name, digest in group.items()}

    return Provenance(
        groups={name: renamed(group) for name, group in machine.groups.items()},
        implementations={implementation: renamed(machine.implementations.get(implementation, {}))},
    )


def restored(directory: Path, manifest: Manifest, private: PrivateNames) -> Path:
    """The directory of the run in an unpacked capsule, whose plan then has this user's paths in the place of words.

    Raises BrokenCapsule if it has more or something else than its one run, ResultsConflict if plan or record cannot be
    read, OwltError if it was not performed on the rig virtual.
    """
    run = run_directory(directory, manifest.run_id)
    path = directory / PLAN_NAME
    if not (is_plain(path) and is_plain(run / "record.json")):
        raise BrokenCapsule(Mistake("has no plan or no record", "a file that 'owlt capsule' wrote"))
    write_whole(path, _json(private.restored(read_json(path))))
    _require_one_run(read_plan(directory), read_record(run), manifest)
    return run


def _require_one_run(plan: Plan, record: RunRecord, manifest: Manifest) -> None:
    where = Place(key=(PLAN_NAME,))
    ids = [run.run_id for run in plan.runs]
    names = [name for run in plan.runs for name in (run.permutation.implementation, run.channel_key)]
    keys = {key for batch in plan.certifications for key in batch.certify}
    is_one = ids == [record.run_id] == [manifest.run_id] and names == [*plan.implementations, *plan.channels]
    if not is_one or not keys <= plan.channels.keys():
        raise BrokenCapsule(Mistake("is not the plan of its run", "a plan of one run", where=where))
    try:
        for name in names:
            as_file_name(name)
    except ValueError as error:
        raise BrokenCapsule(Mistake(f"the name of a channel or implementation {error}", where=where)) from None
    if any(each.name != name for name, each in plan.implementations.items()):
        raise BrokenCapsule(Mistake("names one implementation in two ways", "one name", where=where))
    if plan.sweep.rig != "virtual":
        problem = f"its run was performed on the rig {plan.sweep.rig}, where its commands could do harm"
        raise OwltError(Mistake(problem, "a run on the rig virtual"))


def _notes_on(plan: str, private: PrivateNames, public: PrivateNames) -> Iterator[str]:
    """What was replaced in the plan, and what a user should read in it before the capsule is sent."""
    written = private.replaced_paths(plan)
    words = sorted({word for word in private.paths.values() if word in written})
    if words:
        yield f"{PLAN_NAME}: paths are written as {', '.join(words)}: 'owlt replay' takes those of its user"
    if kept := sorted({private.names[name] for name in private.names.keys() - public.names.keys()}):
        what = " and ".join(word.strip("<>") for word in kept)
        yield f"{PLAN_NAME}: contains the name of the {what} as a word, which therefore was replaced nowhere: read it"
    if found := sorted({match.lower() for match in _SECRET.findall(plan)}):
        yield f"{PLAN_NAME}: contains the word {', '.join(found)}: read it before you send the capsule"


def _losses(run: Path) -> tuple[dict[Any, list[int]] | None, str]:
    """The losses of a run by direction; or None, and why they are not known."""
    try:
        hits = losses_of(run)
    except OwltError as error:
        return None, "; ".join(mistake.problem for mistake in error.mistakes)
    return {way: sorted(hit.place.number for hit in hits if hit.place.direction == way) for way in WAYS}, ""


def _cut(run: Path, plan: Plan) -> list[str]:
    """Cut the captures in the copy of a run to their headers, and remove its machine's name. Returns what was cut."""
    record = read_record(run)
    write_record(record.model_copy(update={"machine": ""}), run)
    if all(is_cut(run / name) for name in CAPTURES):
        return [f"captures: as they were recorded, the sender's data cut to {HEADER_BYTES} B"]
    if not record.session:
        return ["captures: complete, because the run ended before its session was known"]
    analyse_run(run, "full", {name: each.dissector for name, each in plan.implementations.items()})
    keep_only_headers(run, Session.model_validate(record.session), {VIEW: ProtocolView})
    return [
        f"captures: the sender's data was cut to {HEADER_BYTES} B; summary.json has the SHA-256 of the complete ones"
    ]


def _add_directory(source: Path, place: str, public: PrivateNames, files: dict[str, bytes | Path]) -> list[str]:
    """Add the files of a run that a capsule may have, without private names. Returns what was left out, in words."""
    left_out = []
    for path in sorted(_files_below(source)):
        name = str(path.relative_to(source))
        content = _public_content(path, public)
        if content is None or not is_known(f"{place}/{name}"):
            left_out.append(name)
        else:
            files[f"{place}/{name}"] = content
    return [f"left out: {', '.join(left_out)}"] if left_out else []


def _files_below(directory: Path) -> Iterator[Path]:
    yield from files_in(directory)
    for each in directories_in(directory):
        yield from _files_below(each)


def _public_content(path: Path, public: PrivateNames) -> bytes | None:
    """The content of a file of a run without private names; None if it is damaged, or binary and no capture."""
    content = read_plain(path)
    if path.suffix == ".pcap":
        return content
    try:
        text = content.decode()
        values = _without_times(json.loads(text)) if path.suffix == ".json" else text
    except ValueError:
        return None
    public_values = values if path.name == PAIRS else public.replaced(values)
    return _json(public_values) if path.suffix == ".json" else str(public_values).encode()


def _without_times(values: Any) -> Any:
    """The values of a file derived from captures, without the times of these captures on this machine."""
    if isinstance(values, dict) and isinstance(values.get("source"), dict):
        return values | {"source": values["source"] | {"seen": {}}}
    return values


def _add_programs(
    implementation: Implementation, public: PrivateNames, files: dict[str, bytes | Path]
) -> tuple[dict[str, str], list[str]]:
    """Add the files of the implementation's programs. Returns their paths by name, and notes."""
    paths = {f"{PROGRAMS}/{place_of(path)}": path for path in closure_of(implementation)}
    known = {name: path for name, path in paths.items() if is_known(name)}
    files.update(known)
    private = [name for name, path in known.items() if _contains_one(path, public.paths)]
    notes = [f"programs: left out, for their names: {len(paths) - len(known)}"] if len(paths) > len(known) else []
    if private:
        notes.append(f"programs: unchanged, and {len(private)} contain a path that is yours too, such as {private[0]}")
    return {name: public.replaced_paths(str(path)) for name, path in known.items()}, notes


def _contains_one(path: Path, texts: Iterable[str]) -> bool:
    content = read_plain(path, MOST_ARCHIVE_BYTES)
    return any(text.encode() in content for text in texts)


def _json(values: Any) -> bytes:
    return (json.dumps(values, indent=1, ensure_ascii=False) + "\n").encode()

"""Facts about each implementation beside its numbers: version, parameters, limits, special conditions; and the section
about pairs: the matrices, and the pairs that failed, with where they stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from textwrap import shorten
from typing import Any, Literal
from urllib.parse import quote

from owlt.agents.contract.implementation import Implementation
from owlt.agents.contract.limits import KnownLimit, Limits
from owlt.agents.contract.placeholders import as_text
from owlt.captures.accounting.derived_files import CAPTURES, load_pairs
from owlt.captures.accounting.summary import read_both
from owlt.captures.files.blocks import NotACapture
from owlt.captures.frames.session import Session
from owlt.captures.inspection.inspection import Case, inspect, refusal_notes
from owlt.captures.protocols.ladder import unanswered
from owlt.inputs.axes import base_name
from owlt.reports.answer.regions import dimensions_of, place_text
from owlt.reports.comparison.cells import Cell
from owlt.reports.comparison.matrices import Matrix, matrices_of
from owlt.reports.results.load import Results, Run, advertised_delays, advertised_rates, congestion_control_of
from owlt.reports.sessions.protocols import ShownRun
from owlt.reports.sessions.session_figures import Drawn
from owlt.reports.units import delay_text, number_text, probability_text, rate_text, size_text
from owlt.results.plain_files import is_plain
from owlt.results.record import RunRecord, Side

VERSION_LETTERS = 60
"""The most letters of a version that are shown; some programs append a list of features."""
MOST_NOTES = 4
"""The most notes of a kind that are shown."""

ENDPOINTS = "-m owlt.agents."
"""The option with which Python starts an endpoint of owlt."""
OWN_VERSION = "version('owlt')"
"""The text in the command that states the version of an implementation that is entirely owlt's own."""

Origin = Literal["own", "endpoint", "other", "pair"]
ORIGINS: dict[Origin, tuple[str, str]] = {
    "own": ("Endpoints of owlt", "owlt"),
    "endpoint": ("Endpoints of owlt around an engine of others", "owlt, engine of others"),
    "other": ("Third-party programs", "third party"),
    "pair": ("Pairs, the sender of one with the receiver of another", "pair"),
}
"""Where an implementation comes from, in words: above a list, and beside one."""


def origin_of(implementation: Implementation) -> Origin:
    """The origin of an implementation: entirely owlt's own, owlt's endpoint around a third-party engine, or a
    third-party program; or a pair."""
    if implementation.pair is not None:
        return "pair"
    if not " ".join(map(str, implementation.sender.command[1:3])).startswith(ENDPOINTS):
        return "other"
    return "own" if any(OWN_VERSION in str(word) for word in implementation.version_command) else "endpoint"


@dataclass(frozen=True)
class ImplementationRow:
    """An implementation of the sweep, in words."""

    name: str
    title: str
    description: str
    protocol: str
    origin: Origin
    versions: tuple[str, ...]
    notes: tuple[str, ...]
    """The version of a congestion control, advertised values that differ from the channel's, pacing by a network card,
    processes left running, limits and known failures."""
    chosen: dict[str, str]
    """The parameters that the sweep sets; a variant is named after them."""
    parameters: dict[str, str]
    """All parameters, with those from the profile."""

    @property
    def versions_text(self) -> str:
        """The beginning of each version, in a line."""
        return " and ".join(shorten(version, VERSION_LETTERS, placeholder=" …") for version in self.versions)


def implementation_rows(results: Results) -> list[ImplementationRow]:
    """Every implementation, in the order of the sweep."""
    records: dict[str, list[RunRecord]] = {name: [] for name in results.implementations}
    for run in results.runs:
        records[run.record.implementation].append(run.record)
    return [
        _row(name, results.profiles[name], records[name], results.sweep.parameters.get(base_name(name), {}))
        for name in results.implementations
    ]


def origins_of(rows: Iterable[ImplementationRow]) -> dict[Origin, list[str]]:
    """The names of the implementations by where they come from; an origin without any is left out."""
    names: dict[Origin, list[str]] = {origin: [] for origin in ORIGINS}
    for row in rows:
        names[row.origin].append(row.name)
    return {origin: own for origin, own in names.items() if own}


def _row(name: str, profile: Implementation, records: list[RunRecord], chosen: Iterable[str]) -> ImplementationRow:
    parameters: dict[str, list[str]] = {}
    for record in records:
        for key, value in record.parameters.items():
            parameters.setdefault(key, []).append(_value_text(key, value))
    texts = {key: " and ".join(dict.fromkeys(values)) for key, values in parameters.items()}
    versions = (record.versions.get("implementation", record.versions.get(name)) for record in records)
    return ImplementationRow(
        name=name,
        title=profile.title,
        description=profile.description,
        protocol=", ".join(dict.fromkeys(record.protocol for record in records)),
        origin=origin_of(profile),
        versions=tuple(sorted({version for version in versions if version})),
        notes=(
            *filter(None, [congestion_control_of(profile)]),
            *_advertised_notes(records),
            *_paced_notes(records),
            *_refused_notes(records),
            *_left_notes(records),
            *(f"not started for {bound}" for bound in _bounds(profile.limits)),
            *_repeating_notes(profile, records),
            *map(_known_note, profile.known_limits),
        ),
        chosen={key: texts[key] for key in chosen if key in texts},
        parameters=texts,
    )


def _value_text(parameter: str, value: str | float) -> str:
    """The value of a parameter. A port is a name, not an amount: it has no thousands separator."""
    if isinstance(value, str):
        return value
    return f"{value:g}" if "port" in parameter.split("_") else number_text(value)


def _advertised_notes(records: list[RunRecord]) -> list[str]:
    """Advertised rates and delays that differ from the channel's."""
    rates = [f"advertised {rate} on a channel of {channel}" for rate, channel in advertised_rates(records)]
    delays = [f"advertised {delay} one way on a channel of {channel}" for delay, channel in advertised_delays(records)]
    return _most([*rates, *delays])


def _paced_notes(records: list[RunRecord]) -> list[str]:
    rates = dict.fromkeys((who, side.card_rate_bps) for record in records for who, side in _sides(record))
    return _most(f"the {who}’s network card paces it at {rate_text(rate)}" for who, rate in rates if rate is not None)


def _refused_notes(records: list[RunRecord]) -> list[str]:
    """Notes about packets that never left a host, because a program ignored a full socket buffer."""
    refused: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    for record in records:
        for who, counters in record.host_refusals.items():
            if count := max(counters.values(), default=0):
                refused[who] += count
                runs[who] += 1
    return [
        f"in {'1 run' if runs[who] == 1 else f'{runs[who]} runs'} the {who}’s host had no room for "
        f"{number_text(count)} packets, which were not sent"
        for who, count in refused.items()
    ]


def _left_notes(records: list[RunRecord]) -> list[str]:
    left = Counter(
        (who, _without_directory(command))
        for record in records
        for who, side in _sides(record)
        for command in dict.fromkeys(side.left_running)
    )
    return _most(
        f"in {'1 run' if count == 1 else f'{count} runs'} the {who} left a process running, which was killed: {command}"
        for (who, command), count in left.items()
    )


def _repeating_notes(profile: Implementation, records: list[RunRecord]) -> list[str]:
    """A note only for the clock exact, where a reader expects runs to be repeatable."""
    if not profile.not_repeatable or all(record.clock != "exact" for record in records):
        return []
    return [f"the same seed does not reproduce the same packets: {profile.not_repeatable}"]


def _sides(record: RunRecord) -> tuple[tuple[str, Side], ...]:
    return ("sender", record.sender), ("receiver", record.receiver)


def _without_directory(command: str) -> str:
    """A command with the name of its program instead of the path, which depends on the host."""
    program, space, arguments = command.partition(" ")
    return PurePath(program).name + space + arguments


def _most(notes: Iterable[str]) -> list[str]:
    """The first notes, and the number of others."""
    shown = list(notes)
    more = len(shown) - MOST_NOTES
    return [*shown[:MOST_NOTES], f"and {more} more"] if more > 0 else shown


def _bounds(limits: Limits) -> list[str]:
    size, rate, delay_s = limits.largest_file_bytes, limits.slowest_rate_bps, limits.longest_one_way_delay_s
    return [
        *([] if size is None else [f"files over {size_text(size)}"]),
        *([] if rate is None else [f"rates below {rate_text(rate)}"]),
        *([] if delay_s is None else [_longer_than(delay_s)]),
    ]


def _known_note(limit: KnownLimit) -> str:
    size, delay_s, error_rate = limit.file_bytes_above, limit.one_way_delay_s_above, limit.packet_error_rate_above
    where = [
        *([] if size is None else [f"files over {size_text(int(size))}"]),
        *([] if delay_s is None else [_longer_than(delay_s)]),
        *([] if error_rate is None else [f"a packet error rate above {probability_text(error_rate)}"]),
        *(f"{name} {' or '.join(map(as_text, values))}" for name, values in limit.parameters.items()),
    ]
    return " ".join(["known to fail", *(["with", " and ".join(where)] if where else [])]) + f": {limit.why}"


def _longer_than(delay_s: float) -> str:
    return f"more than {delay_text(round(delay_s * 1e9))} one way"


MOST_FAILED = 20
"""The most failed pairs whose captures are read."""


@dataclass(frozen=True)
class FailedPair:
    """The first failed run of a pair."""

    run_id: str
    reason: str
    unanswered: str
    """The packets without an answer, in words; "" if the captures do not tell."""
    ladder: str
    """The address of its ladder: in the page that `owlt analyse` writes, or a figure of the report; "" if neither is
    there."""
    directory: str


def pairs_section(
    results: Results, cells: Sequence[Cell], shown: Sequence[ShownRun], sessions: Mapping[str, Drawn]
) -> dict[str, Any]:
    """The values that the template of the section names; without pairs it has no matrices.

    `shown` are the runs that `sessions` are drawn from, by implementation.
    """
    matrices = matrices_of(cells, results.profiles, results.left_out_pairs)
    dimensions = dimensions_of([cell.point for cell in cells])
    alone = set(map(base_name, results.profiles))
    return {
        "matrices": matrices,
        "impossible": {name: why for name, why in results.left_out_pairs.items() if name not in alone},
        "pair_place": partial(place_text, dimensions=dimensions),
        "failed_pairs": list(
            _failed(results, matrices, {each.run.record.run_id: each.name for each in shown}, sessions)
        ),
    }


def _failed(
    results: Results, matrices: Sequence[Matrix], shown: Mapping[str, str], sessions: Mapping[str, Drawn]
) -> Iterator[FailedPair]:
    """One failed run of each pair: the one that is drawn if it is among them, else the first."""
    runs = {run.record.run_id: run for run in results.runs}
    failed: dict[str, list[str]] = {}
    for matrix in matrices:
        for entry in matrix.entries:
            failed.setdefault(entry.name, []).extend(row["run_id"] for row in entry.failed)
    chosen = [next((each for each in run_ids if each in shown), run_ids[0]) for run_ids in failed.values() if run_ids]
    for place, run in enumerate(map(runs.__getitem__, chosen)):
        drawn = sessions.get(shown.get(run.record.run_id, ""))
        yield FailedPair(
            run_id=run.record.run_id,
            reason=run.record.reason,
            unanswered=_where_it_stopped(run, results) if place < MOST_FAILED else "",
            ladder=_ladder(run, drawn),
            directory=f"RESULTS/runs/{run.record.run_id}",
        )


def _ladder(run: Run, drawn: Drawn | None) -> str:
    if is_plain(run.directory / "analysis" / "index.html"):
        return f"../runs/{quote(run.record.run_id)}/analysis/index.html"
    return f"figures/{quote(drawn.ladder.name)}.svg" if drawn and drawn.ladder else ""


def _where_it_stopped(run: Run, results: Results) -> str:
    """The packets of a run without an answer, and the refusals of its hosts; "" if its captures do not tell."""
    if not run.record.session or not all(is_plain(run.directory / name) for name in CAPTURES):
        return ""
    case = Case(
        Session.model_validate(run.record.session),
        results.profiles[run.record.implementation].dissector,
        outcome=run.record.outcome.value,
    )
    try:
        both = read_both(*(run.directory / name for name in CAPTURES))
        inspection = inspect(*both, case, crossing=load_pairs(run.directory, *both, case.session))
    except (NotACapture, ValueError, OSError):
        return ""
    left = unanswered(inspection.rungs)
    return "; ".join([*refusal_notes(inspection.exchange), *([left.text] if left else [])])

"""Where results come from: versions, seeds, kernel, and the digests of what the packets depend on; whether numbers
drift with time, and whether runs of different versions differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import numpy as np
import scipy

from owlt.agents.contract.implementation import Implementation
from owlt.reports.answer.sentences import percent_text
from owlt.reports.comparison.cells import GOODPUT
from owlt.reports.comparison.differences import SIGNIFICANCE, holm, least_p, mann_whitney
from owlt.reports.comparison.estimates import CONFIDENCE
from owlt.reports.results.load import Channel, Results, Run
from owlt.reports.units import listed
from owlt.results.files import DIGEST_LENGTH, MACHINES
from owlt.results.plain_files import digest_of_values, files_in
from owlt.results.record import RunRecord

GROUPS = {
    "kernel": "kernel",
    "owlt": "files of owlt",
    "python": "Python and its standard library",
    "packages": "Python packages",
    "system": "system programs and libraries",
}
"""What every run uses of its machine, and the words for it."""
OF_AN_IMPLEMENTATION = "implementation"
NO_FILES = digest_of_values({})[:DIGEST_LENGTH]
"""The text for an implementation without programs of its own."""


@dataclass(frozen=True)
class Fact:
    """A line of a list: what it is, and all its values; more than one if runs differ."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class ImplementationProvenance:
    """One implementation: its profile in the plan, its versions, and the digests of its programs."""

    name: str
    versions: tuple[str, ...]
    profile: str
    programs: tuple[str, ...]


@dataclass(frozen=True)
class Provenance:
    """All of it, for the page."""

    facts: tuple[Fact, ...]
    digests: tuple[Fact, ...]
    implementations: tuple[ImplementationProvenance, ...]
    channels: tuple[Channel, ...]
    machines: tuple[str, ...]
    """The names of files in MACHINES."""
    seeds: int
    """The number of different seeds of runs."""


def provenance_of(results: Results) -> Provenance:
    """The provenance of a results directory."""
    records = [run.record for run in results.runs]
    return Provenance(
        facts=tuple(_facts(results, records)),
        digests=tuple(
            Fact(words, values)
            for group, words in GROUPS.items()
            if (values := _values(records, lambda record, group=group: record.provenance.get(group)))  # type: ignore[misc]
        ),
        implementations=tuple(_implementation(name, results) for name in results.implementations),
        channels=results.distinct_channels,
        machines=tuple(path.name for path in files_in(results.directory / MACHINES, ".json")),
        seeds=len({record.seed for record in records}),
    )


def _facts(results: Results, records: list[RunRecord]) -> list[Fact]:
    facts = [
        Fact("owlt", _values(records, lambda record: record.versions.get("owlt"))),
        Fact("kernel", _values(records, _kernel)),
        Fact("Python", _values(records, lambda record: record.versions.get("python"))),
        Fact("rig", _values(records, lambda record: record.rig)),
        Fact("clock", _values(records, lambda record: record.clock)),
        Fact("machine", _values(records, lambda record: record.machine)),
    ]
    if not results.sources:
        facts.append(Fact("seed of the sweep", (str(results.sweep.seed),)))
    return [fact for fact in facts if fact.values]


def _kernel(record: RunRecord) -> str | None:
    version = record.versions.get("kernel")
    return f"{version}, {record.kernel_hz} Hz" if version and record.kernel_hz else version


def _implementation(name: str, results: Results) -> ImplementationProvenance:
    records = [run.record for run in results.runs if _is_of(run, name)]
    return ImplementationProvenance(
        name=name,
        versions=_values(records, lambda record: record.versions.get("implementation")),
        profile=digest_of_profile(results.profiles[name]),
        programs=_values(records, _programs),
    )


def digest_of_profile(profile: Implementation) -> str:
    """The digest of a profile as it is in the plan."""
    return digest_of_values(profile.model_dump(mode="json"))[:DIGEST_LENGTH]


def _programs(record: RunRecord) -> str | None:
    digest = record.provenance.get(OF_AN_IMPLEMENTATION)
    return "no programs of its own" if digest == NO_FILES else digest


def _is_of(run: Run, name: str) -> bool:
    return run.record.implementation == name


def _values(records: Iterable[RunRecord], value: Callable[[RunRecord], str | None]) -> tuple[str, ...]:
    """Each value once, in the order of the runs; empty ones are none."""
    return tuple(dict.fromkeys(each for record in records if (each := value(record))))


LEAST_RUNS = 4
"""With fewer runs, the interval of a slope has no meaning."""


@dataclass(frozen=True)
class Drift:
    """The change of the goodput from the first run of the baseline to the last, as a share of its median."""

    runs: int
    """The number of runs that have a goodput."""
    change: float
    least: float
    most: float
    """The bounds of the change, with the confidence CONFIDENCE."""

    @property
    def text(self) -> str:
        """The change in words."""
        interval = f"{CONFIDENCE:.0%} interval {self.least:+.1%} to {self.most:+.1%}"
        return f"{self.change:+.1%} from the first to the last of {self.runs} runs ({interval})"

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes zero."""
        return self.least > 0 or self.most < 0


def drift_of(results: Results) -> Drift | None:
    """The drift of a sweep; None if it has no baseline, or too few runs of it have a goodput."""
    runs = [run for run in results.runs if run.record.run_id in results.baseline]
    values = [(_position(run), value) for run in runs if (value := GOODPUT.metric.of(run)) is not None]
    if len(values) < LEAST_RUNS:
        return None
    positions, goodputs = np.array(values).T
    slope, _, low, high = scipy.stats.theilslopes(goodputs, positions, alpha=CONFIDENCE)
    whole = (positions.max() - positions.min()) / float(np.median(goodputs))
    return Drift(len(values), float(slope * whole), float(low * whole), float(high * whole))


def _position(run: Run) -> float:
    """When a run was performed: by the wall clock on the clock real, else by its place in the order."""
    started_ns = run.record.started_at_ns
    return started_ns / 1e9 if run.record.clock == "real" and started_ns is not None else float(run.record.order)


SHARED = ("owlt", "kernel", "python")
"""What all runs use."""
Version = Callable[[Run], str | None]


@dataclass(frozen=True)
class MixedVersions:
    """What runs of different versions have in common. A box has the runs of one permutation."""

    name: str
    versions: tuple[str, ...]
    boxes: int
    mixed: int
    """The boxes with runs of more than one version."""
    compared: int
    """The pairs of versions in a box that both have a goodput."""
    differing: int
    """The number of pairs that differ significantly."""
    can_differ: bool
    """Whether some of them have enough runs for that."""
    largest: float | None
    """The largest difference of the medians of a pair, as a share of the larger one."""

    @property
    def text(self) -> str:
        """How many boxes mix the versions, and whether it matters."""
        versions = f"{self.name} {listed(list(self.versions))}"
        if not self.mixed:
            return (
                f"Runs are of {versions}, but no box mixes them. The data cannot show whether boxes of different "
                "versions are comparable."
            )
        mix = "mixes" if self.mixed == 1 else "mix"
        return f"{self.mixed} of {self.boxes} boxes {mix} runs of {versions}. {self._effect}"

    @property
    def _effect(self) -> str:
        if self.largest is None:
            return "It is not known whether it matters: no box has goodputs of more than one version."
        largest = f"the medians differ by at most {percent_text(self.largest)}"
        if self.differing:
            return (
                f"It matters: in {self.differing} of {self.compared} comparisons within a box the goodputs of the "
                f"versions differ significantly (Mann–Whitney test, with Holm’s correction), and {largest}."
            )
        if not self.can_differ:
            return f"There are too few runs of each version in a box to show whether it matters; {largest}."
        return (
            f"It does not show in the goodputs: in none of {self.compared} comparisons within a box do the versions "
            f"differ significantly (Mann–Whitney test, with Holm’s correction), and {largest}."
        )


def mixed_versions(results: Results) -> list[MixedVersions]:
    """What runs of a sweep share in more than one version, and each implementation that has more than one."""
    boxes = list(results.by_permutation.values())
    of_names = {
        name: [box for point, box in results.by_permutation.items() if point.implementation == name]
        for name in results.implementations
    }
    found = [_mixed(name, boxes, _shared(name)) for name in SHARED]
    found += [_mixed(name, own, _own) for name, own in of_names.items()]
    return [each for each in found if len(each.versions) > 1]


def _shared(name: str) -> Version:
    return lambda run: run.record.versions.get(name)


def _own(run: Run) -> str | None:
    return run.record.versions.get("implementation", run.record.versions.get(run.record.implementation))


def _mixed(name: str, boxes: Sequence[Sequence[Run]], version: Version) -> MixedVersions:
    by_version = [_by_version(box, version) for box in boxes]
    mixed = [groups for groups in by_version if len(groups) > 1]
    pairs = [pair for groups in mixed for pair in _pairs(groups)]
    p_values = [p for p in holm(mann_whitney(pairs)) if p is not None]
    level = SIGNIFICANCE / max(len(pairs), 1)
    return MixedVersions(
        name=name,
        versions=tuple(sorted({each for groups in by_version for each in groups})),
        boxes=sum(bool(groups) for groups in by_version),
        mixed=len(mixed),
        compared=len(pairs),
        differing=sum(p <= SIGNIFICANCE for p in p_values),
        can_differ=any(least_p(len(one), len(other)) <= level for one, other in pairs),
        largest=max((_difference(*pair) for pair in pairs), default=None),
    )


def _by_version(box: Sequence[Run], version: Version) -> dict[str, list[Run]]:
    groups: dict[str, list[Run]] = {}
    for run in box:
        if own := version(run):
            groups.setdefault(own, []).append(run)
    return groups


def _pairs(groups: dict[str, list[Run]]) -> Iterator[tuple[list[float], list[float]]]:
    """The goodputs of each two versions that have any."""
    metric = GOODPUT.metric
    values = [[value for run in runs if (value := metric.of(run)) is not None] for runs in groups.values()]
    return combinations(filter(None, values), 2)


def _difference(one: Sequence[float], other: Sequence[float]) -> float:
    low, high = sorted((median(one), median(other)))
    return 1 - low / high if high else 0.0

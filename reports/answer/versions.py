"""Versions that differ between the runs of one results directory: how many boxes mix them, and whether it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from owlt.reports.answer.sentences import percent_text
from owlt.reports.comparison.cells import GOODPUT
from owlt.reports.comparison.differences import SIGNIFICANCE, holm, least_p, mann_whitney
from owlt.reports.results.load import Results, Run
from owlt.reports.units import listed

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
    """Those that differ significantly."""
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
                f"Runs are of {versions}, but no box mixes them. Whether boxes of different versions can be compared, "
                "the numbers do not tell."
            )
        mix = "mixes" if self.mixed == 1 else "mix"
        return f"{self.mixed} of {self.boxes} boxes {mix} runs of {versions}. {self._effect}"

    @property
    def _effect(self) -> str:
        if self.largest is None:
            return "Whether it matters cannot be told: no box has goodputs of more than one version."
        largest = f"the medians differ by at most {percent_text(self.largest)}"
        if self.differing:
            return (
                f"It matters: in {self.differing} of {self.compared} comparisons within a box the goodputs of the "
                f"versions differ significantly (Mann and Whitney, with Holm’s correction), and {largest}."
            )
        if not self.can_differ:
            return f"Whether it matters cannot be told from so few runs of each version in a box; {largest}."
        return (
            f"It does not show in the goodputs: in none of {self.compared} comparisons within a box do the versions "
            f"differ significantly (Mann and Whitney, with Holm’s correction), and {largest}."
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

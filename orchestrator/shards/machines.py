"""In what the machines differ that performed the runs of several results directories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

from owlt.orchestrator.provenance.provenance import (
    OF_AN_IMPLEMENTATION,
    Provenance,
    difference,
    read_provenances,
)
from owlt.orchestrator.results.record import RunRecord


def machine_differences(records: Mapping[str, RunRecord], directories: Sequence[Path]) -> list[str]:
    """A phrase for each group of files that has several digests in the records, with the files if they are known.

    The programs of an implementation are compared between its own runs. Records without provenance, of older versions
    of owlt, are not compared.
    """
    machines = [machine for directory in directories for machine in read_provenances(directory)]
    digests: dict[tuple[str, str], set[str]] = {}
    for record in records.values():
        for group, digest in record.provenance.items():
            of = record.implementation if group == OF_AN_IMPLEMENTATION else ""
            digests.setdefault((group, of), set()).add(digest)
    return [_phrase(group, of, sorted(values), machines) for (group, of), values in digests.items() if len(values) > 1]


def _phrase(group: str, implementation: str, digests: list[str], machines: list[Provenance]) -> str:
    what = f"the programs of {implementation}" if implementation else group
    for one, other in combinations(digests, 2):
        pairs = _groups(group, implementation, one, machines), _groups(group, implementation, other, machines)
        if phrase := next((difference(what, *pair) for pair in zip(*pairs, strict=False)), ""):
            return phrase
    return f"{what}: {', '.join(digests)}"


def _groups(group: str, implementation: str, digest: str, machines: list[Provenance]) -> Iterator[dict[str, str]]:
    """The files of the first machine whose group has this digest."""
    for machine in machines:
        if machine.digests(implementation).get(group) == digest:
            yield machine.implementations.get(implementation, {}) if implementation else machine.groups[group]
            return

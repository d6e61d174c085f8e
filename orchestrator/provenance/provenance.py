"""The provenance of a machine as a value, its file in a results directory, and the differences between two."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from owlt.results.plain_files import files_in, make_directory, read_plain, write_whole

DIRECTORY_NAME = "machines"
DIGEST_LENGTH = 16
OF_AN_IMPLEMENTATION = "implementation"
"""The group of a record that depends on the run's implementation."""
MOST_NAMES = 5

Group = dict[str, str]
"""The digest of each file, package or program, by its name."""


class Provenance(BaseModel):
    """What a guest, or a rig of this machine's kernel, uses of a machine; {} in every field: not known."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = 1
    groups: dict[str, Group] = {}
    """What every run uses: `kernel`, `owlt`, `python`, `packages` and `system`."""
    implementations: dict[str, Group] = {}
    """The programs of each implementation of the plan, and the libraries that they load."""

    @property
    def name(self) -> str:
        """The name of its file: the same for machines without a difference."""
        return _digest(self.model_dump())

    def digests(self, implementation: str) -> dict[str, str]:
        """What the record of a run of this implementation has: a digest for each group."""
        used = self.groups | {OF_AN_IMPLEMENTATION: self.implementations.get(implementation, {})}
        return {name: _digest(group) for name, group in used.items()} if self.groups else {}


UNKNOWN_MACHINE = Provenance()


def differences(here: Provenance, there: Provenance) -> list[str]:
    """A phrase for each group that differs, with the first of the names that differ."""
    groups = [(name, here.groups.get(name, {}), there.groups.get(name, {})) for name in {**here.groups, **there.groups}]
    both = {**here.implementations, **there.implementations}
    groups += [(name, here.implementations.get(name, {}), there.implementations.get(name, {})) for name in both]
    return [text for name, one, other in groups if (text := difference(name, one, other))]


def write_provenance(provenance: Provenance, results: Path) -> None:
    """Write a machine's file into a results directory, unless it is there."""
    path = results / DIRECTORY_NAME / f"{provenance.name}.json"
    if provenance.groups and not path.exists():
        make_directory(path.parent)
        write_whole(path, provenance.model_dump_json(indent=1) + "\n")


def read_provenances(results: Path) -> Iterator[Provenance]:
    """The machines of a results directory, without files that cannot be read."""
    for path in files_in(results / DIRECTORY_NAME, ".json"):
        try:
            yield Provenance.model_validate_json(read_plain(path))
        except (OSError, ValidationError):
            continue


def difference(name: str, here: Group, there: Group) -> str:
    """The first of the names in which a group differs, after its own name; "": it does not."""
    unlike = sorted(each for each in {**here, **there} if here.get(each) != there.get(each))
    if not unlike:
        return ""
    more = f" and {len(unlike) - MOST_NAMES} more" if len(unlike) > MOST_NAMES else ""
    return f"{name}: {', '.join(unlike[:MOST_NAMES])}{more}"


def _digest(values: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:DIGEST_LENGTH]

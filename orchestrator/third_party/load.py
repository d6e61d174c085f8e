"""Read the files of profiles/third-party/: YAML in, a checked `Installable` out, all mistakes in one message."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from owlt.inputs.mistake import Mistake, got
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.errors import NotFound, ProfileError, did_you_mean
from owlt.orchestrator.profiles.catalogue import PROFILES
from owlt.orchestrator.profiles.load import read_document
from owlt.orchestrator.third_party.installable import Installable


def all_installables() -> list[Installable]:
    """What owlt can install, required implementations first. Raises ProfileError as `load_installable` does."""
    installables = [load_installable(path) for path in sorted((PROFILES / "third-party").glob("*.yaml"))]
    return sorted(installables, key=lambda installable: not installable.required)


def find_installables(names: list[str]) -> list[Installable]:
    """The implementations with these names; all if `names` is empty. Raises ProfileError for an unknown name."""
    by_name = {installable.name: installable for installable in all_installables()}
    for name in names:
        if name not in by_name:
            fix = did_you_mean(name, by_name, f"known: {', '.join(by_name)}")
            raise NotFound(Mistake(f"implementation {name!r}: not found", fix=fix))
    return [by_name[name] for name in dict.fromkeys(names or by_name)]


def load_installable(path: Path) -> Installable:
    """Read one file. Its name must be NAME.yaml, NAME being its key `name`.

    Raises ProfileError if the file is missing, is not valid YAML, or has wrong keys or values.
    """
    document = read_document(path)
    try:
        installable = Installable.model_validate(document.value)
    except ValidationError as problem:
        raise ProfileError(*map(document.positions.located, mistakes_in(problem, Installable))) from None
    if installable.name != path.stem:
        fix = "change the name or rename the file"
        where = document.positions.place(("name",))
        raise ProfileError(Mistake(got(installable.name), f"{path.stem!r}, the name of the file", fix, where))
    return installable

"""Build files: YAML in, a checked `Build` out, every mistake in one message."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError

from agents.explaining import explained
from orchestrator.builds.build import Build
from orchestrator.catalogue import PROFILES
from orchestrator.errors import ProfileError
from orchestrator.load import read_document


def all_builds() -> list[Build]:
    """The builds that come with owlt, those that are required first. Raises ProfileError as `load_build` does."""
    found = [load_build(path) for path in sorted((PROFILES / "builds").glob("*.yaml"))]
    return sorted(found, key=lambda build: not build.required)


def find_builds(names: list[str]) -> list[Build]:
    """The builds of these names, all when there are none. Raises ProfileError for a name that is unknown."""
    known = {build.name: build for build in all_builds()}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            told = f"did you mean {near[0]}?" if near else f"wanted one of {', '.join(known)}"
            raise ProfileError(f"build {name!r}: not found; {told}")
    return [known[name] for name in dict.fromkeys(names or known)]


def load_build(path: Path) -> Build:
    """Read one build file. It must be named after the build.

    Raises ProfileError: no such file, not YAML, or not the keys and values of a build.
    """
    document = read_document(path)
    try:
        build = Build.model_validate(document)
    except ValidationError as problem:
        raise ProfileError("\n".join(f"{path}: {line}" for line in explained(problem, Build))) from None
    if build.name != path.stem:
        raise ProfileError(f"{path}: name: got {build.name!r}, wanted {path.stem!r} as the file is called")
    return build

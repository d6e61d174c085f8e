"""The channels that come with owlt, found by name; a path to a file of one's own does as well."""

from __future__ import annotations

from pathlib import Path

from emulator.channel import ChannelSpec
from emulator.channel_file import Changes, ChannelProfile, load_channel
from emulator.faults import InvalidChannel
from orchestrator.catalogue import PROFILES
from orchestrator.errors import ProfileError
from orchestrator.sweep import Sweep


def channel_files() -> list[Path]:
    """The channel profiles that come with owlt."""
    return sorted((PROFILES / "channels").glob("*.yaml"))


def find_channel(name: str, changes: Changes | None = None) -> ChannelProfile:
    """The channel of that name, or in the file of that path, with `changes` made to its links.

    Raises ProfileError when there is none, or with every mistake in its file.
    """
    path = Path(name) if name.endswith((".yaml", ".yml")) else PROFILES / "channels" / f"{name}.yaml"
    if not path.exists():
        known = ", ".join(file.stem for file in channel_files())
        raise ProfileError(f"channel {name!r}: not found; wanted one of {known}, or the path of a YAML file")
    try:
        return load_channel(path, changes)
    except InvalidChannel as problem:
        raise ProfileError(str(problem)) from problem


def channels_of(sweep: Sweep) -> dict[str, ChannelSpec]:
    """The channels that a sweep names, by the names that it gives them.

    Raises ProfileError for one that is not found, or that shares its name with another.
    """
    found: dict[str, ChannelSpec] = {}
    for wanted in sweep.channel or []:
        if twin := next((name for name in found if Path(name).stem == Path(wanted).stem), None):
            raise ProfileError(f"channel: {wanted!r} and {twin!r} are both named {Path(wanted).stem!r}; rename a file")
        found[wanted] = find_channel(wanted).channel
    return found

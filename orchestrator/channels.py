"""The channels that come with owlt, found by name; a path to a file of one's own does as well."""

from __future__ import annotations

from pathlib import Path

from emulator.channel import ChannelSpec
from emulator.channel_file import Changes, ChannelProfile, load_channel
from emulator.faults import InvalidChannel
from orchestrator.catalogue import PROFILES, mistake_in_name, profile_path
from orchestrator.errors import ProfileError, SweepMistake
from orchestrator.sweep import Sweep


def channel_files() -> list[Path]:
    """The channel profiles that come with owlt."""
    return sorted((PROFILES / "channels").glob("*.yaml"))


def find_channel(name: str, changes: Changes | None = None) -> ChannelProfile:
    """The channel of that name, or in the file of that path, with `changes` made to its links.

    Raises NotFound when there is none of that name, NoSuchFile when there is no such file, ProfileError with every
    mistake in it.
    """
    path = profile_path("channel", name)
    try:
        return load_channel(path, changes)
    except InvalidChannel as problem:
        raise ProfileError(str(problem)) from problem


def channels_of(sweep: Sweep) -> dict[str, ChannelSpec]:
    """The channels of a sweep by their own names, in the order of the sweep.

    Raises SweepMistake for those that are not found or share a name, ProfileError for a file that is no channel.
    """
    found: dict[str, ChannelSpec] = {}
    files: dict[str, Path] = {}
    mistakes = []
    for wanted in sweep.channel or []:
        if mistake := mistake_in_name("channel", wanted):
            mistakes.append(mistake)
            continue
        path, profile = profile_path("channel", wanted), find_channel(wanted)
        if twin := files.get(profile.name):
            mistakes.append(
                f"channel: {twin} and {path} are both named {profile.name!r}, wanted a name for each; "
                "change 'name:' in one of them"
            )
        found[profile.name], files[profile.name] = profile.channel, path
    if mistakes:
        raise SweepMistake("\n".join(mistakes))
    return found

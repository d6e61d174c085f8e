"""The channels that come with owlt, found by name; or in a file of the user's, by its path."""

from __future__ import annotations

from pathlib import Path

from owlt.emulator.channel.channel_file import Changes, ChannelProfile, load_channel
from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import InvalidChannel
from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.errors import ProfileError, SweepMistake
from owlt.orchestrator.planning.sweep import Sweep
from owlt.orchestrator.profiles.catalogue import PROFILES, mistake_in_name, profile_path


def channel_files() -> list[Path]:
    """The channel profiles that come with owlt."""
    return sorted((PROFILES / "channels").glob("*.yaml"))


def find_channel(name: str, changes: Changes | None = None) -> ChannelProfile:
    """The channel of that name, or in the file of that path, with `changes` made to its links.

    Raises NotFound for an unknown name, NoSuchFile for a path without a file, ProfileError with every mistake in it.
    """
    path = profile_path("channel", name)
    try:
        return load_channel(path, changes)
    except InvalidChannel as problem:
        raise ProfileError(*problem.mistakes) from problem


def channels_of(sweep: Sweep) -> dict[str, ChannelSpec]:
    """The channels of a sweep by their own names, in the order of the sweep.

    Raises SweepMistake for names that are not found or shared, ProfileError for a file that is not a channel.
    """
    channels: dict[str, ChannelSpec] = {}
    files: dict[str, Path] = {}
    mistakes = []
    for name in sweep.channel or []:
        if mistake := mistake_in_name("channel", name):
            mistakes.append(mistake)
            continue
        path, profile = profile_path("channel", name), find_channel(name)
        if twin := files.get(profile.name):
            problem = f"{twin} and {path} are both named {profile.name!r}"
            where = Place(key=("channel",))
            mistakes.append(Mistake(problem, "a name for each", "change 'name:' in one of them", where))
        channels[profile.name], files[profile.name] = profile.channel, path
    if mistakes:
        raise SweepMistake(*mistakes)
    return channels

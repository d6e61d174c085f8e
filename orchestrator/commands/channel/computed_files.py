"""A computed channel as the files of an ordinary one: a profile, and beside it the trace that it names."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from owlt.captures.files.plain_files import real_root, write_whole
from owlt.emulator.channel.channel_file import ChannelProfile, parse_channel
from owlt.emulator.faults import InvalidChannel
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import OwltError, ProfileError

LINE_LENGTH = 115


@dataclass(frozen=True)
class ComputedChannel:
    """What the files of a channel have."""

    title: str
    source: str
    links: Mapping[str, Mapping[str, Any]]
    """Keys of the links as written, below both, forward and reverse."""
    columns: Sequence[str] = ()
    """Of the trace, beside the time. None: the channel does not change, and has no trace."""
    rows: Sequence[Sequence[str]] = ()
    """Of the trace: the time in seconds, and a cell for each column."""
    timeline: Mapping[str, Any] = field(default_factory=dict)
    """Other keys of the timeline: contacts, outside, loop_after."""


def seconds_text(seconds: float) -> str:
    """A time in the first column of a trace, to the microsecond."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def write_channel(channel: ComputedChannel, path: Path) -> ChannelProfile:
    """Write the two files, and return the profile as it is read back.

    Raises OwltError if either exists or cannot be written, ProfileError if the profile would be refused.
    """
    trace = path.with_suffix(".csv")
    text, rows = _profile_text(channel, path.stem, trace.name), _trace_text(channel)
    try:
        profile = parse_channel(text, str(path), lambda _: rows)
    except InvalidChannel as problem:
        in_profile = [mistake for mistake in problem.mistakes if mistake.where.file == str(path)]
        raise ProfileError(*(in_profile or problem.mistakes)) from problem  # each row of the trace repeats them
    files = {path: text} | ({trace: rows} if channel.columns else {})
    for file in files:
        if file.exists():
            fix = "remove it, or give another name with --out"
            raise OwltError(Mistake.of(str(file), "this file exists already", fix=fix))
    try:
        for file in reversed(files):
            write_whole(real_root(file), files[file])
    except OSError as problem:
        raise OwltError(Mistake.of(f"--out {path}", f"cannot be written: {problem.strerror}")) from problem
    return profile


def _profile_text(channel: ComputedChannel, name: str, trace: str) -> str:
    links = {way: dict(keys) for way, keys in channel.links.items() if keys}
    timeline = {"trace": trace, **channel.timeline} if channel.columns else {}
    lines = [
        _line("name", name),
        _line("title", channel.title),
        "source: >",
        *_folded(channel.source),
        "",
        *(_line(way, keys) for way, keys in links.items()),
        *(["timeline:"] if timeline else []),
        *(f"  {_line(key, value)}" for key, value in timeline.items()),
    ]
    return "\n".join([*lines, ""])


def _trace_text(channel: ComputedChannel) -> str:
    lines = [f"# {channel.title}", ",".join(["t", *channel.columns]), *(",".join(row) for row in channel.rows)]
    return "\n".join([*lines, ""])


def _folded(text: str) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > LINE_LENGTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [f"  {line}" for line in lines]


def _line(key: str, value: Any) -> str:
    """A key and its value on one line of YAML."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = True
    yaml.width = 10**6
    stream = io.StringIO()
    yaml.dump({key: value}, stream)
    return stream.getvalue().strip()[1:-1]

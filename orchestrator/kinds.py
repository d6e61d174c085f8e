"""Which kind of file a path leads to, if any: a sweep, an implementation or a channel."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from agents.yaml_file import NotYaml, read_yaml
from orchestrator.errors import NoSuchFile, ProfileError

Kind = Literal["sweep", "implementation", "channel"]

_KEYS: dict[Kind, tuple[str, ...]] = {
    "sweep": ("implementations", "file_size", "seed", "repetitions", "rig", "clock"),
    "implementation": ("sender", "receiver", "protocol", "session", "time_limit"),
    "channel": ("forward", "reverse", "both", "timeline", "bypass"),
}
"""Top-level keys that files of other kinds do not have; the first ones tell people what such a file is like."""
_USE: dict[Kind, str] = {
    "sweep": "owlt run {}",
    "implementation": "owlt implementations check {}",
    "channel": "owlt channel show {}",
}


def refuse_missing(path: Path, thing: str = "file", wanted: str = "") -> None:
    """Raises NoSuchFile for a path where nothing is. One that cannot be looked at is left to its reader.

    `thing` is what the path would lead to, `wanted` what a reader wants of it.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        where = "(paths count from where owlt is run)"
        then = f"; wanted {wanted}" if wanted else ""
        raise NoSuchFile(f"there is no such {thing}: {path.absolute()} {where}{then}") from None
    except OSError:
        return


def refuse_other_kind(path: Path, wanted: Kind) -> None:
    """Raises ProfileError for a file that is plainly of another kind; one that cannot be read is left to its reader."""
    try:
        document = read_yaml(path)
    except NotYaml:
        return
    keys = set(document) if isinstance(document, dict) else set()
    own = {kind: len(keys & set(known)) for kind, known in _KEYS.items()}
    seen = max(own, key=lambda kind: own[kind])
    if own[seen] and not own[wanted]:
        there = "an implementation" if seen == "implementation" else f"a {seen}"
        here = "an implementation" if wanted == "implementation" else f"a {wanted}"
        also = f", or name it under {seen}{'s' * (seen == 'implementation')} in a sweep" if seen != "sweep" else ""
        raise ProfileError(
            f"{path}: this is {there}; {here} has {_keys_of(wanted)}; next: {_USE[seen].format(path)}{also}"
        )


def _keys_of(kind: Kind) -> str:
    first, second, third, *_ = _KEYS[kind]
    return f"{first}, {second} and {third}" if kind != "channel" else f"{first}, {second} or {third}"

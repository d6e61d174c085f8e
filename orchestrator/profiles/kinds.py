"""Which kind of file a path leads to, if any: a sweep, an implementation or a channel."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.errors import NoSuchFile, ProfileError

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


def refuse_missing(path: Path, thing: str = "file", expected: str = "") -> None:
    """Raises NoSuchFile for a path where there is nothing. A path that cannot be examined is left to its reader.

    `thing` is what the path would lead to, `expected` what its reader expects of it.
    """
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        problem = f"there is no such {thing}: {path.absolute()}"
        fix = "relative paths are resolved against the current directory"
        raise NoSuchFile(Mistake(problem, expected, fix)) from None
    except OSError:
        return


def refuse_other_kind(path: Path, document: Any, expected: Kind) -> None:
    """Raises ProfileError for a file whose document is plainly of another kind."""
    keys = set(document) if isinstance(document, dict) else set()
    matching = {kind: len(keys & set(known)) for kind, known in _KEYS.items()}
    likely = max(matching, key=lambda kind: matching[kind])
    if matching[likely] and not matching[expected]:
        fix = f"try: {_USE[likely].format(path)}"
        if likely != "sweep":
            fix += f", or name it under {likely}{'s' * (likely == 'implementation')} in a sweep"
        problem, keys_expected = (
            f"this is {_with_article(likely)}",
            f"{_with_article(expected)}, with {_keys_of(expected)}",
        )
        raise ProfileError(Mistake(problem, keys_expected, fix, Place(str(path))))


def _with_article(kind: Kind) -> str:
    return f"an {kind}" if kind == "implementation" else f"a {kind}"


def _keys_of(kind: Kind) -> str:
    first, second, third, *_ = _KEYS[kind]
    return f"{first}, {second} and {third}" if kind != "channel" else f"{first}, {second} or {third}"

"""What an operator leaves in a results directory: a pause, a note, and the options of the latest start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from owlt.inputs.mistake import Invalid, Mistake
from owlt.results.plain_files import read_plain_text, remove, write_whole

PAUSE_NAME = "paused"
"""While a file of this name is in a results directory, no run of the sweep is started."""
NOTE_NAME = "note.txt"
MOST_NOTE_CHARACTERS = 2000
_BYTES_A_CHARACTER = 4
OPTIONS_NAME = "options.json"
"""The options of the latest start that its resumption needs too, as words of a command line."""
KEPT_OPTIONS = ("--only", "--shard", "--guests")
"""Only these are kept, and read: results may come from somebody else, and other options start programs."""
_MOST_OPTIONS_BYTES = 100_000


def paused_since_s(results: Path) -> float | None:
    """When the sweep of a results directory was paused, in s since 1970; None if it is not."""
    try:
        return (results / PAUSE_NAME).lstat().st_mtime
    except OSError:
        return None


def pause(results: Path) -> None:
    """Have no further run started. Raises OSError."""
    if paused_since_s(results) is None:
        write_whole(results / PAUSE_NAME, "")


def resume(results: Path) -> None:
    """Have runs started again. Raises OSError."""
    remove(results / PAUSE_NAME)


def read_note(results: Path) -> str:
    """The note of a results directory, its first MOST_NOTE_CHARACTERS; "" if there is none that can be read."""
    try:
        return _plain(read_plain_text(results / NOTE_NAME, _BYTES_A_CHARACTER * MOST_NOTE_CHARACTERS))[
            :MOST_NOTE_CHARACTERS
        ]
    except OSError:
        return ""


def write_note(results: Path, text: str) -> None:
    """Keep a note with a results directory, in place of the present one; "" removes it.

    Raises Invalid if it is too long, OSError.
    """
    note = _plain(text)
    if len(note) > MOST_NOTE_CHARACTERS:
        raise Invalid(Mistake(f"got {len(note)} characters", f"at most {MOST_NOTE_CHARACTERS}"))
    if note:
        write_whole(results / NOTE_NAME, note + "\n")
        return
    remove(results / NOTE_NAME)


def keep_options(results: Path, words: Sequence[str]) -> None:
    """Keep the options of a start, in place of those of an earlier one. Raises OSError."""
    if words:
        write_whole(results / OPTIONS_NAME, json.dumps([*words]) + "\n")
    else:
        remove(results / OPTIONS_NAME)


def kept_options(results: Path) -> list[str]:
    """The options of the latest start; [] for all runs, and for a file that `keep_options` has not written."""
    try:
        words = json.loads(read_plain_text(results / OPTIONS_NAME, _MOST_OPTIONS_BYTES))
    except (OSError, ValueError, RecursionError):
        return []
    if not isinstance(words, list) or len(words) % 2 or not all(isinstance(word, str) for word in words):
        return []
    are_known = all(name in KEPT_OPTIONS for name in words[::2])
    are_values = all(value.isprintable() and not value.startswith("-") for value in words[1::2])
    return words if are_known and are_values else []


def _plain(text: str) -> str:
    """A text without control characters, beside ends of lines, and without space around it."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join("".join(filter(str.isprintable, line.replace("\t", " "))) for line in lines).strip()

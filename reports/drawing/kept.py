"""Figures that are taken over from an earlier report because they were drawn from the same values by the same code.

The report notes beside its figures the values that each was drawn from, so that a build after one more run draws few of
them, and has the same bytes as a build from scratch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib

from owlt.captures.accounting.derived_files import digest_of_code, digest_of_modules
from owlt.results.plain_files import as_file_name, digest_of_values, read_json, read_plain

KEYS_NAME = "drawn-from.json"
"""The file beside the figures with, for each drawing, the digest of the values that it was drawn from, and the digests
of its files."""


@dataclass
class KeptFigures:
    """The drawings of an earlier report in `earlier`, and those of the one that is being built in `figures`.

    A drawing has one or more files with the same stem, of which those with one of the `suffixes` are made.
    """

    earlier: Path
    figures: Path
    suffixes: Collection[str]
    _noted: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            entries = read_json(self.earlier / KEYS_NAME)
        except (OSError, ValueError):
            entries = {}
        self._entries: dict[str, Any] = entries if isinstance(entries, dict) else {}

    def take(self, name: str, drawn_from: str, also: Collection[str] = ()) -> Any:
        """Take over the files of a drawing, with the suffixes `also` too. Returns the note on it; None if it has to be
        drawn.

        Files that were changed since are not taken.
        """
        suffixes = {*self.suffixes, *also}
        try:
            entry = self._entries[name]
            files = {file: digest for file, digest in entry["files"].items() if Path(file).suffix in suffixes}
            made = {Path(file).suffix for file in files}
            if entry["drawn_from"] != drawn_from or (files and made != suffixes):
                return None
            contents = {as_file_name(file): read_plain(self.earlier / file) for file in files}
        except (OSError, LookupError, TypeError, AttributeError, ValueError):
            return None
        if any(_digest(content) != files[file] for file, content in contents.items()):
            return None
        for file, content in contents.items():
            (self.figures / file).write_bytes(content)
        self._noted[name] = entry | {"files": files}
        return entry["note"]

    def note(self, name: str, drawn_from: str, files: Collection[str], note: Any) -> None:
        """Note the values that a drawing was drawn from, its files, and further facts about it, as JSON values."""
        digests = {file: _digest((self.figures / file).read_bytes()) for file in sorted(files)}
        self._noted[name] = {"drawn_from": drawn_from, "files": digests, "note": note}

    def write(self) -> None:
        """Write the notes beside the figures. Raises OSError."""
        (self.figures / KEYS_NAME).write_text(json.dumps(self._noted, indent=1, sort_keys=True) + "\n")


def digest_of_drawing(values: object) -> str:
    """The digest of the values (of JSON) that a figure is drawn from, and of the code that draws it, in hex."""
    code = [digest_of_code(), digest_of_modules(Path(__file__).resolve().parents[1]), matplotlib.__version__]
    return digest_of_values([values, code])


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


WORTH_A_PROCESS = 8
"""With fewer tasks, starting processes takes longer than it saves."""

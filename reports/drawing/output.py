"""A drawn figure as a file, the same bytes every time, and as a part of a page, in its colours and with its links; and
figures that are taken over from an earlier report because they were drawn from the same values by the same code.

The report notes beside its figures the values that each was drawn from, so that a build after one more run draws few of
them, and has the same bytes as a build from scratch.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from html import escape
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from owlt.captures.accounting.derived_files import digest_of_code, digest_of_modules
from owlt.reports.drawing.boxes import RUN_LINK
from owlt.reports.looks import ALARM, INK, MUTED, PAPER, RULE, SERIES, STYLE
from owlt.results.plain_files import as_file_name, digest_of_values, read_json, read_plain

FORMATS = ("pdf", "svg", "png")
_WITHOUT_DATES: Mapping[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Creator": "owlt"},
    "svg": dict.fromkeys(("Date", "Creator", "Format", "Type")),
    "png": {"Software": None},
}
_DOTS_PER_INCH = 200


def write_figure(
    figure: Figure, target: Path | StringIO, file_format: str, salt: str, dots_per_inch: float | None = None
) -> None:
    """Write a figure in matplotlib's current style, in one of the FORMATS, without dates; the ids of an SVG depend only
    on its content and the salt. `dots_per_inch`: None is that of the style. Raises OSError."""
    with matplotlib.rc_context({"svg.hashsalt": salt}):
        figure.savefig(target, format=file_format, metadata=_WITHOUT_DATES[file_format], dpi=dots_per_inch)


def save_drawing(figure: Figure, path: Path) -> None:
    """Write a figure in the style of pages, in the format of the path's ending. Raises OSError."""
    with matplotlib.rc_context(STYLE):
        write_figure(figure, path, path.suffix[1:], path.stem, _DOTS_PER_INCH)


def svg_of(figure: Figure, salt: str) -> str:
    """The text of a figure's SVG file, in the style of pages."""
    text = StringIO()
    with matplotlib.rc_context(STYLE):
        write_figure(figure, text, "svg", salt)
    return text.getvalue()


VARIABLES = {INK: "--ink", MUTED: "--muted", RULE: "--rule", PAPER: "--paper", ALARM: "--alarm"} | {
    colour: f"--series-{number}" for number, colour in enumerate(SERIES)
}
"""The style sheet's name of each colour of the figures."""
POINTS = 72
"""Points per inch."""


def inlined(svg: str, name: str, label: str, tooltips: Mapping[str, str]) -> str:
    """The SVG element of a figure's file, for a page with others.

    `name` is the prefix of its ids, which are unique in the page; `label` is for screen readers; `tooltips` are the
    tooltips of points, by run id. The width in inches is given to the style sheet as `--inches`, so that type has one
    size in all figures.
    """
    svg = svg[svg.index("<svg") :]
    role = "group" if RUN_LINK in svg else "img"  # an image has no links in it
    svg = re.sub(r"<!--.*?-->|<style.*?</style>|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(
        r"<svg [^>]*?(viewBox=\"0 0 ([\d.]+) [^\"]*\")[^>]*>",
        lambda match: (
            f'<svg {match[1]} style="--inches: {float(match[2]) / POINTS:.4g}" '
            f'role="{role}" aria-label="{escape(label)}">'
        ),
        svg,
    )
    svg = re.sub(r'(id="|href="#|url\(#)', rf"\g<1>{name}.", svg)
    svg = re.sub(r"(fill|stroke): (#[0-9a-f]{6})", lambda match: f"{match[1]}: var({VARIABLES[match[2]]})", svg)
    svg = re.sub(
        rf'<a xlink:href="{re.escape(RUN_LINK)}([^"]*)"[^>]*>',
        lambda match: f'<a href="#run-{match[1]}"><title>{escape(tooltips[match[1]])}</title>',
        svg,
    )
    return re.sub(r">\s+<", "><", svg.replace("xlink:href", "href"))


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

"""Print results as text or JSON on standard output, notes that -q suppresses, details that -v adds; requirements."""

from __future__ import annotations

import json
import math
import sys
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owlt.orchestrator.hosts.printable import printable_lines

if TYPE_CHECKING:
    from rich.console import Console

    from owlt.orchestrator.checks.doctor import Requirement


FILE_COLUMNS = 200
"""The width of tables if standard output is not a terminal."""
TEXT_COLUMNS = 100
"""The largest width of folded text."""


@dataclass
class Verbosity:
    """How much commands print: set from -q and -v by each start of the program."""

    quiet: bool = False
    verbose: bool = False


verbosity = Verbosity()


@dataclass(frozen=True)
class Printer:
    """Prints what one command computes: with `as_json` only `json` reaches standard output, otherwise all but it."""

    as_json: bool = False
    shown: Verbosity = field(default_factory=lambda: verbosity)
    """How much is printed; default: as this start of the program was asked."""

    @property
    def console(self) -> Console:
        """The console of progress and notes: standard output, or standard error if that is for JSON or for errors."""
        return console(stderr=self.as_json or self.shown.quiet)

    def json(self, value: Any) -> None:
        """Print a value as JSON, if JSON was requested."""
        if self.as_json:
            print(json.dumps(_plain(value), indent=2, allow_nan=False))

    def text(self, line: str = "", style: str = "") -> None:
        """Print a line of the result."""
        if not self.as_json:
            console().print(printable_lines(line), style=style, markup=False)

    def table(
        self, headers: tuple[str, ...], rows: Iterable[Iterable[Any]], numbers: Iterable[str] = (), least_width: int = 0
    ) -> None:
        """Print a table. Nothing is cut off; the first column and those of `numbers` are not broken into lines."""
        if self.as_json:
            return
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, header_style="bold")
        for position, header in enumerate(headers):
            justify = "right" if header in numbers else "left"
            unbroken = position == 0 or header in numbers
            table.add_column(header, overflow="fold", no_wrap=unbroken, justify=justify)  # type: ignore[arg-type]
        for row in rows:
            table.add_row(*(escape(printable_lines(_value_text(cell))) for cell in row))
        console(least_width=least_width).print(table)

    def keys(self, values: Mapping[str, Any]) -> None:
        """Print one thing as a table of its keys and values."""
        self.table(("key", "value"), values.items())

    def listing(self, things: Iterable[Mapping[str, Any]], *columns: str) -> None:
        """Print things: all of their keys as JSON, and those of `columns` as a table."""
        things = list(things)
        self.json(things)
        self.table(columns, ([thing[column] for column in columns] for thing in things))

    def show(self, values: Mapping[str, Any]) -> None:
        """Print one thing, as JSON or as a table of its keys and values."""
        self.json(values)
        self.keys(values)

    def note(self, line: str) -> None:
        """Print what was done, such as the path of a file that was written; -q suppresses it."""
        if not self.shown.quiet:
            self.console.print(printable_lines(line), markup=False)


def console(stderr: bool = False, least_width: int = 0) -> Console:
    """A console that neither breaks nor highlights text; its width matters for tables only."""
    from rich.console import Console

    file = sys.stderr if stderr else sys.stdout
    plain = Console(file=file, highlight=False, soft_wrap=True)
    width = max(plain.width if file.isatty() else FILE_COLUMNS, least_width)
    return Console(file=file, highlight=False, soft_wrap=True, width=width)


def text_columns() -> int:
    """The width for folded text: that of the terminal, at most TEXT_COLUMNS."""
    return min(console().width, TEXT_COLUMNS)


def yes_or_no(value: bool) -> str:
    """A flag for a table."""
    return "yes" if value else "no"


def _value_text(value: Any) -> str:
    if isinstance(value, bool):
        return yes_or_no(value)
    if isinstance(value, (list, tuple)) and all(isinstance(each, (str, int, float)) for each in value):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, (list, Mapping)):
        return json.dumps(_plain(value)) if value else "none"
    return "none" if value is None else str(value)


def _plain(value: Any) -> Any:
    """A value made of what JSON has; a number that is not finite becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if hasattr(value, "model_dump"):
        return _plain(value.model_dump(mode="json"))
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(each) for each in value]
    return value


def print_requirements(printer: Printer, requirements: Iterable[Requirement]) -> None:
    """Print each on a line of its own, with the fix of what is missing."""
    for requirement in requirements:
        mark, style = _mark(requirement)
        _print_folded(printer, mark, f"{requirement.name}: {requirement.detail}; for {requirement.needed_by}", style)
        if not requirement.found:
            _print_folded(printer, "", f"fix: {requirement.fix}", "")


def _mark(requirement: Requirement) -> tuple[str, str]:
    """A word and its style: "limited" for what is missing and stops no sweep."""
    if requirement.found:
        return "ok", "green"
    return ("missing", "red") if requirement.stops_sweeps else ("limited", "yellow")


def _print_folded(printer: Printer, mark: str, text: str, style: str) -> None:
    """Print text behind a mark, as wide as the terminal; lines break between words only, so that paths are not
    broken."""
    width = len("missing  ")
    lines = textwrap.wrap(
        text, text_columns() - width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    for position, line in enumerate(lines):
        printer.text(f"{mark if position == 0 else '':{width}}{line}", style if position == 0 else "")

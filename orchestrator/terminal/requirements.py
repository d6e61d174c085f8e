"""Prints what a machine or a rig has and what is missing."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from owlt.orchestrator.terminal.output import Printer, text_columns

if TYPE_CHECKING:
    from owlt.orchestrator.checks.doctor import Requirement


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
    """Print text behind a mark, as wide as the terminal; a line breaks between words only, so that paths stay whole."""
    width = len("missing  ")
    lines = textwrap.wrap(
        text, text_columns() - width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    for position, line in enumerate(lines):
        printer.text(f"{mark if position == 0 else '':{width}}{line}", style if position == 0 else "")

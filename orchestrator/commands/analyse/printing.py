"""The result of `owlt analyse`, printed as text or JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owlt.orchestrator.terminal.output import Printer

if TYPE_CHECKING:
    from owlt.captures.frames.session import Host


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What the captures of one transfer show."""

    title: str
    outcome: str = ""
    """In words; "" if only the packets are known."""
    failed: bool = False
    suspect: Sequence[str] = ()
    """Reasons to doubt the numbers."""
    summary: Any
    """The numbers, as captures/accounting defines them."""
    rows: Sequence[tuple[str, str]]
    """The numbers in words: name and value."""
    ledgers: Sequence[str] = ()
    messages: Mapping[Host, Mapping[str, int]] = field(default_factory=dict)
    """By host and kind of message, how many."""
    endings: Sequence[str] = ()
    notes: Sequence[str] = ()
    page: Path
    replaced: bool
    """Whether the page replaced an earlier one."""


def print_analysis(printer: Printer, analysis: Analysis) -> None:
    """Print what was found, then the path of the page."""
    printer.json(
        {
            "title": analysis.title,
            "outcome": analysis.outcome,
            "suspect": list(dict.fromkeys(analysis.suspect)),
            "summary": analysis.summary,
            "messages": analysis.messages,
            "endings": analysis.endings,
            "notes": analysis.notes,
            "page": analysis.page,
        }
    )
    printer.text(analysis.title, style="bold")
    if analysis.outcome:
        printer.text(analysis.outcome, style="bold red" if analysis.failed else "bold")
    for reason in dict.fromkeys(analysis.suspect):
        printer.text(f"suspect: {reason}", style="bold red")
    _print_rows(printer, analysis.rows)
    for line in (*analysis.ledgers, *_message_lines(analysis.messages), *analysis.endings):
        printer.text(line)
    for note in analysis.notes:
        printer.text(f"note: {note}")
    printer.text(f"page: {analysis.page}{' (replaced)' if analysis.replaced else ''}")


def _message_lines(messages: Mapping[Host, Mapping[str, int]]) -> list[str]:
    from owlt.reports.style.units import number_text

    return [
        f"{host}: {', '.join(f'{number_text(count)} {name}' for name, count in of_host.items())}"
        for host, of_host in messages.items()
        if of_host
    ]


def _print_rows(printer: Printer, rows: Sequence[tuple[str, str]]) -> None:
    if printer.as_json:
        return
    from rich.markup import escape
    from rich.table import Table

    from owlt.orchestrator.hosts.printable import printable_lines
    from owlt.orchestrator.terminal.output import console

    table = Table(box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(escape(name), escape(printable_lines(value)))
    console().print(table)

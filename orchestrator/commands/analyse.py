"""`owlt analyse`: its options, which of its three inputs the paths are, and what it prints; `owlt dissect`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.usage import Json, complete_implementation
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.captures.frames.session import Host


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What the captures of one transfer show."""

    title: str
    outcome: str = ""
    """The outcome in words; "" if only the packets are known."""
    failed: bool = False
    suspect: Sequence[str] = ()
    """Reasons to doubt the numbers."""
    summary: Any
    """The numbers, as captures/accounting defines them."""
    rows: Sequence[tuple[str, str]]
    """The numbers in words: name and value."""
    ledgers: Sequence[str] = ()
    faults: Sequence[str] = ()
    """What aimed faults did to packets, in words."""
    messages: Mapping[Host, Mapping[str, int]] = field(default_factory=dict)
    """The number of messages, by host and kind."""
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
            "faults": analysis.faults,
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
    for line in (*analysis.ledgers, *analysis.faults, *_message_lines(analysis.messages), *analysis.endings):
        printer.text(line)
    for note in analysis.notes:
        printer.text(f"note: {note}")
    printer.text(f"page: {analysis.page}{' (replaced)' if analysis.replaced else ''}")


def _message_lines(messages: Mapping[Host, Mapping[str, int]]) -> list[str]:
    from owlt.reports.units import number_text

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

    from owlt.orchestrator.commands.output import console
    from owlt.orchestrator.hosts.printable import printable_lines

    table = Table(box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(escape(name), escape(printable_lines(value)))
    console().print(table)


HOSTS: tuple[Host, ...] = ("sender", "receiver")
CLOCKS = ("one", "two")
TABLES = ("csv", "parquet")
EXPECTED = "a run's directory, such as results/demo/runs/RUN, two captures, or one capture with --at"
FROM_PACKETS = "default: inferred from the packets"


@dataclass(frozen=True)
class CaptureOptions:
    """What the captures are, where their packets do not show it; "" and None if not given."""

    implementation: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Implementation that generated the traffic; its profile supplies the ports and the dissector.",
            autocompletion=complete_implementation,
        ),
    ] = ""
    sender: Annotated[
        str, typer.Option(metavar="ADDRESS", help=f"IP address of the sender; {FROM_PACKETS}.", show_default=False)
    ] = ""
    receiver: Annotated[
        str, typer.Option(metavar="ADDRESS", help=f"IP address of the receiver; {FROM_PACKETS}.", show_default=False)
    ] = ""
    port: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PORT", help=f"Port of the session, such as udp/1113 or tcp/4556; repeat for more; {FROM_PACKETS}."
        ),
    ] = None
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="ADDRESS", help=f"Multicast group; repeat for more; {FROM_PACKETS}."),
    ] = None
    file_size: Annotated[str, typer.Option(metavar="SIZE", help='Size of the file sent, such as "1 MB".')] = ""
    delay: Annotated[str, typer.Option(metavar="TIME", help='One-way delay of the channel, such as "250 ms".')] = ""
    rate: Annotated[
        str, typer.Option(metavar="RATE", help='Rate of the channel in both directions, such as "10 Mbit/s".')
    ] = ""
    at: Annotated[str, typer.Option(metavar="|".join(HOSTS), help="Host at which a single capture was taken.")] = ""
    clocks: Annotated[
        str,
        typer.Option(
            metavar="|".join(CLOCKS), help="two: each host has its own clock; offset and drift are estimated."
        ),
    ] = "one"

    @property
    def two_clocks(self) -> bool:
        """Whether each host has its own clock."""
        return self.clocks == "two"


def analyse(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="Directory of a run; or SENDER.pcap and RECEIVER.pcap; or one capture with --at."
        ),
    ],
    *,
    options: CaptureOptions,
    tables: Annotated[
        str, typer.Option(metavar="|".join(TABLES), help="Format of the packet, message and trace tables.")
    ] = "csv",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Output directory; default: analysis/ in a run's directory, analysis-NAME/ beside captures.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Analyse the captures of one transfer and draw them.

    The result: packet counts, ledger, delays, protocol messages, how the transfer ended. If owlt did not make the
    captures, it infers hosts and ports from the packets and prints them; use options to override them. With one
    capture, give --at.
    """
    from owlt.captures.files.blocks import NotACapture
    from owlt.results.plain_files import DISK_IS_FULL

    _require_one_of("--at", options.at, ("", *HOSTS))
    _require_one_of("--clocks", options.clocks, CLOCKS)
    _require_one_of("--tables", tables, TABLES)
    try:
        analysis = _analysis(paths, options, tables, out)
    except NotACapture as problem:
        raise OwltError(str(problem)) from problem
    except OSError as problem:
        where = Place(str(problem.filename or out or f"the output directory of {paths[0]}"))
        fix = "free some space, or name another directory with --out" if problem.errno in DISK_IS_FULL else ""
        raise OwltError(Mistake(problem.strerror or str(problem), fix=fix, where=where)) from problem
    print_analysis(Printer(as_json), analysis)


def _require_one_of(option: str, value: str, expected: tuple[str, ...]) -> None:
    if value not in expected:
        raise OwltError(Mistake.of(option, f"got {value!r}", f"{' or '.join(filter(None, expected))}"))


def _analysis(paths: list[Path], options: CaptureOptions, tables: str, out: Path | None) -> Analysis:
    """Analyse the input that the paths are. Raises OwltError if they are none of the three."""
    from owlt.orchestrator.commands.captures import analyse_one, analyse_run, analyse_two, require_writable
    from owlt.orchestrator.profiles.load import refuse_missing
    from owlt.results.recorded_runs import is_recorded, results_root

    require_writable(out)
    for path in paths:
        refuse_missing(path, "file or directory", EXPECTED)
    first, *others = paths
    if others:
        _require_two_captures(paths, options.at)
        return analyse_two(first, others[0], options, tables, out)
    if is_recorded(first):
        first = results_root(first)
        if options != CaptureOptions(implementation=options.implementation):
            fix = "leave out all options but --implementation, which gives another dissector"
            raise _mistake_at(first, "is a run of owlt, whose record has these values", fix=fix)
        return analyse_run(first, tables, out, options.implementation)
    return analyse_one(first, options, _host_of_one_capture(first, options), tables, out)


def _host_of_one_capture(path: Path, options: CaptureOptions) -> Host:
    """The host where a single capture was taken. Raises OwltError if it is unknown, or the path is not a capture."""
    if path.is_dir():
        raise _mistake_at(
            path,
            "is a directory without a record.json",
            "one of a run, such as results/demo/runs/RUN",
            "for a whole results directory use: owlt report",
        )
    if options.two_clocks:
        raise OwltError(Mistake.of("--clocks two", "one capture has one clock", fix="leave out --clocks"))
    host = next((host for host in HOSTS if host == options.at), None)
    if host is None:
        fix = "name the host where it was taken: --at sender or --at receiver"
        raise _mistake_at(path, "is one capture", fix=fix)
    return host


def _mistake_at(path: Path, problem: str, expected: str = "", fix: str = "") -> OwltError:
    return OwltError(Mistake(problem, expected, fix, Place(str(path))))


def _require_two_captures(paths: list[Path], at: str) -> None:
    if any(path.is_dir() for path in paths):
        raise OwltError(
            Mistake(
                f"got {len(paths)} paths with a directory among them",
                "one run's directory or two captures",
                "analyse each run separately; 'owlt report' compares the runs of a sweep",
            )
        )
    if len(paths) != 2:
        raise OwltError(Mistake(f"got {len(paths)} paths", EXPECTED))
    if at:
        raise OwltError(
            Mistake.of(f"--at {at}", "got two captures, of which the first is the sender's", fix="leave out --at")
        )


def dissect(
    capture: Annotated[Path, typer.Argument(metavar="CAPTURE", help="A pcap or pcapng file.")],
    frames: Annotated[list[int], typer.Argument(metavar="FRAME...", help="Frame numbers in the file, from 1.")],
    implementation: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Implementation that generated the traffic ('owlt implementations list').",
            autocompletion=complete_implementation,
        ),
    ] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Accepted for consistency; the output is always JSON.", show_default=False)
    ] = True,
) -> None:
    """Print every field of the given frames as JSON.

    The output is nested: frames, their layers, and the fields of each layer. The frame numbers are those of
    messages.csv.
    """
    print(json.dumps(_dissected(capture, frames, implementation), indent=2))


def _dissected(capture: Path, frames: list[int], implementation: str) -> Any:
    from owlt.captures.files.blocks import NotACapture
    from owlt.captures.frames.columns import read_columns
    from owlt.captures.protocols.details import packet_details
    from owlt.captures.protocols.tshark import NoDissection
    from owlt.orchestrator.commands.captures import case_of_captures
    from owlt.orchestrator.profiles.load import refuse_missing

    refuse_missing(capture, expected="a capture: a pcap or pcapng file")
    try:
        columns = read_columns(capture)
        if strangers := [number for number in frames if not 1 <= number <= len(columns)]:
            raise OwltError(Mistake(f"got frame {strangers[0]}", f"1 to {len(columns)}", where=Place(str(capture))))
        try:
            case = case_of_captures([columns], CaptureOptions(implementation=implementation))
        except OwltError:
            if implementation:
                raise
            return packet_details(columns, frames, None, ())
        return packet_details(columns, frames, case.session, case.dissector)
    except (NotACapture, NoDissection) as problem:
        raise OwltError(str(problem)) from problem
    except OSError as problem:
        raise OwltError(Mistake(f"cannot be read: {problem.strerror}", where=Place(str(capture)))) from problem

"""`owlt analyse`: one transfer from its captures, a run of ours or anybody's: numbers, tables, figures and a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from orchestrator.errors import OwltError

if TYPE_CHECKING:
    from captures.inspection import Case, Inspection
    from captures.session import Host
    from orchestrator.cases import Told

out = Console(highlight=False, soft_wrap=True)

HOSTS: tuple[Host, ...] = ("sender", "receiver")
CLOCKS = ("one", "two")
TABLES = ("csv", "parquet")
PATHS = "A run's directory; or SENDER.pcap RECEIVER.pcap; or one capture, with --at."


def analyse(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help=PATHS)],
    implementation: Annotated[
        str, typer.Option(help="Whose packets: its profile says on which ports, and what dissects them.")
    ] = "",
    sender: Annotated[str, typer.Option(help="The sender's address; proposed from the packets if left out.")] = "",
    receiver: Annotated[str, typer.Option(help="The receiver's address; likewise.")] = "",
    port: Annotated[list[str] | None, typer.Option(help="udp/1113 or tcp/4556, repeated for more; likewise.")] = None,
    group: Annotated[list[str] | None, typer.Option(help="A multicast group, repeated for more; likewise.")] = None,
    file_size: Annotated[str, typer.Option(help='Of the file that was sent, such as "1 MB".')] = "",
    delay: Annotated[str, typer.Option(help='Of the channel, one way, such as "250 ms".')] = "",
    rate: Annotated[str, typer.Option(help='Of the channel, both ways, such as "10 Mbit/s".')] = "",
    at: Annotated[str, typer.Option(metavar="|".join(HOSTS), help="At whose port a single capture was taken.")] = "",
    clocks: Annotated[
        str, typer.Option(metavar="|".join(CLOCKS), help="two: taken on two hosts; offset and drift are estimated.")
    ] = "one",
    tables: Annotated[
        str, typer.Option(metavar="|".join(TABLES), help="What packets, messages and traces are written as.")
    ] = "csv",
    directory: Annotated[
        Path | None, typer.Option("--out", help="Where it goes; by default analysis/ beside the captures.")
    ] = None,
) -> None:
    """Say all that the captures of one transfer say: counts, ledger, delays, messages, how it ended; draw it.

    Of captures that owlt did not make, hosts and ports are proposed from the packets, and told; options correct them.
    With one capture the round trip is added to the session, as far as it is known, and that is said.
    """
    from captures.pcap import NotACapture
    from orchestrator.cases import Told, is_run

    _check("--at", at, ("", *HOSTS))
    _check("--clocks", clocks, CLOCKS)
    _check("--tables", tables, TABLES)
    said = Told(
        implementation=implementation,
        sender=sender,
        receiver=receiver,
        ports=port or (),
        groups=group or (),
        file_size=file_size,
        delay=delay,
        rate=rate,
        two_clocks=clocks == "two",
    )
    try:
        if len(paths) == 1 and is_run(paths[0]):
            if at or said != Told():
                raise OwltError(f"{paths[0]}: got options for a run of owlt, whose record says it all; leave them out")
            _analyse_run(paths[0], tables, directory)
        elif len(paths) == 1 and paths[0].is_dir():
            raise OwltError(
                f"{paths[0]}: got a directory without a record.json; wanted a run's, such as results/demo/runs/RUN; "
                "a whole results directory is for 'owlt report'"
            )
        elif len(paths) == 1:
            _analyse_one(paths[0], said, at, directory)
        elif len(paths) == 2:
            if at:
                raise OwltError(f"--at {at}: got two captures, of which the first is the sender's; leave it out")
            _analyse_two(paths[0], paths[1], said, tables, directory)
        else:
            raise OwltError(f"got {len(paths)} paths, wanted a run's directory, two captures, or one with --at")
    except NotACapture as problem:
        raise OwltError(str(problem)) from problem
    except OSError as problem:
        raise OwltError(f"{problem.filename}: {problem.strerror}" if problem.filename else str(problem)) from problem


def _check(option: str, value: str, wanted: tuple[str, ...]) -> None:
    if value not in wanted:
        raise OwltError(f"{option}: got {value!r}, wanted {' or '.join(name for name in wanted if name)}")


def _analyse_run(run: Path, tables: str, directory: Path | None) -> None:
    from captures.cache import load_summary
    from captures.inspection import inspect
    from captures.kept import CAPTURES
    from captures.summary import read_both
    from orchestrator.cases import case_of_run

    record, case = case_of_run(run)
    found = inspect(*read_both(*(run / name for name in CAPTURES)), case)
    kept = load_summary(run)
    if kept and found.summary.headers_only and not kept.headers_only:
        note = "the summary is the one that was made of whole frames; the tables are of what is left of them"
        found = replace(found, summary=kept, notes=[*found.notes, note])
    _tell(f"{record.title}, {record.run_id}", found, case, tables, directory or run / "analysis", record.suspect)


def _analyse_two(sender_pcap: Path, receiver_pcap: Path, said: Told, tables: str, directory: Path | None) -> None:
    from captures.inspection import inspect
    from captures.summary import read_both
    from orchestrator.cases import case_of_captures

    at_sender, at_receiver = read_both(sender_pcap, receiver_pcap)
    case = case_of_captures([at_sender, at_receiver], said)
    title = f"{sender_pcap.name} and {receiver_pcap.name}"
    _tell(title, inspect(at_sender, at_receiver, case), case, tables, directory or sender_pcap.parent / "analysis", [])


def _tell(title: str, found: Inspection, case: Case, tables: str, directory: Path, already_suspect: list[str]) -> None:
    from reports.run_page import build_run_page, number_rows

    page = build_run_page(title, found, case, directory, tables, already_suspect)
    out.print(escape(title), style="bold")
    _print_rows(number_rows(found, case))
    if found.view:
        _print_counts(found.view.counts)
    for note in found.notes:
        out.print(escape(f"note: {note}"))
    for reason in dict.fromkeys([*already_suspect, *found.summary.suspect]):
        out.print(escape(f"suspect: {reason}"), style="bold red")
    out.print(f"page: {page}", markup=False)


def _analyse_one(capture: Path, said: Told, at: str, directory: Path | None) -> None:
    from captures.columns import read_columns
    from captures.messages import message_counts, messages
    from captures.one_side import one_side
    from captures.termination import termination_lines
    from captures.tshark import NoDissection
    from orchestrator.cases import case_of_captures
    from reports.run_page import one_side_rows, session_text, write_json

    seen_at = next((host for host in HOSTS if host == at), None)
    if seen_at is None:
        raise OwltError(f"{capture}: got one capture, and not where it was taken; wanted --at sender or --at receiver")
    columns = read_columns(capture)
    case = case_of_captures([columns], said)
    found = one_side(columns, case.session, seen_at, case.file_size_bytes, said.delay_ns)
    notes, heard = list(found.notes), []
    try:
        heard = messages(columns, case.session, case.dissector)
    except NoDissection as problem:
        notes.append(f"the protocol was not looked at: {problem}")
    counts, ending = message_counts(heard), termination_lines(columns, heard)
    out.print(escape(f"{capture.name}: {session_text(case.session)}"), style="bold")
    _print_rows(one_side_rows(found))
    _print_counts(counts)
    for line in ending:
        out.print(line, markup=False)
    for note in notes:
        out.print(escape(f"note: {note}"))
    if directory is not None:
        told = {
            "title": capture.name,
            "session": case.session.model_dump(mode="json"),
            "file_size_bytes": case.file_size_bytes,
            "one_side": found.model_dump(mode="json"),
            "messages": counts,
            "termination": ending,
            "notes": notes,
        }
        out.print(f"file: {write_json(told, directory)}", markup=False)


def _print_counts(counts: Mapping[Host, Mapping[str, int]]) -> None:
    for host, of_host in counts.items():
        out.print(escape(f"{host}: " + ", ".join(f"{count} {name}" for name, count in of_host.items())))


def _print_rows(rows: list[tuple[str, str]]) -> None:
    table = Table(box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(escape(name), escape(value))
    out.print(table)

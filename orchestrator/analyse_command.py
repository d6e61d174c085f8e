"""`owlt analyse`: one transfer from its captures, a run of ours or anybody's: numbers, tables, figures and a page."""

from __future__ import annotations

import os
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
    from captures.frames.columns import Columns
    from captures.inspection import Case, Inspection
    from captures.session import Host
    from orchestrator.cases import Told

out = Console(highlight=False, soft_wrap=True)

HOSTS: tuple[Host, ...] = ("sender", "receiver")
CLOCKS = ("one", "two")
TABLES = ("csv", "parquet")
WANTED = "a run's directory, such as results/demo/runs/RUN, two captures, or one capture with --at"
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
        Path | None,
        typer.Option(
            "--out", help="Where it goes; by default analysis/ in the run's directory, analysis-NAME/ beside captures."
        ),
    ] = None,
) -> None:
    """Say all that the captures of one transfer say: counts, ledger, delays, messages, how it ended; draw it.

    Of captures that owlt did not make, hosts and ports are proposed from the packets, and told; options correct them.
    With one capture the round trip is added to the session, as far as it is known, and that is said.
    """
    from captures.files.pcap import NotACapture
    from orchestrator.cases import Told, is_run
    from orchestrator.kinds import refuse_missing

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
    _check_out(directory)
    for path in paths:
        refuse_missing(path, "file or directory", WANTED)
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
            _analyse_one(paths[0], said, at, tables, directory)
        elif any(path.is_dir() for path in paths):
            raise OwltError(
                f"got {len(paths)} paths and a directory among them, wanted one run's directory, or two captures; "
                "analyse each run by itself; 'owlt report' compares those of a sweep"
            )
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


def _check_out(directory: Path | None) -> None:
    """Raise OwltError unless the directory is there or can be made."""
    if directory is None:
        return
    if directory.exists() and not directory.is_dir():
        raise OwltError(f"--out {directory}: got a file, wanted a directory, which is made if need be")
    there = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise OwltError(f"{directory}: cannot be made or written to, for {there} does not allow it; name another --out")


def _make(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise OwltError(f"{directory}: cannot be made: {problem.strerror}; name another --out") from problem


def _place(directory: Path | None, beside: Path) -> Path:
    """Where it goes: where it was told to, or into the place beside what is analysed."""
    if directory is None:
        _check_out(beside)
    return directory or beside


def _analyse_run(run: Path, tables: str, directory: Path | None) -> None:
    from captures.cache import load_summary
    from captures.inspection import inspect
    from captures.kept import CAPTURES
    from captures.pairs import load_pairs
    from captures.summary import read_both
    from orchestrator.cases import case_of_run, refuse_foreign_session
    from reports.links import link_of
    from reports.records import WrittenChannel
    from reports.run_page import outcome_text

    place = _place(directory, run / "analysis")
    record, case = case_of_run(run)
    channel = WrittenChannel.model_validate(record.channel or {})
    case = replace(case, forward_link=link_of(channel, "forward"), reverse_link=link_of(channel, "reverse"))
    both = read_both(*(run / name for name in CAPTURES))
    try:
        refuse_foreign_session(both, case.session)
    except OwltError as problem:
        raise OwltError(f"{run}: {outcome_text(case)}; {problem}") from problem
    found = inspect(*both, case, load_summary(run), load_pairs(run, *both, case.session))
    _tell(f"{record.title}, {record.run_id}", found, case, tables, place, record.suspect)


def _analyse_two(sender_pcap: Path, receiver_pcap: Path, said: Told, tables: str, directory: Path | None) -> None:
    from captures.inspection import inspect
    from captures.summary import read_both
    from orchestrator.cases import case_of_captures

    place = _place(directory, sender_pcap.parent / f"analysis-{sender_pcap.stem}")
    at_sender, at_receiver = read_both(sender_pcap, receiver_pcap)
    case = case_of_captures([at_sender, at_receiver], said)
    found = inspect(at_sender, at_receiver, case)
    found = replace(found, notes=[*_choice([at_sender, at_receiver], case, said), *found.notes])
    _tell(f"{sender_pcap.name} and {receiver_pcap.name}", found, case, tables, place, [])


def _choice(captures: list[Columns], case: Case, said: Told) -> list[str]:
    """What the packets left open, and what of it was chosen."""
    from orchestrator.cases import builds_on, what_else_is_there, what_was_proposed

    notes = []
    if not said.ports and not said.implementation:
        notes.append(what_was_proposed(captures, case.session))
    elif not said.sender or not said.receiver:
        notes.append("the hosts are proposed from the packets")
    notes += [f"also there: {other}" for other in what_else_is_there(captures, case.session)]
    if not said.implementation and (names := builds_on(case.session)):
        ports = case.session.port_texts
        notes.append(
            f"{' and '.join(ports)} {'is' if len(ports) == 1 else 'are'} used by {', '.join(names)}: "
            f"name one with --implementation to have its messages read"
        )
    return notes


def _tell(title: str, found: Inspection, case: Case, tables: str, place: Path, already_suspect: list[str]) -> None:
    from reports.run_page import build_run_page, ledger_line, number_rows, outcome_text, replaced_pages

    _make(place)
    with replaced_pages(place) as (draft, replaced):
        page = place / build_run_page(title, found, case, draft, tables, already_suspect).name
    out.print(escape(title), style="bold")
    if outcome := outcome_text(case):
        out.print(escape(outcome), style="bold red" if case.has_failed else "bold")
    _print_suspect([*already_suspect, *found.summary.suspect])
    _print_rows(number_rows(found, case))
    for way, ledger in (("forward", found.summary.ledger_forward), ("reverse", found.summary.ledger_reverse)):
        if ledger.sent or ledger.unexplained_arrived:
            out.print(escape(ledger_line(way, ledger)))
    if found.view:
        _print_counts(found.view.counts)
    _print_end(found.notes, page, replaced)


def _analyse_one(capture: Path, said: Told, at: str, tables: str, directory: Path | None) -> None:
    from captures.frames.columns import read_columns
    from captures.one_side import one_side
    from captures.protocols.messages import carried_file_bytes, message_counts, messages
    from captures.protocols.termination import termination_lines
    from captures.protocols.tshark import NoDissection
    from captures.traces.tracing import trace_one_side
    from orchestrator.cases import case_of_captures
    from reports.run_page import build_one_side_page, one_side_rows, replaced_pages

    seen_at = next((host for host in HOSTS if host == at), None)
    if seen_at is None:
        raise OwltError(f"{capture}: got one capture, and not where it was taken; wanted --at sender or --at receiver")
    if said.two_clocks:
        raise OwltError("--clocks two: got one capture, which one clock took; leave it out")
    place = _place(directory, capture.parent / f"analysis-{capture.stem}")
    columns = read_columns(capture)
    case = case_of_captures([columns], said)
    heard, problems = [], []
    try:
        heard = messages(columns, case.session, case.dissector)
    except NoDissection as problem:
        problems.append(f"the protocol was not looked at: {problem}")
    carried = carried_file_bytes(heard) if heard else None
    found = one_side(columns, case.session, seen_at, case.file_size_bytes, said.delay_ns, case.rate_bps, carried)
    if case.file_size_bytes is None:
        problems.append("the file's size is not known, so there is no goodput; give it with --file-size")
    elif found.goodput_bps is not None:
        problems.append("goodput is that of a transfer that completed, which the packets alone do not tell")
    found = found.model_copy(update={"notes": [*_choice([columns], case, said), *found.notes, *problems]})
    _make(place)
    ending = termination_lines(columns, heard)
    traces = trace_one_side(columns, case.session, seen_at, heard)
    with replaced_pages(place) as (draft, replaced):
        written = build_one_side_page(capture.name, found, heard, traces, ending, case, draft, tables)
    page = place / written.name
    out.print(escape(capture.name), style="bold")
    _print_suspect(found.suspect)
    _print_rows(one_side_rows(found, case))
    _print_counts(message_counts(heard))
    for line in ending:
        out.print(line, markup=False)
    _print_end(found.notes, page, replaced)


def _print_suspect(reasons: list[str]) -> None:
    for reason in dict.fromkeys(reasons):
        out.print(escape(f"suspect: {reason}"), style="bold red")


def _print_end(notes: list[str], page: Path, replaced: bool) -> None:
    for note in notes:
        out.print(escape(f"note: {note}"))
    out.print(f"page: {page}{' (replaced)' if replaced else ''}", markup=False)


def _print_counts(counts: Mapping[Host, Mapping[str, int]]) -> None:
    from reports.units import number_text

    for host, of_host in counts.items():
        if of_host:
            named = ", ".join(f"{number_text(count)} {name}" for name, count in of_host.items())
            out.print(escape(f"{host}: {named}"))


def _print_rows(rows: list[tuple[str, str]]) -> None:
    table = Table(box=None, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(escape(name), escape(value))
    out.print(table)

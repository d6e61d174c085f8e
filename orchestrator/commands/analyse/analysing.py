"""The three inputs of `owlt analyse`: a recorded run, two captures, one capture. Each becomes a page and a result."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.commands.analyse.printing import Analysis
from owlt.orchestrator.errors import OwltError

if TYPE_CHECKING:
    from owlt.captures.frames.columns import Columns
    from owlt.captures.frames.session import Host
    from owlt.captures.inspection.inspection import Case, Inspection
    from owlt.orchestrator.commands.analyse.options import CaptureOptions


def analyse_run(run: Path, tables: str, out: Path | None) -> Analysis:
    """Analyse a recorded run. Raises OwltError if it kept no captures or they are of another session."""
    from owlt.captures.accounting.derived_files import CAPTURES
    from owlt.captures.accounting.pairs import load_pairs
    from owlt.captures.accounting.summary import load_summary, read_both
    from owlt.captures.inspection.inspection import inspect
    from owlt.orchestrator.commands.analyse.traffic import require_session_packets
    from owlt.orchestrator.results.cases import case_of_run
    from owlt.reports.results.links import link_of
    from owlt.reports.results.records import WrittenChannel
    from owlt.reports.sessions.run_numbers import outcome_text

    directory = _output_directory(out, run / "analysis")
    record, case = case_of_run(run)
    channel = WrittenChannel.model_validate(record.channel or {})
    case = replace(case, forward_link=link_of(channel, "forward"), reverse_link=link_of(channel, "reverse"))
    both = read_both(*(run / name for name in CAPTURES))
    try:
        require_session_packets(both, case.session)
    except OwltError as problem:
        raise OwltError(Mistake(f"{outcome_text(case)}; {problem}", where=Place(str(run)))) from problem
    inspection = inspect(*both, case, load_summary(run), load_pairs(run, *both, case.session))
    return _written(f"{record.title}, {record.run_id}", inspection, case, tables, directory, record.suspect)


def analyse_two(
    sender_pcap: Path, receiver_pcap: Path, options: CaptureOptions, tables: str, out: Path | None
) -> Analysis:
    """Analyse the captures of both hosts, which owlt did not have to make."""
    from owlt.captures.accounting.summary import read_both
    from owlt.captures.inspection.inspection import inspect
    from owlt.orchestrator.commands.analyse.options import case_of_captures

    directory = _output_directory(out, sender_pcap.parent / f"analysis-{sender_pcap.stem}")
    at_sender, at_receiver = read_both(sender_pcap, receiver_pcap)
    case = case_of_captures([at_sender, at_receiver], options)
    inspection = inspect(at_sender, at_receiver, case)
    notes = [*_choice_notes([at_sender, at_receiver], case, options), *inspection.notes]
    title = f"{sender_pcap.name} and {receiver_pcap.name}"
    return _written(title, replace(inspection, notes=notes), case, tables, directory, [])


def analyse_one(capture: Path, options: CaptureOptions, host: Host, tables: str, out: Path | None) -> Analysis:
    """Analyse a single capture, taken at the port of `host`."""
    from owlt.captures.accounting.one_side import one_side
    from owlt.captures.frames.columns import read_columns
    from owlt.captures.inspection.traces import trace_one_side
    from owlt.captures.protocols.ladder import termination_lines
    from owlt.captures.protocols.messages import carried_file_bytes, message_counts, stated_failure
    from owlt.orchestrator.commands.analyse.options import case_of_captures
    from owlt.reports.sessions.run_files import replaced_pages
    from owlt.reports.sessions.run_numbers import one_side_rows
    from owlt.reports.sessions.run_page import build_one_side_page

    directory = _output_directory(out, capture.parent / f"analysis-{capture.stem}")
    columns = read_columns(capture)
    case = case_of_captures([columns], options)
    messages, notes = _messages(columns, case)
    carried = carried_file_bytes(messages) if messages else None
    failure = stated_failure(messages).text
    side = one_side(columns, case.session, host, case.claims, carried, failure)
    notes = [*_choice_notes([columns], case, options), *side.notes, *notes, *_goodput_notes(case, side.goodput_bps)]
    side = side.model_copy(update={"notes": notes})
    _make_directory(directory)
    endings = termination_lines(columns, messages)
    traces = trace_one_side(columns, case.session, host, messages)
    with replaced_pages(directory) as (draft, replaced):
        written = build_one_side_page(capture.name, side, messages, traces, endings, case, draft, tables)
    return Analysis(
        title=capture.name,
        suspect=side.suspect,
        summary=side,
        rows=one_side_rows(side, case),
        messages=message_counts(messages),
        endings=endings,
        notes=side.notes,
        page=directory / written.name,
        replaced=replaced,
    )


def require_writable(directory: Path | None) -> None:
    """Raise OwltError unless the output directory exists or can be created."""
    if directory is None:
        return
    if directory.exists() and not directory.is_dir():
        raise OwltError(
            Mistake.of(f"--out {directory}", "got a file", "a directory, which is created if it is missing")
        )
    existing = next(path for path in (directory, *directory.absolute().parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise OwltError(
            Mistake(f"{existing} is not writable", fix="name another directory with --out", where=Place(str(directory)))
        )


def _make_directory(directory: Path) -> None:
    from owlt.captures.files.plain_files import make_directory

    try:
        make_directory(directory)
    except OSError as problem:
        raise OwltError(
            Mistake(
                f"cannot be created: {problem.strerror}", fix="name another with --out", where=Place(str(directory))
            )
        ) from problem


def _output_directory(out: Path | None, default: Path) -> Path:
    from owlt.captures.files.plain_files import real_root

    if out is None:
        require_writable(default)
    return real_root(out) if out else real_root(default.parent) / default.name


def _messages(columns: Columns, case: Case) -> tuple[list[Any], list[str]]:
    """The protocol messages of a capture, and a note if they cannot be read."""
    from owlt.captures.protocols.messages import messages
    from owlt.captures.protocols.tshark import NoDissection

    try:
        return messages(columns, case.session, case.dissector), []
    except NoDissection as problem:
        return [], [f"the protocol was not analysed: {problem}"]


def _goodput_notes(case: Case, goodput_bps: float | None) -> list[str]:
    if case.file_size_bytes is None:
        return ["the file size is unknown, so goodput is not available; give it with --file-size"]
    if goodput_bps is not None:
        return ["goodput assumes that the transfer completed; the packets alone do not show this"]
    return []


def _choice_notes(captures: Sequence[Columns], case: Case, options: CaptureOptions) -> list[str]:
    """What the options left open, and what was chosen from the packets."""
    from owlt.orchestrator.commands.analyse.traffic import implementations_on, other_conversations, proposal_text

    notes = []
    if not options.ports and not options.implementation:
        notes.append(proposal_text(captures, case.session))
    elif not options.sender or not options.receiver:
        notes.append("the hosts are inferred from the packets")
    notes += [f"the captures also contain: {other}" for other in other_conversations(captures, case.session)]
    if not options.implementation and (names := implementations_on(case.session)):
        ports = case.session.port_texts
        notes.append(
            f"{' and '.join(ports)} {'is' if len(ports) == 1 else 'are'} used by {', '.join(names)}: "
            f"name one with --implementation to decode its messages"
        )
    return notes


def _written(
    title: str, inspection: Inspection, case: Case, tables: str, directory: Path, already_suspect: list[str]
) -> Analysis:
    """Write the page of a transfer whose two captures were inspected."""
    from owlt.reports.sessions.run_files import replaced_pages
    from owlt.reports.sessions.run_numbers import ledger_line, number_rows, outcome_text
    from owlt.reports.sessions.run_page import build_run_page

    _make_directory(directory)
    with replaced_pages(directory) as (draft, replaced):
        page = directory / build_run_page(title, inspection, case, draft, tables, already_suspect).name
    summary = inspection.summary
    ledgers = (("forward", summary.ledger_forward), ("reverse", summary.ledger_reverse))
    return Analysis(
        title=title,
        outcome=outcome_text(case),
        failed=case.has_failed,
        suspect=[*already_suspect, *summary.suspect],
        summary=summary,
        rows=number_rows(inspection, case),
        ledgers=[ledger_line(way, each) for way, each in ledgers if each.sent or each.unexplained_arrived],
        messages=inspection.view.counts if inspection.view else {},
        notes=inspection.notes,
        page=page,
        replaced=replaced,
    )

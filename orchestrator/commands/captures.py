"""Analyses the inputs of `owlt analyse`: a recorded run, two captures, one capture. Each becomes a page and a result.

What the options say about captures of any origin, and their packets, give the case that is analysed; the conversations
in the captures are named in words, with the options that would select others.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from owlt.captures.frames.columns import Columns
from owlt.captures.frames.conversations import (
    MOST_TALKS,
    Known,
    NoTransfer,
    Talk,
    captured_text,
    flows_of,
    other_talks,
    own_talks,
    propose_session,
    talks_in,
    with_chosen_groups,
)
from owlt.captures.frames.decoding import TRANSPORTS
from owlt.captures.frames.session import Host, Session, bounds, is_among, sent_by
from owlt.captures.inspection.inspection import Case
from owlt.captures.matches.bottleneck import Link
from owlt.inputs.mistake import Mistake, Place
from owlt.inputs.quantities import parse_delay_ns, parse_rate_bps, parse_size_bytes
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.commands.analyse import HOSTS, Analysis, CaptureOptions
from owlt.orchestrator.commands.usage import parsed
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.profiles.catalogue import find_implementation, implementation_files

if TYPE_CHECKING:
    from owlt.captures.inspection.inspection import Inspection
    from owlt.results.record import RunRecord


def analyse_run(run: Path, tables: str, out: Path | None, implementation: str = "") -> Analysis:
    """Analyse a recorded run, with the dissector of its plan, or of another implementation.

    Raises OwltError if it kept no captures or they are of another session.
    """
    directory = _output_directory(out, run / "analysis")
    record, case, inspection = inspected_run(run, implementation)
    return _written(f"{record.title}, {record.run_id}", inspection, case, tables, directory, record.suspect)


def inspected_run(run: Path, implementation: str = "") -> tuple[RunRecord, Case, Inspection]:
    """A recorded run, its case and all results from its captures; with another implementation's dissector if one is
    named. Raises OwltError if it kept no captures or they are of another session."""
    from owlt.captures.accounting.derived_files import CAPTURES, load_pairs
    from owlt.captures.accounting.summary import load_summary, read_both
    from owlt.captures.inspection.inspection import inspect
    from owlt.orchestrator.run.analysis import case_of_run
    from owlt.reports.results.channels import link_of
    from owlt.reports.sessions.run_text import outcome_text
    from owlt.results.files import WrittenChannel

    record, case = case_of_run(run)
    channel = WrittenChannel.model_validate(record.channel or {})
    if implementation:
        case = replace(case, dissector=find_implementation(implementation).dissector)
    case = replace(case, forward_link=link_of(channel, "forward"), reverse_link=link_of(channel, "reverse"))
    both = read_both(*(run / name for name in CAPTURES))
    try:
        require_session_packets(both, case.session)
    except OwltError as problem:
        raise OwltError(Mistake(f"{outcome_text(case)}; {problem}", where=Place(str(run)))) from problem
    return record, case, inspect(*both, case, load_summary(run), load_pairs(run, *both, case.session))


def analyse_two(
    sender_pcap: Path, receiver_pcap: Path, options: CaptureOptions, tables: str, out: Path | None
) -> Analysis:
    """Analyse the captures of both hosts, which owlt did not have to make."""
    from owlt.captures.accounting.summary import read_both
    from owlt.captures.inspection.inspection import inspect

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
    from owlt.captures.inspection.inspection import OneSideInspection
    from owlt.captures.inspection.traces import trace_one_side
    from owlt.captures.protocols.ladder import termination_lines
    from owlt.captures.protocols.messages import carried_file_bytes, message_counts, stated_failure
    from owlt.reports.sessions.run_page import build_one_side_page, replaced_pages
    from owlt.reports.sessions.run_text import one_side_rows

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
    inspection = OneSideInspection(
        side=side,
        traces=trace_one_side(columns, case.session, host, messages),
        messages=messages,
        endings=termination_lines(columns, messages),
    )
    with replaced_pages(directory) as (draft, replaced):
        written = build_one_side_page(capture.name, inspection, case, draft, tables)
    return Analysis(
        title=capture.name,
        suspect=side.suspect,
        summary=side,
        rows=one_side_rows(side, case),
        messages=message_counts(messages),
        endings=inspection.endings,
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
    from owlt.results.plain_files import make_directory

    try:
        make_directory(directory)
    except OSError as problem:
        raise OwltError(
            Mistake(
                f"cannot be created: {problem.strerror}", fix="name another with --out", where=Place(str(directory))
            )
        ) from problem


def _output_directory(out: Path | None, default: Path) -> Path:
    from owlt.results.plain_files import real_root

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

    notes = []
    if not options.port and not options.implementation:
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
    from owlt.reports.sessions.run_page import build_run_page, replaced_pages
    from owlt.reports.sessions.run_text import fault_rows, ledger_line, number_rows, outcome_text

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
        faults=[text for _, text in fault_rows(inspection)],
        messages=inspection.view.counts if inspection.view else {},
        notes=inspection.notes,
        page=page,
        replaced=replaced,
    )


def other_conversations(captures: Sequence[Columns], session: Session) -> list[str]:
    """The other conversations in the captures, each with the options that select it."""
    return [_choice(talk, session) for talk in other_talks(captures, session)[:MOST_TALKS]]


def proposal_text(captures: Sequence[Columns], session: Session) -> str:
    """A note that the session is a proposal; if it has several conversations, with the option that selects each."""
    talks = [talk for talk in own_talks(captures, session) if not talk.hosts[1].is_multicast]
    if len(talks) < 2:
        return "the session is inferred from the packets"
    named = [f"{_name(talk)}, {packets_text(talk.frames)} (--port {talk.option})" for talk in talks[:MOST_TALKS]]
    return f"the session is inferred from the packets, of {' and '.join(named)}; select one of them with the option"


def _name(talk: Talk) -> str:
    return f"{talk.transport.upper()} {talk.port}"


def _choice(talk: Talk, session: Session) -> str:
    name = _name(talk)
    one, other = talk.hosts
    if set(talk.hosts) == {session.sender_address, session.receiver_address}:
        return f"{name}, {packets_text(talk.frames)} (--port {talk.option})"
    hosts = f"{name} between {one} and {other}, {packets_text(talk.frames)}"
    if other.is_multicast:
        return f"{hosts} (--port {talk.option} --group {other})"
    return f"{hosts} (--port {talk.option} --sender {one} --receiver {other}, or the other way round)"


def implementations_on(session: Session) -> list[str]:
    """The implementations shipped with owlt whose default ports include a port of the session."""
    names = []
    for path in implementation_files():
        implementation = find_implementation(str(path))
        try:
            ports = implementation.session_by_default
        except KeyError:
            continue
        own = ((getattr(ports, f"{transport}_ports"), talked) for transport, talked in session.ports.items())
        if any(is_among(int(port), talked) for listed, talked in own for port in listed if "-" not in str(port)):
            names.append(implementation.name)
    return names


def require_session_packets(captures: Sequence[Columns], session: Session) -> None:
    """Raise OwltError if no capture has a packet of the session."""
    if any(sent_by(columns, session, host).any() for columns in captures for host in HOSTS):
        return
    names = " and ".join(columns.path.name for columns in captures)
    hosts = f"{session.sender_address} and {session.receiver_address}"
    raise OwltError(
        Mistake(
            f"no packets between {hosts} on {', '.join(session.port_texts)}",
            fix=captured_text(talks_in([flows_of(columns) for columns in captures])),
            where=Place(names),
        )
    )


def packets_text(count: int) -> str:
    """1 packet, 1135 packets."""
    return f"{count} packet" if count == 1 else f"{count} packets"


def case_of_captures(captures: Sequence[Columns], options: CaptureOptions) -> Case:
    """The case of captures of any origin. A session that the options leave open is inferred from the packets.

    Raises OwltError, naming the option that is wrong.
    """
    implementation = find_implementation(options.implementation) if options.implementation else None
    given: dict[str, Any] = {}
    if implementation is not None:
        try:
            given |= {kind: values for kind, values in implementation.session_by_default.in_captures.items() if values}
        except KeyError as problem:
            raise OwltError(
                Mistake.of(
                    f"--implementation {options.implementation}",
                    f"its ports depend on the run ({problem})",
                    fix="name them: --port udp/1113",
                )
            ) from problem
    given |= _ports(options.port or ())
    given |= {"multicast_groups": [_address("--group", group) for group in options.group]} if options.group else {}
    given |= {"sender_address": _address("--sender", options.sender)} if options.sender else {}
    given |= {"receiver_address": _address("--receiver", options.receiver)} if options.receiver else {}
    rate_bps = parsed("--rate", options.rate, parse_rate_bps) if options.rate else None
    delay_ns = parsed("--delay", options.delay, parse_delay_ns) if options.delay else None
    link = None if delay_ns is None or not rate_bps else Link(delay_ns, rate_bps)
    file_size = parsed("--file-size", options.file_size, parse_size_bytes) if options.file_size else None
    return Case(
        session=_session(captures, given, options),
        dissector=implementation.dissector if implementation else (),
        file_size_bytes=file_size,
        rate_bps=rate_bps,
        delay_ns=delay_ns,
        forward_link=link,
        reverse_link=link,
        two_clocks=options.two_clocks,
    )


def _session(captures: Sequence[Columns], given: dict[str, Any], options: CaptureOptions) -> Session:
    sender, receiver = given.get("sender_address"), given.get("receiver_address")
    _refuse_mixed(given)
    named = {transport: tuple(given.get(f"{transport}_ports", ())) for transport in TRANSPORTS}
    known = Known(sender, receiver, {transport: ports for transport, ports in named.items() if ports})
    is_complete = sender and receiver and known.ports
    try:
        proposed = {} if is_complete else propose_session(captures, known).model_dump()
        session = Session.model_validate(proposed | given)
        session = session if options.group else with_chosen_groups(session, captures)
    except NoTransfer as problem:
        raise OwltError(str(problem)) from problem
    except ValidationError as problem:
        [mistake, *_] = mistakes_in(problem, Session)
        raise OwltError(
            replace(mistake.below("session"), fix="set it with --sender, --receiver, --port and --group")
        ) from problem
    require_session_packets(captures, session)
    return session


def _refuse_mixed(given: dict[str, Any]) -> None:
    sender, receiver, groups = (given.get(key) for key in ("sender_address", "receiver_address", "multicast_groups"))
    if sender and sender == receiver:
        raise OwltError(Mistake.of("--sender and --receiver", f"got {sender} for both", "two hosts"))
    for option, address in (("--sender", sender), ("--receiver", receiver)):
        if address and address.is_multicast:
            raise OwltError(
                Mistake.of(option, f"got the group {address}", "a host's address", "groups are for --group")
            )
    named = [_address("--group", str(group)) for group in groups or ()]
    for group in named:
        if not group.is_multicast:
            raise OwltError(
                Mistake.of("--group", f"got {group}", "a multicast group: an address in 224.0.0.0/4 or ff00::/8")
            )
    if len({address.version for address in (sender, receiver, *named) if address}) > 1:
        raise OwltError(Mistake.of("--sender, --receiver, --group", "got IPv4 and IPv6 addresses", "one kind"))


def _address(option: str, text: str) -> IPv4Address | IPv6Address:
    try:
        return ip_address(text)
    except ValueError as problem:
        raise OwltError(Mistake.of(option, f"got {text!r}", "an address such as 10.0.0.1 or fd00::1")) from problem


def _ports(ports: Sequence[str]) -> dict[str, list[int | str]]:
    """The ports by the names of a session's fields."""
    given: dict[str, list[int | str]] = {}
    for text in ports:
        kind, _, number = text.partition("/")
        port = int(number) if number.isdecimal() else number
        try:
            if not 1 <= bounds(port)[0] <= 65535 or kind not in TRANSPORTS:
                raise ValueError
        except ValueError:
            expected = "udp/PORT, tcp/PORT or sctp/PORT, such as udp/1113 or udp/6000-6999"
            raise OwltError(Mistake.of("--port", f"got {text!r}", expected)) from None
        given.setdefault(f"{kind}_ports", []).append(port)
    return given

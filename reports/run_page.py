"""The page of one run: what its captures say, with figures and tables beside it. The only other module that writes.

What is found is captures.inspection's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from numpy.typing import NDArray

from captures.accounting.ledger import Ledger
from captures.inspection import Case, Inspection
from captures.one_side import OneSide
from captures.packets import Table, write_table
from captures.protocols.ladder import ending
from captures.protocols.messages import Message, message_bytes, message_counts
from captures.session import Host, Session
from captures.traces.tables import trace_rows
from captures.traces.tracing import Traces
from reports.channel_figure import save_channel
from reports.ladder import draw_ladder
from reports.replacing import replaced_files
from reports.trace_figure import draw_traces
from reports.units import listed, number_text, rate_text, size_text

TEMPLATES = Path(__file__).parent / "templates"
Rows = list[tuple[str, str]]


_WRITTEN = ("index.html", "analysis.json", "traces.svg", "ladder.svg")
_TABLES = ("packets", "messages", "trace-*")
_NOT_TOLD = "not told by its packets"
_MISSING_OF = ("corrupted", "unrecognised", "lost", "queue", "mtu", "in_flight", "undetermined", "unexplained_missing")
_BESIDE = ("duplicated", "reordered", "unexplained_arrived")
"""Of a ledger, what the packets sent are beside delivered; and what is not in that sum."""


def build_run_page(
    title: str, found: Inspection, case: Case, directory: Path, tables: str, already_suspect: list[str]
) -> Path:
    """Write index.html, analysis.json, the figures and the tables ("csv" or "parquet"). Returns the page.

    `already_suspect` is what is suspect beside the captures. Raises OSError.
    """
    suspect = list(dict.fromkeys([*already_suspect, *found.summary.suspect]))
    write_json(_json(title, found, case, suspect), directory)
    files = [write_table(table, directory / f"{name}.{tables}").name for name, table in _tables(found).items()]
    figures = {}
    if found.summary.str_sent or found.summary.rts_sent:
        save_channel(draw_traces(found.traces, title), directory / "traces.svg")
        figures["traces"] = "Throughput, offset and acknowledgements, delay and queue over time."
    if steps := ending(found.climbed):
        save_channel(draw_ladder(steps, title), directory / "ladder.svg")
        figures["ladder"] = "The end of the session: from the last new data to the last packet."
    view = found.view
    return _render(
        directory,
        title=title,
        session=session_text(case.session),
        outcome=outcome_text(case),
        has_failed=case.has_failed,
        suspect=suspect,
        notes=found.notes,
        rows=number_rows(found, case),
        figures=figures,
        messages=message_rows(view.counts, view.wire_bytes) if view else [],
        termination=view.termination if view else [],
        ledger=ledger_rows(found.summary.ledger_forward, found.summary.ledger_reverse),
        files=["analysis.json", *files],
    )


def build_one_side_page(
    title: str,
    found: OneSide,
    heard: list[Message],
    traces: Traces,
    ending_lines: list[str],
    case: Case,
    directory: Path,
    tables: str,
) -> Path:
    """The same of a single capture, without what needs both: packets, ledger, ladder. Raises OSError."""
    counts = message_counts(heard)
    told = {
        "title": title,
        "session": case.session.model_dump(mode="json"),
        "file_size_bytes": case.file_size_bytes,
        "one_side": found.model_dump(mode="json"),
        "messages": counts,
        "termination": ending_lines,
        "notes": found.notes,
        "suspect": found.suspect,
    }
    write_json(told, directory)
    written = {"messages": _message_table(heard)} if heard else {}
    if found.session_seen_s:
        written |= _trace_tables(traces)
    files = [write_table(table, directory / f"{name}.{tables}").name for name, table in written.items()]
    figures = {}
    if found.str_packets or found.rts_packets:
        save_channel(draw_traces(traces, f"{title}, at the {found.seen_at}'s port"), directory / "traces.svg")
        figures["traces"] = f"Throughput, offset and acknowledgements over time, as seen at the {found.seen_at}'s port."
    return _render(
        directory,
        title=title,
        session=session_text(case.session),
        outcome="",
        has_failed=False,
        suspect=found.suspect,
        notes=found.notes,
        rows=one_side_rows(found, case),
        figures=figures,
        messages=message_rows(counts, message_bytes(heard)),
        termination=ending_lines,
        ledger=[],
        files=["analysis.json", *files],
    )


def _render(directory: Path, **context: object) -> Path:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = directory / "index.html"
    page.write_text(environment.get_template("run.html").render(**context))
    return page


@contextmanager
def replaced_pages(directory: Path) -> Iterator[tuple[Path, bool]]:
    """Where to write an analysis that replaces the one in a directory when it is complete; and whether there is one.

    Raises OSError.
    """
    earlier = _earlier(directory)
    with replaced_files(directory) as draft:
        yield draft, bool(earlier)
        written = {path.name for path in draft.iterdir()}
    for path in earlier:
        if path.name not in written:
            path.unlink(missing_ok=True)


def _earlier(directory: Path) -> list[Path]:
    """What an earlier analysis wrote into the directory."""
    if not (directory / "analysis.json").is_file():
        return []
    patterns = [*_WRITTEN, *(f"{name}.{ending}" for name in _TABLES for ending in ("csv", "parquet"))]
    return [path for pattern in patterns for path in directory.glob(pattern)]


def write_json(told: Mapping[str, object], directory: Path) -> Path:
    """Write analysis.json into the directory, which is made if need be. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "analysis.json"
    path.write_text(json.dumps(told, indent=2) + "\n")
    return path


def outcome_text(case: Case) -> str:
    """How the transfer ended: "completed", or in capitals how else, with the reason; "" where nobody knows."""
    if not case.has_failed:
        return case.outcome
    name = case.outcome.replace("_", " ").upper()
    return f"{name}: {case.reason}" if case.reason else name


def session_text(session: Session) -> str:
    """Who sent to whom, on which ports."""
    groups = f", group {listed([str(group) for group in session.multicast_groups])}" if session.multicast_groups else ""
    return f"{session.sender_address} to {session.receiver_address}, {listed(session.port_texts)}{groups}"


def number_rows(found: Inspection, case: Case) -> Rows:
    """The numbers of a run: name with its unit, and value; what is not known is left out."""
    summary, view = found.summary, found.view
    whole_s = _since_first(case.file_whole_at_ns, summary.first_packet_ns)
    first_data_s = _since_first(view.first_data_ns if view else None, summary.first_packet_ns)
    last_data_s = _since_first(view.last_new_data_ns if view else None, summary.first_packet_ns)
    untold = _NOT_TOLD if view else None
    goodput = f"left out: {found.left_out}" if found.left_out else None
    values: list[tuple[str, str | None]] = [
        ("session", session_text(case.session)),
        ("file", None if case.file_size_bytes is None else size_text(case.file_size_bytes)),
        ("session lasts", _seconds(summary.session_s)),
        ("first data after", _seconds(first_data_s) or untold),
        ("last new data after", _seconds(last_data_s) or untold),
        ("file whole after", _seconds(whole_s)),
        ("goodput", goodput or _rate(summary.goodput_bps)),
        ("goodput until whole", _rate(summary.goodput_until_whole_bps)),
        ("throughput forward", _rate(summary.throughput_forward_bps) if summary.str_delivered else None),
        ("throughput reverse", _rate(summary.throughput_reverse_bps) if summary.rts_delivered else None),
        ("total data amount", count_text(summary.total_data_bytes, "byte")),
        ("  for each byte of the file", _ratio(summary.data_ratio)),
        ("normalized goodput", _rate(summary.normalized_goodput_bps)),
        ("data sent again", _bytes(view.repeated_file_bytes if view else None) or untold),
        ("efficiency", _ratio(summary.efficiency)),
        ("utilisation", _ratio(summary.utilisation)),
        ("STR", _sent_and_arrived(summary.str_sent, summary.str_delivered)),
        ("RTS", _sent_and_arrived(summary.rts_sent, summary.rts_delivered)),
        ("one-way delay forward", _delays(found, "forward")),
        ("one-way delay reverse", _delays(found, "reverse")),
        ("background", background_text(summary.background_packets)),
        *case.beside,
    ]
    return [(name, value) for name, value in values if value is not None]


def background_text(counts: Mapping[str, int]) -> str | None:
    """What else is in both captures, by name; None if nothing is."""
    named = [f"{number_text(count)} {name}" for name, count in counts.items()]
    return f"{listed(named)}, in both captures together" if named else None


def ledger_line(way: str, ledger: Ledger) -> str:
    """What became of the packets of one direction, as a sum: "forward: sent 300 = 296 delivered + 4 lost"."""
    terms = [f"{number_text(ledger.delivered)} delivered", *_counted(ledger, _MISSING_OF)]
    beside = _counted(ledger, _BESIDE)
    return f"{way}: sent {number_text(ledger.sent)} = {' + '.join(terms)}" + (f"; {listed(beside)}" if beside else "")


def _counted(ledger: Ledger, names: Sequence[str]) -> list[str]:
    counts = [(name.replace("_", " "), getattr(ledger, name)) for name in names]
    return [f"{number_text(count)} {name}" for name, count in counts if count]


def ledger_rows(forward: Ledger, reverse: Ledger) -> list[tuple[str, str, str]]:
    """What became of the packets: name, forward, reverse. Rows of nothing are left out but the first two and the
    last."""
    counted = reverse.model_dump()
    rows = [
        (name.replace("_", " "), number_text(count), number_text(counted[name]))
        for name, count in forward.model_dump().items()
        if name in ("sent", "delivered") or count or counted[name]
    ]
    is_closed = not forward.unexplained and not reverse.unexplained
    return [*rows, ("unexplained", "0", "0")] if is_closed else rows


def message_rows(
    counts: Mapping[Host, Mapping[str, int]], wire_bytes: Mapping[Host, Mapping[str, int]]
) -> list[tuple[str, str, str, str]]:
    """Each sort of message: whose it is, its name, packets, bytes."""
    return [
        (host, name, number_text(count), number_text(wire_bytes[host][name]))
        for host, of_host in counts.items()
        for name, count in of_host.items()
    ]


def one_side_rows(found: OneSide, case: Case) -> Rows:
    """The numbers of a single capture."""
    as_seen = ("sent", "arrived")
    of_sender, of_receiver = as_seen if found.seen_at == "sender" else as_seen[::-1]
    goodput = "left out: the transfer is suspect" if found.contradicted and case.file_size_bytes is not None else None
    values: list[tuple[str, str | None]] = [
        ("session", session_text(case.session)),
        ("file", None if case.file_size_bytes is None else size_text(case.file_size_bytes)),
        ("session as seen lasts", _seconds(found.session_seen_s) if found.seen_at == "receiver" else None),
        ("round trip added", _seconds(found.round_trip_added_s) if found.seen_at == "receiver" else None),
        ("session lasts", _seconds(found.session_s)),
        ("goodput as seen", _rate(found.goodput_seen_bps) if found.seen_at == "receiver" else None),
        ("goodput", goodput or _rate(found.goodput_bps)),
        ("efficiency", _ratio(found.efficiency)),
        ("STR", _on_one_side(found.str_packets, found.str_bytes, of_sender)),
        ("RTS", _on_one_side(found.rts_packets, found.rts_bytes, of_receiver)),
        ("background", count_text(found.background_packets, "packet") if found.background_packets else None),
    ]
    return [(name, value) for name, value in values if value is not None]


def count_text(count: int, of: str) -> str:
    """1 packet, 1 135 packets."""
    return f"{number_text(count)} {of}" if count == 1 else f"{number_text(count)} {of}s"


def _sent_and_arrived(sent: int, arrived: int) -> str:
    return f"{number_text(sent)} sent, {number_text(arrived)} arrived" if sent or arrived else "none"


def _on_one_side(packets: int, wire_bytes: int, how: str) -> str:
    return f"{number_text(packets)} {how}, {count_text(wire_bytes, 'byte')}" if packets else "none"


def _tables(found: Inspection) -> dict[str, Table]:
    tables = {"packets": found.packets}
    if found.heard is not None:
        tables["messages"] = _message_table(found.heard.sent)
    return tables | (_trace_tables(found.traces) if found.summary.session_s else {})


def _trace_tables(traces: Traces) -> dict[str, Table]:
    return {f"trace-{name.replace('_', '-')}": table for name, table in trace_rows(traces).items()}


def _message_table(sent: list[Message]) -> Table:
    rows = [asdict(message) for message in sent]
    return {name: _column([row[name] for row in rows]) for name in Message.__dataclass_fields__}


def _column(values: list[Any]) -> NDArray[np.generic]:
    """None is masked; what else may be None is a number."""
    missing = [value is None for value in values]
    if not any(missing):
        return np.array(values)
    return np.ma.array([0 if value is None else value for value in values], mask=missing)


def _json(title: str, found: Inspection, case: Case, suspect: list[str]) -> dict[str, object]:
    return {
        "title": title,
        "outcome": case.outcome or None,
        "reason": case.reason or None,
        "session": case.session.model_dump(mode="json"),
        "file_size_bytes": case.file_size_bytes,
        "file_whole_at_ns": case.file_whole_at_ns,
        "goodput_left_out": found.left_out or None,
        "summary": found.summary.model_dump(mode="json", exclude={"source"}),
        "protocol": found.view.model_dump(mode="json", exclude={"source"}) if found.view else None,
        "clocks": found.clocks.model_dump(mode="json") if found.clocks else None,
        "notes": found.notes,
        "suspect": suspect,
    }


def _since_first(time_ns: int | None, first_ns: int | None) -> float | None:
    return None if time_ns is None or first_ns is None else (time_ns - first_ns) / 1e9


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{_fixed(value, 6)} s"


def _rate(value: float | None) -> str | None:
    return None if value is None else rate_text(value)


def _ratio(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _bytes(value: int | None) -> str | None:
    return None if value is None else f"{count_text(value, 'byte')} of the file"


def _delays(found: Inspection, way: str) -> str | None:
    delays = found.summary.owd_forward if way == "forward" else found.summary.owd_reverse
    if delays.min_ns is None or delays.p50_ns is None or delays.p99_ns is None or delays.max_ns is None:
        return None
    parts = {"least": delays.min_ns, "p50": delays.p50_ns, "p99": delays.p99_ns, "greatest": delays.max_ns}
    return ", ".join(f"{name} {_fixed(value / 1e6, 3)}" for name, value in parts.items()) + " ms"


def _fixed(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}".replace(",", "\N{NARROW NO-BREAK SPACE}")

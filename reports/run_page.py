"""The page of one run: what its captures say, with figures and tables beside it. The only other module that writes.

What is found is captures.inspection's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from captures.inspection import Case, Inspection
from captures.ladder import ending
from captures.ledger import Ledger
from captures.messages import Message
from captures.one_side import OneSide
from captures.packets import Table, write_table
from captures.session import Session
from captures.traces import trace_rows
from reports.channel_figure import save_channel
from reports.ladder import draw_ladder
from reports.trace_figure import draw_traces
from reports.units import listed, number_text, rate_text, size_text

TEMPLATES = Path(__file__).parent / "templates"
Rows = list[tuple[str, str]]


def build_run_page(
    title: str, found: Inspection, case: Case, directory: Path, tables: str, already_suspect: list[str]
) -> Path:
    """Write index.html, analysis.json, the figures and the tables ("csv" or "parquet"). Returns the page.

    `already_suspect` is what is suspect beside the captures. Raises OSError.
    """
    write_json(_json(title, found, case), directory)
    files = [write_table(table, directory / f"{name}.{tables}").name for name, table in _tables(found).items()]
    figures = {}
    if found.summary.str_sent or found.summary.rts_sent:
        save_channel(draw_traces(found.traces, title), directory / "traces.svg")
        figures["traces"] = "Throughput, offset and acknowledgements, delay and queue over time."
    if steps := ending(found.climbed):
        save_channel(draw_ladder(steps, title), directory / "ladder.svg")
        figures["ladder"] = "The end of the session: from the last new data to the last packet."
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    page = directory / "index.html"
    page.write_text(
        environment.get_template("run.html").render(
            title=title,
            session=session_text(case.session),
            rows=number_rows(found, case),
            ledger=ledger_rows(found.summary.ledger_forward, found.summary.ledger_reverse),
            view=found.view,
            background=found.summary.background_packets,
            notes=found.notes,
            suspect=list(dict.fromkeys([*already_suspect, *found.summary.suspect])),
            figures=figures,
            files=["analysis.json", *files],
        )
    )
    return page


def write_json(told: Mapping[str, object], directory: Path) -> Path:
    """Write analysis.json into the directory, which is made if need be. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "analysis.json"
    path.write_text(json.dumps(told, indent=2) + "\n")
    return path


def session_text(session: Session) -> str:
    """Who sent to whom, on which ports."""
    ports = [f"UDP {port}" for port in session.udp_ports] + [f"TCP {port}" for port in session.tcp_ports]
    groups = f", group {listed([str(group) for group in session.multicast_groups])}" if session.multicast_groups else ""
    return f"{session.sender_address} to {session.receiver_address}, {listed(ports)}{groups}"


def number_rows(found: Inspection, case: Case) -> Rows:
    """The numbers of a run: name with its unit, and value; what is not known is left out."""
    summary, view = found.summary, found.view
    whole_s = _since_first(case.file_whole_at_ns, summary.first_packet_ns)
    first_data_s = _since_first(view.first_data_ns if view else None, summary.first_packet_ns)
    last_data_s = _since_first(view.last_new_data_ns if view else None, summary.first_packet_ns)
    values: list[tuple[str, str | None]] = [
        ("session", session_text(case.session)),
        ("file", None if case.file_size_bytes is None else size_text(case.file_size_bytes)),
        ("session lasts", _seconds(summary.session_s)),
        ("first data after", _seconds(first_data_s)),
        ("last new data after", _seconds(last_data_s)),
        ("file whole after", _seconds(whole_s)),
        ("goodput", _rate(summary.goodput_bps)),
        ("goodput until whole", _rate(summary.goodput_until_whole_bps)),
        ("throughput forward", _rate(summary.throughput_forward_bps)),
        ("throughput reverse", _rate(summary.throughput_reverse_bps)),
        ("total data amount", f"{number_text(summary.total_data_bytes)} bytes"),
        ("  for each byte of the file", _ratio(summary.data_ratio)),
        ("normalized goodput", _rate(summary.normalized_goodput_bps)),
        ("data sent again", _bytes(view.repeated_file_bytes if view else None)),
        ("efficiency", _ratio(summary.efficiency)),
        ("utilisation", _ratio(summary.utilisation)),
        ("STR", f"{summary.str_sent} sent, {summary.str_delivered} delivered"),
        ("RTS", f"{summary.rts_sent} sent, {summary.rts_delivered} delivered"),
        ("one-way delay forward", _delays(found, "forward")),
        ("one-way delay reverse", _delays(found, "reverse")),
    ]
    return [(name, value) for name, value in values if value is not None]


def ledger_rows(forward: Ledger, reverse: Ledger) -> list[tuple[str, int, int]]:
    """What became of the packets: name, forward, reverse."""
    counted = reverse.model_dump()
    return [(name.replace("_", " "), count, counted[name]) for name, count in forward.model_dump().items()]


def one_side_rows(found: OneSide) -> Rows:
    """The numbers of a single capture."""
    as_seen = ("as sent", "as delivered")
    of_sender, of_receiver = as_seen if found.seen_at == "sender" else as_seen[::-1]
    values: list[tuple[str, str | None]] = [
        ("session as seen", _seconds(found.session_seen_s)),
        ("round trip added", _seconds(found.round_trip_added_s) if found.seen_at == "receiver" else None),
        ("session", _seconds(found.session_s)),
        ("goodput as seen", _rate(found.goodput_seen_bps) if found.seen_at == "receiver" else None),
        ("goodput", _rate(found.goodput_bps)),
        (f"STR {of_sender}", f"{found.str_packets} packets, {found.str_bytes} bytes"),
        (f"RTS {of_receiver}", f"{found.rts_packets} packets, {found.rts_bytes} bytes"),
        ("background", f"{found.background_packets} packets"),
    ]
    return [(name, value) for name, value in values if value is not None]


def _tables(found: Inspection) -> dict[str, Table]:
    tables = {"packets": found.packets}
    if found.heard is not None:
        tables["messages"] = _message_table(found.heard.sent)
    traces = trace_rows(found.traces) if found.summary.session_s else {}
    return tables | {f"trace-{name.replace('_', '-')}": table for name, table in traces.items()}


def _message_table(sent: list[Message]) -> Table:
    rows = [asdict(message) for message in sent]
    unknown = {"first_byte": -1, "acknowledged_bytes": -1}
    names = Message.__dataclass_fields__
    return {
        name: np.array([unknown.get(name, "") if row[name] is None else row[name] for row in rows]) for name in names
    }


def _json(title: str, found: Inspection, case: Case) -> dict[str, object]:
    return {
        "title": title,
        "session": case.session.model_dump(mode="json"),
        "file_size_bytes": case.file_size_bytes,
        "file_whole_at_ns": case.file_whole_at_ns,
        "summary": found.summary.model_dump(mode="json", exclude={"source"}),
        "protocol": found.view.model_dump(mode="json", exclude={"source"}) if found.view else None,
        "clocks": found.clocks.model_dump(mode="json") if found.clocks else None,
        "notes": found.notes,
    }


def _since_first(time_ns: int | None, first_ns: int | None) -> float | None:
    return None if time_ns is None or first_ns is None else (time_ns - first_ns) / 1e9


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{value:.6f} s"


def _rate(value: float | None) -> str | None:
    return None if value is None else rate_text(value)


def _ratio(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _bytes(value: int | None) -> str | None:
    return None if value is None else f"{number_text(value)} bytes of the file"


def _delays(found: Inspection, way: str) -> str | None:
    delays = found.summary.owd_forward if way == "forward" else found.summary.owd_reverse
    if delays.min_ns is None or delays.p50_ns is None or delays.p99_ns is None or delays.max_ns is None:
        return None
    parts = {"least": delays.min_ns, "p50": delays.p50_ns, "p99": delays.p99_ns, "greatest": delays.max_ns}
    return ", ".join(f"{name} {number_text(value / 1e6)}" for name, value in parts.items()) + " ms"

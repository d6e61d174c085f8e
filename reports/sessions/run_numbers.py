"""The numbers of a run as rows of text: measures, messages, the ledger.

The values are captures.inspection's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from owlt.captures.accounting.ledger import Ledger
from owlt.captures.accounting.summary import OneSide
from owlt.captures.frames.session import Host, Session
from owlt.captures.inspection.inspection import Case, Inspection
from owlt.reports.units import listed, number_text, rate_text, size_text

Rows = list[tuple[str, str]]
MOST_HITS = 100
"""The most packets hit by aimed faults that are listed."""

_UNKNOWN = "not known from its packets"
_TERMS = ("corrupted", "unrecognised", "lost", "queue", "mtu", "in_flight", "undetermined", "unexplained_missing")
_BESIDE = ("duplicated", "reordered", "unexplained_arrived", "ecn_capable", "ecn_marked")
"""The counts of a ledger that, with those delivered, add up to those sent; and the counts outside of this sum."""
_ECN = {"ecn_capable": "sent as ECT", "ecn_marked": "marked CE"}


def outcome_text(case: Case) -> str:
    """The outcome of the transfer: "completed", or another outcome in capitals with its reason; "" if it is unknown."""
    if not case.has_failed:
        return case.outcome
    name = case.outcome.replace("_", " ").upper()
    return f"{name}: {case.reason}" if case.reason else name


def session_text(session: Session) -> str:
    """The addresses of sender and receiver, their ports and multicast groups."""
    groups = f", group {listed([str(group) for group in session.multicast_groups])}" if session.multicast_groups else ""
    return f"{session.sender_address} to {session.receiver_address}, {listed(session.port_texts)}{groups}"


def number_rows(inspection: Inspection, case: Case) -> Rows:
    """The numbers of a run: name, and value with its unit. Unknown values have no row."""
    summary, view = inspection.summary, inspection.view
    delivered_s = _since_first(case.file_delivered_at_ns, summary.first_packet_ns)
    first_data_s = _since_first(view.first_data_ns if view else None, summary.first_packet_ns)
    last_data_s = _since_first(view.last_new_data_ns if view else None, summary.first_packet_ns)
    unknown = _UNKNOWN if view else None
    goodput = f"not available: {inspection.left_out}" if inspection.left_out else None
    values: list[tuple[str, str | None]] = [
        ("session", session_text(case.session)),
        ("file" if case.duration_s is None else f"received in {case.duration_s:g} s", _size(case.file_size_bytes)),
        ("session duration", _seconds(summary.session_s)),
        ("first data after", _seconds(first_data_s) or unknown),
        ("last new data after", _seconds(last_data_s) or unknown),
        ("file delivered after", _seconds(delivered_s)),
        ("goodput", goodput or _rate(summary.goodput_bps)),
        ("goodput to delivery", _rate(summary.goodput_to_delivery_bps)),
        ("throughput forward", _rate(summary.throughput_forward_bps) if summary.str_delivered else None),
        ("throughput reverse", _rate(summary.throughput_reverse_bps) if summary.rts_delivered else None),
        ("total data", count_text(summary.total_data_bytes, "byte")),
        ("data ratio", _ratio(summary.data_ratio)),
        ("normalized goodput", _rate(summary.normalized_goodput_bps)),
        ("data retransmitted", _bytes(view.repeated_file_bytes if view else None) or unknown),
        ("efficiency", _ratio(summary.efficiency)),
        ("utilisation", _ratio(summary.utilisation)),
        ("STR", _sent_and_arrived(summary.str_sent, summary.str_delivered)),
        ("RTS", _sent_and_arrived(summary.rts_sent, summary.rts_delivered)),
        ("one-way delay forward", _delays(inspection, "forward")),
        ("one-way delay reverse", _delays(inspection, "reverse")),
        ("background", background_text(summary.background_packets)),
        *case.beside,
    ]
    return [(name, value) for name, value in values if value is not None]


def one_side_rows(side: OneSide, case: Case) -> Rows:
    """The numbers of a single capture."""
    as_captured = ("sent", "arrived")
    of_sender, of_receiver = as_captured if side.seen_at == "sender" else as_captured[::-1]
    goodput = (
        "not available: the transfer is suspect" if side.contradicted and case.file_size_bytes is not None else None
    )
    values: list[tuple[str, str | None]] = [
        ("session", session_text(case.session)),
        ("file", _size(case.file_size_bytes)),
        ("session duration as captured", _seconds(side.session_seen_s) if side.seen_at == "receiver" else None),
        ("added round-trip time", _seconds(side.round_trip_added_s) if side.seen_at == "receiver" else None),
        ("session duration", _seconds(side.session_s)),
        ("goodput as captured", _rate(side.goodput_seen_bps) if side.seen_at == "receiver" else None),
        ("goodput", goodput or _rate(side.goodput_bps)),
        ("efficiency", _ratio(side.efficiency)),
        ("STR", _on_one_side(side.str_packets, side.str_bytes, of_sender)),
        ("RTS", _on_one_side(side.rts_packets, side.rts_bytes, of_receiver)),
        ("ECN of STR", _marks(side.str_ecn_capable, side.str_ecn_marked)),
        ("ECN of RTS", _marks(side.rts_ecn_capable, side.rts_ecn_marked)),
        ("background", count_text(side.background_packets, "packet") if side.background_packets else None),
    ]
    return [(name, value) for name, value in values if value is not None]


def _marks(capable: int, marked: int) -> str | None:
    """The packets of one host that a queue may mark, and those that are marked; None if there are none."""
    return f"{number_text(capable)} ECT, {number_text(marked)} CE" if capable or marked else None


def message_rows(
    counts: Mapping[Host, Mapping[str, int]], wire_bytes: Mapping[Host, Mapping[str, int]]
) -> list[tuple[str, str, str, str]]:
    """A row for each host and name of message: host, name, packets, bytes."""
    return [
        (host, name, number_text(count), number_text(wire_bytes[host][name]))
        for host, of_host in counts.items()
        for name, count in of_host.items()
    ]


def ledger_line(way: str, ledger: Ledger) -> str:
    """What happened to the packets of one direction, as a sum: "forward: sent 300 = 296 delivered + 4 lost"."""
    terms = [f"{number_text(ledger.delivered)} delivered", *_counted(ledger, _TERMS)]
    beside = _counted(ledger, _BESIDE)
    return f"{way}: sent {number_text(ledger.sent)} = {' + '.join(terms)}" + (f"; {listed(beside)}" if beside else "")


def _counted(ledger: Ledger, names: Sequence[str]) -> list[str]:
    counts = [(_ECN.get(name) or name.replace("_", " "), getattr(ledger, name)) for name in names]
    return [f"{number_text(count)} {name}" for name, count in counts if count]


def ledger_rows(forward: Ledger, reverse: Ledger) -> list[tuple[str, str, str]]:
    """What happened to the packets: name, forward, reverse. Rows without any count are omitted except the first two
    and the last."""
    of_reverse = reverse.model_dump()
    rows = [
        (name.replace("_", " "), number_text(count), number_text(of_reverse[name]))
        for name, count in forward.model_dump().items()
        if name in ("sent", "delivered") or count or of_reverse[name]
    ]
    is_balanced = not forward.unexplained and not reverse.unexplained
    return [*rows, ("unexplained", "0", "0")] if is_balanced else rows


def fault_rows(inspection: Inspection) -> list[tuple[str, str]]:
    """What aimed faults did to packets: the time since the session's first packet, and which packet it was; of many,
    the first, and how many more there are."""
    first_ns = inspection.summary.first_packet_ns
    hits = inspection.hits
    rows = [(_seconds(_since_first(hit.at_ns or None, first_ns)) or "", hit.text) for hit in hits[:MOST_HITS]]
    more = len(hits) - len(rows)
    return [*rows, ("", f"and {number_text(more)} more, in analysis.json")] if more else rows


def background_text(counts: Mapping[str, int]) -> str | None:
    """The packets in both captures that are not of the session, by name; None if there are none."""
    named = [f"{number_text(count)} {name}" for name, count in counts.items()]
    return f"{listed(named)} (both captures together)" if named else None


def count_text(count: int, of: str) -> str:
    """1 packet, 1 135 packets."""
    return f"{number_text(count)} {of}" if count == 1 else f"{number_text(count)} {of}s"


def _sent_and_arrived(sent: int, arrived: int) -> str:
    return f"{number_text(sent)} sent, {number_text(arrived)} arrived" if sent or arrived else "none"


def _on_one_side(packets: int, wire_bytes: int, how: str) -> str:
    return f"{number_text(packets)} {how}, {count_text(wire_bytes, 'byte')}" if packets else "none"


def _since_first(time_ns: int | None, first_ns: int | None) -> float | None:
    return None if time_ns is None or first_ns is None else (time_ns - first_ns) / 1e9


def _seconds(value: float | None) -> str | None:
    return None if value is None else f"{_fixed(value, 6)} s"


def _rate(value: float | None) -> str | None:
    return None if value is None else rate_text(value)


def _size(size_bytes: int | None) -> str | None:
    return None if size_bytes is None else size_text(size_bytes)


def _ratio(value: float | None) -> str | None:
    return None if value is None else f"{value:.4f}"


def _bytes(value: int | None) -> str | None:
    return None if value is None else f"{count_text(value, 'byte')} of the file"


def _delays(inspection: Inspection, way: str) -> str | None:
    delays = inspection.summary.owd_forward if way == "forward" else inspection.summary.owd_reverse
    if delays.min_ns is None or delays.p50_ns is None or delays.p99_ns is None or delays.max_ns is None:
        return None
    parts = {"min": delays.min_ns, "p50": delays.p50_ns, "p99": delays.p99_ns, "max": delays.max_ns}
    return ", ".join(f"{name} {_fixed(value / 1e6, 3)}" for name, value in parts.items()) + " ms"


def _fixed(value: float, decimals: int) -> str:
    return f"{value:,.{decimals}f}".replace(",", "\N{NARROW NO-BREAK SPACE}")

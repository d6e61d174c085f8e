"""A run in words: its numbers as rows of text (measures, messages, the ledger), and the breakdown of its session time
in sentences, with the share of each kind and the causes.

The values come from `captures.inspection`, the times from its critical path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from owlt.captures.accounting.ledger import Ledger
from owlt.captures.accounting.one_side import OneSide
from owlt.captures.frames.session import Host, Session
from owlt.captures.inspection.causes import Cause, CauseDifference, is_one_length
from owlt.captures.inspection.critical_path import KINDS, PHASES, CriticalPath, Kind, Phase
from owlt.captures.inspection.inspection import Case, Inspection
from owlt.reports.looks import LEAST_PRINTED_SHARE, TIME_TITLES
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


_SEVERAL_WAYS = 4
"""For fewer ways through the channel in the transfer, the mean of the data per flight is not printed."""
MOST_NAMES = 4
"""The most names of messages in a sentence."""
_BEYOND = 1.1
"""A wait that is longer than its timer by more than this factor was not for that timer alone."""
_IN: Mapping[Phase, str] = {
    "opening": "before the first data packet",
    "transfer": "during the first transmission of the file",
    "recovery": "during loss recovery",
    "closing": "after delivery",
}


def _time(time_ns: float) -> str:
    """A time in s with three decimals; in ms, to four digits, if it is shorter than a second."""
    if time_ns < 1e9:
        return f"{time_ns / 1e6:.4g} ms"
    return f"{_fixed(time_ns / 1e9, 3)} s"


def headline(path: CriticalPath) -> str:
    """The session time, the time to delivery, and the lower bound that the channel sets for any protocol."""
    text = f"session time {_time(path.length_ns)}"
    if path.delivered_ns is not None:
        text += f"; file delivered after {_time(path.delivered_ns - path.begin_ns)}"
    if path.least_ns is not None:
        text += f"; lower bound of the channel {_time(path.least_ns)}"
    return text


def spent_ns(path: CriticalPath) -> dict[Phase, dict[Kind, int]]:
    """How long each kind took in each phase, in ns; kinds that took no time are omitted."""
    spent: dict[Phase, dict[Kind, int]] = {phase: {} for phase in PHASES}
    for (phase, kind, _), total_ns in path.spent_ns.items():
        spent[phase][kind] = spent[phase].get(kind, 0) + total_ns
    return spent


def share_rows(path: CriticalPath) -> list[tuple[str, str, str]]:
    """A row for each kind with a visible share of the session: its title, its time in s, its share."""
    spent = spent_ns(path)
    totals = {kind: sum(of_phase.get(kind, 0) for of_phase in spent.values()) for kind in KINDS}
    return [
        (TIME_TITLES[kind], f"{total / 1e9:.3f} s", f"{100 * total / path.length_ns:.1f} %")
        for kind, total in totals.items()
        if total >= LEAST_PRINTED_SHARE * path.length_ns
    ]


def cause_text(cause: Cause, path: CriticalPath) -> str:
    """A cause as a sentence without a full stop, with the lost packets that may be the reason."""
    return _TEXTS[cause.what](cause, path)


def _wait_text(cause: Cause, path: CriticalPath) -> str:
    timer = cause.parts[0].timer
    what = f"the {cause.host} {'was idle for' if timer is None else 'waited'} {_lengths_text(cause)}"
    if cause.parts[0] is path.late_start:
        what += " between the launch and the first packet"
    if timer is not None and cause.parts[0].is_polling:
        what += f", while {timer.process} polled every {_time(timer.length_ns)} ({timer.kind})"
    elif timer is not None and not is_one_length([part.timer.length_ns for part in cause.parts if part.timer]):
        what += f" for timers ({timer.kind} in {timer.process})"
    elif timer is not None:
        is_longer = cause.total_ns > _BEYOND * cause.count * timer.length_ns
        what += " until the expiry of a timer last set to" if is_longer else " for a timer of"
        what += f" {_time(timer.length_ns)} ({timer.kind} in {timer.process})"
    ended = f", then sent {cause.message}" if cause.message else f" {_IN[cause.phase]}"
    return f"{what}{ended}{_lost_text(cause, path)}"


def _lengths_text(cause: Cause) -> str:
    """The length of a wait; of several, their lengths, their number and their sum."""
    if cause.count == 1:
        return _time(cause.total_ns)
    lengths_ns: Counter[int] = Counter()
    for part in cause.parts:
        lengths_ns[part.packet] += part.length_ns
    shortest, longest = (_time(length_ns) for length_ns in (min(lengths_ns.values()), max(lengths_ns.values())))
    is_one = is_one_length(lengths_ns.values())
    each = _time(cause.total_ns // cause.count) if is_one else f"{shortest} to {longest}"
    return f"{each} {cause.count} times ({_time(cause.total_ns)} in total)"


def _trips_text(cause: Cause, path: CriticalPath) -> str:
    if cause.count == 1:
        trips = f"the channel transit of one packet of the {cause.host}"
    else:
        trips = f"{cause.count / 2:g} round {'trip' if cause.count == 2 else 'trips'}"
    took = f"took {_time(cause.total_ns)} {_IN[cause.phase]} ({_few(cause.message)})"
    return f"{trips} {took}{_window_text(cause, path)}{_lost_text(cause, path)}"


def _window_text(cause: Cause, path: CriticalPath) -> str:
    """The mean amount of new data in a flight of the transfer; n round trips separate n + 1 flights."""
    if cause.phase != "transfer" or cause.count < _SEVERAL_WAYS:
        return ""
    new = [rung.message for rung in path.rungs if rung.kind == "new data"]
    each_bytes = sum(message.byte_count or message.payload_bytes for message in new) / (cause.count / 2 + 1)
    what = "new data" if all(message.byte_count for message in new) else "payload"
    return f"; {each_bytes / 1000:.3g} kB of {what} per flight"


def _queue_text(cause: Cause, path: CriticalPath) -> str:
    return f"queueing of the {cause.host}'s packets took {_time(cause.total_ns)} {_IN[cause.phase]}"


def _transmission_text(cause: Cause, path: CriticalPath) -> str:
    what = "retransmissions and control packets" if cause.host == "sender" else "packets"
    took = f"took {_time(cause.total_ns)} {_IN[cause.phase]} ({_few(cause.message)})"
    return f"transmission of the {cause.host}'s {what} {took}"


def _answer_text(cause: Cause, path: CriticalPath) -> str:
    return f"processing at the {cause.host} took {_time(cause.total_ns)} {_IN[cause.phase]}"


_TEXTS = {
    "timer": _wait_text,
    "waiting": _wait_text,
    "round trips": _trips_text,
    "queueing": _queue_text,
    "serialization": _transmission_text,
    "processing": _answer_text,
}


def _lost_text(cause: Cause, path: CriticalPath) -> str:
    """The lost packets that may be the reason: their names and frames, or their number if there are many."""
    if not cause.lost:
        return ""
    messages = [path.rungs[index].message for index in cause.lost]
    if len(messages) > MOST_NAMES:
        hosts = {message.host for message in messages}
        of_host = f" of the {hosts.pop()}" if len(hosts) == 1 else ""
        first = f", the first after {_time(path.rungs[cause.lost[0]].left_ns - path.begin_ns)}"
        return f"; preceding losses: {len(messages)} packets{of_host}{first}"
    return "; preceding losses: " + listed([f"{message.name} (frame {message.frame})" for message in messages])


def _few(names: str) -> str:
    each = list(dict.fromkeys(names.split(", ")))
    return ", ".join(each[:MOST_NAMES]) + (" ..." if len(each) > MOST_NAMES else "")


def difference_text(each: CauseDifference) -> str:
    """A cause that differs between two runs: how often it occurs in each of them, and how long it takes."""
    of_host = "" if each.what == "round trips" else f" of the {each.host}"
    before = f" before {each.message}" if each.message else ""
    here, there = (
        f"{_time(total_ns)} ({count / 2 if each.what == 'round trips' else count:g})" if count else "none"
        for count, total_ns in zip(each.counts, each.totals_ns, strict=True)
    )
    return f"{each.what}{of_host} {_IN[each.phase]}{before}: {here} in this run, {there} in the other"


def explanation_json(path: CriticalPath, found: Sequence[Cause]) -> dict[str, object]:
    """The breakdown of the session time as JSON, with the causes."""
    return {
        "session_ns": path.length_ns,
        "delivered_after_ns": None if path.delivered_ns is None else path.delivered_ns - path.begin_ns,
        "least_ns": path.least_ns,
        "spent_ns": spent_ns(path),
        "causes": [
            {
                "what": cause.what,
                "host": cause.host,
                "phase": cause.phase,
                "messages": cause.message,
                "count": cause.count,
                "total_ns": cause.total_ns,
                "before_session": cause.parts[0] is path.late_start,
                "timer_ns": cause.parts[0].timer.length_ns if cause.parts[0].timer else None,
                "lost": [
                    {"host": message.host, "frame": message.frame, "message": message.name}
                    for message in (path.rungs[index].message for index in cause.lost)
                ],
                "text": cause_text(cause, path),
            }
            for cause in found
        ],
    }

"""The columns of the table of runs: name, type, unit and meaning of each, in their order.

Those of a link follow from the rows of its keys (`emulator.channel.impairment`). `docs/glossary.md` defines the same
names; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from owlt.captures.inspection.critical_path import KINDS, Kind
from owlt.emulator.channel.impairment import CellKind
from owlt.emulator.channel.link import impairments, key_of
from owlt.results.judgements import NOT_RUN as NOT_RUN

TABLE_VERSION = 1
"""Incremented if a column is renamed or removed, or if its meaning changes, but not for new columns."""

DUCKDB_TYPES: dict[CellKind, str] = {"text": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE", "truth": "BOOLEAN"}


@dataclass(frozen=True)
class Column:
    """One column. `unit` is "" if values have none."""

    name: str
    kind: CellKind
    unit: str
    meaning: str


def _column(name: str, kind: CellKind, meaning: str, unit: str = "") -> Column:
    return Column(name, kind, unit, meaning)


_OF_A_RUN = (
    _column("table_version", "integer", f"version of this table, {TABLE_VERSION}"),
    _column("sweep", "text", "name of the sweep"),
    _column("run_id", "text", "name of the run and of its directory in runs/"),
    _column("implementation", "text", "name of the implementation, with the parameters that the sweep varies"),
    _column("title", "text", "title of the implementation"),
    _column("protocol", "text", "protocol of the implementation"),
    _column("implementation_version", "text", "version that the implementation stated"),
    _column("parameters", "text", "parameters of the implementation, as a JSON object"),
    _column("file_size_bytes", "integer", "size of the file to send; empty: data was sent for a duration", "bytes"),
    _column("duration_ns", "integer", "how long the sender was to send; empty: it sent a file", "ns"),
    _column("channel_name", "text", "name of the channel profile; empty if the sweep gives rate, delay and error rate"),
    _column("channel_key", "text", "hash of the channel's settings; its certificate is certificates/KEY.json"),
    _column("certificate", "text", "verdict of the channel's certificate: ok, failed, incomplete, or empty: none"),
    _column("ip", "integer", "version of IP on the test path, 4 or 6"),
    _column("rate_bps", "number", "rate of the forward link at the beginning; empty: unlimited", "bit/s"),
    _column("delay_ns", "integer", "one-way delay of the forward link at the beginning", "ns"),
    _column("packet_error_rate", "number", "packet error rate of the forward link at the beginning", "probability"),
    _column("rtt_ns", "integer", "sum of the one-way delays of both links at the beginning", "ns"),
    _column("bypass", "truth", "whether the channel is a transparent bridge"),
    _column("timeline", "text", "how the channel changes over time, as JSON; empty: it does not"),
)
_ORDER_OF_A_LINK = (
    *("rate_bps", "delay_ns", "packet_error_rate", "bit_error_rate", "error_effect", "pattern", "loss", "coding"),
    *("jitter", "reordering", "keeps_order", "duplication_rate", "queue_packets", "mtu_bytes", "overhead_bytes"),
)
"""The fields of a link whose columns come first; the others follow in their own order."""
LINK_FIELDS: dict[str, str] = {
    row.column.name or field: field
    for field in (*_ORDER_OF_A_LINK, *(name for name in impairments() if name not in _ORDER_OF_A_LINK))
    if (row := impairments()[field]).column is not None
}
"""The field of a link for each column that shows one, without the prefix of its direction."""


CHANCE = tuple(
    f"{way}_{name}"
    for way in ("forward", "reverse")
    for name, key in LINK_FIELDS.items()
    if impairments()[key].drawn_by
)
"""The columns with a value where a channel makes random choices at the beginning."""
_LATER_CHANCE = tuple(f'"{key_of(name)}": ' for name, row in impairments().items() if row.drawn_by)
"""The keys in the column of the timeline by which it may make some later."""


def has_chance(row: Mapping[str, object]) -> bool:
    """Whether the channel of a row of the table of runs makes random choices, or may make them later."""
    timeline = str(row.get("timeline") or "")
    return any(row.get(name) for name in CHANCE) or any(key in timeline for key in _LATER_CHANCE)


def _of_a_link(name: str, way: str, words: str) -> Column:
    row = impairments()[LINK_FIELDS[name]]
    meaning = (row.column.meaning if row.column else "") or row.meaning
    return Column(f"{way}_{name}", row.cell_kind, row.cell_unit, f"{meaning} ({words}, at the beginning)")


_OF_THE_EXPERIMENT = (
    _column("advertised_rate_bps", "number", "rate given to the implementation; empty: unlimited or unknown", "bit/s"),
    _column("advertised_one_way_delay_s", "number", "one-way delay given to the implementation", "s"),
    _column("repetition", "integer", "number of the repetition, from 1"),
    _column("is_baseline", "truth", "whether the run is one of the baseline, which shows drift"),
    _column("order", "integer", "place of the run in the order of the plan, from 1"),
    _column("seed", "integer", "seed of the run"),
    _column("clock", "text", "clock of the run: exact, skip or real"),
    _column("rig", "text", "rig of the run"),
    _column("owlt_version", "text", "version of owlt"),
    _column("kernel_version", "text", "version of the kernel of the hosts"),
)
_OF_THE_RESULT = (
    _column("outcome", "text", f"how the run ended; {NOT_RUN}: it is planned and has no record yet"),
    _column("reason_code", "text", "code of the reason why the run did not complete"),
    _column("reason", "text", "the reason in words"),
    _column("attempt", "integer", "number of the attempt, from 1"),
    _column("suspect", "text", "reasons to doubt the numbers, separated by semicolons; empty: none"),
    _column("caveats", "text", "remarks on how numbers were measured, separated by semicolons; empty: none"),
    _column("known_limit", "text", "known limit of the implementation that explains the failure; empty: none"),
    _column("started_at_ns", "integer", "start of the transfer, since 1970 on the rig's clock", "ns"),
    _column("ended_at_ns", "integer", "end of the transfer, since 1970 on the rig's clock", "ns"),
    _column("file_delivered_at_ns", "integer", "time of delivery, since 1970 on the rig's clock", "ns"),
    _column("received_bytes", "integer", "data that the receiver received in the duration", "bytes"),
    _column("waited_ns", "integer", "time that threads of the rig waited for a processor", "ns"),
    _column("dispatches", "integer", "number of times that a thread of the rig was put on a processor"),
)
_OF_THE_CAPTURES = (
    _column("first_packet_ns", "integer", "first packet of the session, at the sender's port, since 1970", "ns"),
    _column("last_packet_ns", "integer", "last packet of the session, at the sender's port, since 1970", "ns"),
    _column("session_s", "number", "time from the first to the last packet of the session", "s"),
    _column("goodput_bps", "number", "8 × file bytes ÷ session time, or 8 × received_bytes ÷ duration", "bit/s"),
    _column("goodput_to_delivery_bps", "number", "8 × file bytes ÷ time from first packet to delivery", "bit/s"),
    _column("throughput_forward_bps", "number", "bits delivered forward ÷ session time", "bit/s"),
    _column("throughput_reverse_bps", "number", "bits delivered in reverse ÷ session time", "bit/s"),
    _column("total_data_bytes", "integer", "bytes of all frames that the sender sent in the session", "bytes"),
    _column("data_ratio", "number", "bytes that the sender sent ÷ bytes of the file"),
    _column("normalized_goodput_bps", "number", "goodput × file bytes ÷ bytes that the sender sent", "bit/s"),
    _column("efficiency", "number", "goodput ÷ rate of the forward link"),
    _column("utilisation", "number", "throughput forward ÷ rate of the forward link"),
    _column("str_sent", "integer", "packets that the sender sent", "packets"),
    _column("str_delivered", "integer", "packets of the sender that arrived", "packets"),
    _column("str_sent_bytes", "integer", "bytes of the frames that the sender sent", "bytes"),
    _column("str_delivered_bytes", "integer", "bytes of the frames of the sender that arrived", "bytes"),
    _column("rts_sent", "integer", "packets that the receiver sent", "packets"),
    _column("rts_delivered", "integer", "packets of the receiver that arrived", "packets"),
    _column("rts_sent_bytes", "integer", "bytes of the frames that the receiver sent", "bytes"),
    _column("rts_delivered_bytes", "integer", "bytes of the frames of the receiver that arrived", "bytes"),
    _column("overdue_ns", "integer", "time during which a packet was in the emulator for too long", "ns"),
    _column("slow_frames", "integer", "frames that had to be read one by one", "frames"),
    _column("carried_file_bytes", "integer", "bytes of the file that messages carried at least once", "bytes"),
    _column("repeated_file_bytes", "integer", "bytes of the file that messages carried again", "bytes"),
    _column("first_data_ns", "integer", "first packet with data, at the sender's port, since 1970", "ns"),
    _column("last_new_data_ns", "integer", "last packet with data not sent before, since 1970", "ns"),
)
_SPENT: Mapping[Kind, str] = {
    "new data": "the forward link transmitted bytes of the file for the first time",
    "serialization": "a link transmitted another packet of the critical path",
    "queueing": "a packet of the critical path waited for its link",
    "propagation": "a packet of the critical path was on its way behind the link",
    "in the channel": "a packet of the critical path was in a channel that changes, or is not known",
    "processing": "a host answered at once",
    "timer": "a host waited for a timer that is known",
    "waiting": "a host waited, for no packet and no known timer",
}


def time_column(kind: Kind) -> str:
    """The column with the time of a session that one kind took: "time_new_data_ns"."""
    return f"time_{kind.replace(' ', '_')}_ns"


_OF_THE_TIME = tuple(
    _column(time_column(kind), "integer", f"time of the session in which {_SPENT[kind]}; empty: see 'owlt why'", "ns")
    for kind in KINDS
)
_OF_A_DIRECTION = (
    ("owd_min_ns", "least one-way delay of a packet", "ns"),
    ("owd_p50_ns", "median one-way delay of packets", "ns"),
    ("owd_p99_ns", "99th percentile of the one-way delay of packets", "ns"),
    ("owd_max_ns", "greatest one-way delay of a packet", "ns"),
    ("sent", "packets sent", "packets"),
    ("delivered", "packets that arrived intact", "packets"),
    ("corrupted", "packets that arrived with flipped bits", "packets"),
    ("corrupted_outside", "corrupted packets that the session's filter misses", "packets"),
    ("corrupted_unseen", "corrupted packets that only the emulator's counter shows", "packets"),
    ("lost", "packets that the link dropped by losses, errors or an outage", "packets"),
    ("queue", "packets dropped by a full queue", "packets"),
    ("mtu", "packets dropped because they were too long", "packets"),
    ("in_flight", "packets in the emulator when the captures ended", "packets"),
    ("undetermined", "packets that did not arrive for one of several causes", "packets"),
    ("unexplained_missing", "packets that did not arrive, without a recorded drop", "packets"),
    ("unexplained_arrived", "packets that arrived and were not captured as sent", "packets"),
    ("duplicated", "additional copies that arrived", "packets"),
    ("reordered", "packets that arrived after one that was sent later", "packets"),
    ("reordering_extent", "greatest number of packets by which one arrived late", "packets"),
    ("unrecognised", "frames too damaged to be matched to a packet", "frames"),
    ("ecn_capable", "packets sent as ECT, which a queue may mark", "packets"),
    ("ecn_marked", "packets that arrived intact with the mark CE of a queue", "packets"),
)
_OF_TCP = (
    _column("packets_sent", "integer", "over TCP: packets of the sender (STR)", "packets"),
    _column("sent_again", "integer", "over TCP: segments that the sender's kernel retransmitted", "segments"),
    _column("timeouts", "integer", "over TCP: retransmission timeouts"),
    _column("fast_retransmissions", "integer", "over TCP: segments retransmitted in fast recovery", "segments"),
    _column("spurious", "integer", "over TCP: segments that the receiver reported as received twice", "segments"),
    _column("timeout_percent", "number", "over TCP: timeouts per 100 packets of the sender", "%"),
    _column("fast_percent", "number", "over TCP: fast retransmissions per 100 packets of the sender", "%"),
    _column("spurious_percent", "number", "over TCP: spurious segments per 100 packets of the sender", "%"),
    _column("others_retransmitted", "integer", "over TCP: segments of other connections retransmitted", "segments"),
    _column("problem", "text", "over TCP: why counters are missing; empty: none are missing"),
)
COUNTERS = (
    "TcpRetransSegs",
    "TcpExtTCPTimeouts",
    "TcpExtTCPRenoRecovery",
    "TcpExtTCPSackRecovery",
    "TcpExtTCPFastRetrans",
    "TcpExtTCPSlowStartRetrans",
    "TcpExtTCPLossProbes",
    "TcpExtTCPLossProbeRecovery",
    "TcpExtTCPLostRetransmit",
    "TcpExtTCPSynRetrans",
    "TcpExtTCPSpuriousRTOs",
    "TcpExtTCPDSACKRecv",
    "TcpExtTCPDSACKOfoRecv",
    "TcpExtTCPDSACKUndo",
    "TcpExtTCPFullUndo",
    "TcpExtTCPPartialUndo",
    "TcpExtTCPLossUndo",
    "TcpExtTCPSACKReorder",
    "TcpExtTCPTSReorder",
    "TcpExtTCPRenoReorder",
)
"""Counters of the sender's host."""
RECEIVER_COUNTERS = ("TcpExtDelayedACKs", "TcpExtDelayedACKLost", "TcpExtTCPDSACKOldSent", "TcpExtTCPDSACKOfoSent")
"""Counters of the receiver's host. DelayedACKs includes those of the orchestrator's own connection."""
DIRECTIONS = {"forward": "from the sender to the receiver", "reverse": "from the receiver to the sender"}

COLUMNS: tuple[Column, ...] = (
    *_OF_A_RUN,
    *(_of_a_link(name, way, words) for way, words in DIRECTIONS.items() for name in LINK_FIELDS),
    *_OF_THE_EXPERIMENT,
    *_OF_THE_RESULT,
    *_OF_THE_CAPTURES,
    *_OF_THE_TIME,
    *(
        Column(f"{way}_{name}", "integer", unit, f"{meaning} ({words})")
        for way, words in DIRECTIONS.items()
        for name, meaning, unit in _OF_A_DIRECTION
    ),
    *_OF_TCP,
    *(_column(name, "integer", "over TCP: counter of the sender's host during the run") for name in COUNTERS),
    *(
        _column(f"receiver_{name}", "integer", "over TCP: counter of the receiver's host during the run")
        for name in RECEIVER_COUNTERS
    ),
)
NAMES: tuple[str, ...] = tuple(column.name for column in COLUMNS)

"""The protocol view of a run: its messages in numbers, the times of its phases, how it ended; kept as protocol.json.

The messages themselves belong to messages.py. TCP packets in the sender's capture are counted here with tshark:
segments sent again, duplicate acknowledgements, windows. tshark infers causes from the packets it sees; only the kernel
knows why it sent a segment again, so timeouts and fast retransmissions are not counted.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO

import numpy as np
from pydantic import BaseModel, ConfigDict

from owlt.captures.accounting.cutting import write_by_time
from owlt.captures.accounting.derived_files import CAPTURES, DerivedFile, load, load_or_make, load_or_match
from owlt.captures.accounting.summary import read_both
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.decoding import FIN, RST, SYN, Kind
from owlt.captures.frames.session import Host, Session, summary_filter
from owlt.captures.matches.delivery import INTACT, Crossing, Delivery
from owlt.captures.protocols.dissection import takes_tshark
from owlt.captures.protocols.ladder import last_new_data, termination_lines
from owlt.captures.protocols.messages import (
    Message,
    carried_file_bytes,
    icmp_errors,
    message_bytes,
    message_counts,
    messages,
    repeated_file_bytes,
    stated_failure,
)
from owlt.captures.protocols.reader import Coverage
from owlt.captures.protocols.tshark import NoDissection, default_settings, find_tshark, parse_dissector, tshark_version
from owlt.results.record import VIEW

_TCP_LABELS = {
    "sender": ("retransmission", "out_of_order", "spurious_retransmission", "window_full"),
    "receiver": ("duplicate_ack", "zero_window"),
}
_SACK = "tcp.options.sack.count"
_TCP_PLACE = ("ip.src", "ipv6.src", "tcp.stream", "tcp.seq_raw", "tcp.len", "tcp.flags")
_KEEP_ALIVE = "tcp.analysis.keep_alive"
_TCP_FIELDS = (
    *_TCP_PLACE,
    *(f"tcp.analysis.{label}" for labels in _TCP_LABELS.values() for label in labels),
    _SACK,
    _KEEP_ALIVE,
)
_SEQUENCE_NUMBERS = 1 << 32
_TCP_OPTIONS = (
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.analyze_sequence_numbers:TRUE",
    "tcp.track_bytes_in_flight:TRUE",
)
_CUT_SHORT = "cut short in the middle of a packet"
_SHORTEST_RECORD_BYTES, _LEAST_PACKETS_PER_S = 70, 1_000
"""The time limit of tshark: a TCP packet without data has 54 bytes, a record's header 16."""
_STARTING_S = 60.0


class TcpCounts(BaseModel):
    """Counts of the session's packets at the sender's port. Packets from the sender, before the channel could lose,
    damage or reorder any: `sent_again`, how many begin with what was sent before, the kernel's TcpRetransSegs; and how
    many tshark labels (`tcp.analysis.*`) `retransmissions`, `out_of_order`, `spurious_retransmissions`, `window_full`.
    It labels a segment repeated within one round trip as out of order and accepts damaged acknowledgements, so the sum
    of its labels is close to `sent_again` and not always equal to it.

    Packets from the receiver, damaged or not: `duplicate_acks` (by RFC 5681, with an unchanged window, which Linux's
    often is not), `selective_acks` (that report a hole, the duplicate acknowledgements of RFC 6675), `zero_windows`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    sent_again: int
    retransmissions: int
    out_of_order: int
    spurious_retransmissions: int
    window_full: int
    duplicate_acks: int
    selective_acks: int
    zero_windows: int


def count_tcp(sender_pcap: Path, session: Session) -> TcpCounts:
    """tshark's counts of the session's TCP packets; the file may be cut to headers, or end early.

    Raises NoDissection, also where tshark cannot read the file, OSError.
    """
    chosen = f"tcp && ({summary_filter(session)})"
    options = [argument for option in _TCP_OPTIONS for argument in ("-o", option)]
    fields = [argument for field in _TCP_FIELDS for argument in ("-e", field)]
    command = [
        find_tshark(),
        "-n",
        "-r",
        str(sender_pcap),
        *options,
        "-Y",
        chosen,
        "-T",
        "fields",
        "-E",
        "occurrence=f",
    ]
    with TemporaryFile("w+", errors="replace") as output:
        _run_tshark([*command, *fields], output, sender_pcap)
        output.seek(0)
        return _counted(output, session)


def _run_tshark(command: list[str], output: IO[str], pcap: Path) -> None:
    limit_s = _STARTING_S + pcap.stat().st_size / _SHORTEST_RECORD_BYTES / _LEAST_PACKETS_PER_S
    try:
        done = subprocess.run(
            command,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
            env=default_settings(),
        )
    except subprocess.TimeoutExpired as problem:
        raise NoDissection(f"{pcap}: tshark did not finish within {limit_s:.0f} s") from problem
    if done.returncode != 0 and _CUT_SHORT not in done.stderr:
        raise NoDissection(f"{pcap}: tshark cannot read it: {done.stderr.strip()[-300:]}")


def _counted(lines: Iterable[str], session: Session) -> TcpCounts:
    """The counts in tshark's lines: a value of _TCP_FIELDS for each packet; a label has one where it is given."""
    counts: Counter[tuple[Host, str]] = Counter()
    sent_up_to: dict[str, int] = {}
    for line in lines:
        values = dict(zip_longest(_TCP_FIELDS, line.rstrip("\n").split("\t")[: len(_TCP_FIELDS)], fillvalue=""))
        source = values["ipv6.src" if session.network == 6 else "ip.src"]
        host: Host = "sender" if source == str(session.sender_address) else "receiver"
        counts.update((host, name) for name in _TCP_FIELDS[len(_TCP_PLACE) :] if values.get(name))
        if host == "sender":
            counts["sender", "sent again"] += _is_sent_again(values, sent_up_to)
    return TcpCounts(
        sent_again=counts["sender", "sent again"],
        retransmissions=counts["sender", "tcp.analysis.retransmission"],
        out_of_order=counts["sender", "tcp.analysis.out_of_order"],
        spurious_retransmissions=counts["sender", "tcp.analysis.spurious_retransmission"],
        window_full=counts["sender", "tcp.analysis.window_full"],
        duplicate_acks=counts["receiver", "tcp.analysis.duplicate_ack"],
        selective_acks=counts["receiver", _SACK],
        zero_windows=counts["receiver", "tcp.analysis.zero_window"],
    )


def _is_sent_again(values: dict[str, str], sent_up_to: dict[str, int]) -> bool:
    """Whether a segment begins before the end of what its connection has sent, which is noted in `sent_up_to`.

    Octets in a reset or a keep-alive are no data. SYN and FIN have a place of their own in the sequence (RFC 9293,
    3.4), which begins again after 2^32 bytes.
    """
    if not values["tcp.seq_raw"]:
        return False
    stream, begin = values["tcp.stream"], int(values["tcp.seq_raw"])
    flags = int(values["tcp.flags"] or "0", 16)
    if flags & RST or values[_KEEP_ALIVE]:
        return False
    carried = int(values["tcp.len"] or 0) + (flags & (SYN | FIN)).bit_count()
    end = (begin + carried) % _SEQUENCE_NUMBERS
    before = sent_up_to.setdefault(stream, begin)
    if _is_after(end, before):
        sent_up_to[stream] = end
    return carried > 0 and _is_after(before, begin)


def _is_after(one: int, other: int) -> bool:
    return 0 < (one - other) % _SEQUENCE_NUMBERS < _SEQUENCE_NUMBERS // 2


SCHEMA_VERSION = 1
"""Incremented whenever a field or its meaning changes, for programs that read the JSON."""


class ProtocolView(DerivedFile):
    """The messages of a run in numbers, each counted as it was sent, at the port of its host.

    `counts` and `wire_bytes` are by host and by the field's name of the message. `carried_file_bytes` are how many
    bytes of the file the sender's messages carried at least once, `repeated_file_bytes` how many it carried again; None
    if the packets do not say where in the file their bytes belong, as are the times of the first and the last message
    with bytes that were new, at the sender's port. `termination` are the lines of the last phase, as tcpdump would
    print them, with names. `tcp` has the counts of the session's TCP segments at the sender's port, if there are any.
    """

    schema_version: int = SCHEMA_VERSION
    dissector: list[str]
    counts: dict[Host, dict[str, int]]
    wire_bytes: dict[Host, dict[str, int]]
    carried_file_bytes: int | None
    repeated_file_bytes: int | None
    first_data_ns: int | None
    last_new_data_ns: int | None
    termination: list[str]
    tcp: TcpCounts | None


@dataclass(frozen=True)
class Exchange:
    """The messages of a session as each port of the emulator saw them, in the order of time."""

    at_sender: list[Message]
    at_receiver: list[Message]

    @property
    def of_sender(self) -> list[Message]:
        """The sender's messages, at its own port."""
        return [message for message in self.at_sender if message.host == "sender"]

    @property
    def of_receiver(self) -> list[Message]:
        """The receiver's messages, at its own port."""
        return [message for message in self.at_receiver if message.host == "receiver"]

    @property
    def sent(self) -> list[Message]:
        """The messages of both hosts, each at the port of its host."""
        return self.of_sender + self.of_receiver

    @property
    def shows_delivery(self) -> bool:
        """Whether the receiver states that it has the file."""
        return any(message.verdict == "delivered" for message in self.of_receiver)

    @property
    def failure(self) -> str:
        """The reason why the transfer failed, according to its messages; "" if they do not show a failure.

        Missing bytes are counted at the receiver's port. Parity that arrived may have restored some of them, and the
        receiver may have accepted damaged packets whose checksums are not known to be wrong.
        """
        if self.shows_delivery:
            return ""
        stated = stated_failure(self.sent)
        missing = self._missing_bytes
        if missing is None or stated.is_final:
            return stated.text
        if missing > self._restorable_bytes:
            return (
                f"{missing} of the {carried_file_bytes(self.of_sender)} bytes of the file that were sent never arrived "
                "at the receiver's port"
            )
        return stated.text if missing else ""

    @property
    def uncaptured(self) -> str:
        """A sentence if the receiver acknowledges more bytes of the file than the capture at its port contains."""
        carried, missing = carried_file_bytes(self.of_sender), self._missing_bytes
        if not carried or not missing:
            return ""
        acknowledged = max((message.acknowledged_bytes or 0 for message in self.of_receiver), default=0)
        arrived = carried - missing
        if min(acknowledged, carried) <= arrived + self._restorable_bytes:
            return ""
        return (
            f"the receiver acknowledges {acknowledged} bytes of the file, but the capture at its port contains "
            f"{arrived}: that capture missed packets, which count as lost"
        )

    @property
    def _missing_bytes(self) -> int | None:
        """How many bytes of the file were sent and did not arrive; None if the position of some is not known."""
        sent, arrived = self.of_sender, self._arrived
        if not any(message.placed_pieces for message in sent) or any(message.unplaced for message in [*sent, *arrived]):
            return None
        coverage = Coverage()
        for message in arrived:
            coverage.add_all(message.placed_pieces)
        return sum(coverage.add_all(message.placed_pieces) for message in sent)

    @property
    def _restorable_bytes(self) -> int:
        return sum(
            message.parity_bytes + message.payload_bytes * (message.is_damaged and not message.is_refused)
            for message in self._arrived
        )

    @property
    def _arrived(self) -> list[Message]:
        return [message for message in self.at_receiver if message.host == "sender"]


def read_exchange(crossing: Crossing, session: Session, dissector: Sequence[str]) -> Exchange:
    """The messages in both captures. Raises ValueError if the dissector's options are not known, NoDissection,
    OSError."""

    def read(columns: Columns, arriving: Delivery) -> list[Message]:
        return _with_errors(messages(columns, session, dissector, _damaged(arriving)), columns, session)

    return Exchange(read(crossing.at_sender, crossing.reverse), read(crossing.at_receiver, crossing.forward))


def read_sent(crossing: Crossing, session: Session, dissector: Sequence[str]) -> tuple[list[Message], list[Message]]:
    """The messages of the sender and of the receiver, each at its own port, as in `Exchange`, in half of the time:
    packets that arrive there are not read, so what an acknowledgement covers may not be known. Raises as
    `read_exchange`."""

    def read(columns: Columns, host: Host) -> list[Message]:
        found = _with_errors(messages(columns, session, dissector, hosts=(host,)), columns, session)
        return [message for message in found if message.host == host]

    return read(crossing.at_sender, "sender"), read(crossing.at_receiver, "receiver")


def _with_errors(of_session: list[Message], columns: Columns, session: Session) -> list[Message]:
    """The messages and the ICMP errors about them, in the order of time."""
    errors = list(icmp_errors(columns, session))
    return sorted([*of_session, *errors], key=lambda message: message.time_ns) if errors else of_session


def _damaged(delivery: Delivery) -> list[int]:
    hit = delivery.flipped_bit != INTACT
    rows: list[int] = np.unique(delivery.delivered[hit]).tolist()
    return rows


def view(exchange: Exchange, at_sender: Columns, session: Session, dissector: Sequence[str]) -> ProtocolView:
    """The view of the messages. Raises NoDissection, OSError."""
    sent = exchange.sent
    data = [message for message in exchange.of_sender if message.byte_count]
    carried_bytes = carried_file_bytes(sent)
    are_placed = carried_bytes is not None
    last = last_new_data(data)
    return ProtocolView(
        dissector=list(dissector),
        counts=message_counts(sent),
        wire_bytes=message_bytes(sent),
        carried_file_bytes=carried_bytes,
        repeated_file_bytes=repeated_file_bytes(sent),
        first_data_ns=data[0].time_ns if data and are_placed else None,
        last_new_data_ns=data[last].time_ns if last is not None and are_placed else None,
        termination=termination_lines(at_sender, exchange.at_sender),
        tcp=_tcp_counts(at_sender, session) if session.tcp_ports and (at_sender.kind == Kind.TCP).any() else None,
    )


def _tcp_counts(capture: Columns, session: Session) -> TcpCounts:
    """tshark's counts. tshark reads packets in the order of the file, so a capture is sorted by time first."""
    if (np.diff(capture.time_ns) >= 0).all() or not capture.link_type:
        return count_tcp(capture.path, session)
    with TemporaryDirectory() as folder:
        in_order = Path(folder).resolve() / capture.path.name
        write_by_time(capture, in_order)
        return count_tcp(in_order, session)


def load_or_view(run_dir: Path, session: Session, dissector: Sequence[str]) -> ProtocolView:
    """The view of the run in `run_dir`: the kept one while captures, dissector and code are those that it was made
    from, else a new one, which is then kept. Raises what `read_exchange` and `view` do."""

    def make() -> ProtocolView:
        at_sender, at_receiver = read_both(*(run_dir / name for name in CAPTURES))
        crossing = load_or_match(run_dir, at_sender, at_receiver, session)
        return view(read_exchange(crossing, session, dissector), at_sender, session, dissector)

    version = tshark_version() if takes_tshark(session, parse_dissector(dissector)) else ""
    arguments = [session.model_dump(mode="json"), list(dissector), version]
    return load_or_make(run_dir / VIEW, ProtocolView, arguments, make)


def load_view(run_dir: Path) -> ProtocolView | None:
    """The kept view as it is; None if there is none, or a damaged one, or one of another form."""
    stored = load(run_dir / VIEW, ProtocolView)
    return stored if stored and stored.schema_version == SCHEMA_VERSION else None

"""What the sender's capture tells of TCP, read by tshark: segments sent again, duplicate acknowledgements, windows.

tshark guesses from what passed; only the kernel knows why it sent a segment again, so its timeouts and fast
retransmissions are not counted here.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from pydantic import BaseModel, ConfigDict

from owlt.captures.frames.decoding import FIN, RST, SYN
from owlt.captures.frames.session import Host, Session, summary_filter
from owlt.captures.protocols.tshark import NoDissection, default_settings, find_tshark

_LABELS = {
    "sender": ("retransmission", "out_of_order", "spurious_retransmission", "window_full"),
    "receiver": ("duplicate_ack", "zero_window"),
}
_SACK = "tcp.options.sack.count"
_PLACE = ("ip.src", "ipv6.src", "tcp.stream", "tcp.seq_raw", "tcp.len", "tcp.flags")
_KEEP_ALIVE = "tcp.analysis.keep_alive"
_FIELDS = (*_PLACE, *(f"tcp.analysis.{label}" for labels in _LABELS.values() for label in labels), _SACK, _KEEP_ALIVE)
_SEQUENCE_NUMBERS = 1 << 32
_OPTIONS = ("tcp.desegment_tcp_streams:FALSE", "tcp.analyze_sequence_numbers:TRUE", "tcp.track_bytes_in_flight:TRUE")
_CUT_SHORT = "cut short in the middle of a packet"
_SHORTEST_RECORD_BYTES, _LEAST_PACKETS_PER_S = 70, 1_000
"""For how long tshark may take: a TCP packet without data has 54 bytes, a record's header 16."""
_STARTING_S = 60.0


class TcpCounts(BaseModel):
    """What the packets of the session at the sender's port say.

    Of those that the sender sent, before the channel could lose, damage or reorder any: `sent_again`, how many begin
    with what was sent before, the kernel's TcpRetransSegs; and how many tshark labels (`tcp.analysis.*`)
    `retransmissions`, `out_of_order`, `spurious_retransmissions`, `window_full`. It calls a segment that comes again
    within a round trip out of order, and believes acknowledgements that the channel damaged, so that its labels are
    together near `sent_again` and not always equal to it.

    Of those that came from the receiver, damaged or not: `duplicate_acks` (by RFC 5681, with an unchanged window, which
    Linux's often is not), `selective_acks` (that report a hole, the duplicate acknowledgements of RFC 6675),
    `zero_windows`.
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
    """What tshark says of the session's TCP packets; the file may be cut to headers, or short at its end.

    Raises NoDissection, also where tshark cannot read the file, OSError.
    """
    chosen = f"tcp && ({summary_filter(session)})"
    options = [argument for option in _OPTIONS for argument in ("-o", option)]
    fields = [argument for field in _FIELDS for argument in ("-e", field)]
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
    with TemporaryFile("w+", errors="replace") as told:
        _run([*command, *fields], told, sender_pcap)
        told.seek(0)
        return _count(told, session)


def _run(command: list[str], output: IO[str], pcap: Path) -> None:
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


def _count(lines: Iterable[str], session: Session) -> TcpCounts:
    """The counts in tshark's lines: a value of _FIELDS for each packet; a label has one where it is given."""
    counts: Counter[tuple[Host, str]] = Counter()
    sent_up_to: dict[str, int] = {}
    for line in lines:
        values = dict(zip_longest(_FIELDS, line.rstrip("\n").split("\t")[: len(_FIELDS)], fillvalue=""))
        source = values["ipv6.src" if session.network == 6 else "ip.src"]
        host: Host = "sender" if source == str(session.sender_address) else "receiver"
        counts.update((host, name) for name in _FIELDS[len(_PLACE) :] if values.get(name))
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

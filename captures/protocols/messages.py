"""The session's packets as the protocol's own messages: what each is called, and what of the file it carries.

Reading them is done in captures.protocols, of what dissection.py gives; here follow the messages of a whole capture,
and what is counted of them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from captures.frames.columns import Columns, read_columns
from captures.protocols.coverage import Coverage
from captures.protocols.dissection import Dissected, dissect
from captures.protocols.dissector import parse_dissector
from captures.protocols.reading import Said, Unreadable
from captures.session import Host, Session

_MALFORMED, _DAMAGED = "malformed ", "damaged "
_MOST_WRONG = 20
"""To each checksum that is right. One in 65,536 is so by chance where a card fills them in."""
_LOOKED_AHEAD = 1000
"""Packets. Where a card fills in a host's checksums behind the capture, none of them is right, and they say nothing."""


@dataclass(frozen=True, slots=True)
class Message:
    """A packet of the session as its protocol names it.

    `frame` is its number in the capture, from 1; `host` sent it. `payload_bytes` are behind its UDP or TCP header.
    `name` is the field's word, `detail` a few words more; a message that ends before what it says does is "cut" in its
    detail. A packet whose checksum is wrong is named "damaged" and whatever it still seems to be, one that cannot be
    read "malformed" and what it should have been; neither says anything of the file.

    `first_byte` and `byte_count` are the part of the file that it carries. Where it carries none they are None and 0.
    `unplaced` says that it carries some, or may, of which the packets do not say where in the file they belong; then
    `byte_count` is how many, or 0 where not even that is known. `acknowledged_bytes` is how many bytes of the file the
    message says have arrived: in all where the protocol's acknowledgements say so (TCP, Saratoga, an ACK of a NORM
    FLUSH, a CFDP Finished), else those that this message claims (an LTP report, a CFDP NAK within its scope, a custody
    signal). None where it says nothing of that, or it cannot be known.
    """

    frame: int
    time_ns: int
    host: Host
    wire_bytes: int
    payload_bytes: int
    name: str
    detail: str = ""
    first_byte: int | None = None
    byte_count: int = 0
    acknowledged_bytes: int | None = None
    unplaced: bool = False

    @property
    def is_damaged(self) -> bool:
        """Whether it did not come as it was sent."""
        return self.name.startswith(_DAMAGED)


def messages(
    capture: Path | Columns, session: Session, dissector: Sequence[str], damaged_rows: Collection[int] = ()
) -> list[Message]:
    """Every packet of the session in a capture (or in its columns), in the capture's order.

    `dissector` are options for tshark, as a profile has them: captures.protocols.dissector says which. `damaged_rows`
    are rows of the columns that are known from the other capture to be damaged (captures.matches.matching): checksums
    are looked at anyway, but in a capture that is cut there is nothing to compare them with. Raises ValueError where
    the options are not known, NotACapture, OSError, NoDissection.
    """
    columns = capture if isinstance(capture, Columns) else read_columns(capture)
    times_ns, wire_bytes = columns.time_ns.tolist(), columns.wire_bytes.tolist()
    found, units = [], set()
    for seen, said, is_damaged in _read(dissect(columns, session, parse_dissector(dissector)), set(damaged_rows)):
        if said.unit is not None and (said.unplaced or said.first_byte is not None):
            units.add(said.unit)
        name = f"{_DAMAGED}{said.name.removeprefix(_MALFORMED)}" if is_damaged else said.name
        found.append(
            Message(
                frame=seen.row + 1,
                time_ns=times_ns[seen.row],
                host=seen.packet.host,
                wire_bytes=wire_bytes[seen.row],
                payload_bytes=seen.packet.payload_bytes,
                name=name,
                detail=said.detail,
                first_byte=said.first_byte,
                byte_count=said.byte_count,
                acknowledged_bytes=said.acknowledged_bytes,
                unplaced=said.unplaced,
            )
        )
    return [_without_places(message) for message in found] if len(units) > 1 else found


def _without_places(message: Message) -> Message:
    """The message where the sender filled several units: which place in the file is which is not told."""
    is_placed = message.first_byte is not None
    return replace(message, first_byte=None, acknowledged_bytes=None, unplaced=message.unplaced or is_placed)


def _read(packets: Iterator[Dissected], damaged_rows: Set[int]) -> Iterator[tuple[Dissected, Said, bool]]:
    """Each packet with what it says of the file that goes from sender to receiver, and whether it is damaged."""
    begun: dict[tuple[Host, str], Said] = {}
    checked: Counter[tuple[Host, int, bool]] = Counter()  # a host, which of its two checksums, whether it is right
    while some := list(islice(packets, _LOOKED_AHEAD)):
        for seen in some:
            checked.update((seen.packet.host, n, right) for n, right in enumerate(seen.checksums) if right is not None)
        filled_in = {
            (host, n) for host, n, _ in checked if _MOST_WRONG * checked[host, n, True] >= checked[host, n, False]
        }
        for seen in some:
            host = seen.packet.host
            wrong = {(host, which) for which, is_right in enumerate(seen.checksums) if is_right is False}
            is_damaged = bool(wrong & filled_in) or seen.row in damaged_rows
            said = _said(seen, is_damaged, begun)
            if is_damaged or host == "receiver":
                said = replace(said, first_byte=None, byte_count=0, unplaced=False)
            if is_damaged or host == "sender":
                said = replace(said, acknowledged_bytes=None)
            yield seen, said, is_damaged


def _said(seen: Dissected, is_damaged: bool, begun: dict[tuple[Host, str], Said]) -> Said:
    """What a packet says. `begun` has what the first fragments of datagrams say, for the later ones."""
    key = seen.packet.host, seen.fragment or ""
    if seen.fragment_at:
        first = begun.get(key, Said("IP fragment", unplaced=True))
        part = _part(first, seen.fragment_at, seen.packet.payload_bytes)
        return replace(part, name="IP fragment", detail=f"of {first.name}" if key in begun else "")
    reader = seen.reader.ignorant() if is_damaged else seen.reader
    try:
        said = reader.rescue(seen.packet) if seen.malformed else reader.read(seen.packet)
    except Unreadable:
        said = Said(_MALFORMED + reader.TITLE)
    if seen.fragment is None:
        return said
    if not is_damaged:
        begun[key] = said
    return _part(said, 0, seen.packet.payload_bytes)


def _part(said: Said, begin: int, octets: int) -> Said:
    """What some octets of a datagram carry of what the whole says."""
    if said.first_byte is None:
        return replace(said, byte_count=0, acknowledged_bytes=None if begin else said.acknowledged_bytes)
    first = max(begin, said.data_at)
    count = min(begin + octets, said.data_at + said.byte_count) - first
    if count <= 0:
        return replace(said, first_byte=None, byte_count=0, acknowledged_bytes=None)
    return replace(said, first_byte=said.first_byte + first - said.data_at, byte_count=count)


def message_counts(found: Iterable[Message]) -> dict[Host, dict[str, int]]:
    """How many messages of each name each host sent, the most frequent first."""
    counts: dict[Host, Counter[str]] = {"sender": Counter(), "receiver": Counter()}
    for message in found:
        counts[message.host][message.name] += 1
    return {host: dict(of_host.most_common()) for host, of_host in counts.items()}


def message_bytes(found: Iterable[Message]) -> dict[Host, dict[str, int]]:
    """How many bytes of frames the messages of each name were, by host."""
    sums: dict[Host, defaultdict[str, int]] = {"sender": defaultdict(int), "receiver": defaultdict(int)}
    for message in found:
        sums[message.host][message.name] += message.wire_bytes
    return {host: dict(of_host) for host, of_host in sums.items()}


def carried_file_bytes(found: Iterable[Message]) -> int | None:
    """How many different bytes of the file the messages carry; None where some are not placed."""
    carried = _carried_and_repeated(found)
    return carried[0] if carried else None


def repeated_file_bytes(found: Iterable[Message]) -> int | None:
    """How many bytes of the file the messages carry beyond the first time of each; None where some are not placed."""
    carried = _carried_and_repeated(found)
    return carried[1] if carried else None


def _carried_and_repeated(found: Iterable[Message]) -> tuple[int, int] | None:
    """Bytes of the union of all pieces, and what they are together beyond it."""
    coverage, union, total = Coverage(), 0, 0
    for message in found:
        if message.unplaced:
            return None
        if message.first_byte is not None:
            union += coverage.add(message.first_byte, message.first_byte + message.byte_count)
            total += message.byte_count
    return union, total - union

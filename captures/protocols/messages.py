"""The session's packets as the protocol's own messages: what each is called, and what of the file it carries.

Reading them is done in captures.protocols, of what dissection.py gives; here follow the messages of a whole capture,
and what is counted of them.
"""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from captures.frames.columns import Columns, read_columns
from captures.protocols.dissection import Dissected, dissect
from captures.protocols.dissector import parse_dissector
from captures.protocols.readers.coverage import Coverage
from captures.protocols.readers.reader import PacketContent, Unreadable
from captures.session.session import Host, Session

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
    signal). None if it says nothing of that, or it cannot be known.
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
    capture: Path | Columns,
    session: Session,
    dissector: Sequence[str],
    damaged_rows: Collection[int] = (),
    by_tshark_alone: bool = False,
) -> list[Message]:
    """Every packet of the session in a capture (or in its columns), in the order of time.

    `dissector` are options for tshark, as a profile has them: captures.protocols.dissector says which. `damaged_rows`
    are rows of the columns that are known from the other capture to be damaged (captures.matches.matching): checksums
    are looked at anyway, but in a capture that is cut there is nothing to compare them with. `by_tshark_alone` asks
    tshark for the fields of all packets, and gives the same messages. Raises ValueError if the options are not known,
    NotACapture, OSError, NoDissection.
    """
    columns = capture if isinstance(capture, Columns) else read_columns(capture)
    with _without_collections():
        return _messages(dissect(columns, session, parse_dissector(dissector), by_tshark_alone), columns, damaged_rows)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Without searches for garbage: there is no circle among the many objects of a capture, and they would take a fifth
    of the time."""
    is_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_enabled:
            gc.enable()


def _messages(packets: Iterator[Dissected], columns: Columns, damaged_rows: Collection[int]) -> list[Message]:
    times_ns, wire_bytes = columns.time_ns.tolist(), columns.wire_bytes.tolist()
    messages, units = [], set()
    for dissected, content, is_damaged in _read(packets, set(damaged_rows)):
        if content.unit is not None and (content.unplaced or content.first_byte is not None):
            units.add(content.unit)
        row = dissected.row
        messages.append(
            Message(
                row + 1,
                times_ns[row],
                dissected.packet.host,
                wire_bytes[row],
                dissected.packet.payload_bytes,
                f"{_DAMAGED}{content.name.removeprefix(_MALFORMED)}" if is_damaged else content.name,
                content.detail,
                content.first_byte,
                content.byte_count,
                content.acknowledged_bytes,
                content.unplaced,
            )
        )
    return [_without_places(message) for message in messages] if len(units) > 1 else messages


def _without_places(message: Message) -> Message:
    """The message where the sender filled several units: which place in the file is which is not told."""
    is_placed = message.first_byte is not None
    return replace(message, first_byte=None, acknowledged_bytes=None, unplaced=message.unplaced or is_placed)


def _read(packets: Iterator[Dissected], damaged_rows: Set[int]) -> Iterator[tuple[Dissected, PacketContent, bool]]:
    """Each packet with what it says of the file that goes from sender to receiver, and whether it is damaged."""
    start: dict[tuple[Host, str], PacketContent] = {}
    checked: Counter[tuple[Host, int, bool]] = Counter()  # a host, which of its two checksums, whether it is right
    while some := list(islice(packets, _LOOKED_AHEAD)):
        for (host, checksums), count in Counter((each.packet.host, each.checksums) for each in some).items():
            for which, is_right in enumerate(checksums):
                if is_right is not None:
                    checked[host, which, is_right] += count
        filled_in = {
            (host, n) for host, n, _ in checked if _MOST_WRONG * checked[host, n, True] >= checked[host, n, False]
        }
        for dissected in some:
            host = dissected.packet.host
            is_damaged = dissected.row in damaged_rows or (
                False in dissected.checksums
                and any(is_right is False and (host, n) in filled_in for n, is_right in enumerate(dissected.checksums))
            )
            content = _said(dissected, is_damaged, start)
            yield dissected, _as_believed(content, host, is_damaged), is_damaged


def _as_believed(content: PacketContent, host: Host, is_damaged: bool) -> PacketContent:
    """The content without what a damaged packet seems to say of the file, or a host that cannot know it."""
    if (is_damaged or host == "receiver") and (
        content.first_byte is not None or content.byte_count or content.unplaced
    ):
        content = replace(content, first_byte=None, byte_count=0, unplaced=False)
    if (is_damaged or host == "sender") and content.acknowledged_bytes is not None:
        content = replace(content, acknowledged_bytes=None)
    return content


def _said(dissected: Dissected, is_damaged: bool, start: dict[tuple[Host, str], PacketContent]) -> PacketContent:
    """What a packet says. `start` has what the first fragments of datagrams say, for the later ones."""
    key = dissected.packet.host, dissected.fragment or ""
    if dissected.fragment_at:
        first = start.get(key, PacketContent("IP fragment", unplaced=True))
        part = _part(first, dissected.fragment_at, dissected.packet.payload_bytes)
        return replace(part, name="IP fragment", detail=f"of {first.name}" if key in start else "")
    reader = dissected.reader.ignorant() if is_damaged else dissected.reader
    try:
        content = reader.rescue(dissected.packet) if dissected.malformed else reader.read(dissected.packet)
    except Unreadable:
        content = PacketContent(_MALFORMED + reader.TITLE)
    if dissected.fragment is None:
        return content
    if not is_damaged:
        start[key] = content
    return _part(content, 0, dissected.packet.payload_bytes)


def _part(content: PacketContent, begin: int, octets: int) -> PacketContent:
    """What some octets of a datagram carry of what the whole says."""
    if content.first_byte is None:
        return replace(content, byte_count=0, acknowledged_bytes=None if begin else content.acknowledged_bytes)
    first = max(begin, content.data_at)
    count = min(begin + octets, content.data_at + content.byte_count) - first
    if count <= 0:
        return replace(content, first_byte=None, byte_count=0, acknowledged_bytes=None)
    return replace(content, first_byte=content.first_byte + first - content.data_at, byte_count=count)


def message_counts(messages: Iterable[Message]) -> dict[Host, dict[str, int]]:
    """How many messages of each name each host sent, the most frequent first."""
    counts: dict[Host, Counter[str]] = {"sender": Counter(), "receiver": Counter()}
    for message in messages:
        counts[message.host][message.name] += 1
    return {host: dict(of_host.most_common()) for host, of_host in counts.items()}


def message_bytes(messages: Iterable[Message]) -> dict[Host, dict[str, int]]:
    """How many bytes of frames the messages of each name were, by host."""
    sums: dict[Host, defaultdict[str, int]] = {"sender": defaultdict(int), "receiver": defaultdict(int)}
    for message in messages:
        sums[message.host][message.name] += message.wire_bytes
    return {host: dict(of_host) for host, of_host in sums.items()}


def carried_file_bytes(messages: Iterable[Message]) -> int | None:
    """How many different bytes of the file the messages carry; None if some are not placed."""
    carried = _carried_and_repeated(messages)
    return carried[0] if carried else None


def repeated_file_bytes(messages: Iterable[Message]) -> int | None:
    """How many bytes of the file the messages carry beyond the first time of each; None if some are not placed."""
    carried = _carried_and_repeated(messages)
    return carried[1] if carried else None


def _carried_and_repeated(messages: Iterable[Message]) -> tuple[int, int] | None:
    """Bytes of the union of all pieces, and what they are together beyond it."""
    coverage, union, total = Coverage(), 0, 0
    for message in messages:
        if message.unplaced:
            return None
        if message.first_byte is not None:
            union += coverage.add(message.first_byte, message.first_byte + message.byte_count)
            total += message.byte_count
    return union, total - union

"""The session as a ladder, and its termination phase: the messages after all data were sent once, to the end.

A ladder has each message with the times at which it left one host and arrived at the other; drawing it belongs to
reports. The termination phase is also written as lines like those of tcpdump, in the way of NASA/TM-2012-216047,
section 5.6, with each message's name behind them.

Of a failed transfer, the ladder shows where it stopped. A host that does not understand a packet sends nothing more, or
repeats itself: the messages that arrived intact after its last one got no answer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv4Address
from itertools import pairwise
from types import MappingProxyType
from typing import Literal

from owlt.captures.frames.columns import Columns
from owlt.captures.frames.decoding import TRANSPORTS
from owlt.captures.frames.session import Host
from owlt.captures.matches.delivery import INTACT, UNCHECKED_BITS, Crossing, OneWay
from owlt.captures.protocols.messages import Message
from owlt.captures.protocols.reader import REPEATED, RETRANSMISSION, Coverage

LEAD = 3
"""The number of messages before the last new data that are shown too."""
ALIKE = 5
"""The most equal messages that are shown; further ones are counted."""
MOST = 60
"""The most lines in total."""
AGAIN = (RETRANSMISSION, REPEATED)
_LAST = 10
"""The number of lines at the end, if there are too many."""

Kind = Literal["new data", "data again", "of the sender", "of the receiver"]


@dataclass(frozen=True)
class Rung:
    """A message, with the times of its captures' clock: when it left, and when each copy arrived, none if it was lost.

    `is_damaged` says that the first copy differs in some bits; `fate` is that of a packet that did not arrive, as
    `inspection.packet_tables.packet_rows` names it, "" if it is not known. "new data" carries bytes of the file that no
    earlier message carried or, if their position is not known, any; "data again" others. `action` is what an aimed
    fault did to it; "": none hit it. `is_accepted` says of a damaged one that hosts take it all the same.
    """

    message: Message
    left_ns: int
    arrived_ns: tuple[int, ...]
    is_damaged: bool
    kind: Kind
    fate: str = ""
    action: str = ""
    is_accepted: bool = False


@dataclass(frozen=True)
class LeftOut:
    """Messages between two that are shown: in a few words, and the host that sent most of them."""

    host: Host
    text: str
    rungs: tuple[Rung, ...]


Step = Rung | LeftOut


Fates = Mapping[tuple[Host, int], str]
"""The fate of packets, by the host that sent them and their frame in the capture at its port."""
Actions = Mapping[tuple[Host, int | None], str]
"""What aimed faults did to packets, by the same."""


def rungs(
    sent: Sequence[Message],
    answered: Sequence[Message],
    crossing: Crossing,
    fates: Fates = MappingProxyType({}),
    actions: Actions = MappingProxyType({}),
) -> list[Rung]:
    """The rungs of the sender's messages (from its own capture) and of the receiver's (from its own), as they left."""
    coverage = Coverage()
    forward, reverse = crossing.ways
    rungs = [
        *_rungs_one_way(sent, forward, coverage, fates, actions),
        *_rungs_one_way(answered, reverse, coverage, fates, actions),
    ]
    return sorted(rungs, key=lambda rung: rung.left_ns)


def _rungs_one_way(
    messages: Sequence[Message], way: OneWay, coverage: Coverage, fates: Fates, actions: Actions
) -> Iterator[Rung]:
    copies: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for delivery in filter(None, (way.delivery, way.delivery.background)):  # ICMP is in the background
        arrivals_ns = way.far.time_ns[delivery.delivered].tolist()
        pairs = zip(delivery.sent.tolist(), arrivals_ns, delivery.flipped_bit.tolist(), strict=True)
        for row, arrival_ns, bit in pairs:
            copies[row].append((arrival_ns, bit))
    for message in messages:
        arrivals = sorted(copies[message.frame - 1])
        bit = arrivals[0][1] if arrivals else INTACT
        packet = message.host, message.frame
        yield Rung(
            message,
            message.time_ns,
            tuple([time_ns for time_ns, _ in arrivals]),
            bit != INTACT,
            _kind(message, coverage),
            "" if arrivals else fates.get(packet, ""),
            actions.get(packet, ""),
            bit in UNCHECKED_BITS,
        )


def _kind(message: Message, coverage: Coverage) -> Kind:
    if message.host == "receiver":
        return "of the receiver"
    if message.first_byte is not None:
        return "new data" if coverage.add_all(message.placed_pieces) else "data again"
    if message.unplaced:
        return "data again" if message.name in AGAIN else "new data"
    return "of the sender"


def ending(rungs: Sequence[Rung], lead: int = LEAD, alike: int = ALIKE, most: int = MOST) -> list[Step]:
    """The termination phase of a ladder, thinned out (`thinned`)."""
    start = termination_start([rung.message for rung in rungs], lead)
    return thin(rungs[start:], alike, most)


def thin(rungs: Sequence[Rung], alike: int = ALIKE, most: int = MOST) -> list[Step]:
    """The rungs without those that equal earlier ones."""
    steps: list[Step] = []
    for step in thinned([rung.message for rung in rungs], alike, most):
        if isinstance(step, int):
            steps.append(rungs[step])
            continue
        hidden = [rungs[index] for index in step]
        text = left_out_text([rung.message for rung in hidden])
        by_sender = sum(rung.message.host == "sender" for rung in hidden)
        host: Host = "sender" if 2 * by_sender >= len(hidden) else "receiver"
        steps.append(LeftOut(host, text, tuple(hidden)))
    return steps


def last_new_data(messages: Sequence[Message]) -> int | None:
    """The index of the last message with bytes of the file that none before it carried; None if none carries any.

    Of messages whose bytes are not placed, those count that are at least half as long as the longest of them and not
    known to be sent again: the others are mostly acknowledgements that are encrypted, and greetings.
    """
    longest = max((message.payload_bytes for message in messages if message.unplaced), default=0)
    coverage, last = Coverage(), None
    for index, message in enumerate(messages):
        if message.first_byte is not None:
            if coverage.add_all(message.placed_pieces):
                last = index
        elif message.unplaced and 2 * message.payload_bytes >= longest and message.name not in AGAIN:
            last = index
    return last


def termination_start(messages: Sequence[Message], lead: int = LEAD) -> int:
    """The index where the termination phase begins: `lead` messages before the last new data."""
    last = last_new_data(messages)
    return max((len(messages) if last is None else last) - lead, 0)


def thinned(messages: Sequence[Message], alike: int = ALIKE, most: int = MOST) -> list[int | tuple[int, ...]]:
    """Which messages to show, by index, and between them, in tuples, those to leave out.

    Messages are alike if host and name are the same. The first `alike` of each sort are shown, the last of all,
    and those that would be left out alone; should that be more than `most`, only the first and the last ones of them.
    """
    counts: Counter[tuple[str, str]] = Counter()
    shown: list[int] = []
    for index, message in enumerate(messages):
        counts[message.host, message.name] += 1
        if counts[message.host, message.name] <= alike or index == len(messages) - 1:
            shown.append(index)
    alone = [index + 1 for index, next_shown in pairwise([-1, *shown]) if next_shown - index == 2]
    shown = sorted(shown + alone)
    if len(shown) > most:
        shown = shown[: most - _LAST] + shown[-_LAST:]
    steps: list[int | tuple[int, ...]] = []
    following = 0
    for index in shown:
        if index > following:
            steps.append(tuple(range(following, index)))
        steps.append(index)
        following = index + 1
    return steps


def left_out_text(left_out: Sequence[Message]) -> str:
    """123 more like these: 90 CMD FLUSH, 33 CMD CC."""
    names = Counter(message.name for message in left_out).most_common()
    if len(names) == 1:
        return f"{len(left_out)} more like {'this' if len(left_out) == 1 else 'these'}: {names[0][0]}"
    return f"{len(left_out)} more like these: " + ", ".join(f"{count} {name}" for name, count in names)


def termination_lines(
    columns: Columns, messages: Sequence[Message], lead: int = LEAD, alike: int = ALIKE, most: int = MOST
) -> list[str]:
    """The termination phase of a capture, a line a packet; `messages` are its messages. Times are UTC."""
    ending = messages[termination_start(messages, lead) :]
    return [
        _line(columns, ending[step])
        if isinstance(step, int)
        else f"... {left_out_text([ending[index] for index in step])}"
        for step in thinned(ending, alike, most)
    ]


def _line(columns: Columns, message: Message) -> str:
    row = message.frame - 1
    seconds, fraction_ns = divmod(message.time_ns, 1_000_000_000)
    time = f"{datetime.fromtimestamp(seconds, UTC):%H:%M:%S}.{fraction_ns // 1000:06}"
    ends = ((columns.source, columns.source_port), (columns.destination, columns.destination_port))
    source, destination = (_end(columns, row, int(address[row]), int(port[row])) for address, port in ends)
    network = "IP6" if columns.network[row] == 6 else "IP"
    numbers = {number: transport.upper() for transport, number in TRANSPORTS.items()}
    transport = numbers.get(int(columns.protocol[row]), "ICMP")
    what = f"{message.name}: {message.detail}" if message.detail else message.name
    return f"{time} {network} {source} > {destination}: {transport}, length {message.payload_bytes}  {what}"


def _end(columns: Columns, row: int, address: int, port: int) -> str:
    """Address and port as tcpdump writes them; a later fragment has no port."""
    name = columns.addresses[address] if columns.network[row] == 6 else IPv4Address(address)
    return f"{name}.{port}" if port else str(name)


ICMP = "ICMP "
"""The beginning of the name of an error message of a host's kernel, which is no answer of its program."""
MOST_NAMES = 3


@dataclass(frozen=True)
class Unanswered:
    """The messages that arrived intact at a host after its last one. `last` is None if it sent none at all."""

    host: Host
    last: Message | None
    messages: tuple[Message, ...]

    @property
    def text(self) -> str:
        """A sentence: the receiver sent nothing after NAK (frame 7), although 12 EOF arrived, the first as frame 30."""
        names = [*Counter(message.name for message in self.messages).items()]  # in the order of their first
        counts = ", ".join(f"{count} {name}" for name, count in names[:MOST_NAMES])
        more = sum(count for _, count in names[MOST_NAMES:])
        first = self.messages[0]
        after = f" after its {self.last.name}, frame {self.last.frame} of its capture" if self.last else ""
        others = f" and {more} others" if more else ""
        return (
            f"the {self.host} sent nothing{after}, although these arrived: {counts}{others}; the first is "
            f"{first.name}, frame {first.frame} of {first.host}.pcap"
        )


def unanswered(rungs: Sequence[Rung]) -> Unanswered | None:
    """The messages that a host left without any answer; of the host with more of them. None if both sent last."""
    found = [each for host in ("sender", "receiver") if (each := _left_by(host, rungs)).messages]
    return max(found, key=lambda each: len(each.messages), default=None)


def _left_by(host: Host, rungs: Sequence[Rung]) -> Unanswered:
    own = [rung for rung in rungs if rung.message.host == host and not rung.message.name.startswith(ICMP)]
    last = max(own, key=lambda rung: rung.left_ns, default=None)
    after_ns = last.left_ns if last else -1
    arrived = [
        (rung.arrived_ns[0], rung.message)
        for rung in rungs
        if rung.message.host != host and rung.arrived_ns and not rung.is_damaged and rung.arrived_ns[0] > after_ns
    ]
    arrived = [each for each in arrived if not each[1].name.startswith(ICMP)]
    messages = tuple(message for _, message in sorted(arrived, key=lambda each: each[0]))
    return Unanswered(host, last.message if last else None, messages)

"""The conversations in a capture without a description, and which of them is most likely the transfer.

The result is a proposal, which a person looks at and may correct. session.py decides which packets are then counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_network

import numpy as np

from owlt.captures.frames.background import count_background
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.decoding import ODD_1, ODD_2, TRANSPORTS, WITH_PORTS, Transport
from owlt.captures.frames.session import Address, Ports, Session, is_among, port_text, some_are_among

MOST_PORTS = 16
"""Hosts that use more ports than this at both ends cannot be described by their ports."""

MOST_TALKS = 8
"""The most conversations that are named."""
_MOST_FOUND = 1_000
_MOST_KINDS = 8
_LOCAL_GROUPS = (ip_network("224.0.0.0/24"), ip_network("ff02::/16"))
_FEW_PACKETS, _FEW_BITS = 5, 2
_NAMES = {number: transport for transport, number in TRANSPORTS.items()}


class NoTransfer(ValueError):
    """The captures contain no transfer between two hosts; the text says what is missing and how to fix it."""


@dataclass(frozen=True)
class Flow:
    """The packets of a transport from one address and port to another."""

    source: Address
    destination: Address
    transport: Transport
    source_port: int
    destination_port: int
    frames: int

    @property
    def ports(self) -> set[int]:
        """The one or two ports of its packets."""
        return {self.source_port, self.destination_port}


def flows_of(columns: Columns) -> list[Flow]:
    """Every flow of the capture, fragments left out."""
    rows = np.flatnonzero(np.isin(columns.kind, WITH_PORTS))
    wide = [getattr(columns, name)[rows].astype(np.uint64) for name in ("source", "destination")]
    kinds = [getattr(columns, name)[rows].astype(np.uint64) for name in ("network", "kind")]
    ports = [getattr(columns, name)[rows].astype(np.uint64) for name in ("source_port", "destination_port")]
    of_hosts = wide[0] << np.uint64(32) | wide[1]
    of_ports = kinds[0] << np.uint64(40) | kinds[1] << np.uint64(32) | ports[0] << np.uint64(16) | ports[1]
    _, first, frames = np.unique(of_hosts * ODD_1 + of_ports * ODD_2, return_index=True, return_counts=True)
    return [
        Flow(
            _address(columns, int(columns.source[row]), row),
            _address(columns, int(columns.destination[row]), row),
            _NAMES[int(columns.protocol[row])],
            int(columns.source_port[row]),
            int(columns.destination_port[row]),
            count,
        )
        for row, count in zip(rows[first].tolist(), frames.tolist(), strict=True)
    ]


def _address(columns: Columns, number: int, row: int) -> Address:
    return columns.addresses[number] if columns.network[row] == 6 else IPv4Address(number)


@dataclass(frozen=True)
class Known:
    """The user's description of a session, which the proposal keeps; None and {} for unknown values."""

    sender: Address | None = None
    receiver: Address | None = None
    ports: Mapping[Transport, Ports] = field(default_factory=dict)
    """Of each transport with known ports."""

    def has_ports(self, flow: Flow) -> bool:
        """Whether the flow is on one of the ports, if any are known."""
        return not self.ports or some_are_among(flow.ports, self.ports.get(flow.transport, ()))


NOTHING_KNOWN = Known()


@dataclass(frozen=True)
class Talk:
    """Packets between two hosts, or from a host to a group, that have a port in common. `frames` is their number in the
    capture that has more of them."""

    hosts: tuple[Address, Address]
    transport: Transport
    port: int
    frames: int

    @property
    def option(self) -> str:
        """Its name on the command line: tcp/4556."""
        return f"{self.transport}/{self.port}"


def propose_session(captures: Sequence[Columns], known: Known = NOTHING_KNOWN) -> Session:
    """The session of the talk with the most bytes; the host that sent more of them is the sender. Of two captures, the
    first is taken at the sender's port and the second at the receiver's, so each host's packets are read before they
    can be damaged.

    Values in `known` are kept, and the others are inferred from the talks that match them. The session has all packets
    of one transport between the two hosts, on the fewest ports that cover them, and their packets to multicast groups
    on these ports. Raises NoTransfer.
    """
    flows = [flows_of(columns) for columns in captures]
    all_talks: Counter[tuple[Address, Address, Transport]] = Counter()
    for columns in captures:
        all_talks.update(_bytes_by_talk(columns))
    talks = Counter({talk: count for talk, count in all_talks.items() if talk[0] != talk[1]})
    if not talks:
        raise NoTransfer(f"{', '.join(str(columns.path) for columns in captures)}: {_no_talk(captures, all_talks)}")
    whole = [flow for flow in flows if flow]
    at_sender, at_receiver = (whole[0], whole[-1]) if whole else ([], [])
    sender, towards, transport = _biggest(talks, known, flows)
    receiver = towards
    if towards.is_multicast:
        receiver = known.receiver or _partner(at_receiver, sender, towards)
    seen = [f for f in at_sender if f.source == sender] + [f for f in at_receiver if f.source == receiver]
    own = [flow for flow in seen if flow.transport == transport and known.has_ports(flow)]
    ports = known.ports.get(transport) or _fewest_ports(
        [flow for flow in own if flow.destination in (sender, receiver, towards)]
    )
    if not ports:
        raise NoTransfer(
            f"{sender} and {receiver} exchange nothing but IP fragments, which have no ports: name the port of the "
            f"transfer, such as --port {transport}/1113"
        )
    groups = {flow.destination for flow in own if flow.destination.is_multicast and some_are_among(flow.ports, ports)}
    return Session.model_validate(
        {
            "sender_address": sender,
            "receiver_address": receiver,
            **{f"{name}_ports": some for name, some in (*known.ports.items(), (transport, ports))},
            "multicast_groups": tuple(sorted(groups, key=int)),
        }
    )


def with_chosen_groups(session: Session, captures: Sequence[Columns]) -> Session:
    """A session with multicast groups, with the groups added that its hosts chose: groups to which they sent packets
    from or to the session's ports. `captures` are those at the sender's and the receiver's port, or one capture."""
    if not session.multicast_groups:
        return session
    groups = (*session.multicast_groups, *sorted(_unnamed_groups(session, captures), key=int))
    return session.model_copy(update={"multicast_groups": groups})


def suspect_groups(session: Session, captures: Sequence[Columns]) -> list[str]:
    """A sentence for each group to which the hosts sent packets and that the profile does not name, so that no count
    includes these packets. Groups of the local link (mDNS) belong to other programs and are ignored."""
    return [
        f"{frames} packets on the session's ports went to the group {group}, which the session does not include: add "
        f"it to session.multicast_groups in the implementation's profile"
        for group, frames in sorted(_unnamed_groups(session, captures).items(), key=lambda item: int(item[0]))
        if not any(group in network for network in _LOCAL_GROUPS)
    ]


def _unnamed_groups(session: Session, captures: Sequence[Columns]) -> Counter[Address]:
    """The frames to each group that is not in the session, by the host that sent them, at its own port."""
    groups: Counter[Address] = Counter()
    for columns, host in ((captures[0], session.sender_address), (captures[-1], session.receiver_address)):
        for flow in flows_of(columns):
            ports = session.ports.get(flow.transport, ())
            if flow.source == host and flow.destination.is_multicast and some_are_among(flow.ports, ports):
                groups[flow.destination] += flow.frames
    return Counter({group: frames for group, frames in groups.items() if group not in session.multicast_groups})


def _biggest(
    talks: Counter[tuple[Address, Address, Transport]], known: Known, flows: Sequence[Sequence[Flow]]
) -> tuple[Address, Address, Transport]:
    """The sender, the receiver and their transport: in the direction with more bytes, unless the sender is
    known."""
    on_ports = {
        (flow.source, flow.destination, flow.transport) for some in flows for flow in some if known.has_ports(flow)
    }
    named = {address for address in (known.sender, known.receiver) if address is not None}

    def belongs(talk: tuple[Address, Address, Transport]) -> bool:
        source, destination, transport = talk
        if known.ports and on_ports.isdisjoint({talk, (destination, source, transport)}):
            return False
        return named <= {source, destination} or (destination.is_multicast and source in named)

    fitting = [talk for talk in talks if belongs(talk)]
    if not fitting:
        raise NoTransfer(_nothing_of_it(known, flows))
    source, destination, transport = max(fitting, key=lambda talk: talks[talk])
    is_reverse = known.sender == destination or known.receiver == source
    if is_reverse and not destination.is_multicast:
        return destination, source, transport
    return source, destination, transport


def _no_talk(captures: Sequence[Columns], all_talks: Counter[tuple[Address, Address, Transport]]) -> str:
    """Why no two hosts exchange packets."""
    if not any(len(columns) for columns in captures):
        return "no frames; expected a transfer between two hosts"
    if all_talks:
        (address, *_), _ = all_talks.most_common(1)[0]
        return (
            f"every UDP, TCP and SCTP packet goes from an address to itself ({address}), as on a host's loopback "
            f"interface, where owlt cannot tell sender and receiver apart; give each its own address, such as "
            f"127.0.0.1 and 127.0.0.2, or capture between two hosts"
        )
    counts: Counter[str] = sum((count_background(columns, np.arange(len(columns))) for columns in captures), Counter())
    kinds = ", ".join(f"{count} {name}" for name, count in counts.most_common(_MOST_KINDS))
    return (
        f"no readable UDP, TCP or SCTP packets, only frames of these kinds: {kinds}; expected a transfer between two "
        f"hosts, over IP on Ethernet (also with VLAN tags), raw IP or Linux cooked"
    )


def _nothing_of_it(known: Known, flows: Sequence[Sequence[Flow]]) -> str:
    named = [f"{address}" for address in (known.sender, known.receiver) if address is not None]
    ports = [port_text(transport, port) for transport, some in known.ports.items() for port in some]
    of = " and ".join(named)
    expected = (f" from or to {of}" if named else "") + (f" on {', '.join(ports)}" if ports else "")
    return f"no packets{expected}; {captured_text(talks_in(flows))}"


def captured_text(talks: Sequence[Talk]) -> str:
    """The content of a capture in words: the port, the hosts and the number of packets of each talk."""
    if not talks:
        return "captured: no UDP, TCP or SCTP packets"
    named = [
        f"{talk.transport.upper()} {talk.port} between {talk.hosts[0]} and {talk.hosts[1]} "
        f"({talk.frames} {'packet' if talk.frames == 1 else 'packets'})"
        for talk in talks[:MOST_TALKS]
    ]
    more = f", and {len(talks) - MOST_TALKS} more" if len(talks) > MOST_TALKS else ""
    return f"captured: {', '.join(named)}{more}"


def other_talks(captures: Sequence[Columns], session: Session) -> list[Talk]:
    """The talks that are not part of the session, those with more packets first; single packets, which may be damaged
    ones, are left out."""
    others = [
        [flow for flow in flows_of(columns) if not _is_of(flow, session) and flow.source != flow.destination]
        for columns in captures
    ]
    return [talk for talk in talks_in(others) if talk.frames > 1 and not _is_damaged(talk, session)]


def own_talks(captures: Sequence[Columns], session: Session) -> list[Talk]:
    """The talks that make the session."""
    return talks_in([[flow for flow in flows_of(columns) if _is_of(flow, session)] for columns in captures])


def _is_of(flow: Flow, session: Session) -> bool:
    hosts = {session.sender_address, session.receiver_address}
    ports = session.ports.get(flow.transport, ())
    ends = {flow.source, flow.destination}
    return some_are_among(flow.ports, ports) and ends <= hosts | set(session.multicast_groups) and bool(ends & hosts)


def _is_damaged(talk: Talk, session: Session) -> bool:
    """Whether its few packets are the session's with one or two flipped bits in addresses and port."""
    if talk.frames > _FEW_PACKETS:
        return False
    own = [session.sender_address, session.receiver_address]
    ports = session.ports.get(talk.transport, ())
    numbers = [port for port in ports if isinstance(port, int)] + [talk.port] * is_among(talk.port, ports)
    bits = min((port ^ talk.port).bit_count() for port in numbers) if numbers else _FEW_BITS + 1
    ends = [int(host) for host in talk.hosts]
    apart = [
        sum((int(here) ^ end).bit_count() for here, end in zip(hosts, ends, strict=True)) for hosts in (own, own[::-1])
    ]
    return bits + min(apart) <= _FEW_BITS


def talks_in(captures: Sequence[Sequence[Flow]]) -> list[Talk]:
    """The flows of captures, grouped by hosts and by the port that most of their packets have."""
    left: dict[tuple[Transport, tuple[Address, Address]], list[Counter[tuple[int, int]]]] = {}
    for number, flows in enumerate(captures):
        for flow in flows:
            first, second = sorted((flow.source, flow.destination), key=lambda end: (end.is_multicast, int(end)))
            pairs = left.setdefault((flow.transport, (first, second)), [Counter() for _ in captures])
            low, high = sorted((flow.source_port, flow.destination_port))
            pairs[number][low, high] += flow.frames
    talks: list[Talk] = []
    for (transport, hosts), by_capture in left.items():
        most = by_capture[0]
        for other in by_capture[1:]:
            most = most | other
        while most and len(talks) < _MOST_FOUND:
            frames: Counter[int] = Counter()
            for ports, count in most.items():
                for port in set(ports):
                    frames[port] += count
            port = min(frames, key=lambda number: (-frames[number], number))
            talks.append(Talk(hosts, transport, port, frames[port]))
            most = Counter({ports: count for ports, count in most.items() if port not in ports})
    return sorted(talks, key=lambda talk: (-talk.frames, talk.port))


def _bytes_by_talk(columns: Columns) -> Counter[tuple[Address, Address, Transport]]:
    """The bytes of frames from one address to another by each transport, fragments included."""
    rows = np.flatnonzero((columns.network > 0) & np.isin(columns.protocol, list(_NAMES)))
    hosts = columns.source[rows].astype(np.uint64) << np.uint64(32) | columns.destination[rows]
    kinds = columns.network[rows].astype(np.uint64) << np.uint64(8) | columns.protocol[rows]
    _, first, talk = np.unique(hosts * ODD_1 + kinds * ODD_2, return_index=True, return_inverse=True)
    amounts = np.bincount(talk, columns.wire_bytes[rows], len(first)).astype(np.int64)
    counts: Counter[tuple[Address, Address, Transport]] = Counter()
    for row, amount in zip(rows[first].tolist(), amounts.tolist(), strict=True):
        source, destination = (
            _address(columns, int(column[row]), row) for column in (columns.source, columns.destination)
        )
        counts[source, destination, _NAMES[int(columns.protocol[row])]] += amount
    return counts


def _partner(flows: Iterable[Flow], sender: Address, group: Address) -> Address:
    """The host that answers a sender to a group: in the group, or to the sender itself."""
    answers: Counter[Address] = Counter()
    for flow in flows:
        if flow.source != sender and flow.destination in (sender, group):
            answers[flow.source] += flow.frames
    if not answers:
        raise NoTransfer(
            f"{sender} sends to the group {group}, and no host answers, so the receiver is unknown: "
            f"name it with --receiver ADDRESS"
        )
    return answers.most_common(1)[0][0]


def _fewest_ports(flows: Sequence[Flow]) -> tuple[int, ...]:
    """The fewest ports that cover all flows: ports with more frames first; of two with equally many, the lower one.

    A flow that remains at the end and shares no port with any other is a single damaged frame.
    """
    chosen: list[int] = []
    left = list(flows)
    while left:
        frames: Counter[int] = Counter()
        for flow in left:
            for port in flow.ports:
                frames[port] += flow.frames
        port = min(frames, key=lambda number: (-frames[number], number))
        if chosen and frames[port] == 1:
            break
        chosen.append(port)
        left = [flow for flow in left if port not in flow.ports]
        if len(chosen) > MOST_PORTS:
            raise NoTransfer(
                f"{flows[0].source} and {flows[0].destination} use more than {MOST_PORTS} ports, and which of them are "
                f"the transfer's is unknown: name them with --port, such as --port udp/1113"
            )
    return tuple(sorted(chosen))

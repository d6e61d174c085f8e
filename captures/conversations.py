"""Who talks to whom in a capture that nobody described, and which of it is most likely the transfer.

A proposal, which a person looks at and may correct; what is then counted by is session.py's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

import numpy as np

from captures.columns import Columns, Kind
from captures.session import Session

Address = IPv4Address | IPv6Address

MOST_PORTS = 16
"""Who uses more ports at both ends than that cannot be told by them."""

_TCP, _UDP = 6, 17
_ODD_1, _ODD_2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


class NoTransfer(ValueError):
    """Nothing in the captures looks like a transfer between two hosts; the text says what is missing and what to
    do."""


@dataclass(frozen=True)
class Flow:
    """The UDP or TCP packets from one address and port to another."""

    source: Address
    destination: Address
    is_tcp: bool
    source_port: int
    destination_port: int
    frames: int

    @property
    def ports(self) -> set[int]:
        """The one or two ports of its packets."""
        return {self.source_port, self.destination_port}


def flows_of(columns: Columns) -> list[Flow]:
    """Every flow of the capture, fragments left out."""
    rows = np.flatnonzero((columns.kind == Kind.UDP) | (columns.kind == Kind.TCP))
    wide = [getattr(columns, name)[rows].astype(np.uint64) for name in ("source", "destination")]
    kinds = [getattr(columns, name)[rows].astype(np.uint64) for name in ("network", "kind")]
    ports = [getattr(columns, name)[rows].astype(np.uint64) for name in ("source_port", "destination_port")]
    of_hosts = wide[0] << np.uint64(32) | wide[1]
    of_ports = kinds[0] << np.uint64(40) | kinds[1] << np.uint64(32) | ports[0] << np.uint64(16) | ports[1]
    _, first, frames = np.unique(of_hosts * _ODD_1 + of_ports * _ODD_2, return_index=True, return_counts=True)
    return [
        Flow(
            _address(columns, int(columns.source[row]), row),
            _address(columns, int(columns.destination[row]), row),
            bool(columns.kind[row] == Kind.TCP),
            int(columns.source_port[row]),
            int(columns.destination_port[row]),
            count,
        )
        for row, count in zip(rows[first].tolist(), frames.tolist(), strict=True)
    ]


def _address(columns: Columns, number: int, row: int) -> Address:
    return columns.addresses[number] if columns.network[row] == 6 else IPv4Address(number)


def propose_session(captures: Sequence[Columns]) -> Session:
    """The session of the talk with the most bytes: its sender is who sent those. Of two captures the first is taken
    at the sender's port and the second at the receiver's, so that each host's packets are seen before they are
    damaged.

    All UDP packets between the two hosts belong, or all TCP packets, on as few ports as cover them, and what the two
    send to multicast groups on these ports. Raises NoTransfer.
    """
    talks: Counter[tuple[Address, Address, bool]] = Counter()
    for columns in captures:
        talks.update(_bytes_by_talk(columns))
    if not talks:
        names = ", ".join(str(columns.path) for columns in captures)
        raise NoTransfer(f"{names}: got no UDP or TCP packet, wanted a transfer between two hosts")
    at_sender, at_receiver = flows_of(captures[0]), flows_of(captures[-1])
    sender, towards, is_tcp = max(talks, key=lambda talk: talks[talk])
    receiver = _partner(at_receiver, sender, towards) if towards.is_multicast else towards
    seen = [f for f in at_sender if f.source == sender] + [f for f in at_receiver if f.source == receiver]
    flows = [flow for flow in seen if flow.is_tcp == is_tcp]
    ports = _fewest_ports([flow for flow in flows if flow.destination in (sender, receiver, towards)])
    groups = {flow.destination for flow in flows if flow.destination.is_multicast and not flow.ports.isdisjoint(ports)}
    return Session.model_validate(
        {
            "sender_address": sender,
            "receiver_address": receiver,
            "tcp_ports" if is_tcp else "udp_ports": ports,
            "multicast_groups": tuple(sorted(groups, key=int)),
        }
    )


def _bytes_by_talk(columns: Columns) -> Counter[tuple[Address, Address, bool]]:
    """The bytes of frames from one address to another by UDP or by TCP, fragments included."""
    rows = np.flatnonzero((columns.network > 0) & np.isin(columns.protocol, (_TCP, _UDP)))
    hosts = columns.source[rows].astype(np.uint64) << np.uint64(32) | columns.destination[rows]
    kinds = columns.network[rows].astype(np.uint64) << np.uint64(8) | columns.protocol[rows]
    _, first, talk = np.unique(hosts * _ODD_1 + kinds * _ODD_2, return_index=True, return_inverse=True)
    amounts = np.bincount(talk, columns.wire_bytes[rows], len(first)).astype(np.int64)
    found: Counter[tuple[Address, Address, bool]] = Counter()
    for row, amount in zip(rows[first].tolist(), amounts.tolist(), strict=True):
        source, destination = (
            _address(columns, int(column[row]), row) for column in (columns.source, columns.destination)
        )
        found[source, destination, bool(columns.protocol[row] == _TCP)] += amount
    return found


def _partner(flows: Iterable[Flow], sender: Address, group: Address) -> Address:
    """Who answers a sender to a group: there, or to the sender itself."""
    answers: Counter[Address] = Counter()
    for flow in flows:
        if flow.source != sender and flow.destination in (sender, group):
            answers[flow.source] += flow.frames
    if not answers:
        raise NoTransfer(
            f"{sender} sends to the group {group} and nobody answers: who the receiver is cannot be seen; "
            f"name it: --receiver ADDRESS"
        )
    return answers.most_common(1)[0][0]


def _fewest_ports(flows: Sequence[Flow]) -> tuple[int, ...]:
    """Ports of which each flow has one, taken by how many frames they have; the lower of two equals.

    What is left in the end and has no port in common with anything is a single damaged frame.
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
                f"{flows[0].source} and {flows[0].destination} talk on more than {MOST_PORTS} ports: "
                f"which of them are the transfer's cannot be seen; name them: --port udp/1113"
            )
    return tuple(sorted(chosen))

"""The ICMP errors about packets of the session (RFC 792, RFC 4443), as events of the session: "port unreachable" means
that no program listened on the port. Each error quotes the packet that caused it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from owlt.captures.files.blocks import RAW_IP
from owlt.captures.files.pcap import read_frames
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.decoding import TRANSPORTS, Kind
from owlt.captures.frames.packets import find_packet
from owlt.captures.frames.session import HOSTS, Host, Session, is_among
from owlt.captures.protocols.messages import Message

ICMP, ICMPV6 = 1, 58
_HEADER_BYTES = 8
_PREFIX_BYTES = 256
PORT_CLOSED = "ICMP port unreachable"
_UNREACHABLE = {0: "network unreachable", 1: "host unreachable", 2: "protocol unreachable", 3: "port unreachable"}
_UNREACHABLE |= {4: "fragmentation needed", 9: "prohibited", 10: "prohibited", 13: "prohibited"}
_UNREACHABLE_IPV6 = {0: "no route", 1: "prohibited", 3: "host unreachable", 4: "port unreachable"}
_OTHERS = {(ICMP, 11): "time exceeded", (ICMPV6, 2): "packet too big", (ICMPV6, 3): "time exceeded"}


def icmp_errors(columns: Columns, session: Session) -> Iterator[Message]:
    """The ICMP errors that a host of the session sent about its packets; `detail` is the destination port of the
    packet.

    Raises OSError.
    """
    is_icmp = (columns.kind == Kind.ICMP) | ((columns.kind == Kind.IPV6) & (columns.protocol == ICMPV6))
    rows = np.flatnonzero(is_icmp)
    lengths = np.minimum(columns.captured_bytes[rows], np.uint32(_PREFIX_BYTES))
    hosts: dict[str, Host] = {str(session.address(host)): host for host in HOSTS}
    for row, frame in zip(rows.tolist(), read_frames(columns.path, columns.offset[rows], lengths), strict=True):
        wire_bytes = int(columns.wire_bytes[row])
        packet = find_packet(frame, wire_bytes, columns.link_type)
        if isinstance(packet, int) or packet.source not in hosts or len(frame) < packet.body + _HEADER_BYTES:
            continue
        name = _name(packet.protocol, *frame[packet.body : packet.body + 2])
        port = _quoted_port(frame[packet.body + _HEADER_BYTES :], session) if name else ""
        if port:
            at_ns, payload_bytes = int(columns.time_ns[row]), packet.end - packet.body
            yield Message(row + 1, at_ns, hosts[packet.source], wire_bytes, payload_bytes, name, port)


def _name(protocol: int, kind: int, code: int) -> str:
    """The name of an ICMP error; "" for other ICMP messages."""
    if (protocol, kind) == (ICMP, 3):
        return f"ICMP {_UNREACHABLE.get(code, 'unreachable')}"
    if (protocol, kind) == (ICMPV6, 1):
        return f"ICMP {_UNREACHABLE_IPV6.get(code, 'unreachable')}"
    return f"ICMP {text}" if (text := _OTHERS.get((protocol, kind))) else ""


def _quoted_port(quoted: bytes, session: Session) -> str:
    """The port to which the quoted packet went, "udp/7777"; "" if it is not of the session."""
    packet = find_packet(quoted, len(quoted), RAW_IP)
    if isinstance(packet, int) or len(quoted) < packet.body + 4:
        return ""
    source, destination = (int.from_bytes(quoted[at : at + 2]) for at in (packet.body, packet.body + 2))
    ends = {str(session.address(host)) for host in HOSTS}
    return next(
        (
            f"{transport}/{destination}"
            for transport, ports in session.ports.items()
            if packet.protocol == TRANSPORTS[transport] and packet.source in ends
            if is_among(source, ports) or is_among(destination, ports)
        ),
        "",
    )

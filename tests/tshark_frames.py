"""A capture frame by frame, as tshark reads it and as the columns have it, to be held against each other.

tshark reassembles nothing here, and of fields that occur several times the first is taken: the outermost header's. Of
a header that the packet carries further in (quoted by ICMP, in a tunnel) nothing is taken.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from ipaddress import IPv4Address
from pathlib import Path

from owlt.captures.frames.columns import Columns
from owlt.captures.frames.decoding import Kind
from tests.conftest import require_command

_FIELDS = {
    "time": "frame.time_epoch",
    "captured": "frame.cap_len",
    "wire": "frame.len",
    "protocols": "frame.protocols",
    "source4": "ip.src",
    "destination4": "ip.dst",
    "protocol4": "ip.proto",
    "identification": "ip.id",
    "more4": "ip.flags.mf",
    "offset4": "ip.frag_offset",
    "source6": "ipv6.src",
    "destination6": "ipv6.dst",
    "more6": "ipv6.fraghdr.more",
    "offset6": "ipv6.fraghdr.offset",
    "encapsulation": "frame.encap_type",
    "length4": "ip.len",
    "header4": "ip.hdr_len",
    "length6": "ipv6.plen",
    "ipv6": "ipv6.nxt",
    "ipv6.hopopts": "ipv6.hopopts.nxt",
    "ipv6.dstopts": "ipv6.dstopts.nxt",
    "ipv6.routing": "ipv6.routing.nxt",
    "ipv6.fraghdr": "ipv6.fraghdr.nxt",
    "udp_source": "udp.srcport",
    "udp_destination": "udp.dstport",
    "udp_length": "udp.length",
    "sctp_source": "sctp.srcport",
    "sctp_destination": "sctp.dstport",
    "tcp_source": "tcp.srcport",
    "tcp_destination": "tcp.dstport",
    "sequence": "tcp.seq_raw",
    "acknowledgment": "tcp.ack_raw",
    "flags": "tcp.flags",
    "window": "tcp.window_size_value",
    "tcp_payload": "tcp.len",
    "tcp_header": "tcp.hdr_len",
}
_PREFERENCES = (
    "ip.defragment:FALSE",
    "ipv6.defragment:FALSE",
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.relative_sequence_numbers:FALSE",
)
_LINK = {"eth", "ethertype", "vlan", "ieee8021ad", "raw", "sll"}
_LINK_BYTES = {"eth": 14, "vlan": 4, "ieee8021ad": 4, "sll": 16}
_COOKED_2 = "210"
"""Wireshark's number of Linux cooked, version 2, whose header is longer."""
_IPV6_BYTES, _UDP_BYTES, _TCP_BYTES, _SCTP_BYTES = 40, 8, 20, 12
_TRANSPORTS = ("udp", "tcp", "sctp")
_CUSTOM_BLOCK = "data"
"""A pcapng's custom block, which tshark numbers as a frame; it has no link's header."""


@dataclass(frozen=True)
class Frame:
    """One frame; 0 or "" where it has no such field. `network` is 4 or 6 where both addresses can be read, or 0.

    Payload is what the packet carries behind UDP or TCP by the least of the lengths in its headers, and never beyond
    the frame's end. None: tshark reads no such number from a header that cannot be true or is cut.
    """

    time_ns: int
    captured_bytes: int
    wire_bytes: int
    protocols: str = field(compare=False)
    """The layers that tshark sees; not known of columns."""
    network: int
    source: str
    destination: str
    protocol: int | None
    identification: int
    is_fragment: bool
    source_port: int
    destination_port: int
    payload_bytes: int | None
    sequence: int | None
    acknowledgment: int | None
    tcp_flags: int | None
    window: int | None


NUMBERS = (
    "time_ns",
    "captured_bytes",
    "wire_bytes",
    "network",
    "protocol",
    "identification",
    "source_port",
    "destination_port",
    "payload_bytes",
    "sequence",
    "acknowledgment",
    "tcp_flags",
    "window",
)
"""The fields of a frame that are columns of the same name."""


def frames_of(columns: Columns) -> list[Frame]:
    """The frames as the columns have them."""
    addresses = {end: _addresses(columns, end) for end in ("source", "destination")}
    is_fragment = (columns.kind == Kind.FRAGMENT).tolist()
    numbers = zip(*(getattr(columns, name).tolist() for name in NUMBERS), strict=True)
    rows = zip(numbers, addresses["source"], addresses["destination"], is_fragment, strict=True)
    return [
        Frame(
            protocols="",
            source=source,
            destination=destination,
            is_fragment=fragment,
            **dict(zip(NUMBERS, row, strict=True)),
        )
        for row, source, destination, fragment in rows
    ]


def _addresses(columns: Columns, end: str) -> list[str]:
    numbers = zip(columns.network.tolist(), getattr(columns, end).tolist(), strict=True)
    return [
        str(IPv4Address(number)) if network == 4 else str(columns.addresses[number]) if network == 6 else ""
        for network, number in numbers
    ]


def differences(ours: list[Frame], theirs: list[Frame], names: Iterable[str] = ()) -> list[str]:
    """What the columns say otherwise than tshark, of these fields or of all: a line each, by the frame's number."""
    names = list(names) or [each.name for each in fields(Frame) if each.compare]
    found = [] if len(ours) == len(theirs) else [f"{len(ours)} frames, and tshark reads {len(theirs)}"]
    for number, (own, other) in enumerate(zip(ours, theirs, strict=False), 1):
        pairs = ((name, getattr(own, name), getattr(other, name)) for name in names)
        found += [
            f"frame {number} ({other.protocols}): {name} {mine!r}, and tshark says {told!r}"
            for name, mine, told in pairs
            if told is not None and mine != told
        ]
    return found


def read_with_tshark(capture: Path) -> tuple[list[Frame], str]:
    """The frames, and what tshark complains of."""
    command = [require_command("tshark"), "-n", "-r", str(capture), "-T", "fields", "-E", "occurrence=f"]
    for preference in _PREFERENCES:
        command += ["-o", preference]
    for name in _FIELDS.values():
        command += ["-e", name]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    rows = [dict(zip(_FIELDS, line.split("\t"), strict=True)) for line in told.stdout.splitlines()]
    frames = [_frame(row) for row in rows if row["protocols"] != _CUSTOM_BLOCK]
    return frames, "\n".join(line for line in told.stderr.splitlines() if not line.startswith("Running as"))


def _frame(told: dict[str, str]) -> Frame:
    layers = [layer for layer in told["protocols"].split(":") if layer not in _LINK]
    network = {"ip": 4, "ipv6": 6}.get(layers[0] if layers else "", 0)
    if not told.get(f"destination{network}") or _ends_within_ipv4(told, network):
        network = 0
    carried = [layer for layer in layers[1:] if not layer.startswith("ipv6.")]
    is_fragment = (network == 4 and (told["more4"] == "1" or _number(told["offset4"]) > 0)) or (
        network == 6 and (told["more6"] == "1" or _number(told["offset6"]) > 0)
    )
    transport = carried[0] if network and carried and not is_fragment else ""
    tcp = transport == "tcp"
    is_bogus = tcp and bool(told["tcp_header"]) and _number(told["tcp_header"]) < _TCP_BYTES
    extensions = [layer for layer in layers if layer.startswith("ipv6.")]
    is_cut_in_extensions = bool(extensions) and not carried and told["captured"] != told["wire"]
    seconds, _, rest = told["time"].partition(".")
    return Frame(
        time_ns=_number(seconds) * 10**9 + _number(rest.ljust(9, "0")),
        captured_bytes=_number(told["captured"]),
        wire_bytes=_number(told["wire"]),
        protocols=told["protocols"],
        network=network,
        source=told[f"source{network}"] if network else "",
        destination=told[f"destination{network}"] if network else "",
        protocol=None
        if is_cut_in_extensions
        else _number({0: "", 4: told["protocol4"], 6: told[["ipv6", *extensions][-1]]}[network]),
        identification=_number(told["identification"]) if network == 4 else 0,
        is_fragment=is_fragment,
        source_port=_number(told[f"{transport}_source"] if transport in _TRANSPORTS else ""),
        destination_port=_number(told[f"{transport}_destination"] if transport in _TRANSPORTS else ""),
        payload_bytes=None if is_bogus else _payload(told, layers, transport),
        sequence=_of_tcp(told["sequence"], tcp),
        acknowledgment=_of_tcp(told["acknowledgment"], tcp),
        tcp_flags=_of_tcp(told["flags"], tcp),
        window=_of_tcp(told["window"], tcp),
    )


def _ends_within_ipv4(told: dict[str, str], network: int) -> bool:
    """Whether the capture has not all of an IPv4 header: owlt takes such a packet for none, tshark reads what is there
    (owlt.captures.frames.session says so)."""
    return network == 4 and _number(told["captured"]) < _link_bytes(told) + _number(told["header4"])


def _link_bytes(told: dict[str, str]) -> int:
    in_layers = sum(_LINK_BYTES.get(layer, 0) for layer in told["protocols"].split(":"))
    return in_layers + 4 * (told["encapsulation"] == _COOKED_2)


def _payload(told: dict[str, str], layers: list[str], transport: str) -> int:
    told_by = {"udp": "udp_length", "tcp": "tcp_payload", "sctp": "sctp_source"}
    if transport not in told_by or not told[told_by[transport]]:
        return 0
    header = _number(told["header4"]) if layers[0] == "ip" else _IPV6_BYTES
    in_frame = _number(told["wire"]) - _link_bytes(told) - header
    in_packet = _number(told["length4"]) - header if layers[0] == "ip" else _number(told["length6"])
    room = min(in_frame, in_packet) if in_packet > 0 else in_frame
    if transport == "udp":
        return max(min(_number(told["udp_length"]), room) - _UDP_BYTES, 0)
    if transport == "sctp":
        return max(room - _SCTP_BYTES, 0)
    return max(min(_number(told["tcp_payload"]), room - _number(told["tcp_header"])), 0)


def _of_tcp(text: str, tcp: bool) -> int | None:
    return None if tcp and not text else _number(text) if tcp else 0


def _number(text: str) -> int:
    return int(text, 0) if text.startswith("0x") else int(text or "0")

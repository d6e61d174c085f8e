"""Captures as they are published: every format, link type and header that owlt claims to read, and what hosts and cards
do to packets before they are captured. Octets are put together by hand: nothing of the code under test.

`capture(seed)` is the same file each time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from random import Random

from tests.unit.captures.golden import pcapng
from tests.unit.captures.making import RECEIVER, RECEIVER_6, SENDER, SENDER_6, START_NS, flip

ETHERNET, RAW, COOKED, RAW_4, RAW_6, COOKED_2 = 1, 101, 113, 228, 229, 276
LINKS = (ETHERNET, RAW, COOKED, RAW_4, RAW_6, COOKED_2)
UDP_PORT, TCP_PORT, EPHEMERAL = 5222, 5223, 50_000
_IPV4, _IPV6, _VLAN, _QINQ, _MPLS, _PPPOE = 0x0800, 0x86DD, 0x8100, 0x88A8, 0x8847, 0x8864
_TCP, _UDP, _GRE, _IPIP, _ICMP = 6, 17, 47, 4, 1
_HOP_BY_HOP, _ROUTING, _FRAGMENT, _DESTINATION = 0, 43, 44, 60
_MACS = (bytes.fromhex("020000000001"), bytes.fromhex("020000000002"))
_OPTIONS_4 = (b"", b"\x01" * 4, b"\x94\x04\0\0", b"\x07\x17\x04" + bytes(20) + b"\0", b"\x01" * 40)
_OPTIONS_TCP = (b"", b"\x01\x01\x08\x0a" + bytes(8), b"\x02\x04\x05\xb4\x04\x02\x01\x01", b"\x01" * 40)


def checksum(octets: bytes) -> int:
    """RFC 1071, before it is complemented."""
    total = sum(struct.unpack(f"!{(len(octets) + 1) // 2}H", octets + bytes(len(octets) % 2)))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


@dataclass
class Host:
    """A sending host: its offloads and its counters."""

    chance: Random
    checksums: str = "right"
    identification: int = 0
    sequence: int = 0


@dataclass
class Packet:
    """An IP packet: its source and its octets. `wire_more` more octets were on the wire and are not captured."""

    is_sender: bool
    network: int
    octets: bytes


@dataclass(frozen=True)
class Style:
    """The properties of a capture."""

    chance: Random
    link: int
    scenario: str
    host: Host = field(repr=False)


def _ends(is_sender: bool, network: int) -> tuple[bytes, bytes]:
    names = (SENDER, RECEIVER) if network == 4 else (SENDER_6, RECEIVER_6)
    packed = [(IPv4Address if network == 4 else IPv6Address)(name).packed for name in names]
    return (packed[0], packed[1]) if is_sender else (packed[1], packed[0])


def _with_checksum(host: Host, ends: tuple[bytes, bytes], protocol: int, segment: bytes, at: int) -> bytes:
    pseudo = b"".join(ends) + struct.pack("!HI", protocol, len(segment))
    value = {
        "right": lambda: checksum(pseudo + segment) ^ 0xFFFF or 0xFFFF,
        "offloaded": lambda: checksum(pseudo),
        "none": lambda: 0,
    }[host.checksums]()
    return segment[:at] + struct.pack("!H", value) + segment[at + 2 :]


def udp(host: Host, is_sender: bool, network: int, payload: bytes, claimed: int | None = None) -> bytes:
    """A datagram of the session, or once in a while of another port."""
    ports = (EPHEMERAL, UDP_PORT if host.chance.random() < 0.9 else UDP_PORT + 1000)
    length = 8 + len(payload) if claimed is None else claimed
    segment = struct.pack("!4H", *(ports if is_sender else ports[::-1]), length & 0xFFFF, 0) + payload
    return _with_checksum(host, _ends(is_sender, network), _UDP, segment, 6)


def tcp(host: Host, is_sender: bool, network: int, payload: bytes, flags: int = 0x10) -> bytes:
    """A segment of the session."""
    options = host.chance.choice(_OPTIONS_TCP)
    ports = (EPHEMERAL, TCP_PORT) if is_sender else (TCP_PORT, EPHEMERAL)
    numbers = (host.sequence % 2**32, host.chance.getrandbits(32))
    head = struct.pack(
        "!HHIIHHHH", *ports, *numbers, (5 + len(options) // 4) << 12 | flags, host.chance.getrandbits(16), 0, 0
    )
    host.sequence += len(payload)
    return _with_checksum(host, _ends(is_sender, network), _TCP, head + options + payload, 16)


def ipv4(
    host: Host, is_sender: bool, protocol: int, body: bytes, fragment: int = 0, length: int | None = None
) -> Packet:
    """A packet with any options; `length` is what its header claims."""
    chance, options = host.chance, host.chance.choice((b"", b"", *_OPTIONS_4))
    host.identification = host.identification % 0xFFFF + 1
    total = 20 + len(options) + len(body) if length is None else length
    head = struct.pack(
        "!BBHHHBBH",
        0x45 + len(options) // 4,
        chance.choice((0, 0, 2, 3, 0xB8)),
        total & 0xFFFF,
        host.identification,
        fragment,
        chance.randrange(1, 255),
        protocol,
        0,
    )
    head += b"".join(_ends(is_sender, 4)) + options
    head = head[:10] + struct.pack("!H", checksum(head) ^ 0xFFFF) + head[12:]
    return Packet(is_sender, 4, head + body)


def ipv6(
    host: Host,
    is_sender: bool,
    protocol: int,
    body: bytes,
    extensions: Sequence[int] = (),
    fragment: int = 0,
    length: int | None = None,
) -> Packet:
    """A packet with these extension headers; `fragment` are offset and flag, if `_FRAGMENT` is one of them."""
    following, rest = protocol, body
    for kind in reversed(extensions):
        if kind == _FRAGMENT:
            rest = struct.pack("!BBHI", following, 0, fragment, 77) + rest
        elif kind == _ROUTING:
            rest = struct.pack("!BBBBI", following, 2, 0, 0, 0) + IPv6Address(RECEIVER_6).packed + rest
        else:
            rest = struct.pack("!BB", following, 0) + b"\x01\x04" + bytes(4) + rest
        following = kind
    claimed = len(rest) if length is None else length
    tos = host.chance.choice((0, 0, 2, 3))
    head = struct.pack("!IHBB", 6 << 28 | tos << 20, claimed & 0xFFFF, following, 64)
    return Packet(is_sender, 6, head + b"".join(_ends(is_sender, 6)) + rest)


def _size(chance: Random) -> int:
    return chance.choice((0, 1, 2, 7, 18, 40, 200, 1000, 1400))


def _transport(style: Style, is_sender: bool, network: int, size: int) -> tuple[int, bytes]:
    payload = style.chance.randbytes(size)
    if style.chance.random() < 0.5:
        return _UDP, udp(style.host, is_sender, network, payload)
    return _TCP, tcp(style.host, is_sender, network, payload, style.chance.choice((0x10, 0x18, 0x02, 0x12, 0x11, 0xD8)))


def _network(style: Style) -> int:
    return {RAW_4: 4, RAW_6: 6}.get(style.link) or style.chance.choice((4, 4, 6))


def plain(style: Style) -> list[Packet]:
    """A datagram or a segment."""
    is_sender, network = style.chance.random() < 0.7, _network(style)
    protocol, body = _transport(style, is_sender, network, _size(style.chance))
    return [(ipv4 if network == 4 else ipv6)(style.host, is_sender, protocol, body)]


def extended(style: Style) -> list[Packet]:
    """Behind extension headers, or of another protocol."""
    is_sender, network = style.chance.random() < 0.7, _network(style)
    protocol, body = _transport(style, is_sender, network, _size(style.chance))
    if network == 4:
        return [ipv4(style.host, is_sender, style.chance.choice((protocol, _ICMP, 132, 2)), body)]
    kinds = style.chance.sample((_HOP_BY_HOP, _DESTINATION, _ROUTING, _FRAGMENT), style.chance.randrange(4))
    kinds.sort(key=lambda kind: kind != _HOP_BY_HOP)
    return [ipv6(style.host, is_sender, protocol, body, kinds)]


def fragments(style: Style) -> list[Packet]:
    """A datagram or a segment in pieces, in any order."""
    is_sender, network = style.chance.random() < 0.7, _network(style)
    protocol, body = _transport(style, is_sender, network, 1200)
    pieces = []
    for at in range(0, len(body), 400):
        part, more = body[at : at + 400], at + 400 < len(body)
        if network == 4:
            style.host.identification -= at > 0
            pieces.append(ipv4(style.host, is_sender, protocol, part, more << 13 | at // 8))
        else:
            pieces.append(ipv6(style.host, is_sender, protocol, part, [_FRAGMENT], at // 8 << 3 | more))
    style.chance.shuffle(pieces)
    return pieces


def segmented(style: Style) -> list[Packet]:
    """A segment before segmentation or after reassembly by a card: 3 to 60 kB, or more than a length field holds."""
    is_sender, network = style.chance.random() < 0.7, _network(style)
    size = style.chance.choice((2_960, 14_600, 60_000, 80_000))
    segment = tcp(style.host, is_sender, network, style.chance.randbytes(16) + bytes(size - 16), 0x18)
    if network == 4:
        is_unknown = size > 60_000 or style.chance.random() < 0.3
        return [ipv4(style.host, is_sender, _TCP, segment, length=0 if is_unknown else None)]
    if size <= 60_000:
        return [ipv6(style.host, is_sender, _TCP, segment)]
    option = struct.pack("!BBBBI", _TCP, 0, 0xC2, 4, len(segment) + 8)
    return [ipv6(style.host, is_sender, _HOP_BY_HOP, option + segment, length=0)]


def misstated(style: Style) -> list[Packet]:
    """Lengths that are too long or too short, in IP and in UDP."""
    is_sender, network, chance = style.chance.random() < 0.7, _network(style), style.chance
    payload = chance.randbytes(40)
    body = udp(style.host, is_sender, network, payload, chance.choice((48, 60, 20, 8, 300)))
    length = chance.choice((None, -6, 10, 0))
    if network == 4:
        claimed = None if length is None else 20 + len(body) + length if length else 0
        packet = ipv4(style.host, is_sender, _UDP, body, length=claimed)
        return [packet] if packet.octets[0] == 0x45 else plain(style)
    return [ipv6(style.host, is_sender, _UDP, body, length=None if not length else len(body) + length)]


def reused(style: Style) -> list[Packet]:
    """A new connection on ports that were used before: another initial sequence number."""
    network = _network(style)
    style.host.sequence = style.chance.getrandbits(32)
    make = ipv4 if network == 4 else ipv6
    made = [make(style.host, True, _TCP, tcp(style.host, True, network, b"", 0x02))]
    style.host.sequence += 1
    sizes = [style.chance.choice((0, 10, 1400)) for _ in range(style.chance.randrange(1, 4))]
    made += [make(style.host, True, _TCP, tcp(style.host, True, network, bytes(size), 0x18)) for size in sizes]
    return [*made, make(style.host, True, _TCP, tcp(style.host, True, network, b"", style.chance.choice((0x11, 0x04))))]


def tunnelled(style: Style) -> list[Packet]:
    """GRE and IP in IP, whose contents are not examined."""
    if style.link == RAW_6:
        return plain(style)
    is_sender = style.chance.random() < 0.7
    inner = ipv4(style.host, is_sender, _UDP, udp(style.host, is_sender, 4, bytes(30))).octets
    if style.chance.random() < 0.5:
        return [ipv4(style.host, is_sender, _IPIP, inner)]
    return [ipv4(style.host, is_sender, _GRE, struct.pack("!HH", 0, _IPV4) + inner)]


SCENARIOS: dict[str, Callable[[Style], list[Packet]]] = {
    "plain": plain,
    "offloaded": plain,
    "without checksums": plain,
    "tagged": plain,
    "labelled": plain,
    "padded": plain,
    "extended": extended,
    "fragments": fragments,
    "segmented": segmented,
    "misstated": misstated,
    "ports again": reused,
    "tunnelled": tunnelled,
    "twice": plain,
    "in disorder": plain,
    "cut": plain,
    "cut in headers": extended,
}
_CHECKSUMS = {"offloaded": "offloaded", "without checksums": "none", "segmented": "offloaded"}


def frame(style: Style, packet: Packet) -> bytes:
    """The packet with a link header before it."""
    chance, kind = style.chance, _IPV4 if packet.network == 4 else _IPV6
    if style.link in (RAW, RAW_4, RAW_6):
        return packet.octets
    if style.link == COOKED:
        return struct.pack("!HHH6sHH", chance.choice((0, 4)), 1, 6, _MACS[0], 0, kind) + packet.octets
    if style.link == COOKED_2:
        return struct.pack("!HHIHBB6sH", kind, 0, chance.randrange(1, 4), 1, 0, 6, _MACS[0], 0) + packet.octets
    types, rest = b"", packet.octets
    if style.scenario == "tagged" and chance.random() < 0.8:
        tags = chance.choice(((_VLAN,), (_QINQ, _VLAN), (_VLAN, _VLAN), (_QINQ, _QINQ, _VLAN)))
        types = b"".join(struct.pack("!HH", tag, chance.getrandbits(16)) for tag in tags)
    if style.scenario == "labelled" and chance.random() < 0.7:
        if chance.random() < 0.5:
            kind, rest = _MPLS, struct.pack("!I", 16 << 12 | 1 << 8 | 64) + rest
        else:
            protocol = 0x21 if kind == _IPV4 else 0x57
            kind, rest = _PPPOE, struct.pack("!BBHHH", 0x11, 0, 7, len(rest) + 2, protocol) + rest
    octets = b"".join(_MACS if not packet.is_sender else _MACS[::-1]) + types + struct.pack("!H", kind) + rest
    return octets + bytes(max(60 - len(octets), 0) + chance.choice((0, 4))) if style.scenario == "padded" else octets


Timed = tuple[int, int, bytes]
"""Time in ns, interface, frame."""


def _timed(style: Style, number: int, link: int, count: int) -> list[Timed]:
    """Some frames of one interface, in the order in which the file has them."""
    own = Style(style.chance, link, style.scenario, style.host)
    packets = [packet for _ in range(count) for packet in SCENARIOS[style.scenario](own)]
    times_ns = sorted(START_NS + style.chance.randrange(10**10) for _ in packets)
    frames = [(time, number, frame(own, packet)) for time, packet in zip(times_ns, packets, strict=True)]
    if style.scenario == "twice":
        frames = [(at_ns, number, octets) for time, _, octets in frames for at_ns in (time, time + 1_500)]
    if style.scenario == "in disorder":
        style.chance.shuffle(frames)
    return frames


def _pcap(style: Style, snaplen: int) -> bytes:
    order, tick_ns = style.chance.choice("<>"), style.chance.choice((1, 1000))
    magic = 0xA1B23C4D if tick_ns == 1 else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, style.link)]
    for time_ns, _, octets in _timed(style, 0, style.link, style.chance.randrange(8, 20)):
        seconds, rest_ns = divmod(time_ns, 10**9)
        kept = octets[:snaplen]
        parts.append(struct.pack(order + "4I", seconds, rest_ns // tick_ns, len(kept), len(octets)) + kept)
    return b"".join(parts)


_RESOLUTIONS: dict[bytes, int] = {b"": 10**6, b"\x09": 10**9, b"\x03": 10**3, b"\x06": 10**6, b"\x94": 2**20}


def _pcapng(style: Style, snaplen: int) -> bytes:
    """One section or two, each with its own interfaces, of one or several link types."""
    chance = style.chance
    return b"".join(_section(style, snaplen, chance.choice("<>")) for _ in range(chance.choice((1, 1, 1, 2))))


def _section(style: Style, snaplen: int, order: str) -> bytes:
    chance = style.chance
    resolutions = [chance.choice(list(_RESOLUTIONS)) for _ in range(chance.randrange(1, 4))]
    links = [style.link if n == 0 or chance.random() < 0.6 else chance.choice(LINKS) for n in range(len(resolutions))]
    parts = [pcapng.section([(pcapng.COMMENT, b"public")] if chance.random() < 0.3 else [], order)]
    for resolution, link in zip(resolutions, links, strict=True):
        options = [(pcapng.RESOLUTION, resolution)] if resolution else []
        parts.append(pcapng.interface(options, order, snaplen, link))
    frames = [
        each for number, link in enumerate(links) for each in _timed(style, number, link, chance.randrange(4, 10))
    ]
    if style.scenario != "in disorder":
        frames.sort(key=lambda each: each[0])
    for time_ns, number, octets in frames:
        parts.append(_block(chance, time_ns, number, octets, order, snaplen, _RESOLUTIONS[resolutions[number]]))
        parts.append(_beside(chance, time_ns, order))
    return b"".join(parts)


def _block(chance: Random, time_ns: int, number: int, octets: bytes, order: str, snaplen: int, per_s: int) -> bytes:
    kind = chance.random()
    ticks, kept = time_ns * per_s // 10**9, octets[:snaplen]
    if number == 0 and kind < 0.1:
        body = struct.pack(order + "I", len(octets)) + pcapng.padded(kept)
        return pcapng.block(pcapng.SIMPLE_PACKET, body, order)
    if kind < 0.2:
        head = struct.pack(order + "HH4I", number, 0xFFFF, ticks >> 32, ticks & 0xFFFFFFFF, len(kept), len(octets))
        return pcapng.block(pcapng.OLD_PACKET, head + pcapng.padded(kept), order)
    options = [(pcapng.COMMENT, b"a packet")] if kind > 0.9 else []
    return pcapng.packet(ticks, kept, number, options, order, len(octets))


def _beside(chance: Random, time_ns: int, order: str) -> bytes:
    """Blocks between packets, mostly none."""
    kind = chance.random()
    if kind < 0.03:
        return pcapng.block(chance.choice((0x0BAD, 0x40000BAD)), struct.pack(order + "I", 32473) + b"anything", order)
    if kind < 0.05:
        return pcapng.statistics(time_ns // 1000, 0, 0, order=order)
    if kind < 0.07:
        return pcapng.block(0x7FFFFFF0, b"unknown", order)
    return b""


@dataclass(frozen=True)
class Capture:
    """A file and its properties."""

    name: str
    octets: bytes


def capture(seed: int) -> Capture:
    """The capture of this number: scenarios and link types in turns, the rest by chance."""
    chance = Random(seed)
    names = list(SCENARIOS)
    scenario, link = names[seed % len(names)], LINKS[seed // len(names) % len(LINKS)]
    if scenario in ("tagged", "labelled", "padded"):
        link = ETHERNET
    host = Host(chance, _CHECKSUMS.get(scenario, "right"), sequence=chance.getrandbits(32))
    style = Style(chance, link, scenario, host)
    snaplen = {"cut": chance.randrange(120, 300), "cut in headers": chance.randrange(20, 120)}.get(scenario, 262_144)
    is_pcapng = chance.random() < 0.5
    octets = (_pcapng if is_pcapng else _pcap)(style, snaplen)
    return Capture(f"{seed}-{scenario.replace(' ', '-')}-{link}.{'pcapng' if is_pcapng else 'pcap'}", octets)


@dataclass(frozen=True)
class Pair:
    """The packets that a host sent, the packets that arrived, and the effects of the channel: `fates` in the order of
    sending; `duplicated`, `marked` and `reordered` (among packets of the same network) are numbers of packets."""

    name: str
    sent: bytes
    arrived: bytes
    fates: list[str]
    duplicated: int
    marked: int
    reordered: int


OWD_NS = 25_000_000
PAIRS = (
    *("plain", "card", "router", "card and router", "queue", "other link", "in disorder", "damage", "damage and card"),
    *("padding", "damage and padding", "cut", "cut and card"),
)


def pair(seed: int) -> Pair:
    """A pair of captures: what is done to packets in turns, the rest by chance."""
    chance, kind = Random(seed), PAIRS[seed % len(PAIRS)]
    host = Host(chance, "offloaded" if "card" in kind else "right", sequence=chance.getrandbits(32))
    style = Style(chance, ETHERNET, "plain", host)
    far_link = chance.choice((RAW, COOKED, COOKED_2)) if kind == "other link" else ETHERNET
    snaplen = 128 if "cut" in kind else 262_144
    jitter_ns = 5_000_000 if seed // len(PAIRS) % 2 else 0
    near: list[tuple[int, bytes]] = []
    far: list[tuple[int, int, bytes]] = []
    networks: list[int] = []
    fates: list[str] = []
    duplicated = marked = 0
    for number in range(60):
        network = 4 if chance.random() < 0.7 else 6
        networks.append(network)
        state = chance.getstate(), host.identification, host.sequence
        packet = _unlike(style, network)
        near.append((START_NS + number * 1_000_000, frame(style, packet)))
        if chance.random() < 0.1:
            fates.append("lost")
            continue
        octets = packet.octets
        if "card" in kind:
            after = chance.getstate(), host.identification, host.sequence
            chance.setstate(state[0])
            host.identification, host.sequence, host.checksums = state[1], state[2], "right"
            octets = _unlike(style, network).octets
            chance.setstate(after[0])
            host.identification, host.sequence, host.checksums = after[1], after[2], "offloaded"
        is_marked = kind == "queue" and chance.random() < 0.3 and _ecn(octets) in (1, 2)
        octets = _rewritten(octets, is_marked, "router" in kind)
        arrived = frame(Style(chance, far_link, "plain", host), Packet(True, network, octets))
        if "router" in kind:
            arrived = bytes.fromhex("020000000011020000000012") + arrived[12:]
        if "padding" in kind:
            arrived = arrived.ljust(60, b"\0")
        is_hit = "damage" in kind and chance.random() < 0.2
        if is_hit:
            place = chance.randrange(8 * len(near[-1][1]))
            arrived = flip(arrived, place)
        at_ns = near[-1][0] + OWD_NS + (chance.randrange(jitter_ns) if jitter_ns else 0)
        far.append((at_ns, number, arrived))
        if not is_hit and chance.random() < 0.05:
            duplicated += 1
            far.append((at_ns + 10_000, number, arrived))
        marked += is_marked
        fates.append("corrupted" if is_hit else "delivered")
    order = sorted(range(len(far)), key=lambda index: far[index][0])
    places = list(dict.fromkeys(far[index][1] for index in order))
    reordered = sum(_overtaken([place for place in places if networks[place] == network]) for network in (4, 6))
    if kind == "in disorder":
        chance.shuffle(order)
        chance.shuffle(near)
    return Pair(
        f"{seed}-{kind.replace(' ', '-')}",
        _whole_pcap(near, ETHERNET, snaplen),
        _whole_pcap([(far[index][0], far[index][2]) for index in order], far_link, snaplen),
        fates,
        duplicated,
        marked,
        reordered,
    )


def _overtaken(places: Sequence[int]) -> int:
    """The number of packets, by their position in the order of sending, that arrive after one that was sent later."""
    return sum(place < max(places[: index + 1]) for index, place in enumerate(places))


def _unlike(style: Style, network: int) -> Packet:
    """A packet with unique contents."""
    protocol, body = _transport(style, True, network, style.chance.choice((10, 18, 100, 1000)))
    return (ipv4 if network == 4 else ipv6)(style.host, True, protocol, body)


def _ecn(octets: bytes) -> int:
    return octets[1] & 3 if octets[0] >> 4 == 4 else octets[1] >> 4 & 3


def _rewritten(octets: bytes, is_marked: bool, is_routed: bool) -> bytes:
    """The packet with the mark of a queue, one hop later; the header checksum is new, as after any router."""
    packet = bytearray(octets)
    if packet[0] >> 4 == 6:
        packet[1] |= 0x30 * is_marked
        packet[7] -= is_routed
        return bytes(packet)
    packet[1] |= 3 * is_marked
    packet[8] -= is_routed
    header = 4 * (packet[0] & 15)
    packet[10:12] = bytes(2)
    packet[10:12] = (checksum(bytes(packet[:header])) ^ 0xFFFF).to_bytes(2)
    return bytes(packet)


def _whole_pcap(frames: Sequence[tuple[int, bytes]], link: int, snaplen: int) -> bytes:
    parts = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, snaplen, link)]
    for time_ns, octets in frames:
        (seconds, rest_ns), kept = divmod(time_ns, 10**9), octets[:snaplen]
        parts.append(struct.pack("<4I", seconds, rest_ns, len(kept), len(octets)) + kept)
    return b"".join(parts)

"""Captures of what no run of ours sends: other headers, other file formats, damage. Frames are scapy's.

Each function gives one file's bytes; every file comes out the same each time.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

from scapy.layers.inet import ICMP, IP, TCP, UDP, IPerror, IPOption_NOP, IPOption_Router_Alert, IPOption_RR, UDPerror
from scapy.layers.inet6 import (
    ICMPv6EchoRequest,
    ICMPv6MLReport2,
    ICMPv6ND_RS,
    ICMPv6NDOptSrcLLAddr,
    IPv6,
    IPv6ExtHdrDestOpt,
    IPv6ExtHdrFragment,
    IPv6ExtHdrHopByHop,
    IPv6ExtHdrRouting,
    RouterAlert,
)
from scapy.layers.l2 import ARP, Dot1AD, Dot1Q, Ether
from scapy.packet import Packet, Raw

from tests.unit.captures.golden import pcapng
from tests.unit.captures.making import RECEIVER, SENDER, START_NS, Timed, ethernet, flip, timed

HOST_A, HOST_B = "2001:db8::1", "2001:db8::2"
PORTS = {"sport": 40000, "dport": 5222}
STEP_NS = 1_234_567


def payload(length: int, seed: int = 1) -> Raw:
    """Bytes that no dissector takes for a protocol."""
    return Raw(random.Random(seed).randbytes(length))


def ipv4(**fields: object) -> Packet:
    """From the sender to the receiver."""
    return ethernet() / IP(src=SENDER, dst=RECEIVER, **fields)


def ipv6(**fields: object) -> Packet:
    """From one host to the other."""
    return ethernet() / IPv6(src=HOST_A, dst=HOST_B, **fields)


def pcap(
    frames: Sequence[Timed],
    order: str = "<",
    tick_ns: int = 1,
    snaplen: int = 262_144,
    link: int = pcapng.ETHERNET,
) -> bytes:
    """A pcap file."""
    magic = 0xA1B23C4D if tick_ns == 1 else 0xA1B2C3D4
    parts = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, snaplen, link)]
    for time_ns, frame in frames:
        seconds, rest_ns = divmod(time_ns, 1_000_000_000)
        kept = frame[:snaplen]
        parts += [struct.pack(order + "IIII", seconds, rest_ns // tick_ns, len(kept), len(frame)), kept]
    return b"".join(parts)


def of(*packets: Packet) -> bytes:
    """A pcap of these packets."""
    return pcap(timed(map(bytes, packets), STEP_NS))


def plain(count: int = 6) -> list[bytes]:
    """UDP and TCP in turns, each of another length."""
    segments = (UDP(**PORTS), TCP(**PORTS, seq=7, ack=9, flags="PA", window=512))
    return [bytes(ipv4(id=n) / segments[n % 2] / payload(40 + 13 * n, seed=n)) for n in range(count)]


def vlan() -> bytes:
    """Tagged (IEEE 802.1Q), tagged with a priority only, and untagged between them."""
    inner = IP(src=SENDER, dst=RECEIVER, id=3)
    return of(
        ethernet() / Dot1Q(vlan=5) / inner / UDP(**PORTS) / payload(64),
        ethernet() / Dot1Q(vlan=5) / inner / TCP(**PORTS, seq=2**32 - 1, flags="S", window=65535),
        ethernet() / inner / UDP(**PORTS) / payload(64),
        ethernet() / Dot1Q(vlan=0, prio=6) / inner / UDP(**PORTS) / payload(9),
        ethernet() / Dot1Q(vlan=5) / IPv6(src=HOST_A, dst=HOST_B) / UDP(**PORTS) / payload(33),
        ethernet() / Dot1Q(vlan=5) / ARP(psrc=SENDER, pdst=RECEIVER),
        ethernet() / Dot1Q(vlan=5) / IP(src=SENDER, dst=RECEIVER, flags="MF", id=8) / UDP(**PORTS) / payload(64),
    )


def qinq() -> bytes:
    """Two tags (IEEE 802.1ad) and three."""
    inner = IP(src=SENDER, dst=RECEIVER, id=4)
    return of(
        ethernet() / Dot1AD(vlan=100) / Dot1Q(vlan=5) / inner / UDP(**PORTS) / payload(64),
        ethernet() / Dot1Q(vlan=100) / Dot1Q(vlan=5) / inner / TCP(**PORTS, flags="A", window=7) / payload(64),
        ethernet() / Dot1AD(vlan=100) / Dot1Q(vlan=5) / IPv6(src=HOST_A, dst=HOST_B) / TCP(**PORTS, flags="F"),
        ethernet() / Dot1AD(vlan=1) / Dot1AD(vlan=2) / Dot1Q(vlan=3) / inner / UDP(**PORTS) / payload(20),
    )


def ipv6_plain() -> bytes:
    """UDP, TCP and what every host sends on its own: neighbour and group messages."""
    report = RouterAlert()
    return of(
        ipv6() / UDP(**PORTS) / payload(100),
        ipv6() / UDP(**PORTS),
        ipv6() / TCP(**PORTS, seq=11, ack=12, flags="PA", window=99, options=[("Timestamp", (1, 2))]) / payload(70),
        ethernet() / IPv6(src=HOST_B, dst=HOST_A) / TCP(sport=5222, dport=40000, flags="RA", ack=81),
        ethernet() / IPv6(src="fe80::1", dst="ff02::2", hlim=255) / ICMPv6ND_RS() / ICMPv6NDOptSrcLLAddr(),
        ethernet() / IPv6(src="::", dst="ff02::16", hlim=1) / IPv6ExtHdrHopByHop(options=[report]) / ICMPv6MLReport2(),
        ipv6() / ICMPv6EchoRequest(data=b"hello"),
    )


def ipv6_extensions() -> bytes:
    """Extension headers (RFC 8200) before UDP and TCP, and fragments."""
    datagram = bytes(UDP(**PORTS, len=508) / payload(500))
    pieces = [
        ipv6(nh=44) / IPv6ExtHdrFragment(nh=17, id=77, offset=at // 8, m=int(at < 400)) / Raw(datagram[at : at + 200])
        for at in (0, 200, 400)
    ]
    return of(
        ipv6() / IPv6ExtHdrHopByHop() / UDP(**PORTS) / payload(48),
        ipv6() / IPv6ExtHdrDestOpt() / TCP(**PORTS, seq=5, flags="A", window=1) / payload(48),
        ipv6() / IPv6ExtHdrRouting(addresses=["2001:db8::3"], segleft=0) / UDP(**PORTS) / payload(48),
        ipv6() / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt() / UDP(**PORTS) / payload(48),
        *pieces,
        ipv6(nh=59),
    )


def fragments() -> bytes:
    """A UDP datagram, a TCP segment and a ping in pieces, and a piece before its first one."""
    datagram = bytes(UDP(**PORTS, len=1208) / payload(1200))
    segment = bytes(TCP(**PORTS, seq=1, flags="PA") / payload(300))

    def piece(whole: bytes, protocol: int, number: int, start: int, end: int) -> Packet:
        header = {"id": number, "proto": protocol, "frag": start // 8, "flags": "MF" if end < len(whole) else 0}
        return ipv4(**header) / Raw(whole[start:end])

    return of(
        piece(datagram, 17, 1, 0, 480),
        piece(datagram, 17, 1, 480, 960),
        piece(datagram, 17, 1, 960, 1208),
        piece(segment, 6, 2, 0, 160),
        piece(segment, 6, 2, 160, 320),
        piece(datagram, 17, 3, 480, 1208),
        piece(datagram, 17, 3, 0, 480),
        piece(bytes(ICMP() / payload(400)), 1, 4, 0, 200),
        piece(bytes(ICMP() / payload(400)), 1, 4, 200, 408),
    )


IGMP_REPORT = "2200dd040000000104000000e0010203"


def options() -> bytes:
    """Options of IPv4, from one word to the most there can be, and of TCP."""
    told = [("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1, 0)), ("NOP", None), ("WScale", 7)]
    holes = [("NOP", None), ("NOP", None), ("SAck", (100, 200, 300, 400))]
    return of(
        ipv4(options=[IPOption_NOP()] * 4) / UDP(**PORTS) / payload(64),
        ipv4(options=[IPOption_NOP()] * 40) / UDP(**PORTS) / payload(64),
        ipv4(options=[IPOption_RR(length=23, routers=["0.0.0.0"] * 5)]) / TCP(**PORTS, seq=3, flags="A") / payload(21),
        ipv4(options=[IPOption_Router_Alert()], proto=2, ttl=1)
        / Raw(bytes.fromhex("2200dd040000000104000000e0010203")),
        ipv4() / TCP(**PORTS, flags="S", options=told, window=64240),
        ipv4() / TCP(**PORTS, flags="A", ack=2**32 - 1, options=holes) / payload(30),
        ipv4(options=[IPOption_NOP()] * 8) / TCP(**PORTS, flags="PA", options=told) / payload(30),
    )


def tcp_flags() -> bytes:
    """Every flag, a sequence number that wraps round, a window of 0, an urgent pointer, padding to 60 bytes."""
    every = [
        ipv4() / TCP(**PORTS, seq=2**32 - 5, ack=n, flags=1 << n, window=n * 8191, reserved=n % 4) / payload(n)
        for n in range(9)
    ]
    bare = ipv4() / TCP(**PORTS, seq=1, ack=1, flags="A", window=0)
    return of(*every, Ether(bytes(bare) + bytes(6)), ipv4() / TCP(**PORTS, flags="UA", urgptr=3) / payload(8))


def lengths() -> bytes:
    """Lengths that do not agree: padded, larger than the packet, smaller than their header, zero, offloaded."""
    whole = bytes(ipv4() / UDP(**PORTS) / payload(30))
    offloaded = ipv4(len=0) / TCP(**PORTS, flags="PA") / payload(200)
    return of(
        Ether(whole + bytes(20)),
        ipv4() / UDP(**PORTS, len=100) / payload(30),
        ipv4() / UDP(**PORTS, len=20) / payload(30),
        ipv4() / UDP(**PORTS, len=7) / payload(30),
        ipv4() / UDP(**PORTS, len=0) / payload(30),
        ipv4(len=300) / UDP(**PORTS) / payload(30),
        ipv4(len=40) / UDP(**PORTS) / payload(30),
        ipv4(len=30) / TCP(**PORTS) / payload(30),
        ipv4() / TCP(**PORTS, dataofs=4) / payload(30),
        ipv4() / TCP(**PORTS, dataofs=15) / payload(30),
        offloaded,
    )


def others() -> bytes:
    """What may be beside a session: ARP, ICMP that quotes a datagram, IGMP, LLC, an unknown type, GRE, IP in IP."""
    quoted = IPerror(src=RECEIVER, dst=SENDER) / UDPerror(sport=1, dport=2)
    return of(
        ethernet() / ARP(psrc=SENDER, pdst=RECEIVER),
        ipv4() / ICMP(type=3, code=3) / quoted / payload(12),
        ipv4(proto=2, ttl=1) / Raw(bytes.fromhex("16000904e0010203")),
        Ether(bytes(ethernet())[:12] + struct.pack("!H", 0x88B5) + bytes(payload(50))),
        Ether(bytes(ethernet())[:12] + struct.pack("!H", 8) + b"\x42\x42\x03" + bytes(43)),
        ipv4(proto=47) / Raw(bytes(4) + bytes(8)),
        ipv4(proto=4) / IP(src="192.0.2.1", dst="192.0.2.2") / UDP(sport=1, dport=2) / payload(10),
        ipv4(proto=132) / payload(30),
    )


def short_frames() -> bytes:
    """A frame of 0 bytes, and one of each length that ends within its headers."""
    frames = [b"", *(frame[:length] for frame in plain(2) for length in range(1, 55, 3)), plain(1)[0]]
    return pcap(timed(frames, STEP_NS))


def corrupted() -> bytes:
    """A datagram, and of it a copy for every bit of its headers, hit."""
    frame = bytes(ipv4(id=0x1234, flags="DF") / UDP(**PORTS) / payload(12))
    return pcap(timed([frame, *(flip(frame, bit) for bit in range(8 * 42))], STEP_NS))


def corrupted_tcp() -> bytes:
    """The same of the headers of a segment, from its protocol number on."""
    told = TCP(**PORTS, seq=0x01020304, ack=0x05060708, flags="PA", window=512)
    frame = bytes(ipv4(id=0x1234, flags="DF") / told / payload(12))
    return pcap(timed([frame, *(flip(frame, bit) for bit in range(8 * 20, 8 * 54))], STEP_NS))


def snaplen() -> bytes:
    """Frames cut to 60 bytes: within the TCP options, within the payload."""
    told = ipv4() / TCP(**PORTS, flags="A", options=[("Timestamp", (1, 2))]) / payload(300)
    return pcap(timed([*plain(), bytes(told)], STEP_NS), snaplen=60)


def snaplen_of_headers() -> bytes:
    """Frames cut to 40 bytes: ports are there, what follows in TCP is not."""
    return pcap(timed(plain(), STEP_NS), snaplen=40)


def big_endian_us() -> bytes:
    """As a big-endian machine with microseconds writes it."""
    return pcap(timed(plain(), STEP_NS), ">", 1000)


def big_endian_ns() -> bytes:
    """As a big-endian machine with nanoseconds writes it."""
    return pcap(timed(plain(), STEP_NS), ">")


def little_endian_us() -> bytes:
    """As tcpdump writes it when it is asked nothing."""
    return pcap(timed(plain(), STEP_NS), tick_ns=1000)


def many_alike() -> bytes:
    """Long rows of frames of one length, with another between them."""
    lengths = [40] * 100 + [41] + [40] * 70 + [3] * 80
    frames = [bytes(ipv4(id=n) / UDP(**PORTS) / payload(length, seed=n)) for n, length in enumerate(lengths)]
    return pcap(timed(frames, STEP_NS))


def without_ethernet() -> list[bytes]:
    """IPv4 and IPv6 packets alone."""
    return [frame[14:] for frame in plain()] + [bytes(ipv6() / UDP(**PORTS) / payload(20))[14:]]


def raw_ip() -> bytes:
    """Packets without a link's header, as of a tunnel."""
    return pcap(timed(without_ethernet(), STEP_NS), link=101)


def linux_cooked() -> bytes:
    """As tcpdump -i any captured until 2021 (LINUX_SLL)."""
    heads = [struct.pack("!HHH8sH", 0, 1, 6, b"\2", kind) for kind in [0x0800] * 6 + [0x86DD]]
    frames = [head + packet for head, packet in zip(heads, without_ethernet(), strict=True)]
    return pcap(timed(frames, STEP_NS), link=113)


def linux_cooked_2() -> bytes:
    """As tcpdump -i any captures today (LINUX_SLL2)."""
    heads = [struct.pack("!HHIHBB8s", kind, 0, 2, 1, 0, 6, b"\2") for kind in [0x0800] * 6 + [0x86DD]]
    frames = [head + packet for head, packet in zip(heads, without_ethernet(), strict=True)]
    return pcap(timed(frames, STEP_NS), link=276)


def no_packets() -> bytes:
    """A header only."""
    return pcap([])


def cut_in_a_record_header() -> bytes:
    """Five packets and 9 bytes of the sixth's record header."""
    return pcap(timed(plain(5), STEP_NS)) + bytes(9)


def cut_in_a_packet() -> bytes:
    """Five packets and a sixth that lacks its last byte."""
    return pcap(timed(plain(6), STEP_NS))[:-1]


def damaged_length() -> bytes:
    """The fourth of eight records claims a gigabyte."""
    whole, place = bytearray(pcap(timed(plain(8), STEP_NS))), len(pcap(timed(plain(3), STEP_NS)))
    whole[place + 8 : place + 12] = struct.pack("<I", 1 << 30)
    return bytes(whole)


def garbage_behind() -> bytes:
    """Whole packets, then bytes of something else."""
    return pcap(timed(plain(), STEP_NS)) + b"\xff" * 50


def blocks(frames: Sequence[Timed], order: str = "<") -> bytes:
    """Enhanced packet blocks of an interface with nanoseconds."""
    return b"".join(pcapng.packet(time_ns, frame, order=order) for time_ns, frame in frames)


NANOSECONDS = (pcapng.RESOLUTION, b"\x09")


def nanoseconds(order: str = "<") -> bytes:
    """The section and the interface that most writers begin with today."""
    return pcapng.section(order=order) + pcapng.interface([NANOSECONDS], order)


def simplest_pcapng() -> bytes:
    """One section, one interface, nanoseconds."""
    return nanoseconds() + blocks(timed(plain(), STEP_NS))


def big_endian_pcapng() -> bytes:
    """The same from a big-endian machine."""
    return nanoseconds(">") + blocks(timed(plain(), STEP_NS), ">")


def two_interfaces() -> bytes:
    """Nanoseconds, microseconds by default and milliseconds, in turns; the second and third with whole packets only."""
    head = pcapng.section() + pcapng.interface([NANOSECONDS]) + pcapng.interface()
    units_ns = (1, 1000, 1_000_000)
    packets = [
        pcapng.packet(time_ns // units_ns[n % 3], frame, n % 3)
        for n, (time_ns, frame) in enumerate(timed(plain(9), STEP_NS))
    ]
    return head + pcapng.interface([(pcapng.RESOLUTION, b"\x03")]) + b"".join(packets)


def two_links() -> bytes:
    """Ethernet and raw IP in turns."""
    head = pcapng.section() + pcapng.interface([NANOSECONDS]) + pcapng.interface([NANOSECONDS], link=101)
    packets = [
        pcapng.packet(time_ns, frame[14 * (n % 2) :], n % 2)
        for n, (time_ns, frame) in enumerate(timed(plain(), STEP_NS))
    ]
    return head + b"".join(packets)


def binary_resolution() -> bytes:
    """Times in units of 2^-20 s, as the high bit of if_tsresol says."""
    units = [(time_ns * 2**20 // 10**9, frame) for time_ns, frame in timed(plain(), STEP_NS)]
    return pcapng.section() + pcapng.interface([(pcapng.RESOLUTION, b"\x94")]) + blocks(units)


def time_offset() -> bytes:
    """Times since 2023-11-14 22:13:20 by if_tsoffset."""
    offset = (pcapng.OFFSET, struct.pack("<q", START_NS // 10**9))
    head = pcapng.section() + pcapng.interface([NANOSECONDS, offset])
    return head + blocks([(time_ns - START_NS, frame) for time_ns, frame in timed(plain(), STEP_NS)])


def comments_and_drops() -> bytes:
    """A comment of the file, two of packets, and what interface and system say that they dropped."""
    head = pcapng.section([(pcapng.COMMENT, b"a golden capture")]) + pcapng.interface([NANOSECONDS])
    said: list[pcapng.Options] = [[(pcapng.COMMENT, f"packet {n}".encode())] if n in (1, 4) else [] for n in range(6)]
    packets = [
        pcapng.packet(time_ns, frame, options=options)
        for (time_ns, frame), options in zip(timed(plain(), STEP_NS), said, strict=True)
    ]
    return head + b"".join(packets) + pcapng.statistics(START_NS, 3, 4)


def other_blocks() -> bytes:
    """Names, statistics, a custom and an unknown block between the packets, an obsolete packet block among them."""
    first, second, third, *rest = timed(plain(), STEP_NS)
    return b"".join(
        [
            nanoseconds(),
            blocks([first]),
            pcapng.block(pcapng.NAMES, struct.pack("<HH", 1, 9) + bytes([10, 77, 0, 1]) + b"host\0" + bytes(3 + 4)),
            blocks([second]),
            pcapng.block(0x0BAD, struct.pack("<I", 32473) + b"anything"),
            pcapng.block(0x7FFFFFF0, b"unknown"),
            pcapng.old_packet(*third),
            pcapng.statistics(START_NS, 0, 0),
            blocks(rest),
        ]
    )


def two_sections() -> bytes:
    """Two files one behind the other: the second big-endian, with microseconds and another number of interfaces."""
    later = [(time_ns // 1000, frame) for time_ns, frame in timed(plain(4), STEP_NS, START_NS + 10**9)]
    second = pcapng.section(order=">") + pcapng.interface(order=">") + pcapng.interface(order=">")
    return simplest_pcapng() + second + blocks(later, ">")


def cut_by_snaplen() -> bytes:
    """Frames cut to 60 bytes in pcapng."""
    frames = timed(plain(), STEP_NS)
    cut = [pcapng.packet(time_ns, frame[:60], wire_bytes=len(frame)) for time_ns, frame in frames]
    return pcapng.section() + pcapng.interface([NANOSECONDS], snaplen=60) + b"".join(cut)


def simple_packets() -> bytes:
    """Packets that have no time."""
    return nanoseconds() + b"".join(pcapng.simple_packet(frame) for frame in plain())


def no_packets_pcapng() -> bytes:
    """A section and an interface only."""
    return nanoseconds()


def cut_in_a_block() -> bytes:
    """A last packet that lacks its last 5 bytes."""
    return simplest_pcapng()[:-5]


def cut_in_a_block_header() -> bytes:
    """Packets, and 6 bytes of a block."""
    return simplest_pcapng() + struct.pack("<IH", pcapng.PACKET, 9)


def damaged_block_length() -> bytes:
    """The fourth packet's block claims a length that no block has."""
    whole, place = bytearray(simplest_pcapng()), len(nanoseconds() + blocks(timed(plain(3), STEP_NS)))
    whole[place + 4 : place + 8] = struct.pack("<I", 0x7FFFFFF1)
    return bytes(whole)


def damaged_packet_length() -> bytes:
    """The fourth packet claims more bytes than its block has."""
    whole, place = bytearray(simplest_pcapng()), len(nanoseconds() + blocks(timed(plain(3), STEP_NS)))
    whole[place + 20 : place + 24] = struct.pack("<I", 5000)
    return bytes(whole)


def garbage_behind_pcapng() -> bytes:
    """Whole packets, then bytes of something else."""
    return simplest_pcapng() + b"\xff" * 50


DAMAGED: dict[str, Callable[[], bytes]] = {
    "cut-in-a-record-header.pcap": cut_in_a_record_header,
    "cut-in-a-packet.pcap": cut_in_a_packet,
    "damaged-length.pcap": damaged_length,
    "garbage-behind.pcap": garbage_behind,
    "cut-in-a-block.pcapng": cut_in_a_block,
    "cut-in-a-block-header.pcapng": cut_in_a_block_header,
    "damaged-block-length.pcapng": damaged_block_length,
    "damaged-packet-length.pcapng": damaged_packet_length,
    "garbage-behind.pcapng": garbage_behind_pcapng,
}
"""Of these, what comes before the damage can be read."""

WHOLE: dict[str, Callable[[], bytes]] = {
    "vlan.pcap": vlan,
    "qinq.pcap": qinq,
    "ipv6.pcap": ipv6_plain,
    "ipv6-extensions.pcap": ipv6_extensions,
    "fragments.pcap": fragments,
    "options.pcap": options,
    "tcp-flags.pcap": tcp_flags,
    "lengths.pcap": lengths,
    "others.pcap": others,
    "short-frames.pcap": short_frames,
    "corrupted.pcap": corrupted,
    "corrupted-tcp.pcap": corrupted_tcp,
    "snaplen.pcap": snaplen,
    "snaplen-of-headers.pcap": snaplen_of_headers,
    "big-endian-us.pcap": big_endian_us,
    "big-endian-ns.pcap": big_endian_ns,
    "little-endian-us.pcap": little_endian_us,
    "many-alike.pcap": many_alike,
    "raw-ip.pcap": raw_ip,
    "linux-cooked.pcap": linux_cooked,
    "linux-cooked-2.pcap": linux_cooked_2,
    "no-packets.pcap": no_packets,
    "simplest.pcapng": simplest_pcapng,
    "big-endian.pcapng": big_endian_pcapng,
    "two-interfaces.pcapng": two_interfaces,
    "two-links.pcapng": two_links,
    "binary-resolution.pcapng": binary_resolution,
    "time-offset.pcapng": time_offset,
    "comments-and-drops.pcapng": comments_and_drops,
    "other-blocks.pcapng": other_blocks,
    "two-sections.pcapng": two_sections,
    "snaplen.pcapng": cut_by_snaplen,
    "simple-packets.pcapng": simple_packets,
    "no-packets.pcapng": no_packets_pcapng,
}

MADE = WHOLE | DAMAGED

"""Messages of each protocol written octet by octet, the frames that carry them, and the dissectors that read them."""

from __future__ import annotations

import struct
from binascii import crc_hqx

from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.packet import Raw

from owlt.agents.bundle import custody
from owlt.agents.bundle.blocks import Bundle, CustodyId, Eid, Timestamp
from owlt.agents.bundle.blocks import Fragment as BundleFragment
from owlt.agents.ltp.segments import DataSegment, SessionId
from owlt.agents.ltp.segments import encode as ltp
from owlt.agents.saratoga import version1
from owlt.agents.saratoga.packets import Data
from tests.unit.captures.making import RECEIVER, SENDER, ethernet, udp_frame

CFDP = ("-d", "udp.port==5222,cfdp")
LTP = ("-d", "udp.port==5222,ltp")
BUNDLES_OVER_LTP = ("-d", "udp.port==5222,ltp", "-d", "udp.port==4556,bundle")
BUNDLES = ("-d", "udp.port==5222,bundle")
NORM = ("--enable-heuristic", "rmt_norm_udp")
SARATOGA = ("-d", "udp.port==5222,saratoga")
TCP_FILE = ("-d", "tcp.port==5223,data")
SENDER_SAYS, RECEIVER_SAYS = (SENDER, RECEIVER), (RECEIVER, SENDER)


def frame(payload: bytes, hosts: tuple[str, str] = SENDER_SAYS) -> bytes:
    return udp_frame(payload, *hosts)


# CFDP: CCSDS 727.0-B-5


def pdu(body: bytes, is_data: bool = False, sequence: int = 7, crc: bool = False) -> bytes:
    """With `crc` the last two octets of the body are replaced by it."""
    first = 1 << 5 | is_data << 4 | crc << 1
    octets = struct.pack(">BHBHHH", first, len(body), 0x11, 101, sequence, 102) + body
    return octets[:-2] + crc_hqx(octets[:-2], 0xFFFF).to_bytes(2, "big") if crc else octets


def cfdp_data(offset: int, count: int, **more: int) -> bytes:
    return pdu(struct.pack(">I", offset) + bytes(count), is_data=True, **more)


def metadata(file_bytes: int) -> bytes:
    return pdu(struct.pack(">BBI", 7, 0, file_bytes) + b"\x03a.b\x03c.d")


def eof(file_bytes: int) -> bytes:
    return pdu(struct.pack(">BBII", 4, 0, 0, file_bytes))


def nak(start: int, end: int, *holes: tuple[int, int]) -> bytes:
    return pdu(struct.pack(">BII", 8, start, end) + b"".join(struct.pack(">II", *hole) for hole in holes))


ACK_OF_EOF, ACK_OF_FINISHED, FINISHED = pdu(b"\x06\x40\x01"), pdu(b"\x06\x51\x02"), pdu(b"\x05\x02")

CFDP_RUN = [
    frame(metadata(2500)),
    frame(cfdp_data(0, 1000)),
    frame(cfdp_data(1000, 1000)),
    frame(cfdp_data(2000, 500)),
    frame(eof(2500)),
    frame(ACK_OF_EOF, RECEIVER_SAYS),
    frame(nak(0, 2500, (1000, 2000)), RECEIVER_SAYS),
    frame(cfdp_data(1000, 1000)),
    frame(FINISHED, RECEIVER_SAYS),
    frame(ACK_OF_FINISHED),
]


# What the channel does to packets


def fragments(payload: bytes) -> list[bytes]:
    datagram = IP(src=SENDER, dst=RECEIVER, id=77) / UDP(sport=40000, dport=5222) / Raw(payload)
    return [bytes(ethernet() / part) for part in fragment(datagram, 1480)]


def saratoga_data(offset: int, count: int) -> bytes:
    data = Data(
        session=1, offset=offset, payload=bytes(count), asks=False, ends=False, timestamp=b"", descriptor_bits=32
    )
    return version1.pack(data)


# LTP: RFC 5326

BLOCK = SessionId(1, 40)


def red(offset: int, count: int, **more: object) -> bytes:
    return frame(ltp(DataSegment(BLOCK, 2, offset, bytes(count), True, **more)))  # type: ignore[arg-type]


# Bundles: RFC 5050, CCSDS 734.2-B-1


def bundle(offset: int, count: int, number: int) -> bytes:
    return Bundle(
        source=Eid(1, 1),
        destination=Eid(2, 1),
        created=Timestamp(820_000_000, 1),
        payload=bytes(count),
        custodian=Eid(1, 0),
        custody_id=CustodyId(number, Eid(1, 0)),
        fragment=BundleFragment(offset, 10_000),
    ).encode()


def signals(record: custody.CustodySignal | custody.AggregateCustodySignal) -> bytes:
    return Bundle(
        source=Eid(2, 0),
        destination=Eid(1, 0),
        created=Timestamp(820_000_000, 2),
        payload=record.encode(),
        administrative=True,
    ).encode()


AGGREGATE = signals(custody.AggregateCustodySignal(0x80, (custody.Fill(1, 1), custody.Fill(3, 1))))

SIGNAL = signals(
    custody.CustodySignal(
        status=0x80,
        source=Eid(1, 1),
        created=Timestamp(820_000_000, 1),
        extent=custody.Extent(2000, 2000),
        signalled=custody.DtnTime(820_000_001, 0),
    )
)


def in_green_blocks(session: int, octets: bytes, hosts: tuple[str, str] = SENDER_SAYS) -> list[bytes]:
    ends = [*range(1000, len(octets), 1000), len(octets)]
    return [
        frame(
            ltp(DataSegment(SessionId(1, session), 1, begin, octets[begin:end], False, ends_block=end == len(octets))),
            hosts,
        )
        for begin, end in zip([0, *ends], ends, strict=False)
    ]


CUSTODY_RUN = [
    *in_green_blocks(1, bundle(0, 2000, 1)),
    *in_green_blocks(2, bundle(2000, 2000, 2)),
    *in_green_blocks(3, bundle(4000, 1000, 3)),
    *in_green_blocks(9, AGGREGATE, RECEIVER_SAYS),
    *in_green_blocks(10, SIGNAL, RECEIVER_SAYS),
]


# NORM: RFC 5740


def norm_data(segment: int, count: int, block: int = 0) -> bytes:
    """Of a file of 2500 bytes in segments of 1000, two a block and one of parity (FEC encoding id 5)."""
    header = struct.pack(">BBHIHBBBBH", 0x12, 8, 0, 1, 2, 50, 0x34, 0x10, 5, 1)
    extension = struct.pack(">BBHIHBB", 64, 3, 0, 2500, 1000, 2, 3)
    return header + struct.pack(">I", block << 8 | segment) + extension + bytes(count)


def norm_command(flavor: int) -> bytes:
    return struct.pack(">BBHIHBBBBH", 0x13, 5, 0, 1, 2, 50, 0x34, flavor, 5, 1) + bytes(4)


def norm_ack_of_flush(block: int, segment: int) -> bytes:
    header = struct.pack(">BBHIIHBBII", 0x15, 6, 0, 2, 1, 2, 2, 0, 0, 0)
    return header + struct.pack(">BBHI", 5, 0, 1, block << 8 | segment)


# TCP: RFC 9293


def segment(
    flags: str, sequence: int, acknowledgment: int = 0, count: int = 0, by: tuple[str, str] = SENDER_SAYS
) -> bytes:
    ports = {"sport": 40000, "dport": 5223} if by == SENDER_SAYS else {"sport": 5223, "dport": 40000}
    header = TCP(flags=flags, seq=sequence % 2**32, ack=acknowledgment % 2**32, window=5000, **ports)
    return bytes(ethernet(by[0]) / IP(src=by[0], dst=by[1]) / header / Raw(bytes(count)))


def handshake(isn: int = 100, other_isn: int = 70) -> list[bytes]:
    return [
        segment("S", isn),
        segment("SA", other_isn, isn + 1, by=RECEIVER_SAYS),
        segment("A", isn + 1, other_isn + 1),
    ]


def damaged_syn() -> bytes:
    """One whose sequence number was hit, its checksum left as it was: larger than those of all data."""
    octets = bytearray(segment("S", 100))
    octets[38] ^= 0x40
    return bytes(octets)

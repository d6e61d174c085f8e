"""The decoders, one row each: what reads bytes of others, how it says no, and inputs that its encoder made.

Each is imported when it is asked for, so that a fuzzer can instrument what it imports.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.examining import Target, scratch_directory

PROFILES = Path(__file__).parents[2] / "profiles" / "implementations"
ENTITIES = (101, 102)
GOLDEN = Path(__file__).parents[1] / "unit" / "captures" / "golden"


def _ltp_sdnv() -> Target:
    from owlt.agents.ltp import sdnv

    numbers = (0, 127, 128, 2**32, 2**64 - 1)
    return Target(lambda octets: sdnv.decode(octets, 0), (sdnv.NoNumber,), [sdnv.encode(number) for number in numbers])


def _ltp_segment() -> Target:
    from owlt.agents.ltp.segments import Malformed, decode, encode

    def read(octets: bytes) -> None:
        segment = decode(octets)
        assert decode(encode(segment)) == segment

    return Target(read, (Malformed,), _segments())


def _segments() -> list[bytes]:
    from owlt.agents.ltp.segments import Cancel, CancelAck, Checkpoint, Claim, DataSegment, Report, ReportAck, SessionId
    from owlt.agents.ltp.segments import encode as encoded

    session = SessionId(1, 300)
    claims = tuple(Claim(30 * number, 20) for number in range(30))
    made = (
        DataSegment(session, 2, 0, b"red data", True),
        DataSegment(session, 2, 3, b"red", True, Checkpoint(300, 0)),
        DataSegment(session, 2, 6, b"red", True, Checkpoint(302, 5), True, True),
        DataSegment(session, 1, 14, b"green", False, ends_block=True),
        Report(session, 5, 300, 9000, 1000, claims),
        ReportAck(session, 5),
        Cancel(session, True, 2),
        CancelAck(session, False),
    )
    return [encoded(segment) for segment in made]


def _ltp_green() -> Target:
    """Several datagrams in one input, each behind its length in two bytes."""
    from owlt.agents.bundle.blocks import Malformed
    from owlt.agents.bundle.convergence import LtpGreen

    def read(octets: bytes) -> None:
        carrier = LtpGreen(1, 20)
        for datagram in unpacked(octets):
            try:
                carrier.take(datagram)
            except Malformed:
                continue

    return Target(read, (), [packed(LtpGreen(1, 20).datagrams_of(bytes(range(100))))])


def packed(datagrams: Any) -> bytes:
    """Datagrams as one input."""
    return b"".join(len(datagram).to_bytes(2) + datagram for datagram in datagrams)


def unpacked(octets: bytes) -> list[bytes]:
    """The datagrams of an input; the last may be shorter than its length says."""
    datagrams, place = [], 0
    while place < len(octets):
        end = place + 2 + int.from_bytes(octets[place : place + 2])
        datagrams.append(octets[place + 2 : end])
        place = end
    return datagrams


def _bundle_blocks() -> Target:
    from owlt.agents.bundle.blocks import Bundle, CustodyId, Eid, Fragment, Malformed, Timestamp, decode

    ends: dict[str, Any] = {"source": Eid(1, 1), "destination": Eid(2, 1), "created": Timestamp(820_540_979, 0)}
    plain = Bundle(**ends, payload=b"hello")
    custody: dict[str, Any] = {"custodian": Eid(1, 0), "custody_id": CustodyId(1, Eid(1, 0))}
    whole = Bundle(**ends, **custody, fragment=Fragment(0, 1000), payload=b"hello" * 20)
    checked = Bundle(**ends, **custody, checked=True, payload=b"hello")
    unknown = plain.encode().replace(b"\x01\x08\x05hello", b"\x55\x06\x02??\x01\x08\x05hello")
    return Target(decode, (Malformed,), [plain.encode(), whole.encode(), checked.encode(), unknown])


def _bundle_custody() -> Target:
    from owlt.agents.bundle.blocks import Eid, Malformed, Timestamp
    from owlt.agents.bundle.custody import AggregateCustodySignal, CustodySignal, DtnTime, Extent, Fill, decode_record

    said = {"status": 0x80, "source": Eid(1, 1), "created": Timestamp(820_540_979, 0), "signalled": DtnTime(8, 9)}
    signal = CustodySignal(**said, extent=Extent(5000, 5000))  # type: ignore[arg-type]
    aggregate = AggregateCustodySignal(0x80, tuple(Fill(1 + 10 * number, 5) for number in range(40)))
    return Target(decode_record, (Malformed,), [signal.encode(), aggregate.encode()])


def _bundle_eid() -> Target:
    from owlt.agents.bundle.blocks import Eid, Malformed

    return Target(Eid.from_text, (Malformed,), [Eid(1, 1).text(), Eid(2**63, 0).text()])


def _saratoga(version: int) -> Callable[[], Target]:
    def make() -> Target:
        from owlt.agents.saratoga.packets import Unreadable
        from owlt.agents.saratoga.settings import Settings

        settings = Settings(rate_bps=1e6, rtt_s=1, version=version, transfer="get")
        return Target(settings.codec.read, (Unreadable,), _saratoga_packets(version))

    return make


def _saratoga_packets(version: int) -> list[bytes]:
    from owlt.agents.saratoga.packets import Data, Metadata, Request, Status
    from owlt.agents.saratoga.settings import Settings

    session: dict[str, Any] = {"session": 7, "descriptor_bits": 32}
    stamp = bytes(16) if version else b""
    holes = tuple((100 * number, 100 * number + 50) for number in range(40))
    checksum = ("md5", bytes(16)) if version else ("none", b"")
    made = (
        Request(**session, action=1, name="file"),
        Metadata(**session, file_bytes=5000, name="file", checksum=checksum[0], digest=checksum[1]),
        Data(**session, offset=1000, payload=b"data" * 9, asks=True, ends=bool(version), timestamp=stamp),
        Status(
            **session,
            code=0,
            progress=0,
            in_response_to=1036,
            holes=holes,
            partial=True,
            voluntary=True,
            metadata_missing=True,
            timestamp=stamp,
        ),
    )
    pack = Settings(rate_bps=1e6, rtt_s=1, version=version, transfer="get").codec.pack
    return [pack(packet) for packet in made]


def _custody_layer() -> Target:
    from tests.scapy_layers.bundle import NotABundle, dissect

    return Target(lambda octets: dissect(octets).show2(dump=True), (NotABundle,), _bundle_blocks().seeds)


def _saratoga_layer() -> Target:
    """A UDP datagram as scapy shows it; scapy itself shows as raw what a layer refuses."""
    from scapy.layers.inet import UDP

    from tests.scapy_layers.saratoga import VERSION_1_PORT, Saratoga

    def read(octets: bytes) -> None:
        header = VERSION_1_PORT.to_bytes(2) * 2 + (8 + len(octets)).to_bytes(2) + bytes(2)
        packet = UDP(header + octets)
        packet.show(dump=True)
        if Saratoga in packet:
            packet[Saratoga].answers(packet[Saratoga])
            bytes(packet)

    return Target(read, (), _saratoga_packets(1) + _saratoga_packets(0))


def _bundle_reader() -> Target:
    """What the captures' reader takes for a bundle, and for the record in one."""
    from owlt.captures.protocols.bundles import NotABundle, read_bundle, read_record

    def read(octets: bytes) -> None:
        read_record(octets)
        payload = read_bundle(octets).payload
        if payload is not None:
            read_record(octets[payload.begin : payload.begin + payload.byte_count])

    return Target(read, (NotABundle,), _bundle_blocks().seeds)


def _saratoga_reader() -> Target:
    from owlt.captures.protocols.saratoga import NotSaratoga, read_packet

    return Target(read_packet, (NotSaratoga,), _saratoga_packets(1) + _saratoga_packets(0))


def _reader(protocol: str) -> Callable[[], Target]:
    """What the captures' reader of a protocol takes for its units, complete and half captured."""

    def target() -> Target:
        from owlt.captures.protocols.reader import NO_FIELDS, Packet, Unreadable
        from tests.unit.captures.test_valid_units import OCTETS, PROTOCOLS

        def read(octets: bytes) -> None:
            for captured in (len(octets), len(octets) // 2):
                packet = Packet("sender", octets[:captured], len(octets), len(octets), NO_FIELDS)
                PROTOCOLS[protocol][0]().read(packet)

        return Target(read, (Unreadable,), OCTETS[protocol][::10])

    return target


def _cfdp_pdus() -> Target:
    from spacepackets.cfdp import Direction

    from owlt.agents.cfdp.pdus import kind_of, offset_of, read_pdu

    def read(octets: bytes) -> None:
        for towards in (Direction.TOWARDS_RECEIVER, Direction.TOWARDS_SENDER):
            pdu = read_pdu(octets, towards=towards, with_crc=False, entities=ENTITIES, transaction=None)
            if pdu is not None:
                kind_of(pdu), offset_of(pdu)

    return Target(read, (), _pdus())


def _pdus(*, with_crc: bool = True) -> list[bytes]:
    """One of each kind, with identifiers of two bytes and of one. LibreCube's engine knows no CRC."""
    from spacepackets.cfdp import ChecksumType, ConditionCode, CrcFlag, Direction, LargeFileFlag, TransmissionMode
    from spacepackets.cfdp.conf import PduConfig
    from spacepackets.cfdp.pdu import AckPdu, DirectiveType, EofPdu, FileDataPdu, FinishedPdu, NakPdu, TransactionStatus
    from spacepackets.cfdp.pdu.file_data import FileDataParams
    from spacepackets.cfdp.pdu.finished import FinishedParams
    from spacepackets.cfdp.pdu.metadata import MetadataParams, MetadataPdu
    from spacepackets.util import ByteFieldU8, ByteFieldU16

    packed_pdus = []
    headers: list[tuple[Any, CrcFlag]] = [(ByteFieldU16, CrcFlag.NO_CRC), (ByteFieldU8, CrcFlag.NO_CRC)]
    headers += [(ByteFieldU16, CrcFlag.WITH_CRC)] if with_crc else []
    for number, crc in headers:
        mode, size = TransmissionMode.ACKNOWLEDGED, LargeFileFlag.NORMAL
        entities = number(101), number(102), number(0)
        there = PduConfig(*entities, mode, size, crc, Direction.TOWARDS_RECEIVER)
        back = PduConfig(*entities, mode, size, crc, Direction.TOWARDS_SENDER)
        packed_pdus += [
            MetadataPdu(there, MetadataParams(True, ChecksumType.CRC_32, 5000, "file", "file")).pack(),
            FileDataPdu(there, FileDataParams(b"data" * 9, 1000)).pack(),
            EofPdu(there, bytes(4), 5000).pack(),
            AckPdu(back, DirectiveType.EOF_PDU, ConditionCode.NO_ERROR, TransactionStatus.ACTIVE).pack(),
            NakPdu(back, 0, 5000, [(100 * at, 100 * at + 50) for at in range(40)]).pack(),
            FinishedPdu(back, FinishedParams.success_params()).pack(),
        ]
    return [bytes(pdu) for pdu in packed_pdus]


def _librecube_pdus() -> Target:
    from owlt.agents.librecube.entity import (
        TOWARDS_RECEIVER,
        TOWARDS_SENDER,
        Damaged,
        Entity,
        OneFile,
        kind_and_offset,
        read_pdu,
    )
    from owlt.agents.librecube.settings import Settings

    entity = Entity(ENTITIES[1], OneFile(Path("nothing")), Settings(rate_bps=1e6, rtt_s=1), lambda _: None)

    def read(octets: bytes) -> None:
        try:
            read_pdu(octets, entity.decode, towards=TOWARDS_RECEIVER, entities=ENTITIES, transaction=None)
        except Damaged:
            read_pdu(octets, entity.decode, towards=TOWARDS_SENDER, entities=ENTITIES, transaction=None)
        kind_and_offset(octets)

    return Target(read, (Damaged,), _pdus(with_crc=False))


def _blast() -> Target:
    from owlt.agents.blast.datagrams import Pieces, Unreadable, encode

    return Target(Pieces(5050, 100).decode, (Unreadable,), [encode(1000, bytes(100)), encode(5050, b"")])


def _quic_initial() -> Target:
    from owlt.agents.quic.connection import initial_destination

    return Target(initial_destination, (), [b"\xc0\x00\x00\x00\x01\x08" + bytes(1200)])


def _quic_frames() -> Target:
    """The frames in a client's first packet, whose keys anybody can make (RFC 9001, section 5.2)."""
    from owlt.agents.endpoint.exit import Failed
    from owlt.agents.quic.connection import Logs, server_configuration
    from owlt.agents.quic.push import Receiving
    from owlt.agents.quic.settings import Settings

    settings = Settings(rate_bps=1e6, rtt_s=1)
    configuration = server_configuration(settings, Logs())

    def read(octets: bytes) -> None:
        with tempfile.TemporaryFile() as store:
            party = Receiving(Path("nowhere"), store, settings, configuration, 0.0)
            party.hear(_initial(octets), 0.0)
            party.advance(0.0)

    return Target(read, (Failed,), [_first_frames(), b"\x02\0\0\0\0", b"\x1c\0\0\0"], floor_bytes=4 << 20)


def _initial(frames: bytes, destination: bytes = b"to whom?") -> bytes:
    """An Initial packet with these frames, padded or cut to the shortest datagram."""
    from aioquic.quic.crypto import CryptoPair
    from aioquic.quic.packet import QuicProtocolVersion

    from owlt.agents.quic.settings import SMALLEST_DATAGRAM_BYTES

    head = b"\xc1\0\0\0\1" + bytes([len(destination)]) + destination + b"\0\0"
    room = SMALLEST_DATAGRAM_BYTES - len(head) - 4 - 16
    head += (0x4000 | 2 + room + 16).to_bytes(2) + b"\0\0"
    keys = CryptoPair()
    keys.setup_initial(cid=destination, is_client=True, version=QuicProtocolVersion.VERSION_1)
    return bytes(keys.encrypt_packet(head, frames[:room].ljust(room, b"\0"), 0))


def _first_frames() -> bytes:
    """Those of a client of aioquic."""
    from aioquic._buffer import Buffer
    from aioquic.quic.connection import QuicConnection
    from aioquic.quic.crypto import CryptoPair
    from aioquic.quic.packet import QuicProtocolVersion, pull_quic_header

    from owlt.agents.quic.connection import PEER, Logs, client_configuration
    from owlt.agents.quic.settings import Settings

    client = QuicConnection(configuration=client_configuration(Settings(rate_bps=1e6, rtt_s=1), Logs()))
    client.connect(PEER, 0.0)
    datagram = client.datagrams_to_send(0.0)[0][0]
    read = Buffer(data=datagram)
    header = pull_quic_header(read)
    keys = CryptoPair()
    keys.setup_initial(cid=header.destination_cid, is_client=False, version=QuicProtocolVersion.VERSION_1)
    return bytes(keys.decrypt_packet(datagram[: header.packet_length], read.tell(), 0)[1]).rstrip(b"\0")


def _captures() -> Target:
    """Captures of both formats, with frames for the slow way too."""
    from owlt.captures.files.blocks import NotACapture
    from owlt.captures.frames.background import count_background
    from owlt.captures.frames.columns import read_columns

    path = scratch_directory() / "x.pcap"

    def read(octets: bytes) -> None:
        path.write_bytes(octets)
        columns = read_columns(path)
        count_background(columns, np.arange(len(columns)))

    names = ("vlan.pcap", "ipv6.pcap", "two-interfaces.pcapng", "comments-and-drops.pcapng", "simple-packets.pcapng")
    seeds = [(GOLDEN / name).read_bytes()[:4000] for name in names]
    return Target(read, (NotACapture,), seeds, floor_bytes=32 << 20)


def _profile() -> Target:
    from owlt.agents.contract.implementation import ContractError, load_implementation

    path = scratch_directory() / "ltp.yaml"

    def read(octets: bytes) -> None:
        path.write_bytes(octets)
        load_implementation(path)

    profiles = {name: (PROFILES / f"{name}.yaml").read_bytes() for name in ("ltp", "cfdp", "iperf3")}
    seeds = [text.replace(f"name: {name}\n".encode(), b"name: ltp\n", 1) for name, text in profiles.items()]
    return Target(read, (ContractError,), seeds, floor_bytes=32 << 20)


DECODERS: dict[str, Callable[[], Target]] = {
    "ltp-sdnv": _ltp_sdnv,
    "ltp-segment": _ltp_segment,
    "ltp-green": _ltp_green,
    "bundle-blocks": _bundle_blocks,
    "bundle-custody": _bundle_custody,
    "bundle-eid": _bundle_eid,
    "saratoga-0": _saratoga(0),
    "saratoga-1": _saratoga(1),
    "saratoga-layer": _saratoga_layer,
    "custody-layer": _custody_layer,
    "saratoga-reader": _saratoga_reader,
    "bundle-reader": _bundle_reader,
    "cfdp-reader": _reader("CFDP"),
    "ltp-reader": _reader("LTP"),
    "norm-reader": _reader("NORM"),
    "cfdp-pdus": _cfdp_pdus,
    "librecube-pdus": _librecube_pdus,
    "blast": _blast,
    "quic-initial": _quic_initial,
    "quic-frames": _quic_frames,
    "captures": _captures,
    "profile": _profile,
}
"""By name."""

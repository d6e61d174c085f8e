"""Valid protocol data units of CFDP, LTP and NORM, written octet by octet from their specifications, each with its
expected contents: every type, every optional field, every length and number at its limits."""

from __future__ import annotations

import struct
from binascii import crc_hqx
from collections.abc import Iterator
from dataclasses import dataclass, field

NAK_LIMIT, CANCELLED = 7, 15


@dataclass(frozen=True)
class Unit:
    """A datagram with what owlt has to say of it. `fields` are those that tshark 4.0 shows, as its numbers; `wrong` is
    why it does not show the right ones."""

    octets: bytes
    name: str
    detail: str = ""
    piece: tuple[int, int] | None = None
    acknowledged: int | None = None
    from_receiver: bool = False
    verdict: str = ""
    fields: dict[str, int] = field(default_factory=dict)
    wrong: str = ""


# CFDP: CCSDS 727.0-B-5, section 5

LARGE_FILE = "tshark 4.0 takes every offset and size for four octets"
FILESTORE_RESPONSES = "tshark 4.0 takes every filestore response for malformed"
SEGMENT_METADATA = "tshark 4.0 knows no segment metadata"


def cfdp_pdu(
    body: bytes,
    *,
    is_data: bool = False,
    entity_bytes: int = 2,
    sequence_bytes: int = 2,
    crc: bool = False,
    large: bool = False,
    segment_metadata: bool = False,
    version: int = 1,
    towards_sender: bool = False,
    unacknowledged: bool = False,
    source: int = 101,
    sequence: int = 7,
) -> bytes:
    flags = version << 5 | is_data << 4 | towards_sender << 3 | unacknowledged << 2 | crc << 1 | large
    lengths = (entity_bytes - 1) << 4 | segment_metadata << 3 | (sequence_bytes - 1)
    octets = struct.pack(">BHB", flags, len(body) + 2 * crc, lengths) + source.to_bytes(entity_bytes, "big")
    octets += sequence.to_bytes(sequence_bytes, "big") + (102).to_bytes(entity_bytes, "big") + body
    return octets + (crc_hqx(octets, 0xFFFF).to_bytes(2, "big") if crc else b"")


def cfdp_units() -> Iterator[Unit]:
    yield from _cfdp_headers()
    for large in (False, True):
        for crc in (False, True):
            yield from _cfdp_contents(large, crc)


def _cfdp_headers() -> Iterator[Unit]:
    """Each length of ids and of sequence numbers, with the largest value of it; both versions, modes, directions."""
    data = struct.pack(">I", 3000) + bytes(10)
    for entity_bytes in range(1, 9):
        for sequence_bytes in range(1, 9):
            source, sequence = 256**entity_bytes - 1, 256**sequence_bytes - 1
            octets = cfdp_pdu(
                data,
                is_data=True,
                entity_bytes=entity_bytes,
                sequence_bytes=sequence_bytes,
                source=source,
                sequence=sequence,
            )
            fields = {"cfdp.srcid": source, "cfdp.transeqnum": sequence, "cfdp.dstid": 102, "cfdp.offset": 3000}
            yield Unit(octets, "data", "bytes 3000-3009", (3000, 10), fields=fields)
    for version, unacknowledged in ((0, False), (0, True), (1, True)):
        octets = cfdp_pdu(data, is_data=True, version=version, unacknowledged=unacknowledged)
        fields = {"cfdp.offset": 3000, "cfdp.version": version, "cfdp.trans_mode": int(unacknowledged)}
        yield Unit(octets, "data", "bytes 3000-3009", (3000, 10), fields=fields)


def _cfdp_contents(large: bool, crc: bool) -> Iterator[Unit]:
    word = ">Q" if large else ">I"
    most = 256 ** struct.calcsize(word) - 1
    responses = b"\x01\x06\x00\x03a.b\x00" * 2

    def number(value: int) -> bytes:
        return struct.pack(word, value)

    def unit(body: bytes, name: str, detail: str = "", fields: dict[str, int] | None = None, **more: object) -> Unit:
        metadata = bool(more.pop("segment_metadata", False))
        is_data = name == "data"
        wrong = LARGE_FILE if large and fields else SEGMENT_METADATA if metadata else ""
        wrong = FILESTORE_RESPONSES if body.endswith(responses) else wrong
        octets = cfdp_pdu(body, is_data=is_data, large=large, crc=crc, segment_metadata=metadata)
        shown = {"cfdp.crc_flag": int(crc), "cfdp.res1": int(large), **(fields or {})}
        return Unit(octets, name, detail, fields=shown, wrong=wrong, **more)  # type: ignore[arg-type]

    last = (2**63 - 1 if large else most) - 10
    for offset, count in ((0, 1000), (last, 10), (5, 0)):
        detail = f"bytes {offset}-{offset + count - 1}" if count else "no bytes"
        fields = {"cfdp.offset": offset}
        yield unit(number(offset) + bytes(count), "data", detail, fields, piece=(offset, count))
    for length in (0, 1, 63):  # record continuation state and length, metadata
        body = bytes([0x80 | length]) + bytes(length) + number(2000) + bytes(100)
        yield unit(body, "data", "bytes 2000-2099", {}, piece=(2000, 100), segment_metadata=True)
    fault_location = b"\x06\x02\x00\x65"
    for size in (0, 2500, most - 1 if not large else 2**62):
        fields = {"cfdp.file_size": size, "cfdp.fdtype": 4}
        yield unit(b"\x04\x00" + b"\xab" * 4 + number(size), "EOF", f"file of {size} bytes", fields)
    for condition, word_of in CONDITIONS.items():
        ending = "file of 9 bytes" if condition == 11 else f"cancelled: {word_of}"
        verdict = "" if condition == 11 else "failed"
        body = bytes([4, condition << 4]) + bytes(4) + number(9) + fault_location
        yield unit(body, "EOF", ending, {"cfdp.condition_code": condition}, verdict=verdict)
        body = bytes([5, condition << 4 | 0x04 | 0x03]) + fault_location
        fields = {"cfdp.condition_code": condition, "cfdp.delivery_code": 1}
        yield unit(body, "Finished", f"{word_of}, data incomplete", fields, from_receiver=True, verdict="failed")
        fields = {"cfdp.condition_code": condition, "cfdp.dir_code_ack": 5}
        yield unit(bytes([6, 0x51, condition << 4 | 2]), "ACK of Finished", word_of, fields)
    for status, more, verdict in (
        (0, "", "delivered"),
        (1, ", file rejected", "failed"),
        (2, "", "delivered"),
        (3, "", "delivered"),
    ):
        for options in (b"", responses):
            fields = {"cfdp.delivery_code": 0, "cfdp.file_status": status}
            yield unit(
                bytes([5, status]) + options,
                "Finished",
                f"all delivered{more}",
                fields,
                from_receiver=True,
                verdict=verdict,
            )
    yield unit(b"\x06\x40\x01", "ACK of EOF", "", {"cfdp.dir_code_ack": 4}, from_receiver=True)
    names, longest = b"\x03a.b\x03c.d", b"\xff" + b"n" * 255
    message_to_user, flow_label = b"\x02\x05cfdp\x10", b"\x05\x01\x09"
    for size, ending in (
        (2500, names),
        (most if not large else 2**62, longest * 2),
        (2500, names + message_to_user + flow_label),
    ):
        fields = {"cfdp.file_size": size}
        yield unit(b"\x07\x43" + number(size) + ending, "metadata", f"file of {size} bytes", fields)
    yield unit(b"\x07\x00" + number(0) + b"\0\0" + message_to_user, "metadata", "no file")
    yield unit(b"\x07\x00" + number(0) + names, "metadata", "file of 0 bytes")
    holes = ((0, 0), (100, 200), (most - 1 if not large else 500, most if not large else 600))
    for count in range(len(holes) + 1):
        requests = b"".join(number(first) + number(end) for first, end in holes[:count])
        known = max(count - 1, 0)
        detail = f"{known} hole{'' if known == 1 else 's'}" + (", metadata missing" if count else "")
        missing = sum(end - first for first, end in holes[:count])
        scope = 2500 if not large else 2**40
        fields = {"cfdp.nak_st_scope": 0, "cfdp.nak_sp_scope": scope}
        yield unit(
            b"\x08" + number(0) + number(scope) + requests, "NAK", detail, fields,
            from_receiver=True, acknowledged=scope - missing,
        )  # fmt: skip
    yield unit(b"\x09\x00", "prompt")
    yield unit(b"\x09\x80", "prompt", "for a keep alive")
    fields = {"cfdp.progress": most}
    yield unit(b"\x0c" + number(most), "keep alive", f"progress {most}", fields, from_receiver=True)


CONDITIONS = {
    1: "positive ACK limit reached",
    2: "keep alive limit reached",
    3: "invalid transmission mode",
    4: "filestore rejection",
    5: "file checksum failure",
    6: "file size error",
    7: "NAK limit reached",
    8: "inactivity detected",
    9: "invalid file structure",
    10: "check limit reached",
    11: "unsupported checksum type",
    14: "suspend request received",
    15: "cancel request received",
}


# LTP: RFC 5326, section 3

EXTENSIONS = "tshark 4.0 takes a trailer extension for data, or a segment with one for malformed"
LONG_EXTENSIONS = "tshark 4.0 takes the length of an extension for one octet"
LARGE_NUMBERS = "tshark 4.0 reads numbers of 32 bits, and extends the sign of some"


def sdnv(value: int, octets: int = 1) -> bytes:
    """A self-delimiting number, of at least so many octets."""
    digits = [value & 0x7F]
    while value := value >> 7:
        digits.append(value & 0x7F)
    digits += [0] * (octets - len(digits))
    return bytes([0x80 | digit for digit in reversed(digits[1:])] + [digits[0]])


def ltp_segment(
    kind: int, content: bytes, *, number: int = 40, originator: int = 1, headers: bytes = b"", trailers: bytes = b"",
    counts: int = 0,
) -> bytes:  # fmt: skip
    return bytes([kind]) + sdnv(originator) + sdnv(number) + bytes([counts]) + headers + content + trailers


def ltp_data(offset: int, count: int, kind: int = 0, client: int = 4, **more: object) -> bytes:
    serials = sdnv(5) + sdnv(0) if kind in (1, 2, 3) else b""
    content = sdnv(client) + sdnv(offset) + sdnv(count) + serials + bytes(count)
    return ltp_segment(kind, content, **more)  # type: ignore[arg-type]


def ltp_report(lower: int, upper: int, *claims: tuple[int, int], **more: object) -> bytes:
    numbers = [sdnv(number) for number in (9, 5, upper, lower, len(claims), *(n for claim in claims for n in claim))]
    return ltp_segment(8, b"".join(numbers), **more)  # type: ignore[arg-type]


def ltp_units() -> Iterator[Unit]:
    names = {0: "red data", 1: "checkpoint", 2: "checkpoint", 3: "checkpoint", 4: "green data", 7: "green data"}
    for kind, name in names.items():
        ending = ", end of block" if kind in (3, 7) else ""
        for offset, count in ((0, 1000), (127, 1), (128, 127), (2**28 - 1, 128), (2**31, 10), (2**62, 10)):
            wrong = LARGE_NUMBERS if offset >= 2**28 else ""
            fields = {"ltp.type": kind, "ltp.data.offset": offset, "ltp.data.length": count}
            detail = f"bytes {offset}-{offset + count - 1}{ending}"
            yield Unit(ltp_data(offset, count, kind), name, detail, (offset, count), fields=fields, wrong=wrong)
        yield Unit(ltp_data(7, 0, kind), name, f"no bytes{ending}", wrong="tshark 4.0 wants data")
    for originator, number in ((0, 0), (127, 128), (2**31, 2**31), (2**64 - 1, 2**64 - 1)):
        octets = ltp_data(0, 10, originator=originator, number=number)
        wrong = LARGE_NUMBERS if number >= 2**28 else ""
        fields = {"ltp.session.orig": originator, "ltp.session.number": number}
        yield Unit(octets, "red data", "bytes 0-9", (0, 10), fields=fields, wrong=wrong)
    authentication, cookie = b"\x00" + sdnv(3) + b"\x00ab", b"\x01" + sdnv(200) + bytes(200)
    for headers, trailers in ((1, 0), (2, 0), (0, 1), (0, 2), (1, 1), (2, 2)):
        extensions = b"", authentication, authentication + cookie
        more = {"headers": extensions[headers], "trailers": extensions[trailers], "counts": headers << 4 | trailers}
        wrong = EXTENSIONS if trailers else LONG_EXTENSIONS if headers == 2 else ""
        octets = ltp_data(100, 50, **more)
        yield Unit(octets, "red data", "bytes 100-149", (100, 50), fields={"ltp.data.offset": 100}, wrong=wrong)
        octets = ltp_report(0, 500, (0, 500), **more)
        yield Unit(octets, "report", "1 claim in bytes 0-499", None, from_receiver=True, wrong=EXTENSIONS)
        octets = ltp_segment(9, sdnv(9), **more)
        yield Unit(octets, "report-ack", wrong=EXTENSIONS)
        yield Unit(ltp_segment(12, b"\x02", **more), "cancel", CANCELS[2], verdict="ended early", wrong=EXTENSIONS)
        yield Unit(ltp_segment(13, b"", **more), "cancel-ack", from_receiver=True, wrong=EXTENSIONS)
    for lower, upper, claims in (
        (0, 500, ((0, 500),)),
        (1000, 3000, ((0, 10), (20, 30), (1999, 1))),
        (2**31, 2**31 + 5000, ((0, 5000),)),
        (0, 1 << 62, ()),
    ):
        count = f"{len(claims)} claim{'' if len(claims) == 1 else 's'}"
        wrong = LARGE_NUMBERS if upper >= 2**28 else ""
        fields = {"ltp.rpt.lb": lower, "ltp.rpt.ub": upper, "ltp.rpt.clm.cnt": len(claims)}
        detail = f"{count} in bytes {lower}-{upper - 1}"
        yield Unit(ltp_report(lower, upper, *claims), "report", detail, from_receiver=True, fields=fields, wrong=wrong)
    for reason, word in CANCELS.items():
        for kind in (12, 14):
            fields = {"ltp.type": kind, "ltp.cancel.code": reason}
            octets = ltp_segment(kind, bytes([reason]))
            yield Unit(octets, "cancel", word, from_receiver=kind == 14, verdict="ended early", fields=fields)
    for kind in (13, 15):
        fields = {"ltp.type": kind}
        wrong = "tshark 4.0 takes a segment of less than five octets for none"
        yield Unit(ltp_segment(kind, b""), "cancel-ack", from_receiver=kind == 13, fields=fields, wrong=wrong)


CANCELS = {
    0: "client cancelled",
    1: "unreachable client service",
    2: "retransmission limit exceeded",
    3: "miscolored segment",
    4: "system error",
    5: "retransmission cycle limit exceeded",
    6: "reason 6",
    255: "reason 255",
}


# NORM: RFC 5740, section 4

SCHEMES = "tshark 4.0 reads the FEC payload ids of other schemes"
CC_FEEDBACK, RATE, NACK_HEADER = bytes([3, 3]) + bytes(10), bytes([128, 0, 0, 9]), struct.pack(">IHHII", 1, 2, 0, 3, 4)


def fec_information(encoding: int, size: int, segment: int = 1000, block: int = 2) -> bytes:
    """EXT_FTI: of 48 bits, then what the scheme needs (RFC 5510, RFC 5445)."""
    head = struct.pack(">BBHI", 64, 3 if encoding == 5 else 4, size >> 32, size & 0xFFFFFFFF)
    if encoding == 5:
        return head + struct.pack(">HBB", segment, block, 1)
    if encoding == 2:
        return head + struct.pack(">BBHHH", 16, 1, segment, block, block + 1)
    return head + struct.pack(">HHHH", 0, segment, block, 1)


def payload_id(encoding: int, block: int, segment: int) -> bytes:
    if encoding == 129:
        return struct.pack(">IHH", block, 2, segment)
    return struct.pack(">I", block << (8 if encoding == 5 else 16) | segment)


def norm_message(kind: int, specific: bytes, extensions: bytes = b"", content: bytes = b"") -> bytes:
    header_bytes = 8 + len(specific) + len(extensions)
    return struct.pack(">BBHI", 1 << 4 | kind, header_bytes // 4, 7, 1) + specific + extensions + content


def norm_object(kind: int, encoding: int, identifier: bytes, flags: int = 0x10, number: int = 1) -> bytes:
    return struct.pack(">HBBBBH", 2, 50, 0x34, flags, encoding, number) + identifier


def norm_units() -> Iterator[Unit]:
    for encoding in (5, 2, 129):
        information = fec_information(encoding, 2500)
        for block, segment, place, count in (
            (0, 0, 0, 1000),
            (0, 1, 1000, 1000),
            (1, 0, 2000, 500),
            (0, 2, None, 1000),
        ):
            for extensions in (information, information + RATE, CC_FEEDBACK + information):
                identifier = payload_id(encoding, block, segment)
                octets = norm_message(2, norm_object(2, encoding, identifier), extensions, bytes(count))
                piece = None if place is None else (place, count)
                name = "DATA" if piece else "DATA (parity)"
                detail = (
                    f"bytes {place}-{place + count - 1}" if place is not None else f"block {block} segment {segment}"
                )
                fields = {"norm.type": 2, "norm.object_transport_id": 1, "norm.fec_encoding_id": encoding}
                yield Unit(octets, name, detail, piece, fields=fields)
        octets = norm_message(1, norm_object(1, encoding, b""), information, b"name")
        yield Unit(octets, "INFO", "object of 2500 bytes", fields={"norm.type": 1})
    yield Unit(
        norm_message(1, norm_object(1, 5, b"", flags=0x20)), "INFO", "of a stream", fields={"norm.flag.stream": 1}
    )
    for flavor, word in COMMANDS.items():
        octets = norm_message(3, struct.pack(">HBBBBH", 2, 50, 0x34, flavor, 5, 1), b"", bytes(8))
        yield Unit(octets, word, fields={"norm.type": 3, "norm.flavor": flavor}, wrong="" if flavor < 8 else SCHEMES)
    for flags, asks in (
        (1, "segments"),
        (2, "blocks"),
        (4, "INFO"),
        (8, "objects"),
        (15, "segments, blocks, INFO, objects"),
    ):
        for form in (1, 2, 3):
            items = struct.pack(">BBHI", 5, 0, 1, 0) * (2 if form == 2 else 1)
            request = struct.pack(">BBH", form, flags, len(items)) + items
            octets = norm_message(4, NACK_HEADER, CC_FEEDBACK, request * 3)
            yield Unit(octets, "NACK", f"asks for {asks}", from_receiver=True, fields={"norm.nack.flags": flags})
    for kind, word in ((1, "ACK of CC"), (2, "ACK of FLUSH"), (16, "ACK of 16"), (255, "ACK of 255")):
        octets = norm_message(5, struct.pack(">IHBBII", 1, 2, kind, 0, 3, 4), CC_FEEDBACK)
        yield Unit(octets, word, from_receiver=True, fields={"norm.type": 5, "norm.ack.type": kind})
    yield Unit(norm_message(6, b""), "REPORT", from_receiver=True)


COMMANDS = {
    1: "CMD FLUSH",
    2: "CMD EOT",
    3: "CMD SQUELCH",
    4: "CMD CC",
    5: "CMD REPAIR_ADV",
    6: "CMD ACK_REQ",
    7: "CMD APPLICATION",
    9: "CMD 9",
}


# Bundles of version 7: RFC 9171, section 4


def cbor(kind: int, argument: int, content: bytes = b"", octets: int = 0) -> bytes:
    """An item (RFC 8949), its argument in the fewest octets, or in so many."""
    fewest = next(size for size in (0, 1, 2, 4, 8) if argument < (24 if size == 0 else 256**size))
    size = max(fewest, octets)
    if not size:
        return bytes([kind << 5 | argument]) + content
    return bytes([kind << 5 | 23 + size.bit_length()]) + argument.to_bytes(size, "big") + content


def array(*items: bytes) -> bytes:
    return cbor(4, len(items), b"".join(items))


def eid(node: int, service: int) -> bytes:
    """ipn; node 0 is dtn:none."""
    return array(cbor(0, 2), array(cbor(0, node), cbor(0, service))) if node else array(cbor(0, 1), cbor(0, 0))


def bundle_7(
    count: int, *, flags: int = 0, crc_type: int = 0, offset: int = 0, blocks: bytes = b"", time_ms: int = 0,
    source: bytes = eid(1, 1), octets: int = 0,
    payload: bytes = b"",
) -> bytes:  # fmt: skip
    """CRCs are left 0: nothing here reads them."""
    crc = [cbor(2, 2 * crc_type, bytes(2 * crc_type))] if crc_type else []
    fragment = [cbor(0, offset), cbor(0, offset + count)] if flags & 1 else []
    numbers = [cbor(0, number) for number in (7, flags, crc_type)]
    stamp = array(cbor(0, time_ms, octets=octets), cbor(0, 3))
    primary = array(*numbers, eid(2, 1), source, eid(0, 0), stamp, cbor(0, 3_600_000), *fragment, *crc)
    heads = [cbor(0, number) for number in (1, 1, 0, crc_type)]
    last = array(*heads, cbor(2, count, payload or bytes(count), octets=octets), *crc)
    return b"\x9f" + primary + blocks + last + b"\xff"


def bundle_7_units() -> Iterator[Unit]:
    hop_count = array(*(cbor(0, number) for number in (10, 2, 0, 0)), cbor(2, 4, array(cbor(0, 30), cbor(0, 1))))
    previous = array(*(cbor(0, number) for number in (6, 3, 0, 0)), cbor(2, len(eid(1, 0)), eid(1, 0)))
    named = array(cbor(0, 1), cbor(3, 9, b"//node1/x"))
    for count in (0, 1, 23, 24, 255, 256, 1400):
        span = f"bytes 0-{count - 1}" if count else "no bytes"
        fields = {"bpv7.create_ts.seqno": 3, "bpv7.primary.version": 7}
        yield Unit(bundle_7(count), "data bundle", span, (0, count), fields=fields)
        for crc_type in (1, 2):
            yield Unit(bundle_7(count, crc_type=crc_type), "data bundle", span, (0, count))
        yield Unit(bundle_7(count, blocks=previous + hop_count, source=named), "data bundle", span, (0, count))
        yield Unit(bundle_7(count, octets=8, time_ms=2**63), "data bundle", span, (0, count))
    for offset in (0, 24, 2**32, 2**62):
        fields = {"bpv7.primary.frag_offset": offset}
        octets = bundle_7(100, flags=1, offset=offset)
        yield Unit(octets, "data bundle", f"bytes {offset}-{offset + 99}", (offset, 100), fields=fields)
    is_true, is_false = array(b"\xf5"), array(b"\xf4")
    statuses = array(is_true, is_false, is_false, is_false)
    report = array(cbor(0, 1), array(statuses, cbor(0, 0), eid(1, 1), array(cbor(0, 0), cbor(0, 3))))
    octets = bundle_7(len(report), flags=2, payload=report)
    yield Unit(octets, "administrative bundle", from_receiver=True)


# Saratoga: draft-wood-tsvwg-saratoga-20, section 4 (tshark has no dissector of it)

SARATOGA_ERRORS = {
    1: "unspecified error",
    4: "file not found",
    8: "file too long",
    12: "timed out",
    0x10: "metadata required",
    0x11: "unexpected status",
    0xFF: "255",
}
STAMP = bytes(range(16))


def saratoga_packet(kind: int, flags: int, content: bytes, session: int = 2**32 - 1) -> bytes:
    """`flags` are the 24 bits behind version and type."""
    return struct.pack(">II", 1 << 29 | kind << 24 | flags, session) + content


def saratoga_units() -> Iterator[Unit]:
    for descriptor, size in enumerate((2, 4, 8, 16)):
        length = descriptor << 22

        def number(value: int, size: int = size) -> bytes:
            return value.to_bytes(size, "big")

        for offset in (0, 100, min(256**size, 2**62) - 10):
            for stamp in (b"", STAMP):
                for asks in (0, 1):
                    for transfer in range(4):  # file, directory, bundle, stream
                        flags = length | transfer << 20 | bool(stamp) << 19 | asks << 16 | 1 << 15
                        octets = saratoga_packet(3, flags, stamp + number(offset) + bytes(10))
                        detail = f"bytes {offset}-{offset + 9}" + (", requests status" if asks else "")
                        yield Unit(octets, "data", detail, (offset, 10))
        octets = saratoga_packet(3, length, number(5))
        yield Unit(octets, "data", "no bytes", (5, 0))
        for words, checksum in ((0, 0), (1, 1), (4, 2), (5, 3)):
            entry = struct.pack(">H", 0x8000 | descriptor << 6) + number(2500) + bytes(8) + b"a/b.c\0"
            octets = saratoga_packet(2, length | words << 4 | checksum, bytes(4 * words) + entry)
            yield Unit(octets, "metadata", "file of 2500 bytes")
        for stamp in (b"", STAMP):
            for holes in ((), ((100, 200),), ((100, 200), (250, 251), (300, 400))):
                for partial in (0, 1):
                    flags = length | bool(stamp) << 19 | 1 << 18 | partial << 17 | 1 << 16
                    content = number(100 if holes else 1000) + number(1000)
                    content += b"".join(number(first) + number(end) for first, end in holes)
                    count = f"{len(holes)} hole{'' if len(holes) == 1 else 's'}"
                    progress = 100 if holes else 1000
                    detail = f"{count}, metadata missing, everything received before byte {progress}"
                    missing = sum(end - first for first, end in holes)
                    acknowledged = progress if partial else 1000 - missing
                    octets = saratoga_packet(4, flags, stamp + content)
                    yield Unit(octets, "status", detail, acknowledged=acknowledged, from_receiver=True)
        for code, word in SARATOGA_ERRORS.items():
            octets = saratoga_packet(4, length | code, number(0) + number(0))
            verdict = "" if code == 0x10 else "ended early"
            yield Unit(octets, "status", f"error: {word}", from_receiver=True, verdict=verdict)
        for space in (b"", number(2**15)):
            flags = length | 0b1111_1111 << 14 | bool(space) << 14 | descriptor << 12
            flags = flags if space else flags & ~(1 << 14)
            yield Unit(struct.pack(">I", 1 << 29 | flags) + space + b"urn:x", "beacon", from_receiver=True)
        for request in range(6):
            for authentication in (b"", b"secret"):
                octets = saratoga_packet(1, length | request, b"a/b.c\0" + authentication)
                yield Unit(octets, "request", from_receiver=True)

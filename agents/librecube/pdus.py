"""PDUs at the border of LibreCube's engine: what a datagram holds, and whether the engine may see it."""

from collections.abc import Callable
from typing import Any

from owlt.agents.librecube.settings import LARGEST_FILE_BYTES

TOWARDS_RECEIVER, TOWARDS_SENDER = 0, 1

_DIRECTIVES = {4: "Eof", 5: "Finished", 6: "Ack", 7: "Metadata", 8: "Nak"}
_KINDS = {TOWARDS_RECEIVER: {"FileData", "Metadata", "Eof", "Ack"}, TOWARDS_SENDER: {"Ack", "Nak", "Finished"}}


class Damaged(ValueError):
    """A datagram that is no PDU of this transfer: damaged, of others, or more than the engine can bear."""


def read_pdu(
    datagram: bytes,
    decode: Callable[[bytes], Any],
    *,
    towards: int,
    entities: tuple[int, int],
    transaction: int | None,
) -> Any:
    """The PDU in a datagram, as the library's `decode` gives it. `entities` are the ids of source and destination; a
    `transaction` of None takes any number.

    The library checks little: version, length, CRC flag and class are looked at here (CCSDS 727.0-B-5, section 5.1),
    and that a PDU does not make the engine reserve memory without end or touch other files.

    Raises:
        Damaged: anything else.
    """
    try:
        kind, _ = kind_and_offset(datagram)
        pdu = decode(datagram)
    except Exception as error:  # the library raises whatever comes of it
        raise Damaged(str(error)) from error
    header = pdu.pdu_header
    has_its_length = datagram[0] >> 5 == 1 and int.from_bytes(datagram[1:3]) == len(datagram) - len(header)
    ids = (header.source_entity_id, header.destination_entity_id)
    ours = ids == entities and transaction in (None, header.transaction_seq_number)
    plain = header.transmission_mode == 0 and not header.large_file_flag and not header.segmentation_metadata_flag
    if not (has_its_length and ours and plain and header.direction == towards and kind in _KINDS[towards]):
        raise Damaged(f"a {kind} PDU that is not of this transfer")
    if not _is_bearable(kind, pdu):
        raise Damaged(f"a {kind} PDU beyond the engine's limits")
    return pdu


def _is_bearable(kind: str, pdu: Any) -> bool:
    if kind == "FileData":
        return bool(pdu.segment_offset + len(pdu.file_data) <= LARGEST_FILE_BYTES)
    if kind == "Metadata":
        return not pdu.filestore_requests and not pdu.messages_to_user
    if kind == "Ack":
        return pdu.directive_code_ack in (4, 5)
    return True


def kind_and_offset(pdu: bytes) -> tuple[str, int | None]:
    """As a tally counts it (FileData, Metadata, Eof, Ack, Nak or Finished), and where file data belong.

    Raises IndexError or KeyError on bytes that are no PDU.
    """
    header_bytes = 4 + 2 * ((pdu[3] >> 4 & 7) + 1) + (pdu[3] & 7) + 1
    if pdu[0] & 0x10:
        return "FileData", int.from_bytes(pdu[header_bytes : header_bytes + 4])
    return _DIRECTIVES[pdu[header_bytes]], None

"""The two CFDP entities as cfdp-py needs them described: ids, timers, faults, one file each; PDUs on their way out.

PDUs are packed when they are made: the engine reuses their headers.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path

from cfdppy.filestore import NativeFilestore
from cfdppy.handler import DestHandler, SourceHandler
from cfdppy.mib import (
    CheckTimerProvider,
    DefaultFaultHandlerBase,
    IndicationConfig,
    LocalEntityConfig,
    RemoteEntityConfig,
    RemoteEntityConfigTable,
)
from cfdppy.user import CfdpUserBase, TransactionFinishedParams
from spacepackets.cfdp import ChecksumType, GenericPduPacket, TransmissionMode
from spacepackets.cfdp.pdu import AckPdu
from spacepackets.countdown import Countdown
from spacepackets.seqcount import SeqCountProvider
from spacepackets.util import UnsignedByteField

from owlt.agents.cfdp.pdus import Lengths, kind_of, offset_of, with_lengths
from owlt.agents.cfdp.settings import SEQUENCE_BYTES, Settings
from owlt.agents.endpoint.event_loop import Tally
from owlt.agents.endpoint.files import IncomingFile, map_file

OnFinished = Callable[[TransactionFinishedParams], None]


def source_entity(settings: Settings, store: SentFile) -> SourceHandler:
    """The entity that sends the file. Its end is seen in the receiver's Finished PDU."""
    local, remotes = _entities(settings.sender_entity, settings.receiver_entity, settings)
    numbers = SeqCountProvider(8 * SEQUENCE_BYTES)
    numbers.count = settings.transaction
    return SourceHandler(local, _User(store), remotes, _NoCheckTimer(), numbers)


def entity_id(number: int, settings: Settings) -> UnsignedByteField:
    """An entity id as cfdp-py has it."""
    return UnsignedByteField(number, settings.entity_bytes)


def destination_entity(settings: Settings, store: ReceivedFile, on_finished: OnFinished) -> DestHandler:
    """The entity that receives the file."""
    local, remotes = _entities(settings.receiver_entity, settings.sender_entity, settings)
    return DestHandler(local, _User(store, on_finished), remotes, _NoCheckTimer())


def _entities(own: int, peer_entity: int, settings: Settings) -> tuple[LocalEntityConfig, RemoteEntityConfigTable]:
    indications = IndicationConfig(
        eof_sent_indication_required=False,
        eof_recv_indication_required=False,
        file_segment_recvd_indication_required=False,
    )
    peer = RemoteEntityConfig(
        entity_id=entity_id(peer_entity, settings),
        max_file_segment_len=settings.segment_bytes,
        max_packet_len=settings.largest_pdu_bytes,
        closure_requested=settings.closure_requested,
        crc_on_transmission=settings.with_crc,
        default_transmission_mode=TransmissionMode.ACKNOWLEDGED,
        crc_type=ChecksumType(settings.checksum_number),
        positive_ack_timer_interval_seconds=settings.ack_interval_s,
        positive_ack_timer_expiration_limit=settings.ack_limit,
        immediate_nak_mode=settings.immediate_nak,
        nak_timer_interval_seconds=settings.nak_interval_s,
        nak_timer_expiration_limit=settings.nak_limit,
    )
    return LocalEntityConfig(entity_id(own, settings), indications, _Faults()), RemoteEntityConfigTable([peer])


class OneFile(NativeFilestore):  # type: ignore[misc]  # cfdp-py has no types
    """A filestore of one file, for any path that the engine names.

    The name in a Metadata PDU is the sender's choice; where the receiver writes is not. The engine's own
    store opens and closes the file for every segment.
    """

    def file_exists(self, path: Path) -> bool:
        return True

    def is_directory(self, path: Path) -> bool:
        return False


class SentFile(OneFile):
    """The sender's file, mapped."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._content = map_file(path)

    def file_size(self, file: Path) -> int:
        return len(self._content)

    def read_data(self, file: Path, offset: int | None, read_len: int | None = None) -> bytes:
        begin = offset or 0
        return self._content[begin : begin + (read_len or 0)]

    def calculate_checksum(
        self, checksum_type: ChecksumType, file_path: Path, size_to_verify: int, segment_len: int = 1 << 16
    ) -> bytes:
        checksum: bytes = super().calculate_checksum(checksum_type, self._path, size_to_verify, 1 << 16)
        return checksum


class ReceivedFile(OneFile):
    """The receiver's file, until it is complete."""

    def __init__(self, file: IncomingFile) -> None:
        super().__init__()
        self._file = file

    def truncate_file(self, file: Path) -> None:
        self._file.truncate(0)

    def write_data(self, file: Path, data: bytes, offset: int | None) -> None:
        self._file.write(offset or 0, data)

    def calculate_checksum(
        self, checksum_type: ChecksumType, file_path: Path, size_to_verify: int, segment_len: int = 1 << 16
    ) -> bytes:
        self._file.flush()
        checksum: bytes = super().calculate_checksum(checksum_type, self._file.part, size_to_verify, 1 << 16)
        return checksum


class _User(CfdpUserBase):  # type: ignore[misc]  # cfdp-py has no types
    """Handles a single indication: that the transaction has finished."""

    def __init__(self, store: OneFile, on_finished: OnFinished = lambda _: None) -> None:
        super().__init__(store)
        self._on_finished = on_finished

    def transaction_finished_indication(self, params: TransactionFinishedParams) -> None:
        self._on_finished(params)

    def _ignore(self, *_: object) -> None:
        """The engine insists on a handler for every indication of the standard."""

    transaction_indication = _ignore
    eof_sent_indication = _ignore
    eof_recv_indication = _ignore
    metadata_recv_indication = _ignore
    file_segment_recv_indication = _ignore
    report_indication = _ignore
    suspended_indication = _ignore
    resumed_indication = _ignore
    fault_indication = _ignore
    abandoned_indication = _ignore


class _Faults(DefaultFaultHandlerBase):  # type: ignore[misc]  # cfdp-py has no types
    """Default reactions. A fault that ends a transaction also reaches the finished indication."""

    def _ignore(self, *_: object) -> None:
        """The condition code travels in the finished parameters."""

    notice_of_suspension_cb = _ignore
    notice_of_cancellation_cb = _ignore
    abandoned_cb = _ignore
    ignore_cb = _ignore


class _NoCheckTimer(CheckTimerProvider):  # type: ignore[misc]  # cfdp-py has no types
    """Check timers are for class 1, which is not used."""

    def provide_check_timer(self, *_: object) -> Countdown:
        raise AssertionError("class 2 has no check timer")


class PduTally(Tally):
    """Counts PDUs by kind (`FileData`, `Metadata`, `Eof`, `Ack`, `Nak`, `Finished`), damaged datagrams, and file data
    that were sent more than once: those with an `offset` that was seen before."""

    def __init__(self) -> None:
        super().__init__("data_again", "unreadable")
        self._offsets: set[int] = set()

    def sent(self, kind: str, now_s: float, offset: int | None = None) -> None:
        super().sent(kind, now_s)
        self._note(offset)

    def received(self, kind: str, now_s: float, offset: int | None = None) -> None:
        super().received(kind, now_s)
        self._note(offset)

    def _note(self, offset: int | None) -> None:
        if offset in self._offsets:
            self.count("data_again")
        elif offset is not None:
            self._offsets.add(offset)


class Outbox:
    """A queue between an engine, which makes many PDUs at once, and a channel, which takes one at a time.

    `lengths` are the lengths of ids and sequence numbers in the peer's PDUs, for the replies; None: the engine's.
    """

    def __init__(self, tally: PduTally) -> None:
        self._tally = tally
        self._pdus: deque[tuple[GenericPduPacket, bytes]] = deque()
        self._offsets: Counter[int | None] = Counter()
        self.lengths: Lengths | None = None

    def __bool__(self) -> bool:
        return bool(self._pdus)

    def add(self, pdu: GenericPduPacket) -> None:
        packed = bytes(pdu.pack())
        self._pdus.append((pdu, packed if self.lengths is None else with_lengths(packed, self.lengths)))
        self._offsets[offset_of(pdu)] += 1

    def has_data_of(self, offset: int) -> bool:
        """Whether file data from this offset on wait to be sent."""
        return self._offsets[offset] > 0

    def take(self, engine: SourceHandler | DestHandler, *, acknowledgements: bool = True) -> None:
        """Take all PDUs that an engine has made, with its ACKs or without. The engine does not continue before that."""
        while (holder := engine.get_next_packet()) is not None:
            if acknowledgements or not isinstance(holder.pdu, AckPdu):
                self.add(holder.pdu)

    def clear(self) -> None:
        self._pdus.clear()
        self._offsets.clear()

    def next(self, now_s: float) -> bytes:
        pdu, packed = self._pdus.popleft()
        self._offsets[offset_of(pdu)] -= 1
        self._tally.sent(kind_of(pdu), now_s, offset_of(pdu))
        return packed


Request = tuple[int, int]


def is_answerable(requests: Sequence[Request], file_bytes: int) -> bool:
    """Whether the requested data are in the file and not more than the complete file: an engine would make all of
    them."""
    within = all(0 <= start <= end <= file_bytes for start, end in requests)
    return within and sum(end - start for start, end in requests) <= file_bytes


def in_segments(requests: Sequence[Request], segment_bytes: int) -> list[Request]:
    """The requested bytes as requests that are not longer than a segment."""
    split: list[Request] = []
    for begin, end in requests:
        starts = range(begin, end, segment_bytes)
        split += [(start, min(start + segment_bytes, end)) for start in starts] or [(begin, end)]
    return split


def without_waiting(requests: Sequence[Request], segment_bytes: int, waits: Callable[[int], bool]) -> list[Request]:
    """The requests, each without the segments at its ends that already wait to be sent, by their offset; no request is
    split, and requests that wait completely are dropped."""
    left: list[Request] = []
    for begin, end in requests:
        wanted = [start for start in range(begin, end, segment_bytes) if not waits(start)]
        if wanted:
            left.append((wanted[0], min(wanted[-1] + segment_bytes, end)))
        elif begin == end:
            left.append((begin, end))
    return left

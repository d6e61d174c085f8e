"""The two CFDP entities as cfdp-py wants them described: ids, timers, faults, one file each."""

from collections.abc import Callable
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
from spacepackets.cfdp import ChecksumType, TransmissionMode
from spacepackets.countdown import Countdown
from spacepackets.seqcount import SeqCountProvider
from spacepackets.util import UnsignedByteField

from owlt.agents.cfdp.settings import SEQUENCE_BYTES, Settings
from owlt.agents.endpoint.incoming_file import IncomingFile
from owlt.agents.endpoint.outgoing_file import map_file

TRANSACTION_NUMBER = 0
"""Of the first transaction of a fresh entity."""

OnFinished = Callable[[TransactionFinishedParams], None]


def source_entity(settings: Settings, store: "SentFile") -> SourceHandler:
    """The entity that sends the file. Its end is seen in the receiver's Finished PDU."""
    local, remotes = _entities(settings.sender_entity, settings.receiver_entity, settings)
    return SourceHandler(local, _User(store), remotes, _NoCheckTimer(), SeqCountProvider(8 * SEQUENCE_BYTES))


def entity_id(number: int, settings: Settings) -> UnsignedByteField:
    """An entity id as cfdp-py has it."""
    return UnsignedByteField(number, settings.entity_bytes)


def destination_entity(settings: Settings, store: "ReceivedFile", on_finished: OnFinished) -> DestHandler:
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
    """Hears of one thing only: that the transaction has finished."""

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

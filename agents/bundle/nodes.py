"""The two nodes of a transfer and the bundles that go between them: a file's fragments, and signals."""

from dataclasses import dataclass

from owlt.agents.bundle.blocks import NONE, Bundle, CustodyId, Eid, Fragment, Malformed, Timestamp
from owlt.agents.bundle.custody import AggregateCustodySignal, CustodySignal, DtnTime, StatusReport

SENDER = Eid(1, 1)
SENDER_NODE = Eid(1, 0)
"""The sending node has custody, so signals go to it."""
RECEIVER = Eid(2, 1)
RECEIVER_NODE = Eid(2, 0)

UNIX_S_OF_DTN_EPOCH = 946_684_800
"""2000-01-01 00:00 UTC."""


@dataclass(frozen=True)
class DtnClock:
    """DTN time from seconds of the monotonic clock."""

    epoch_s: float
    """DTN time when the monotonic clock was at 0."""

    def time(self, now_s: float) -> DtnTime:
        """Seconds and ns since 2000 UTC."""
        nanoseconds = round(1e9 * (self.epoch_s + now_s))
        return DtnTime(*divmod(nanoseconds, 10**9))


@dataclass(frozen=True)
class Division:
    """A file as one application data unit, and how it is divided into bundles. Sizes in bytes."""

    file_bytes: int
    bundle_bytes: int

    @property
    def bundles(self) -> int:
        """The number of bundles; an empty file is one bundle."""
        return max(1, -(-self.file_bytes // self.bundle_bytes))

    def length(self, number: int) -> int:
        """The payload length of a bundle; bundles are counted from 0."""
        return min(self.bundle_bytes, self.file_bytes - number * self.bundle_bytes)

    def fragment(self, number: int) -> Fragment | None:
        """The place of a bundle in the file; None if one bundle holds the complete file."""
        return Fragment(number * self.bundle_bytes, self.file_bytes) if self.bundles > 1 else None

    def number(self, offset: int, length: int) -> int:
        """The number of the bundle with this offset and length. Raises Malformed if there is none."""
        number, beside = divmod(offset, self.bundle_bytes)
        if beside or not 0 <= number < self.bundles or length != self.length(number):
            raise Malformed(f"{length} bytes at {offset} are no bundle of {self}")
        return number


PIECE_DIGITS = 8


def numbered_piece(payload: bytes) -> tuple[int, bytes]:
    """Number and content of a piece of a file that begins with its number. Raises Malformed."""
    digits = payload[:PIECE_DIGITS]
    if len(digits) != PIECE_DIGITS or not digits.isdigit():
        raise Malformed(f"got {digits!r}, expected {PIECE_DIGITS} digits in front of a piece")
    return int(digits), payload[PIECE_DIGITS:]


def data_bundle(
    payload: bytes, fragment: Fragment | None, created: Timestamp, custody_id: int | None, *, checked: bool = False
) -> Bundle:
    """A bundle of the file, of which the sending node has custody; its custody id is for aggregates."""
    return Bundle(
        source=SENDER,
        destination=RECEIVER,
        custodian=SENDER_NODE,
        custody_id=None if custody_id is None else CustodyId(custody_id, SENDER_NODE),
        created=created,
        fragment=fragment,
        payload=payload,
        checked=checked,
    )


def is_data(bundle: Bundle) -> bool:
    """Whether it is the sender's, with custody asked for."""
    addressed = (bundle.source, bundle.destination, bundle.custodian) == (SENDER, RECEIVER, SENDER_NODE)
    return addressed and not bundle.administrative


def record_bundle(
    record: CustodySignal | AggregateCustodySignal | StatusReport,
    created: Timestamp,
    destination: Eid = SENDER_NODE,
    *,
    checked: bool = False,
) -> Bundle:
    """A bundle with a record of the receiving node, for the custodian or for whom a bundle names."""
    return Bundle(
        source=RECEIVER_NODE,
        destination=destination,
        created=created,
        payload=record.encode(),
        administrative=True,
        checked=checked,
    )


def is_signal(bundle: Bundle) -> bool:
    """Whether it is the receiving node's to the custodian."""
    addressed = (bundle.source, bundle.destination, bundle.custodian) == (RECEIVER_NODE, SENDER_NODE, NONE)
    return addressed and bundle.administrative

"""The receiving node: accepts custody of each bundle, says so, and puts the file together."""

import math
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from owlt.agents.bundle.blocks import BlockFlag, Bundle, Timestamp, decode
from owlt.agents.bundle.custody import AggregateCustodySignal, CustodySignal, Extent, Happened, Status, StatusReport
from owlt.agents.bundle.eid import Eid
from owlt.agents.bundle.fields import Damaged, Malformed
from owlt.agents.bundle.nodes import (
    RECEIVER,
    SENDER_NODE,
    Division,
    DtnClock,
    is_data,
    numbered_piece,
    record_bundle,
)
from owlt.agents.bundle.settings import LARGEST_FILE_BYTES, BundleCheck, Custody, Settings
from owlt.agents.bundle.signals import AggregateSignals, Signals, SingleSignals
from owlt.agents.endpoint.counters import Tally
from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.incoming_file import IncomingFile

MOST_REPORTS = 1 << 10
"""That wait for the channel; beyond, bundles are not reported on."""


_KINDS: dict[type, str] = {CustodySignal: "cs", AggregateCustodySignal: "acs", StatusReport: "report"}
"""Records by the names under which they are counted."""


class Piece(NamedTuple):
    """A bundle's share of the file: which one it is, of which division, and its bytes."""

    division: Division
    number: int
    content: bytes


class Receiving:
    """A `Party` that receives one file, and stays to signal again.

    A bundle that comes again is answered with a custody signal that failed because reception was redundant. One that
    has a block of an unknown type is deleted and reported on if the block's flags ask for it (RFC 5050, section 5.6).

    Raises from `advance`:
        Failed: the sender was silent for too long.
    """

    def __init__(self, file: IncomingFile, settings: Settings, clock: DtnClock, now_s: float) -> None:
        self._settings = settings
        self._clock = clock
        self._file = file
        self._carrier = settings.carrier(RECEIVER.node)
        self._signals: Signals = SingleSignals(clock)
        if settings.custody is Custody.AGGREGATE:
            self._signals = AggregateSignals(settings.acs_window_s, settings.acs_bytes, clock)
        self._reports: deque[tuple[StatusReport, Eid]] = deque()
        self._tally = Tally("datagrams_sent", "unreadable", "damaged", "deleted", with_sums=False)
        self._checked = settings.bundle_check is BundleCheck.CRC32C
        self._created: Timestamp | None = None
        self._division: Division | None = None
        self._accepted: set[int] = set()
        self._sequence = 0
        self._datagrams: Iterator[bytes] = iter(())
        self._next: bytes | None = None
        self._signal_is_due = False
        self._quiet_since_s = now_s
        self.ended = False
        self.wakes_at_s = math.inf

    @property
    def is_complete(self) -> bool:
        """Whether every bundle of the file has come."""
        return self._division is not None and len(self._accepted) == self._division.bundles

    def has_datagram(self) -> bool:
        return self._next is not None or self._signal_is_due

    def next_datagram(self, now_s: float) -> bytes:
        if self._next is None:
            self._datagrams = self._carrier.datagrams_of(self._next_record(now_s))
            self._next = next(self._datagrams)
        datagram, self._next = self._next, next(self._datagrams, None)
        self._tally.count("datagrams_sent")
        self._tally.seen(now_s)
        self._quiet_since_s = now_s
        if not self.has_datagram():
            self.wakes_at_s = now_s  # further signals may be due before the sender is given up
        return datagram

    def hear(self, datagram: bytes, now_s: float) -> None:
        self._tally.seen(now_s)
        try:
            octets = self._carrier.take(datagram)
            if octets is not None:
                self._hear_bundle(decode(octets), now_s)
        except Damaged:
            self._tally.count("damaged")
        except Malformed:
            self._tally.count("unreadable")

    def advance(self, now_s: float) -> None:
        due_at_s = self._due_at_s()
        self._signal_is_due = due_at_s <= now_s
        bundles = self._division.bundles if self._division else 1
        limit_s = self._settings.linger_s(bundles) if self.is_complete else self._settings.silence_limit_s(bundles)
        silent_until_s = self._quiet_since_s + limit_s
        if now_s >= silent_until_s:
            if not self.is_complete:
                raise Failed(f"the sender was silent for {limit_s} s; {self._tally.facts()}")
            self.ended = True
        self.wakes_at_s = min(silent_until_s, math.inf if self._signal_is_due else due_at_s)

    def facts(self) -> str:
        """The last line of output."""
        assert self._division is not None
        return f"bundles={self._division.bundles} {self._tally.facts()}"

    def _due_at_s(self) -> float:
        return -math.inf if self._reports else self._signals.due_at_s()

    def _next_record(self, now_s: float) -> bytes:
        record: CustodySignal | AggregateCustodySignal | StatusReport
        record, destination = self._reports.popleft() if self._reports else (self._signals.next_record(), SENDER_NODE)
        self._signal_is_due = self._due_at_s() <= now_s
        self._tally.sent(_KINDS[type(record)], now_s)
        self._sequence += 1
        created = Timestamp(self._clock.time(now_s).seconds, self._sequence)
        return record_bundle(record, created, destination, checked=self._checked).encode()

    def _hear_bundle(self, bundle: Bundle, now_s: float) -> None:
        if self._checked and not bundle.checked:
            raise Damaged("no check")
        if not is_data(bundle):
            raise Malformed("not a bundle of the file")
        if bundle.not_processed:
            self._report_on(bundle, now_s)
        if bundle.not_processed & BlockFlag.DELETE_BUNDLE_IF_NOT_PROCESSED:
            self._tally.count("deleted")
            return
        piece = self._piece_of(bundle)
        self._quiet_since_s = now_s
        self._tally.received("bundle", now_s)
        if piece.number in self._accepted:
            self._signals.note(bundle, Status.REDUNDANT, now_s)
        else:
            self._accept(bundle, piece, now_s)

    def _report_on(self, bundle: Bundle, now_s: float) -> None:
        """Say that a block could not be processed, to whom the bundle names, if that is on the only node in reach."""
        happened = Happened(0)
        if bundle.not_processed & BlockFlag.REPORT_IF_NOT_PROCESSED:
            happened |= Happened.RECEIVED
        if bundle.not_processed & BlockFlag.DELETE_BUNDLE_IF_NOT_PROCESSED and bundle.reports_deletion:
            happened |= Happened.DELETED
        if not happened or bundle.report_to.node != SENDER_NODE.node or len(self._reports) == MOST_REPORTS:
            return
        extent = Extent(bundle.fragment.offset, len(bundle.payload)) if bundle.fragment else None
        report = StatusReport(
            happened=happened,
            source=bundle.source,
            created=bundle.created,
            extent=extent,
            time=self._clock.time(now_s),
        )
        self._reports.append((report, bundle.report_to))

    def _piece_of(self, bundle: Bundle) -> Piece:
        """What a bundle has of the file. The first fragment says how large that is.

        Raises:
            Malformed: nothing, or of another file than the first.
        """
        if self._settings.pieces_of is not None:
            number, content = numbered_piece(bundle.payload)
            division = self._settings.division(self._settings.pieces_of)
            if bundle.fragment or not number < division.bundles or len(content) != division.length(number):
                raise Malformed(f"{len(content)} bytes are not piece {number} of {division}")
            return Piece(division, number, content)
        offset, file_bytes = bundle.fragment or (0, len(bundle.payload))
        if file_bytes > LARGEST_FILE_BYTES:
            raise Malformed(f"a file of {file_bytes} bytes")
        division = self._settings.division(file_bytes)
        number = division.number(offset, len(bundle.payload))
        if (self._created or bundle.created, self._division or division) != (bundle.created, division):
            raise Malformed("a bundle of another file")
        return Piece(division, number, bundle.payload)

    def _accept(self, bundle: Bundle, piece: Piece, now_s: float) -> None:
        self._created, self._division = bundle.created, piece.division
        self._file.write(piece.number * piece.division.bundle_bytes, piece.content)
        self._accepted.add(piece.number)
        self._signals.note(bundle, Status.ACCEPTED, now_s)
        if self.is_complete:
            self._file.finish()
            self._signals.hasten()

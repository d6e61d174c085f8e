"""The receiving node: accepts custody of each bundle, signals it, and assembles the file.

Custody signals are sent for each bundle, or collected in aggregates (CCSDS 734.2-B-1).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from owlt.agents.bundle.blocks import BlockFlag, Bundle, Damaged, Eid, Malformed, Timestamp, decode
from owlt.agents.bundle.custody import (
    AggregateCustodySignal,
    CustodySignal,
    Extent,
    Fill,
    Happened,
    Status,
    StatusReport,
    first_fills,
)
from owlt.agents.bundle.nodes import RECEIVER, SENDER_NODE, Division, DtnClock, is_data, numbered_piece, record_bundle
from owlt.agents.bundle.settings import LARGEST_FILE_BYTES, BundleCheck, Custody, Settings
from owlt.agents.endpoint.event_loop import Tally
from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.files import IncomingFile
from owlt.agents.endpoint.intervals import Intervals

Record = CustodySignal | AggregateCustodySignal

MOST_SIGNALS = 1 << 20
"""The most signals that wait for the channel.

A file has at most 2^31 bytes, and some of its bundles arrive more than once.
"""


class Signals(Protocol):
    """The signals that are due. Times are seconds of the monotonic clock."""

    def note(self, bundle: Bundle, status: Status, now_s: float) -> None:
        """A bundle has come; this signal is about it."""

    def hasten(self) -> None:
        """Send collected signals at once: no more bundles are expected."""

    def due_at_s(self) -> float:
        """When the next record may be sent; infinity if there is none."""

    def next_record(self) -> Record:
        """The next record, which is due."""


class SingleSignals:
    """A custody signal for each bundle, at once and in order.

    Beyond MOST_SIGNALS none is sent: the sender retransmits the bundle.
    """

    def __init__(self, clock: DtnClock) -> None:
        self._clock = clock
        self._due: deque[CustodySignal] = deque()

    def note(self, bundle: Bundle, status: Status, now_s: float) -> None:
        if len(self._due) == MOST_SIGNALS:
            return
        signal = CustodySignal(
            status=status,
            source=bundle.source,
            created=bundle.created,
            extent=Extent(bundle.fragment.offset, len(bundle.payload)) if bundle.fragment else None,
            signalled=self._clock.time(now_s),
        )
        self._due.append(signal)

    def hasten(self) -> None:
        pass

    def due_at_s(self) -> float:
        return -math.inf if self._due else math.inf

    def next_record(self) -> CustodySignal:
        return self._due.popleft()


@dataclass
class _Gathering:
    """An aggregate that still grows."""

    due_at_s: float
    numbers: Intervals = field(default_factory=Intervals)

    @property
    def fills(self) -> list[Fill]:
        return [Fill(first, end - first) for first, end in self.numbers]


class AggregateSignals:
    """Aggregates by status: due when their window is over or they are full, made when the channel takes them.

    So bundles that arrive while an aggregate waits for the channel are still included, and aggregates do not queue. A
    bundle without a number for aggregates has a signal of its own.
    """

    def __init__(self, window_s: float, record_bytes: int, clock: DtnClock) -> None:
        self._window_s = window_s
        self._record_bytes = record_bytes
        self._single = SingleSignals(clock)
        self._gathering: dict[Status, _Gathering] = {}

    def note(self, bundle: Bundle, status: Status, now_s: float) -> None:
        number = bundle.aggregate_id
        if number is None:
            self._single.note(bundle, status, now_s)
            return
        if any(gathering.numbers.covers(number, number + 1) for gathering in self._gathering.values()):
            return
        gathering = self._gathering.setdefault(status, _Gathering(now_s + self._window_s))
        gathering.numbers.add(number, number + 1)
        if len(AggregateCustodySignal(status, tuple(gathering.fills)).encode()) > self._record_bytes:
            gathering.due_at_s = -math.inf

    def hasten(self) -> None:
        for gathering in self._gathering.values():
            gathering.due_at_s = -math.inf

    def due_at_s(self) -> float:
        aggregates_s = min((gathering.due_at_s for gathering in self._gathering.values()), default=math.inf)
        return min(self._single.due_at_s(), aggregates_s)

    def next_record(self) -> Record:
        if self._single.due_at_s() < math.inf:
            return self._single.next_record()
        status = min(self._gathering, key=lambda status: self._gathering[status].due_at_s)
        gathering = self._gathering[status]
        waiting = gathering.fills
        fills = first_fills(waiting, self._record_bytes)
        gathering.numbers = Intervals((fill.first, fill.last + 1) for fill in waiting[len(fills) :])
        if not gathering.numbers:
            del self._gathering[status]
        return AggregateCustodySignal(status, tuple(fills))


MOST_REPORTS = 1 << 10
"""The most status reports that wait for the channel; beyond this, bundles are not reported on."""


_KINDS: dict[type, str] = {CustodySignal: "cs", AggregateCustodySignal: "acs", StatusReport: "report"}
"""Records by the names under which they are counted."""


class Piece(NamedTuple):
    """A bundle's share of the file: its number, the division of the file, and its bytes."""

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
        """Report to the endpoint that the bundle names that a block could not be processed, if it is on the only
        reachable node."""
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
        """The piece of the file in a bundle. The first fragment states the size of the file.

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

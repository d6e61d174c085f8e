"""The receiving node: accepts custody of each bundle, says so, and puts the file together."""

import math
from collections.abc import Iterator

from agents.bundle.blocks import Bundle, Timestamp, decode
from agents.bundle.custody import AggregateCustodySignal, Status
from agents.bundle.fields import Malformed
from agents.bundle.nodes import RECEIVER, Division, DtnClock, is_data, signal_bundle
from agents.bundle.settings import LARGEST_FILE_BYTES, Custody, Settings
from agents.bundle.signals import AggregateSignals, Signals, SingleSignals
from agents.ending import Failed
from agents.incoming import IncomingFile
from agents.tally import Tally


class Receiving:
    """A `Party` that receives one file, and stays to signal again.

    A bundle that comes again is answered with a custody signal that failed because reception was redundant.

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
            self._signals = AggregateSignals(settings.acs_window_s, settings.acs_bytes)
        self._tally = Tally("datagrams_sent", "unreadable", with_sums=False)
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
    def whole(self) -> bool:
        """Whether every bundle of the file has come."""
        return self._division is not None and len(self._accepted) == self._division.bundles

    def has_datagram(self) -> bool:
        return self._next is not None or self._signal_is_due

    def next_datagram(self, now_s: float) -> bytes:
        if self._next is None:
            self._datagrams = self._carrier.datagrams_of(self._next_signal(now_s))
            self._next = next(self._datagrams)
        datagram, self._next = self._next, next(self._datagrams, None)
        self._tally.count("datagrams_sent")
        self._tally.seen(now_s)
        self._quiet_since_s = now_s
        if not self.has_datagram():
            self.wakes_at_s = now_s  # what else is to be said may be due before the sender is given up
        return datagram

    def hear(self, datagram: bytes, now_s: float) -> None:
        self._tally.seen(now_s)
        try:
            octets = self._carrier.take(datagram)
            if octets is not None:
                self._hear_bundle(decode(octets), now_s)
        except Malformed:
            self._tally.count("unreadable")

    def advance(self, now_s: float) -> None:
        due_at_s = self._signals.due_at_s()
        self._signal_is_due = due_at_s <= now_s
        bundles = self._division.bundles if self._division else 1
        limit_s = self._settings.linger_s(bundles) if self.whole else self._settings.silence_limit_s(bundles)
        silent_until_s = self._quiet_since_s + limit_s
        if now_s >= silent_until_s:
            if not self.whole:
                raise Failed(f"the sender was silent for {limit_s} s; {self._tally.facts()}")
            self.ended = True
        self.wakes_at_s = min(silent_until_s, math.inf if self._signal_is_due else due_at_s)

    def facts(self) -> str:
        """The last line of output."""
        assert self._division is not None
        return f"bundles={self._division.bundles} {self._tally.facts()}"

    def _next_signal(self, now_s: float) -> bytes:
        record = self._signals.next_record()
        self._signal_is_due = self._signals.due_at_s() <= now_s
        self._tally.sent("acs" if isinstance(record, AggregateCustodySignal) else "cs", now_s)
        self._sequence += 1
        return signal_bundle(record, Timestamp(self._clock.time(now_s).seconds, self._sequence)).encode()

    def _hear_bundle(self, bundle: Bundle, now_s: float) -> None:
        if not is_data(bundle):
            raise Malformed("not a bundle of the file")
        division, number = self._place_of(bundle)
        self._quiet_since_s = now_s
        self._tally.received("bundle", now_s)
        if number in self._accepted:
            self._signals.note(bundle, Status.REDUNDANT, now_s)
        else:
            self._accept(bundle, division, number, now_s)

    def _place_of(self, bundle: Bundle) -> tuple[Division, int]:
        """Which bundle it is, of which division of a file: the first one says how large that is.

        Raises:
            Malformed: it is none, or of another file than the first.
        """
        offset, file_bytes = bundle.fragment or (0, len(bundle.payload))
        if file_bytes > LARGEST_FILE_BYTES:
            raise Malformed(f"a file of {file_bytes} bytes")
        division = self._settings.division(file_bytes)
        number = division.number(offset, len(bundle.payload))
        wanted_id = number + 1 if self._settings.custody is Custody.AGGREGATE else None
        if (bundle.custody_id.number if bundle.custody_id else None) != wanted_id:
            raise Malformed("a custody id that is missing, or of another bundle")
        if (self._created or bundle.created, self._division or division) != (bundle.created, division):
            raise Malformed("a bundle of another file")
        return division, number

    def _accept(self, bundle: Bundle, division: Division, number: int, now_s: float) -> None:
        self._created, self._division = bundle.created, division
        self._file.write(number * division.bundle_bytes, bundle.payload)
        self._accepted.add(number)
        self._signals.note(bundle, Status.ACCEPTED, now_s)
        if self.whole:
            self._file.finish()
            self._signals.hasten()

"""The sending node: has custody of every bundle of a file until the receiving node has accepted it, and its timers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from mmap import mmap
from typing import NamedTuple

from owlt.agents.bundle.blocks import BlockFlag, Damaged, Malformed, Timestamp, decode
from owlt.agents.bundle.custody import AggregateCustodySignal, CustodySignal, Status, decode_record
from owlt.agents.bundle.nodes import SENDER, DtnClock, data_bundle, is_signal
from owlt.agents.bundle.settings import BundleCheck, Custody, Settings
from owlt.agents.endpoint.event_loop import Tally
from owlt.agents.endpoint.exit import Failed


class Awaited(NamedTuple):
    """A bundle on its way, by number, and when its custody timer expires."""

    expires_at_s: float
    number: int


class CustodyTimers:
    """Custody timers, in the order in which they were started, which is that in which they expire.

    Its length is a setting. By default it is the round-trip time, plus the time over which signals are aggregated, plus
    their transmission time on the reverse channel, where single signals wait for those before them, plus the margin.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._awaited: deque[Awaited] = deque()
        self._signals_until_s = 0.0

    def start(self, number: int, gone_s: float) -> None:
        """Start the timer of a bundle whose last bit is on the channel at `gone_s`."""
        self._awaited.append(Awaited(self._expiry_s(gone_s), number))

    def _expiry_s(self, gone_s: float) -> float:
        settings = self._settings
        if settings.custody_timer_s is not None:
            return gone_s + settings.custody_timer_s
        if settings.custody is Custody.AGGREGATE:
            return gone_s + settings.longest_timer_s(1)
        self._signals_until_s = max(self._signals_until_s, gone_s) + settings.signal_s
        return self._signals_until_s + settings.rtt_s + settings.timer_margin_s

    def first(self) -> Awaited | None:
        """The bundle whose timer expires first."""
        return self._awaited[0] if self._awaited else None

    def drop_first(self) -> None:
        """Remove the timer that expires first."""
        self._awaited.popleft()


_SETTLED = {Status.ACCEPTED, Status.REDUNDANT}


class Sending:
    """A `Party` that sends the content of a file as bundles, and retransmits those of which custody is not accepted in
    time.

    A bundle whose timer expired goes before those that have not been sent yet. A custody id is the bundle's number,
    counted from 1.

    Raises from `advance`:
        Failed: a bundle went as often as it may, or the receiver was silent for too long.
    """

    def __init__(self, content: mmap | bytes, settings: Settings, clock: DtnClock, now_s: float) -> None:
        self._settings = settings
        self._division = settings.division(len(content))
        self._content = content
        self._created = Timestamp(clock.time(now_s).seconds, 0)
        self._carrier = settings.carrier(SENDER.node)
        self._timers = CustodyTimers(settings)
        self._tally = Tally("datagrams_sent", "unreadable", "damaged", "deleted", with_sums=False)
        self._checked = settings.bundle_check is BundleCheck.CRC32C
        self._waiting = deque(range(self._division.bundles))
        self._kept = set(self._waiting)
        self._times_sent = [0] * self._division.bundles
        self._datagrams: Iterator[bytes] = iter(())
        self._next: bytes | None = None
        self._quiet_since_s = now_s
        self.ended = False
        self.wakes_at_s = math.inf

    def has_datagram(self) -> bool:
        return self._next is not None or bool(self._waiting)

    def next_datagram(self, now_s: float) -> bytes:
        if self._next is None:
            self._datagrams = self._carrier.datagrams_of(self._next_bundle(now_s))
            self._next = next(self._datagrams)
        datagram, self._next = self._next, next(self._datagrams, None)
        self._tally.count("datagrams_sent")
        self._tally.seen(now_s)
        if not self.has_datagram():
            self.wakes_at_s = now_s  # timers are checked when everything has been sent
        return datagram

    def hear(self, datagram: bytes, now_s: float) -> None:
        self._tally.seen(now_s)
        try:
            octets = self._carrier.take(datagram)
            if octets is not None:
                self._hear_signal(octets, now_s)
        except Damaged:
            self._tally.count("damaged")
        except Malformed:
            self._tally.count("unreadable")

    def advance(self, now_s: float) -> None:
        if not self._kept:
            self.ended = True
            return
        self._expire(now_s)
        limit_s = self._settings.silence_limit_s(self._division.bundles)
        silent_until_s = self._quiet_since_s + limit_s
        if now_s >= silent_until_s:
            raise Failed(f"the receiver was silent for {limit_s} s; {self._tally.facts()}")
        first = self._timers.first()
        self.wakes_at_s = min(silent_until_s, first.expires_at_s if first else math.inf)

    def facts(self) -> str:
        """The last line of output."""
        again = sum(self._times_sent) - self._division.bundles
        return f"bundles={self._division.bundles} bundles_again={again} {self._tally.facts()}"

    def _next_bundle(self, now_s: float) -> bytes:
        number = self._next_number()
        begin = number * self._division.bundle_bytes
        payload = self._content[begin : begin + self._division.length(number)]
        custody_id = number + 1 if self._settings.custody is Custody.AGGREGATE else None
        fragment = self._division.fragment(number)
        bundle = data_bundle(payload, fragment, self._created, custody_id, checked=self._checked)
        self._times_sent[number] += 1
        self._tally.sent("bundle", now_s)
        self._timers.start(number, now_s + self._settings.bundle_s)
        return bundle.encode()

    def _next_number(self) -> int:
        """Take the first waiting bundle.

        Both it and the next one that waits are bundles that the sender still keeps.
        """
        number = self._waiting.popleft()
        self._drop_settled()
        return number

    def _drop_settled(self) -> None:
        while self._waiting and self._waiting[0] not in self._kept:
            self._waiting.popleft()

    def _expire(self, now_s: float) -> None:
        """Put the bundles that are due to be sent again in front, and drop the timers of those that have been
        accepted."""
        expired = []
        while (first := self._timers.first()) and (first.expires_at_s <= now_s or first.number not in self._kept):
            self._timers.drop_first()
            if first.number in self._kept:
                expired.append(first.number)
        for number in reversed(expired):
            if self._times_sent[number] >= self._settings.repeat_limit:
                raise Failed(f"bundle {number + 1} was sent {self._times_sent[number]} times; {self._tally.facts()}")
            self._waiting.appendleft(number)

    def _hear_signal(self, octets: bytes, now_s: float) -> None:
        bundle = decode(octets)
        if self._checked and not bundle.checked:
            raise Damaged("no check")
        if bundle.not_processed & BlockFlag.DELETE_BUNDLE_IF_NOT_PROCESSED:
            self._tally.count("deleted")
            return
        if not is_signal(bundle):
            raise Malformed("not a bundle for the custodian")
        record = decode_record(bundle.payload)
        settled = self._numbers(record)
        self._quiet_since_s = now_s
        self._tally.received("acs" if isinstance(record, AggregateCustodySignal) else "cs", now_s)
        if record.status in _SETTLED:
            self._kept -= settled
            self._drop_settled()

    def _numbers(self, record: CustodySignal | AggregateCustodySignal) -> set[int]:
        """The numbers of the bundles in a record. Raises Malformed if one is not ours."""
        if isinstance(record, CustodySignal):
            return {self._number_of(record)}
        given = self._settings.custody is Custody.AGGREGATE
        if not given or record.fills[0].first < 1 or record.fills[-1].last > self._division.bundles:
            raise Malformed("custody ids that were not given")
        return {number - 1 for fill in record.fills for number in range(fill.first, fill.last + 1)}

    def _number_of(self, signal: CustodySignal) -> int:
        if (signal.source, signal.created) != (SENDER, self._created):
            raise Malformed("a signal for another bundle")
        if (signal.extent is None) != (self._division.bundles == 1):
            raise Malformed("a fragment of what was not fragmented, or no fragment of what was")
        return self._division.number(*signal.extent) if signal.extent else 0

"""The sender's side: streams a file at the channel's rate and fills the reported holes.

In a put it begins by itself, at once or after the receiver has accepted; in a get when the file is requested.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path

from owlt.agents.endpoint.event_loop import Tally
from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.files import map_file
from owlt.agents.endpoint.intervals import Intervals
from owlt.agents.saratoga.packets import (
    Action,
    Code,
    Data,
    Metadata,
    Packet,
    Request,
    Span,
    Status,
    Unreadable,
    code_name,
    file_digest,
    made_at_s,
    session_id,
    timestamp,
)
from owlt.agents.saratoga.settings import Settings

SLICE_RTTS = 1 / 8
SHORTEST_SLICE_S = 0.01
"""The longest flight as which consecutive DATA are recorded: lost data may count as in flight for this time."""

POLL_BYTES = 8
"""Bytes of the file in a poll: with the header of version 0, the poll has 18 bytes, as in the captures of the main
paper (NASA/TM-2012-216047, sections 5.6.1.2 and 5.6.2.6)."""

SOONEST_RTTS = 0.95
"""No answer arrives sooner than one round trip; slightly less is accepted, because clocks are read twice and delays
vary."""


@dataclass
class _Flight:
    """Consecutive DATA. `answer` is the value of "in response to" if its last packet requested a STATUS."""

    first_s: float
    last_s: float
    start: int
    end: int
    answer: int | None


class Flights:
    """The data that were sent, in order, until a STATUS reports them.

    `timer_s` is how long to wait for an answer: a STATUS covers all data sent before that.
    """

    def __init__(self, rtt_s: float, timer_s: float) -> None:
        self._rtt_s = rtt_s
        self._timer_s = timer_s
        self._slice_s = max(SHORTEST_SLICE_S, SLICE_RTTS * rtt_s)
        self._flights: deque[_Flight] = deque()
        self._answered: int | None = None

    def note(self, start: int, end: int, answer: int | None, now_s: float) -> None:
        """Record DATA that were sent now. `answer` is None if they did not request a STATUS."""
        last = self._flights[-1] if self._flights else None
        if last and last.answer is None and last.end == start and now_s - last.first_s < self._slice_s:
            last.last_s, last.end, last.answer = now_s, end, answer
        else:
            self._flights.append(_Flight(now_s, now_s, start, end, answer))

    def unknown_to(self, status: Status, now_s: float) -> Intervals:
        """The data that were sent too late for this STATUS. All earlier flights are removed.

        A timestamp in the STATUS decides this. Without one, a requested STATUS covers all DATA up to those that
        requested it: the last ones with its answer that are at least a round trip old. A voluntary STATUS, or one that
        answers DATA that are no longer recorded, is assumed to cover data older than a timer: on a slow reverse
        channel, where it waits in a queue, some data are then sent twice.
        """
        for _ in range(self._known(status, now_s)):
            self._flights.popleft()
        return Intervals((flight.start, flight.end) for flight in self._flights)

    def _known(self, status: Status, now_s: float) -> int:
        """How many of the flights the STATUS covers."""
        if status.timestamp:
            return sum(flight.last_s <= made_at_s(status.timestamp) for flight in self._flights)
        if not status.voluntary:
            asked_by_s = now_s - SOONEST_RTTS * self._rtt_s
            asked = [
                count
                for count, flight in enumerate(self._flights, 1)
                if flight.last_s <= asked_by_s and flight.answer == status.in_response_to
            ]
            if asked:
                self._answered = status.in_response_to
                return asked[-1]
            if self._answered == status.in_response_to:
                return 0  # another part of the answer
        return sum(flight.last_s < now_s - self._timer_s for flight in self._flights)


class Sending:
    """A `Party` that sends one file and ends when the receiver confirms the complete file.

    Raises:
        Unsupported: the offsets do not reach the end of the file.
        Failed: from `advance` and `hear`: the receiver was silent for too long, made no progress, or gave up the
            transaction.
    """

    def __init__(self, path: Path, settings: Settings, now_s: float) -> None:
        self._settings = settings
        self._content = map_file(path)
        self._file_bytes = len(self._content)
        self._metadata = self._describe(path)
        self._tally = Tally("data_again", "unreadable", "refused")
        self._outbox: deque[Request | Metadata | Status] = deque()
        self._flights = Flights(settings.rtt_s, settings.timer_s)
        self._repairs = Intervals()
        self._sent_bytes = 0  # of the first pass: what comes after has never been sent
        self._asked_with: Span = (0, 0)
        self._ended_file = False
        self._data_packets = 0
        self._streaming = False
        self._request: Request | None = None
        self._answer_due_s = math.inf
        self._asking_again = False
        self._metadata_sent_at_s = -math.inf
        self._quiet_since_s = self._stuck_since_s = now_s
        self._progress = 0
        self.ended = False
        self.wakes_at_s = math.inf
        if settings.transfer == "put":
            self._put(now_s)

    def has_datagram(self) -> bool:
        return bool(self._outbox) or self._has_data()

    def next_datagram(self, now_s: float) -> bytes:
        packet: Packet
        if self._outbox:
            packet = self._outbox.popleft()
            if isinstance(packet, Request | Metadata):
                self._answer_due_s = now_s + self._settings.timer_s
        else:
            packet = self._next_data(now_s)
        if not self.has_datagram():
            self.wakes_at_s = now_s  # timers are checked when everything has been sent
        self._tally.sent(type(packet).__name__, now_s)
        return self._settings.codec.pack(packet)

    def hear(self, datagram: bytes, now_s: float) -> None:
        try:
            packet = self._settings.codec.read(datagram)
        except Unreadable:
            self._tally.count("unreadable")
            return
        self._tally.received(type(packet).__name__, now_s)
        if isinstance(packet, Request) and self._settings.transfer == "get":
            self._hear_request(packet, now_s)
        elif isinstance(packet, Status) and self._is_awaited(packet):
            self._hear_status(packet, now_s)
        else:
            self._tally.count("refused")

    def advance(self, now_s: float) -> None:
        self.wakes_at_s = math.inf
        if self.ended:
            return
        stuck_at_s = self._stuck_since_s + self._settings.stuck_limit_s
        if self._streaming and now_s >= stuck_at_s:
            raise Failed(f"no progress of the receiver for {self._settings.stuck_limit_s:g} s; {self._tally.facts()}")
        if self.has_datagram():
            return
        silent_until_s = self._quiet_since_s + self._settings.silence_limit_s
        if now_s >= silent_until_s:
            raise Failed(f"the receiver was silent for {self._settings.silence_limit_s:g} s; {self._tally.facts()}")
        if now_s >= self._answer_due_s:
            self._ask_again()
        else:
            self.wakes_at_s = min(silent_until_s, self._answer_due_s, stuck_at_s if self._streaming else math.inf)

    def facts(self) -> str:
        """The last line of output."""
        return self._tally.facts()

    def _describe(self, path: Path) -> Metadata:
        descriptor_bits = self._settings.descriptor_bits_for(self._file_bytes)
        kind = self._settings.checksum_kind
        with path.open("rb") as file:
            digest = file_digest(file, kind)
        return Metadata(
            session=session_id(path.name),
            file_bytes=self._file_bytes,
            name=path.name,
            checksum=kind,
            digest=digest,
            descriptor_bits=descriptor_bits,
        )

    def _put(self, now_s: float) -> None:
        if self._settings.start == "blind":
            self._stream(now_s)
            return
        self._request = Request(
            session=self._metadata.session,
            action=Action.PUT,
            name=self._metadata.name,
            descriptor_bits=self._metadata.descriptor_bits,
        )
        self._outbox.append(self._request)

    def _stream(self, now_s: float) -> None:
        self._streaming = True
        self._stuck_since_s = now_s
        self._request = None
        self._send_metadata(now_s)

    def _send_metadata(self, now_s: float) -> None:
        """Send METADATA, at most once per round trip: a request that arrives sooner was sent before they could
        arrive."""
        if now_s - self._metadata_sent_at_s >= self._settings.rtt_s:
            self._outbox.append(self._metadata)
            self._metadata_sent_at_s = now_s

    def _has_data(self) -> bool:
        return self._streaming and (bool(self._repairs) or not self._ended_file)

    def _next_data(self, now_s: float) -> Data:
        start, end = self._next_span(now_s)
        self._data_packets += 1
        asks = self._asks_now()
        if asks:
            self._asked_with = start, end
            self._answer_due_s = now_s + self._settings.request_again_s
        if not self._asking_again:
            self._quiet_since_s = now_s
        self._flights.note(start, end, self._settings.answers(end) if asks else None, now_s)
        return Data(
            session=self._metadata.session,
            offset=start,
            payload=self._content[start:end],
            asks=asks,
            ends=end == self._file_bytes,
            timestamp=timestamp(now_s) if self._settings.timestamps == "on" else b"",
            descriptor_bits=self._metadata.descriptor_bits,
        )

    def _next_span(self, now_s: float) -> Span:
        """The next span to send: missing data first, then new data. An empty file is one empty span."""
        if self._repairs:
            self._tally.count("data_again")
            return self._repairs.pop(self._settings.segment_bytes)
        start = self._sent_bytes
        self._sent_bytes = min(start + self._settings.segment_bytes, self._file_bytes)
        if self._sent_bytes > start:
            self._stuck_since_s = now_s
        self._ended_file = self._sent_bytes == self._file_bytes
        return start, self._sent_bytes

    def _asks_now(self) -> bool:
        """Whether DATA request a STATUS: at intervals, and with the last packet to send."""
        every = self._settings.status_packets
        return not self._has_data() or (every > 0 and self._data_packets % every == 0)

    def _ask_again(self) -> None:
        """Repeat the request, because the DATA with the request or the answer were lost. A poll carries only the end of
        these DATA."""
        self._answer_due_s = math.inf
        self._asking_again = True
        if self._request is not None:
            self._outbox.append(self._request)
        elif self._file_bytes == 0:
            self._ended_file = False
        else:
            start, end = self._asked_with
            self._repairs.add(max(start, end - POLL_BYTES) if self._settings.poll_s else start, end)

    def _hear_request(self, request: Request, now_s: float) -> None:
        if request.action != Action.GET:
            self._refuse(request, Code.UNSUPPORTED_REQUEST)
        elif request.name not in ("", self._metadata.name):
            self._refuse(request, Code.FILE_NOT_FOUND)
        elif request.descriptor_bits < self._metadata.descriptor_bits:
            self._refuse(request, Code.FILE_TOO_LONG)
        elif not self._streaming:
            self._metadata = replace(self._metadata, session=request.session)
            self._quiet_since_s = now_s
            if self._settings.version:
                self._outbox.append(self._word(request.session, Code.SUCCESS))
            self._stream(now_s)

    def _refuse(self, request: Request, code: Code) -> None:
        """Refuse a request; version 0 has no code for that."""
        self._tally.count("refused")
        if self._settings.version:
            self._outbox.append(self._word(request.session, code))

    def _word(self, session: int, code: Code) -> Status:
        return Status(
            session=session,
            code=code,
            progress=0,
            in_response_to=0,
            holes=(),
            partial=False,
            voluntary=False,
            metadata_missing=False,
            timestamp=b"",
            descriptor_bits=self._metadata.descriptor_bits,
        )

    def _hear_status(self, status: Status, now_s: float) -> None:
        if status.code not in (Code.SUCCESS, Code.METADATA_REQUIRED):
            raise Failed(f"the receiver gave up with {code_name(status.code)}; {self._tally.facts()}")
        self._quiet_since_s = now_s
        self._asking_again = False
        if status.progress > self._progress:
            self._progress, self._stuck_since_s = status.progress, now_s
        if status.partial:  # the rest of the list is on its way
            self._answer_due_s = max(self._answer_due_s, now_s + self._settings.timer_s)
        if status.timestamp:
            self._tally.measured("round_trip_s", now_s - made_at_s(status.timestamp))
        if self._request is not None:
            self._stream(now_s)
        elif self._is_complete(status):
            self.ended = True
        else:
            if status.metadata_missing or status.code == Code.METADATA_REQUIRED:
                self._send_metadata(now_s)
            self._repair(status, now_s)

    def _is_awaited(self, status: Status) -> bool:
        return status.session == self._metadata.session and (self._streaming or self._request is not None)

    def _is_complete(self, status: Status) -> bool:
        has_gaps = bool(status.holes) or status.partial or status.metadata_missing
        return not has_gaps and status.progress == self._file_bytes

    def _repair(self, status: Status, now_s: float) -> None:
        missing = Intervals((start, min(end, self._sent_bytes)) for start, end in status.holes)
        if not status.holes:
            missing.add(status.progress, self._sent_bytes)  # the receiver has not seen what came last
        for start, end in self._flights.unknown_to(status, now_s):
            missing.remove(start, end)
        for start, end in missing:
            self._repairs.add(start, end)

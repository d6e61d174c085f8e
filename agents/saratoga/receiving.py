"""The receiver's side: writes DATA at their offsets and reports the holes to the sender. In a get it requests the file;
in a put it waits. It answers DATA that request a STATUS, and sends a voluntary STATUS when metadata are missing, when
the file is complete, when nothing has arrived for a while and, if configured, at intervals.
"""

import math
from collections import deque
from pathlib import Path
from typing import Self

from owlt.agents.endpoint.event_loop import Tally
from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.files import IncomingFile
from owlt.agents.endpoint.intervals import Intervals
from owlt.agents.saratoga.packets import (
    Action,
    Code,
    Data,
    Metadata,
    Packet,
    Request,
    Status,
    Unreadable,
    code_name,
    file_digest,
    session_id,
)
from owlt.agents.saratoga.settings import DESCRIPTOR_BITS, Settings

LINGER_TIMERS = 8
"""How many of its timers a receiver with the complete file stays after the last received packet.

The sender retransmits its request at every timer: at PER 0.1 one receiver in 10^8 misses eight in a row.
"""

QUIET_TIMERS = 2
"""The silence after which it sends a voluntary STATUS: the sender's own timer is shorter and expires first."""

LARGEST_FILE_BYTES = 2**40
"""The largest offset of DATA: every file system supports a hole of this size."""

MOST_SPANS = 1 << 20
"""Pieces of a file between holes; a datagram that would make more is refused.

10^9 bytes with every second packet lost have half as many.
"""

LARGEST_DESCRIPTOR_BITS = 64


class Receiving:
    """A `Party` that receives one file into `output`, which appears when it is complete.

    `wanted` is the name of the file to get, None in a put.

    Raises from `advance` and `hear`:
        Failed: the sender was silent for too long, or spoke in vain, or refused.
    """

    def __init__(self, output: Path, settings: Settings, now_s: float, wanted: str | None = None) -> None:
        self._settings = settings
        self._file = IncomingFile(output)
        self._tally = Tally("data_again", "unreadable", "refused")
        self._outbox: deque[Request | Status] = deque()
        self._got = Intervals()
        self._session: int | None = None
        self._metadata: Metadata | None = None
        self._file_bytes: int | None = None
        self._descriptor_bits = LARGEST_DESCRIPTOR_BITS
        self._furthest = 0
        self._stamp = b""
        self._request: Request | None = None
        self._request_due_s = self._metadata_due_s = -math.inf
        self._status_due_s = self._voluntary_due_s = math.inf
        self._outcome: Code | None = None
        self._confirmed_s = -math.inf
        self._quiet_since_s = self._stuck_since_s = now_s
        self.ended = False
        self.wakes_at_s = math.inf
        if wanted is not None:
            self._session = session_id(wanted)
            self._request = Request(
                session=self._session, action=Action.GET, name=wanted, descriptor_bits=LARGEST_DESCRIPTOR_BITS
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def has_datagram(self) -> bool:
        return bool(self._outbox)

    def next_datagram(self, now_s: float) -> bytes:
        packet = self._outbox.popleft()
        if not self._outbox:
            self.wakes_at_s = now_s  # timers are looked at once all is sent
        self._tally.sent(type(packet).__name__, now_s)
        return self._settings.codec.pack(packet)

    def hear(self, datagram: bytes, now_s: float) -> None:
        try:
            packet = self._settings.codec.read(datagram)
        except Unreadable:
            self._tally.count("unreadable")
            return
        self._tally.received(type(packet).__name__, now_s)
        if not self._is_of_the_session(packet) or not self._take(packet, now_s):
            self._tally.count("refused")
            return
        self._request = None
        self._quiet_since_s = now_s
        self._status_due_s = now_s + QUIET_TIMERS * self._settings.longest_wait_s

    def advance(self, now_s: float) -> None:
        stuck_at_s = self._stuck_since_s + self._settings.stuck_limit_s
        if self._outcome is not None:
            self.wakes_at_s = min(stuck_at_s, self._quiet_since_s + LINGER_TIMERS * self._settings.longest_wait_s)
            if now_s >= self.wakes_at_s:
                self.ended, self.wakes_at_s = not self._outbox, math.inf
            return
        silent_until_s = self._quiet_since_s + self._settings.silence_limit_s
        if now_s >= silent_until_s:
            raise Failed(f"the sender was silent for {self._settings.silence_limit_s:g} s; {self._tally.facts()}")
        if now_s >= stuck_at_s:
            raise Failed(f"no progress for {self._settings.stuck_limit_s:g} s; {self._tally.facts()}")
        self._ask_for_the_file(now_s)
        self._speak_unasked(now_s)
        due_s = self._request_due_s if self._request is not None else math.inf
        self.wakes_at_s = min(silent_until_s, stuck_at_s, due_s, self._status_due_s, self._voluntary_due_s)

    def facts(self) -> str:
        """The last line of output. Raises Failed if the file is incomplete."""
        if self._outcome != Code.SUCCESS:
            raise Failed(f"the checksum of the file differs from its metadata; {self._tally.facts()}")
        return self._tally.facts()

    def _ask_for_the_file(self, now_s: float) -> None:
        if self._request is not None and now_s >= self._request_due_s:
            self._outbox.append(self._request)
            self._request_due_s = now_s + self._settings.timer_s

    def _speak_unasked(self, now_s: float) -> None:
        if now_s >= self._status_due_s:
            self._status_due_s = now_s + QUIET_TIMERS * self._settings.longest_wait_s
            self._tell(to_the_end=True)
        if now_s >= self._voluntary_due_s:
            self._voluntary_due_s = now_s + self._settings.voluntary_s
            self._tell()

    def _is_of_the_session(self, packet: Packet) -> bool:
        """Whether a packet is of the session. In a put the first packet that can begin a session defines it."""
        if not isinstance(packet, Request | Metadata | Data | Status):
            return False
        if self._session is None and not isinstance(packet, Status):
            self._session = packet.session
        return packet.session == self._session

    def _take(self, packet: Packet, now_s: float) -> bool:
        """Whether the packet was of use."""
        if isinstance(packet, Data):
            return self._take_data(packet, now_s)
        if isinstance(packet, Metadata):
            return self._take_metadata(packet, now_s)
        if isinstance(packet, Status):
            return self._take_word(packet)
        return isinstance(packet, Request) and self._take_request(packet)

    def _take_request(self, request: Request) -> bool:
        if self._settings.transfer == "get" or request.action != Action.PUT:
            return False
        self._descriptor_bits = request.descriptor_bits
        self._tell(requested=True)
        return True

    def _take_word(self, status: Status) -> bool:
        """Handle the sender's own STATUS, which accepts or refuses a get."""
        if status.code != Code.SUCCESS and self._outcome is None:
            raise Failed(f"the sender refused with {code_name(status.code)}; {self._tally.facts()}")
        return True

    def _take_metadata(self, metadata: Metadata, now_s: float) -> bool:
        size = metadata.file_bytes
        if size > LARGEST_FILE_BYTES or size < self._furthest or self._file_bytes not in (None, size):
            return False
        self._descriptor_bits = metadata.descriptor_bits
        if self._metadata is None:
            self._metadata, self._file_bytes = metadata, size
            self._stuck_since_s = now_s
            if self._settings.voluntary_s:
                self._voluntary_due_s = now_s
            if self._is_complete():
                self._finish()
        return True

    def _take_data(self, data: Data, now_s: float) -> bool:
        if not self._can_take(data):
            return False
        self._descriptor_bits = data.descriptor_bits
        self._stamp = data.timestamp
        self._furthest = max(self._furthest, data.end)
        if data.ends:
            self._file_bytes = data.end
        if self._got.covers(data.offset, data.end) and data.payload:
            self._tally.count("data_again")
        elif self._outcome is None:
            self._file.write(data.offset, data.payload)
            self._got.add(data.offset, data.end)
            self._stuck_since_s = now_s
            if self._is_complete():
                self._finish()
        self._answer(data, now_s)
        return True

    def _can_take(self, data: Data) -> bool:
        """Whether DATA can be reported: a STATUS cannot contain offsets beyond the range of its own descriptor."""
        known = self._file_bytes
        if data.end > (LARGEST_FILE_BYTES if known is None else known) or len(self._got) >= MOST_SPANS:
            return False
        if data.end >= 1 << data.descriptor_bits:
            return False
        return not data.ends or (data.end >= self._furthest and known in (None, data.end))

    def _answer(self, data: Data, now_s: float) -> None:
        if data.asks and not self._confirms_already(now_s):
            self._tell(data)
            if self._outcome is not None:
                self._confirmed_s = now_s
        elif self._metadata is None and now_s >= self._metadata_due_s:
            self._metadata_due_s = now_s + self._settings.timer_s
            self._tell()

    def _confirms_already(self, now_s: float) -> bool:
        """Whether a poll that arrives now left before the STATUS on the complete file can have reached the sender."""
        return self._settings.poll_s > 0 and now_s < self._confirmed_s + self._settings.rtt_s

    def _is_complete(self) -> bool:
        return self._metadata is not None and self._got.covers(0, self._metadata.file_bytes)

    def _finish(self) -> None:
        assert self._metadata is not None
        self._file.truncate(self._metadata.file_bytes)
        with self._file.opened() as content:
            right = file_digest(content, self._metadata.checksum) == self._metadata.digest
        self._outcome = Code.SUCCESS if right else Code.UNSPECIFIED_ERROR
        if right:
            self._file.finish()
        else:
            self._file.close()
        self._tell()

    def _tell(self, asked: Data | None = None, *, requested: bool = False, to_the_end: bool = False) -> None:
        """Send all known holes, in place of a list that waits to be sent.

        `to_the_end`: data after the furthest DATA are lost too.
        """
        end = self._file_bytes if to_the_end and self._file_bytes is not None else self._furthest
        holes = list(self._got.gaps(0, end))
        reaches = next(bits for bits in DESCRIPTOR_BITS if max(end, self._furthest) < 1 << bits)
        descriptor_bits = max(self._descriptor_bits, reaches)  # the sender's own, unless it took a shorter one since
        most = self._settings.holes_per_status(descriptor_bits)
        parts = [holes[at : at + most] for at in range(0, len(holes), most)] or [[]]
        self._outbox = deque(packet for packet in self._outbox if isinstance(packet, Request))
        self._outbox.extend(
            Status(
                session=self._session or 0,
                code=self._outcome or Code.SUCCESS,
                progress=holes[0][0] if holes else end,
                in_response_to=self._settings.answers(asked.end if asked else self._furthest),
                holes=tuple(part),
                partial=len(parts) > 1,
                voluntary=asked is None and not requested,
                metadata_missing=self._metadata is None,
                timestamp=asked.timestamp if asked else self._stamp,
                descriptor_bits=descriptor_bits,
            )
            for part in parts
        )

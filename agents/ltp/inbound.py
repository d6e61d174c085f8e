"""A block that comes in: what of it is here, and the reports on that (RFC 5326, section 6.11)."""

from collections.abc import Iterator
from typing import TypeVar

from owlt.agents.endpoint.intervals import Intervals
from owlt.agents.ltp import sdnv
from owlt.agents.ltp.segments import Checkpoint, Claim, DataSegment, Report, SessionId, encode

Value = TypeVar("Value")

CHECKPOINTS_REMEMBERED = 1 << 16


class Unfitting(Exception):
    """A segment that lies outside its block, or gives the block another end."""


class Miscolored(Exception):
    """Red data behind green data (section 6.21)."""


class InboundBlock:
    """One session of the receiver. It keeps no data: it says which are new."""

    def __init__(self, session: SessionId, room_bytes: int, length: int | None, first_serial: int) -> None:
        self._session = session
        self._room_bytes = room_bytes
        self._length = length
        self._next_serial = first_serial
        self._red = Intervals()
        self._red_length: int | None = None
        self._green = Intervals()
        self._green_from: int | None = None
        self._ended = False
        self._primary_upper_bound = 0
        self._answers: dict[int, list[int]] = {}
        self._lower_bounds: dict[int, int] = {}

    @property
    def is_complete(self) -> bool:
        """Every byte has come."""
        return self._length is not None and self._red.total + self._green.total == self._length

    @property
    def awaits_green_only(self) -> bool:
        """The end of the block has been seen, and the red part, if anything shows that there is one, is complete."""
        return self._ended and self._red.total == (self._red_length or 0)

    def take(self, segment: DataSegment) -> bool:
        """Whether the segment has something new.

        Raises:
            Unfitting, Miscolored
        """
        self._check(segment)
        if segment.ends_red_part:
            self._red_length = segment.end
        if segment.ends_block:
            self._length = segment.end
            self._ended = True
        if segment.red:
            return self._red.add(segment.offset, segment.end) > 0
        if self._green_from is None or segment.offset < self._green_from:
            self._green_from = segment.offset
        return self._green.add(segment.offset, segment.end) > 0

    def _check(self, segment: DataSegment) -> None:
        end = segment.end
        if segment.offset == end or end > self._room_bytes:
            raise Unfitting
        if segment.red:
            if self._red_length is not None and end > self._red_length:
                raise Unfitting
            if self._green_from is not None and end > self._green_from:
                raise Miscolored
        elif segment.offset < self._red.end:
            raise Miscolored
        come_to = max(self._red.end, self._green.end)
        if segment.ends_block and (self._length not in (None, end) or end < come_to):
            raise Unfitting
        if segment.ends_red_part and (self._red_length not in (None, end) or end < self._red.end):
            raise Unfitting
        if self._length is not None and end > self._length:
            raise Unfitting

    def answer_to(self, checkpoint: Checkpoint) -> list[int]:
        """The serial numbers of the reports that were made for a checkpoint; none for a new one."""
        return self._answers.get(checkpoint.serial, [])

    def report(self, checkpoint: Checkpoint, upper_bound: int, largest_bytes: int) -> list[Report]:
        """The report on a new checkpoint, whose data end at `upper_bound`, in segments of `largest_bytes` at most."""
        lower_bound = self._lower_bounds.get(checkpoint.report_serial, 0)
        if checkpoint.report_serial == 0:
            lower_bound = self._primary_upper_bound
            self._primary_upper_bound = max(lower_bound, upper_bound)
        reports = list(self._reports(checkpoint.serial, lower_bound, upper_bound, largest_bytes))
        _remember(self._answers, checkpoint.serial, [report.serial for report in reports])
        for report in reports:
            _remember(self._lower_bounds, report.serial, report.lower_bound)
        return reports

    def _reports(self, checkpoint_serial: int, lower: int, upper: int, largest_bytes: int) -> Iterator[Report]:
        """Reports that lie side by side. Each ends with a claim, but the last ends at the upper bound."""
        come = list(self._red.within(lower, upper))
        while come:
            empty = Report(self._session, self._next_serial, checkpoint_serial, upper, lower, ())
            claims = _claims_that_fit(come, lower, largest_bytes - len(encode(empty)))
            del come[: len(claims)]
            claimed_to = lower + claims[-1].offset + claims[-1].length
            bound = claimed_to if come else upper
            yield Report(self._session, self._next_serial, checkpoint_serial, bound, lower, tuple(claims))
            self._next_serial += 1
            lower = bound


def _claims_that_fit(come: list[tuple[int, int]], lower: int, room_bytes: int) -> list[Claim]:
    """At least one, and no more than take `room_bytes`. Their count takes up to 3 bytes, of which one is counted."""
    claims: list[Claim] = []
    room_bytes -= 2
    for start, end in come:
        claim = Claim(start - lower, end - start)
        room_bytes -= sum(len(sdnv.encode(number)) for number in claim)
        if claims and room_bytes < 0:
            break
        claims.append(claim)
    return claims


def _remember(known: dict[int, Value], serial: int, value: Value) -> None:
    known[serial] = value
    if len(known) > CHECKPOINTS_REMEMBERED:
        del known[next(iter(known))]

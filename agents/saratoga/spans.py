"""A set of byte positions as sorted, disjoint spans: its size grows with the gaps, not with the bytes."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from agents.saratoga.packets import Span


class Spans:
    """Half-open spans (start, end). Neighbours are one span."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in spans:
            self.add(start, end)

    def __bool__(self) -> bool:
        return bool(self._starts)

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[Span]:
        return iter(list(zip(self._starts, self._ends, strict=True)))

    @property
    def total_bytes(self) -> int:
        """How many bytes are in it."""
        return sum(self._ends) - sum(self._starts)

    @property
    def end(self) -> int:
        """The byte after the last; 0 when empty."""
        return self._ends[-1] if self._ends else 0

    def add(self, start: int, end: int) -> None:
        """Put in a span, which may touch or cover others. Nothing happens when it is empty."""
        if start >= end:
            return
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]

    def remove(self, start: int, end: int) -> None:
        """Take out what is of the span."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        if start >= end or first >= last:
            return
        left = [(self._starts[first], start)] if self._starts[first] < start else []
        right = [(end, self._ends[last - 1])] if self._ends[last - 1] > end else []
        self._starts[first:last] = [piece[0] for piece in left + right]
        self._ends[first:last] = [piece[1] for piece in left + right]

    def covers(self, start: int, end: int) -> bool:
        """Whether the whole span is in it. An empty span is."""
        place = bisect_right(self._starts, start) - 1
        return start >= end or (place >= 0 and end <= self._ends[place])

    def gaps(self, end: int) -> list[Span]:
        """What is missing of (0, end), in order."""
        edges = [0, *(edge for span in self for edge in span), end]
        pairs = zip(edges[::2], edges[1::2], strict=True)
        return [(start, min(stop, end)) for start, stop in pairs if start < min(stop, end)]

    def pop(self, most_bytes: int) -> Span:
        """Take out the first `most_bytes` bytes that are in a row, or fewer. Raises IndexError when empty."""
        start, end = self._starts[0], min(self._ends[0], self._starts[0] + most_bytes)
        if end == self._ends[0]:
            del self._starts[0], self._ends[0]
        else:
            self._starts[0] = end
        return start, end

"""A set of integers as intervals: which bytes have arrived, and which are missing.

Its size grows with the gaps, not with the numbers.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator


class Intervals:
    """Disjoint intervals [start, end) in order. Their number is the length."""

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.total = 0
        """How many numbers are in the set."""
        for start, end in intervals:
            self.add(start, end)

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._ends, strict=True)

    @property
    def end(self) -> int:
        """One more than the last number; 0 for an empty set."""
        return self._ends[-1] if self._ends else 0

    def add(self, start: int, end: int) -> int:
        """Add [start, end). Returns how many of its numbers are new."""
        starts, ends = self._starts, self._ends
        if start >= end:
            return 0
        if not ends or start > ends[-1]:
            starts.append(start)
            ends.append(end)
            new = end - start
        elif start == ends[-1]:
            ends[-1] = end
            new = end - start
        else:
            new = self._join(start, end)
        self.total += new
        return new

    def _join(self, start: int, end: int) -> int:
        """Add [start, end), which may touch existing intervals."""
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        held = sum(self._ends[at] - self._starts[at] for at in range(first, last))
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
        return end - start - held

    def remove(self, start: int, end: int) -> None:
        """Remove the numbers of [start, end)."""
        first, last = bisect_right(self._ends, start), bisect_left(self._starts, end)
        if start >= end or first >= last:
            return
        self.total -= sum(stop - begin for begin, stop in self.within(start, end))
        left = [(self._starts[first], start)] if self._starts[first] < start else []
        right = [(end, self._ends[last - 1])] if self._ends[last - 1] > end else []
        self._starts[first:last] = [piece[0] for piece in left + right]
        self._ends[first:last] = [piece[1] for piece in left + right]

    def pop(self, most: int) -> tuple[int, int]:
        """Remove the first `most` consecutive numbers, or fewer. Raises IndexError if the set is empty."""
        start, end = self._starts[0], min(self._ends[0], self._starts[0] + most)
        if end == self._ends[0]:
            del self._starts[0], self._ends[0]
        else:
            self._starts[0] = end
        self.total -= end - start
        return start, end

    def within(self, lower: int, upper: int) -> Iterator[tuple[int, int]]:
        """The intervals between two bounds, cut at the bounds; none if `lower` is above `upper`."""
        at = bisect_right(self._ends, lower) if lower < upper else len(self._ends)
        while at < len(self._starts) and self._starts[at] < upper:
            yield max(lower, self._starts[at]), min(upper, self._ends[at])
            at += 1

    def gaps(self, lower: int, upper: int) -> Iterator[tuple[int, int]]:
        """The missing intervals between two bounds."""
        for start, end in self.within(lower, upper):
            if lower < start:
                yield lower, start
            lower = end
        if lower < upper:
            yield lower, upper

    def covers(self, lower: int, upper: int) -> bool:
        """Whether nothing is missing between two bounds."""
        place = bisect_right(self._starts, lower) - 1
        return lower >= upper or (place >= 0 and upper <= self._ends[place])

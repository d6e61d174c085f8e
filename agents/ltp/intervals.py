"""A set of whole numbers as the stretches it is made of: which bytes of a block have come, and which have not."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator


class Intervals:
    """Stretches [start, end), apart from each other and in order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.total = 0
        """How many numbers are in the set."""

    def add(self, start: int, end: int) -> int:
        """Put [start, end) in. Returns how many of its numbers were not there yet."""
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
        """Put [start, end) in where it may touch what is there."""
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        held = sum(self._ends[at] - self._starts[at] for at in range(first, last))
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
        return end - start - held

    def within(self, lower: int, upper: int) -> Iterator[tuple[int, int]]:
        """The stretches between two bounds, cut off at them."""
        at = bisect_right(self._ends, lower)
        while at < len(self._starts) and self._starts[at] < upper:
            yield max(lower, self._starts[at]), min(upper, self._ends[at])
            at += 1

    def gaps(self, lower: int, upper: int) -> Iterator[tuple[int, int]]:
        """What is missing between two bounds."""
        for start, end in self.within(lower, upper):
            if lower < start:
                yield lower, start
            lower = end
        if lower < upper:
            yield lower, upper

    def covers(self, lower: int, upper: int) -> bool:
        """Whether nothing is missing between two bounds."""
        return next(self.gaps(lower, upper), None) is None

    @property
    def end(self) -> int:
        """Behind the last number; 0 in an empty set."""
        return self._ends[-1] if self._ends else 0

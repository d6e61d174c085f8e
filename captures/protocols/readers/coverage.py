"""Which bytes of a file, or of a stream, have been carried already."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class Coverage:
    """The bytes from 0 on: those before `furthest` are covered, but for the holes, which are in rising order."""

    def __init__(self) -> None:
        self.furthest = 0
        self.holes: list[tuple[int, int]] = []

    def add(self, first: int, end: int) -> int:
        """Cover the bytes from `first` (0 or more) to before `end`. How many of them were not covered."""
        begin = bisect_right(self.holes, first, key=lambda hole: hole[1])
        after = bisect_left(self.holes, end, key=lambda hole: hole[0])
        met = self.holes[begin:after]
        new = sum(min(stop, end) - max(start, first) for start, stop in met)
        left = [(start, first) for start, _ in met if start < first] + [(end, stop) for _, stop in met if stop > end]
        self.holes[begin:after] = left
        if first > self.furthest:
            self.holes.append((self.furthest, first))
        new += max(end - max(first, self.furthest), 0)
        self.furthest = max(self.furthest, end)
        return new

"""Counters of one side of a transfer, for its last line of output."""

from collections import Counter
from collections.abc import Iterable


class Tally:
    """Counts packets by kind in each direction, and other events by name."""

    def __init__(self, *others: str, kinds: Iterable[str] = (), with_sums: bool = True) -> None:
        """`others` are printed in this order, kinds in the order of `kinds` or else alphabetically; `with_sums`: the
        total of each direction precedes its kinds."""
        self._others: dict[str, int] = dict.fromkeys(others, 0)
        self._measured: dict[str, float] = {}
        self._kinds = tuple(kinds)
        self._with_sums = with_sums
        self._sent: Counter[str] = Counter()
        self._received: Counter[str] = Counter()
        self._first_s: float | None = None
        self._last_s = 0.0

    def sent(self, kind: str, now_s: float) -> None:
        """A packet leaves."""
        self._sent[kind] += 1
        self.seen(now_s)

    def received(self, kind: str, now_s: float) -> None:
        """A packet has arrived."""
        self._received[kind] += 1
        self.seen(now_s)

    def seen(self, now_s: float) -> None:
        """A packet was sent or received: the duration is the time from the first to the last."""
        self._first_s = now_s if self._first_s is None else self._first_s
        self._last_s = now_s

    def count(self, other: str) -> None:
        """Count one more of an other event. Raises KeyError for an unknown name."""
        self._others[other] += 1

    def measured(self, name: str, value: float) -> None:
        """Set a measured value; the last one is printed after the counters."""
        self._measured[name] = value

    def facts(self) -> str:
        """One line: packets by kind in each direction, other counters, measured values, duration."""
        numbers = [
            *(f"{name}={count}" for name, count in self._others.items()),
            *(f"{name}={value:.6f}" for name, value in self._measured.items()),
        ]
        duration_s = self._last_s - (self._first_s or 0.0)
        ways = f"sent={self._listed(self._sent)} received={self._listed(self._received)}"
        return " ".join([ways, *numbers, f"duration_s={duration_s:.6f}"])

    def _listed(self, counter: Counter[str]) -> str:
        kinds = [f"{kind}={counter[kind]}" for kind in self._kinds or sorted(counter) if counter[kind]]
        listed = f"({' '.join(kinds) or 'none'})"
        return f"{counter.total()} {listed}" if self._with_sums else listed

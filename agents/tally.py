"""Plain facts about one side of a transfer, for its last line of output."""

from collections import Counter
from collections.abc import Iterable


class Tally:
    """Counts packets by kind each way, and what else an endpoint counts, by name."""

    def __init__(self, *others: str, kinds: Iterable[str] = (), with_sums: bool = True) -> None:
        """`others` are told in this order, kinds in that of `kinds` or else of the alphabet; `with_sums`: before the
        kinds of each way stands how many there were in all."""
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
        """A packet has come."""
        self._received[kind] += 1
        self.seen(now_s)

    def seen(self, now_s: float) -> None:
        """Something went or came: the duration is that from the first to the last time."""
        self._first_s = now_s if self._first_s is None else self._first_s
        self._last_s = now_s

    def count(self, other: str) -> None:
        """One more of the others. Raises KeyError for a name that was not given."""
        self._others[other] += 1

    def measured(self, name: str, value: float) -> None:
        """What was measured last stands behind the counts."""
        self._measured[name] = value

    def facts(self) -> str:
        """One line: packets by kind each way, the other counts, what was measured, first to last packet."""
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

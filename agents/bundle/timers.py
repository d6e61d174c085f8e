"""When a sender expects the custody signal of a bundle."""

from collections import deque
from typing import NamedTuple

from owlt.agents.bundle.settings import Custody, Settings


class Awaited(NamedTuple):
    """A bundle on its way, by number, and when its custody timer expires."""

    expires_at_s: float
    number: int


class CustodyTimers:
    """Custody timers, in the order in which they were started, which is that in which they expire.

    A timer is as long as was chosen. With no choice it follows the signals: the light both ways, the window of an
    aggregate, and the time on the reverse channel, where single signals wait for those before them.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._awaited: deque[Awaited] = deque()
        self._signals_until_s = 0.0

    def start(self, number: int, gone_s: float) -> None:
        """A bundle's last bit is on the channel at `gone_s`."""
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
        """The one that expires first."""
        return self._awaited[0] if self._awaited else None

    def drop_first(self) -> None:
        """Wait for it no longer."""
        self._awaited.popleft()

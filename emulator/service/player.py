"""A timeline as it passes: each step applied at its time, how late it was, and until when an outage lasts."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from threading import Condition, Thread
from typing import Any

from emulator.channel import DIRECTIONS, ChannelSpec
from emulator.link import LinkSpec

MOST_LATENESSES = 100_000


@dataclass(frozen=True)
class Moment:
    """One step of a timeline that is passing: when, in ns from its start, and what the links become.

    `number` counts from 1 and goes on counting when the timeline loops. `down_until_ns` has, for a direction in an
    outage, when it ends; None if it does not.
    """

    number: int
    at_ns: int
    links: dict[str, LinkSpec]
    down_until_ns: dict[str, int | None]


def moments(channel: ChannelSpec) -> Iterator[Moment]:
    """Yield the steps of a channel's timeline in their order, without end if it loops."""
    timeline = channel.timeline
    if timeline is None:
        return
    states = [(step.at_ns, {name: getattr(step, name) for name in DIRECTIONS}) for step in timeline.steps]
    if timeline.loop_after_ns is None:
        passing = list(states)
        for index, (at_ns, links) in enumerate(passing):
            yield Moment(index + 1, at_ns, links, _ends(links, passing[index + 1 :]))
        return
    if states[0][0] > 0:
        states.insert(0, (0, {name: channel.link(name) for name in DIRECTIONS}))
    for number in count(1):
        turn, index = divmod(number - 1, len(states))
        ahead = [
            (at_ns + (turn + (position >= len(states))) * timeline.loop_after_ns, links)
            for position, (at_ns, links) in enumerate(states + states)
        ]
        at_ns, links = ahead[index]
        yield Moment(number, at_ns, links, _ends(links, ahead[index + 1 :]))


def _ends(links: dict[str, LinkSpec], later: list[tuple[int, dict[str, LinkSpec]]]) -> dict[str, int | None]:
    return {
        name: next((at_ns for at_ns, state in later if state[name].up), None)
        for name, link in links.items()
        if not link.up
    }


class Player:
    """Plays a timeline in a thread of its own until it ends or `stop` is called.

    `apply` is called at each moment with it and with the monotonic time, in ns, of the timeline's start.
    """

    def __init__(self, channel: ChannelSpec, apply: Callable[[Moment, int], None]) -> None:
        self._moments = moments(channel)
        self._apply = apply
        self._changed = Condition()
        self._stopped = False
        self._failure = ""
        self._late_ns: list[int] = []
        self._applied = 0
        self._started_ns = time.monotonic_ns()
        self._thread = Thread(target=self._play, name="timeline", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End where it is: the links stay as the last step left them."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join()

    def status(self) -> dict[str, Any]:
        """Return whether it is running, how many steps were applied, and how late each was, in ns, as doubles.

        `failure` says why it ended before its time; "" if it did not. Only the last 100,000 latenesses are kept.
        """
        with self._changed:
            return {
                "running": self._thread.is_alive() and not self._stopped,
                "elapsed_s": (time.monotonic_ns() - self._started_ns) / 1e9,
                "steps_applied": self._applied,
                "late_ns": [float(late) for late in self._late_ns],
                "failure": self._failure,
            }

    def _play(self) -> None:
        for moment in self._moments:
            due_ns = self._started_ns + moment.at_ns
            with self._changed:
                while not self._stopped and (left_ns := due_ns - time.monotonic_ns()) > 0:
                    self._changed.wait(left_ns / 1e9)
                if self._stopped:
                    return
            try:
                self._apply(moment, self._started_ns)
            except Exception as error:
                self._failure = f"step {moment.number}, at {moment.at_ns / 1e9:g} s: {error}"
                return
            with self._changed:
                self._late_ns = [*self._late_ns[-MOST_LATENESSES + 1 :], time.monotonic_ns() - due_ns]
                self._applied += 1

"""Plays a timeline: each step is applied at its time, with seeds of its own, and its lateness is recorded.

Applying the links of a step to the kernel belongs to `emulator`.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, dropwhile
from threading import Condition, Thread
from typing import Any

from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec
from owlt.emulator.channel.text import LARGEST_SEED

MOST_LATENESSES = 1000

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Moment:
    """One step of a timeline that is passing: when, in ns from its start, and what the links become.

    `number` counts from 1, also across loops of the timeline. `down_until_ns` has, for a direction in an outage, when
    it ends; None if it does not.
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
    beginning, *later = channel.states
    states = [(step.at_ns, links) for step, links in zip(timeline.steps, later, strict=True)]
    if timeline.loop_after_ns is None:
        for (number, (at_ns, links)), ends in zip(enumerate(states, 1), _all_ends(states), strict=True):
            yield Moment(number, at_ns, links, ends)
        return
    if states[0][0] > 0:
        states.insert(0, (0, beginning))
    again = [(at_ns + timeline.loop_after_ns, links) for at_ns, links in states]
    all_ends = _all_ends(states + again)
    for number in count(1):
        turn, index = divmod(number - 1, len(states))
        at_ns, links = states[index]
        began_ns = turn * timeline.loop_after_ns
        ends = {name: None if end_ns is None else began_ns + end_ns for name, end_ns in all_ends[index].items()}
        yield Moment(number, began_ns + at_ns, links, ends)


def _all_ends(states: list[tuple[int, dict[str, LinkSpec]]]) -> list[dict[str, int | None]]:
    """For each state, the end of the outage of each link that is in one."""
    ends: list[dict[str, int | None]] = []
    up_again: dict[str, int | None] = dict.fromkeys(DIRECTIONS)
    for at_ns, links in reversed(states):
        ends.append({name: up_again[name] for name, link in links.items() if not link.up})
        up_again |= {name: at_ns for name, link in links.items() if link.up}
    return ends[::-1]


Links = dict[str, LinkSpec]


@dataclass(frozen=True)
class Position:
    """Where a timeline is: the time since its beginning, the last step applied, and how late its steps were."""

    elapsed_ns: int = 0
    last: Moment | None = None
    late_ns: tuple[int, ...] = ()
    latest_ns: int = 0


class Player:
    """Plays a timeline in a thread of its own until it ends or `stop` is called.

    `apply` is called at each moment with the player, the moment, and the links as they were before it, without what
    seeds have become of them. Time 0 of the timeline is `started_ns` of the monotonic clock. A player resumes from the
    `position` of an earlier one as if no time had passed since.
    """

    def __init__(
        self,
        channel: ChannelSpec,
        apply: Callable[[Player, Moment, Links], None],
        position: Position = Position(),
    ) -> None:
        last = position.last
        self._applied = last.number if last else 0
        self._moments = dropwhile(lambda moment: moment.number <= self._applied, moments(channel))
        self._before = last.links if last else channel.states[0]
        self._apply = apply
        self._changed = Condition()
        self._stopped = False
        self._failure = ""
        self._late_ns: deque[int] = deque(position.late_ns, maxlen=MOST_LATENESSES)
        self._latest_ns = position.latest_ns
        self.started_ns = time.monotonic_ns() - position.elapsed_ns
        self._thread = Thread(target=self._play, name="timeline", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Begin no further step: the links stay as the last one left them."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    def position(self, last: Moment | None) -> Position:
        """Return where the timeline is now. `last` is the last step whose effect the links have."""
        with self._changed:
            elapsed_ns = time.monotonic_ns() - self.started_ns
            return Position(elapsed_ns, last, tuple(self._late_ns), self._latest_ns)

    def status(self) -> dict[str, Any]:
        """Return whether it is running, how many steps were applied, and how late the last 1000 of them and
        the latest of all were, in ns, as doubles.

        `failure` says why it ended before its time; "" if it did not.
        """
        with self._changed:
            return {
                "running": self._thread.is_alive() and not self._stopped,
                "elapsed_s": (time.monotonic_ns() - self.started_ns) / 1e9,
                "steps_applied": self._applied,
                "late_ns": [float(late) for late in self._late_ns],
                "latest_ns": float(self._latest_ns),
                "failure": self._failure,
            }

    def _play(self) -> None:
        for moment in self._moments:
            due_ns = self.started_ns + moment.at_ns
            with self._changed:
                while not self._stopped and (left_ns := due_ns - time.monotonic_ns()) > 0:
                    self._changed.wait(left_ns / 1e9)
                if self._stopped:
                    return
            try:
                self._apply(self, moment, self._before)
            except Exception as error:
                log.exception("timeline: step %d", moment.number)
                self._failure = f"step {moment.number}, at {moment.at_ns / 1e9:g} s: {error}"
                return
            with self._changed:
                self._late_ns.append(time.monotonic_ns() - due_ns)
                self._latest_ns = max(self._latest_ns, self._late_ns[-1])
                self._applied += 1
            self._before = moment.links


def seeded_links(moment: Moment, before: Mapping[str, LinkSpec]) -> dict[str, LinkSpec]:
    """The links that a step changes, with new seeds, so that none depends on what passed before it."""
    changed = {name: link for name, link in moment.links.items() if link != before[name]}
    return {name: seeded_for_step(link, moment.number) for name, link in changed.items()}


def outage_ends(moment: Moment, links: Mapping[str, LinkSpec], started_ns: int) -> dict[str, int]:
    """When the outages of links that hold packets end, on the clock on which the timeline began at `started_ns`."""
    return {
        name: started_ns + end_ns
        for name, end_ns in moment.down_until_ns.items()
        if end_ns is not None and holds_packets(links[name])
    }


def holds_packets(link: LinkSpec) -> bool:
    """Whether a link is down and holds its packets until it is up."""
    return not link.up and link.while_down == "hold"


def seeded_for_step(link: LinkSpec, step: int) -> LinkSpec:
    """The link with a new seed for this step; a link with a pattern keeps its seed, and so its place in the pattern."""
    if link.seed is None or link.pattern is not None:
        return link
    digest = hashlib.sha256(f"{link.seed}/{step}".encode()).digest()
    return link.model_copy(update={"seed": int.from_bytes(digest[:8]) % (LARGEST_SEED + 1)})

"""Whether the time of a run can have been its protocol's: what the machine withheld, against how long the session was.

A session ends later by no more than was withheld from it, unless a timer runs out meanwhile; so what is withheld bounds
by how much a goodput is too low. docs/measures.md has the measurements that these two measures were chosen by.
"""

from __future__ import annotations

from orchestrator.record import Withheld
from orchestrator.rigs.waits import Waited

MOST_OVERDUE = 0.02
"""Of the session: the emulator's packets were late by so much at most. They are on the path that decides its end."""
MOST_WAITED = 0.05
"""Of the session: so long at most did processes wait for a processor, which need not have held the session up."""
DISPATCH_NS = 6_000
"""What a machine without other work takes at most on the mean to put a ready thread on a processor: no wait. 40 runs of
five implementations on a quiet machine had 2.2 to 5.2 µs, but for two that were disturbed."""
MOST_WAITED_PER_DISPATCH_NS = DISPATCH_NS + 2_000
"""On the mean, while a channel is measured. A certificate has the 99th percentile of delays, to 0.2 ms: one probe in a
hundred that waits for so long is 2 µs for each."""


def disturbance(withheld: Withheld) -> str:
    """Why a run's time cannot be trusted to be the protocol's, with the numbers; "" where it can."""
    session_ns = withheld.session_ns
    reasons = []
    kept_waiting_ns = _beyond_dispatch_ns(withheld)
    if kept_waiting_ns > MOST_WAITED * session_ns:
        reasons.append(f"the rig's processes waited {_ms(kept_waiting_ns)} for a processor")
    if withheld.overdue_ns is not None and withheld.overdue_ns > MOST_OVERDUE * session_ns:
        reasons.append(f"packets were overdue in the emulator for {_ms(withheld.overdue_ns)}")
    if not reasons:
        return ""
    return f"the machine was busy: during a session of {_ms(session_ns)} {' and '.join(reasons)}"


def may_have_delayed_probes(waited: Waited) -> bool:
    """Whether processes waited for a processor so long while a channel was measured that its delays may show it."""
    return waited.waited_ns > MOST_WAITED_PER_DISPATCH_NS * waited.dispatches


def described(clock: str, withheld: Withheld | None) -> list[tuple[str, str]]:
    """What the machine withheld from a run, as names and values for people; nothing where it is not known."""
    if clock == "exact":
        return [("withheld by the machine", "n/a on the exact clock, where computing takes no time")]
    if withheld is None:
        return []
    share = 100 / max(withheld.session_ns, 1)
    overdue, waited, dispatches = withheld.overdue_ns, withheld.waited_ns, withheld.dispatches
    return [
        (
            "packets overdue in the emulator",
            "n/a on a channel that varies"
            if overdue is None
            else f"{_ms(overdue)}, {share * overdue:.1f} % of the session",
        ),
        (
            "processes waited for a processor",
            "not measured" if waited is None else f"{_ms(waited)} in {dispatches} dispatches",
        ),
    ]


def _beyond_dispatch_ns(withheld: Withheld) -> int:
    """The part of processes' waits that a machine without other work would not have had."""
    return (withheld.waited_ns or 0) - DISPATCH_NS * (withheld.dispatches or 0)


def _ms(time_ns: int) -> str:
    return f"{time_ns / 1e6:.1f} ms"

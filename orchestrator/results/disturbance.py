"""Whether the machine disturbed a run: the time that it added to the session, compared with the session's length.

A session ends later by no more than the machine delayed it, unless a timer expires meanwhile, so the machine's delay
bounds how much too low a goodput is. docs/measures.md has the measurements behind the two limits.
"""

from __future__ import annotations

from owlt.orchestrator.results.record import MachineDelay
from owlt.orchestrator.rigs.waits import Waited

MOST_OVERDUE = 0.02
"""Of the session: the longest time for which packets may be late in the emulator. They are on the path that decides
when the session ends."""
MOST_WAITED = 0.05
"""Of the session: the longest time for which processes may wait for a processor. A wait need not delay the session."""
DISPATCH_NS = 6_000
"""The longest mean time that a quiet machine takes to dispatch a ready thread: not counted as a wait. 40 runs of
five implementations on a quiet machine had 2.2 to 5.2 µs, except two that were disturbed."""
MOST_WAITED_PER_DISPATCH_NS = DISPATCH_NS + 2_000
"""The longest mean wait while a channel is certified. A certificate has the 99th percentile of delays, to 0.2 ms: one
probe in a hundred that waits for so long adds 2 µs to the mean."""


def disturbance(delay: MachineDelay) -> str:
    """Why the time of a run may not be its protocol's, with the numbers; "" if the machine did not disturb it."""
    reasons = []
    waited_ns = _beyond_dispatch_ns(delay)
    if waited_ns > MOST_WAITED * delay.session_ns:
        reasons.append(f"the rig's processes waited {_ms(waited_ns)} for a processor")
    if delay.overdue_ns is not None and delay.overdue_ns > MOST_OVERDUE * delay.session_ns:
        reasons.append(f"packets were overdue in the emulator for {_ms(delay.overdue_ns)}")
    if not reasons:
        return ""
    return f"the machine was busy: during a session of {_ms(delay.session_ns)} {' and '.join(reasons)}"


def may_have_delayed_probes(waited: Waited) -> bool:
    """Whether processes waited long enough for a processor, while a channel was certified, to change its delays."""
    return waited.waited_ns > MOST_WAITED_PER_DISPATCH_NS * waited.dispatches


def described(clock: str, delay: MachineDelay | None) -> list[tuple[str, str]]:
    """A run's machine delay as names and values for people; empty if it was not measured."""
    if clock == "exact":
        return [("machine delay", "n/a on the exact clock, where computation takes no time")]
    if delay is None:
        return []
    share = 100 / max(delay.session_ns, 1)
    overdue, waited, dispatches = delay.overdue_ns, delay.waited_ns, delay.dispatches
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


def _beyond_dispatch_ns(delay: MachineDelay) -> int:
    """The part of the waits that a quiet machine would not have caused."""
    return (delay.waited_ns or 0) - DISPATCH_NS * (delay.dispatches or 0)


def _ms(time_ns: int) -> str:
    return f"{time_ns / 1e6:.1f} ms"

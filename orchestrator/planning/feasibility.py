"""Points of the grid at which an implementation can never succeed, which is known before anything starts.

Their runs are recorded as unsupported with this reason, and nothing is launched.
"""

from __future__ import annotations

from owlt.agents.contract.implementation import Implementation
from owlt.orchestrator.planning.plan import Run
from owlt.orchestrator.planning.variants import base_name


def infeasible(run: Run, implementation: Implementation) -> str | None:
    """Why a run cannot complete; None if it can.

    The transfer time is that at the line rate, without any header. A channel that changes over time is not examined for
    it, because it may be faster than its lowest rate.
    """
    point = run.permutation
    if point.duration_ns is not None and implementation.duration is None:
        return f"sends files only: the profile of {base_name(implementation.name)} has no 'duration'"
    beyond = implementation.limits.exceeded(point.file_size_bytes, point.rate_bps, point.delay_ns / 1e9)
    if beyond is not None:
        return beyond
    limit_s = run.deadline_s(implementation)
    if limit_s < run.rtt_s:
        return f"the time limit of {limit_s:g} s is below the round trip of {run.rtt_s:g} s"
    if not run.channel_changes_s and limit_s < run.file_time_s:
        sent = f"{point.load_text} take {run.file_time_s:g} s at the line rate"
        return f"the time limit is {limit_s:g} s, and {sent}"
    return None

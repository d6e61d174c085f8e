"""The channels of a plan in words: workers name them by their keys."""

from __future__ import annotations

from owlt.inputs.quantities import format_delay, format_rate_or_unlimited
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.planning.sweep import Permutation


def channel_labels(plan: Plan) -> dict[str, str]:
    """Each channel of a plan by its key: its name if it has one, and its values: "geo: 2 Mbit/s, 270 ms"."""
    return {run.channel_key: channel_label(run.permutation) for run in plan.runs}


def channel_label(point: Permutation) -> str:
    """The channel of a point of the grid in words."""
    values = [format_rate_or_unlimited(point.rate_bps), format_delay(point.delay_ns)]
    values += [f"PER {point.packet_error_rate:g}"] if point.packet_error_rate else []
    return f"{point.channel_name}: {', '.join(values)}" if point.channel_name else ", ".join(values)

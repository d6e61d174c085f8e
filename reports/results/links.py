"""The link of each direction of a channel, from which its queue is computed."""

from __future__ import annotations

from owlt.captures.matches.bottleneck import Link
from owlt.reports.results.records import WrittenChannel
from owlt.reports.style.units import written_delay_ns, written_rate_bps, written_size_bytes

_VARYING = {"jitter", "reordering", "up", "while_down"}
"""The keys of a link with which the delay varies without a queue."""


def link_of(channel: WrittenChannel, way: str) -> Link | None:
    """The delay, rate and overhead of a direction; None if it has no rate, or if it or its delay changes over time."""
    written = channel.forward if way == "forward" else channel.reverse
    rate = written.get("rate", "unlimited")
    if channel.bypass or channel.timeline or rate in ("unlimited", "none") or _VARYING & set(written):
        return None
    return Link(
        written_delay_ns(written.get("delay", "0 s")),
        written_rate_bps(rate),
        written_size_bytes(written.get("overhead", "0 B")),
    )

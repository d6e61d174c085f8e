"""The link that each direction of a written channel is, for what is computed from its delay and its rate."""

from __future__ import annotations

from captures.traces.bottleneck import Link
from reports.records import WrittenChannel
from reports.units import written_delay_ns, written_rate_bps, written_size_bytes

_VARYING = {"jitter", "reordering", "up", "while_down"}
"""What makes that packets which waited for nothing were under way for different times."""


def link_of(channel: WrittenChannel, way: str) -> Link | None:
    """A direction of a channel that does not change, as its queue is computed from it; None of any other."""
    written = channel.forward if way == "forward" else channel.reverse
    rate = written.get("rate", "unlimited")
    if channel.bypass or channel.timeline or rate in ("unlimited", "none") or _VARYING & set(written):
        return None
    return Link(
        written_delay_ns(written.get("delay", "0 s")),
        written_rate_bps(rate),
        written_size_bytes(written.get("overhead", "0 B")),
    )

"""`python -m tests.bench [PART]`: one of PARTS, by default all."""

from __future__ import annotations

import sys

from tests.bench import (
    channel,
    dashboard,
    demo,
    disturbance,
    endpoints,
    kills,
    lab,
    messages,
    packets,
    report,
    start,
    sweep,
    system_calls,
    ten_thousand_packets,
)

PARTS = {
    "start": start.main,
    "kernel": ten_thousand_packets.main,
    "channel": channel.main,
    "demo": demo.main,
    "endpoints": endpoints.main,
    "packets": packets.main,
    "messages": messages.main,
    "kills": kills.main,
    "lab": lab.main,
    "disturbance": disturbance.main,
    "dashboard": dashboard.main,
    "report": report.main,
    "sweep": sweep.main,
    "system-calls": system_calls.main,
}

chosen = sys.argv[1] if len(sys.argv) > 1 else "all"
if chosen not in (*PARTS, "all"):
    sys.exit(f"bench {chosen!r}: unknown; expected one of {', '.join(PARTS)}, all")
sys.exit(max([part() for name, part in PARTS.items() if chosen in (name, "all")]))

"""`python -m tests.bench [kernel|channel|demo|endpoints|packets|disturbance|kills|all]`."""

from __future__ import annotations

import sys

from tests.bench import channel, demo, disturbance, endpoints, kills, packets, ten_thousand_packets

PARTS = {
    "kernel": ten_thousand_packets.main,
    "channel": channel.main,
    "demo": demo.main,
    "endpoints": endpoints.main,
    "packets": packets.main,
    "kills": kills.main,
    "disturbance": disturbance.main,
}

chosen = sys.argv[1] if len(sys.argv) > 1 else "all"
if chosen not in (*PARTS, "all"):
    sys.exit(f"bench {chosen!r}: unknown; wanted one of {', '.join(PARTS)}, all")
sys.exit(max([part() for name, part in PARTS.items() if chosen in (name, "all")]))

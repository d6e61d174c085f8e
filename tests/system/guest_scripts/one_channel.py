"""Applies a channel, sends numbered packets both ways, and tells what the emulator, tc and the sockets counted.

one_channel.py JSON, with `link` (the fields of LinkSpec, the same both ways), `count`, `size_bytes`, `pause_s`.
"""

import json
import sys

from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from tests.system.guest_scripts import three_hosts

asked = json.loads(sys.argv[1])
link = LinkSpec(**asked["link"])
drain_s = link.delay_ns / 1e9 + 1 + (8 * asked["count"] * 1100 / link.rate_bps if link.rate_bps else 0)

three_hosts.make()
with three_hosts.service() as emulator:
    applied = emulator.configure(ChannelSpec(forward=link, reverse=link))
    with three_hosts.captures():
        packets = (asked["count"], asked["size_bytes"], asked["pause_s"], drain_s)
        received = {origin: three_hosts.send(origin, *packets) for origin in three_hosts.ADDRESSES}
    print(
        json.dumps(
            {
                "applied": applied.model_dump(),
                "received_from": received,
                "statistics": emulator.statistics(),
                "tc": json.loads(three_hosts.run("tc -n emulator -s -j qdisc show")),
            }
        )
    )

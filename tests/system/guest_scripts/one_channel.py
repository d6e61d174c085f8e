"""Applies channels one after the other, sends numbered packets both ways over each, and prints what the emulator, tc
and the sockets counted of each; its captures are in a folder of its name.

one_channel.py JSON: by name, `link` (the fields of LinkSpec, the same both ways), `count`, `size_bytes`, `pause_s`.
"""

import json
import sys
from typing import Any

from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.emulator.service.client import EmulatorClient
from tests.system.guest_scripts import three_hosts


def passed(emulator: EmulatorClient, name: str, asked: dict[str, Any]) -> dict[str, Any]:
    """What was counted over one channel."""
    link = LinkSpec(**asked["link"])
    drain_s = link.delay_ns / 1e9 + 1 + (8 * asked["count"] * 1100 / link.rate_bps if link.rate_bps else 0)
    applied = emulator.configure(ChannelSpec(forward=link, reverse=link))
    with three_hosts.captures(name):
        packets = (asked["count"], asked["size_bytes"], asked["pause_s"], drain_s)
        received = {origin: three_hosts.send(origin, *packets) for origin in three_hosts.ADDRESSES}
    return {
        "applied": applied.model_dump(),
        "received_from": received,
        "statistics": emulator.statistics(),
        "tc": json.loads(three_hosts.run("tc -n emulator -s -j qdisc show")),
    }


three_hosts.make()
with three_hosts.service() as emulator:
    print(json.dumps({name: passed(emulator, name, asked) for name, asked in json.loads(sys.argv[1]).items()}))

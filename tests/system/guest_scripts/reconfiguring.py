"""Applies harsh channels and mild ones after them, meddles with the kernel's; tells what is there each time."""

import json

from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from tests.system.guest_scripts import three_hosts

HARSH = LinkSpec(delay_ns=10**9, rate_bps=1e6, packet_error_rate=1, queue_packets=7, seed=3)
MILD = LinkSpec(delay_ns=25_000_000)


def both(link: LinkSpec) -> ChannelSpec:
    return ChannelSpec(forward=link, reverse=link)


three_hosts.make()
seen: dict[str, object] = {"before": three_hosts.shaped()}
with three_hosts.service() as emulator:
    emulator.configure(ChannelSpec())
    seen["unimpaired"] = three_hosts.shaped()
    emulator.configure(both(HARSH))
    seen["harsh"] = three_hosts.shaped()
    seen["harsh_described"] = emulator.describe().model_dump()
    emulator.configure(both(MILD))
    seen["mild"] = three_hosts.shaped()
    seen["mild_described"] = emulator.describe().model_dump()
    seen["mild_received"] = three_hosts.send("sender", count=100, size_bytes=100, wait_s=1)
    three_hosts.run("tc -n emulator qdisc change dev to-receiver root handle 4f57: netem delay 30ms corrupt 50%")
    seen["meddled_described"] = emulator.describe().model_dump()
    emulator.configure(both(HARSH))
    emulator.clear()
    seen["cleared"] = three_hosts.shaped()
    seen["cleared_described"] = emulator.describe().model_dump()
    seen["capabilities"] = emulator.capabilities()
    seen["probed"] = three_hosts.shaped()
print(json.dumps(seen))

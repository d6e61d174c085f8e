"""Applies harsh channels and mild ones after them, meddles with the kernel's, clears, and tells what is there each time."""

import json
from threading import Thread

import three_hosts
from emulator.channel import ChannelSpec, LinkSpec
from emulator.client import EmulatorClient

HARSH = LinkSpec(delay_ns=10**9, rate_bps=1e6, packet_error_rate=1, queue_packets=7, seed=3)
MILD = LinkSpec(delay_ns=25_000_000)


def both(link: LinkSpec) -> ChannelSpec:
    return ChannelSpec(forward=link, reverse=link)


def configure_at_once(delays_ns: range) -> None:
    """Configure channels that are the same both ways, all at the same time."""

    def configure(delay_ns: int) -> None:
        EmulatorClient(three_hosts.URL).configure(both(LinkSpec(delay_ns=delay_ns, rate_bps=delay_ns)))

    threads = [Thread(target=configure, args=(delay_ns,)) for delay_ns in delays_ns]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


three_hosts.make()
seen = {"before": three_hosts.shaped()}
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
    three_hosts.run(
        "tc -n emulator qdisc change dev to-receiver root handle 4f57: netem delay 30ms corrupt 50% seed 9"
        if "seed" in three_hosts.run("tc -n emulator qdisc show dev to-receiver")
        else "tc -n emulator qdisc change dev to-receiver root handle 4f57: netem delay 30ms corrupt 50%"
    )
    seen["meddled_described"] = emulator.describe().model_dump()
    configure_at_once(range(10**6, 11 * 10**6, 10**6))
    seen["at_once_described"] = emulator.describe().model_dump()
    emulator.configure(both(HARSH))
    emulator.clear()
    seen["cleared"] = three_hosts.shaped()
    seen["cleared_described"] = emulator.describe().model_dump()
    seen["capabilities"] = emulator.capabilities()
    seen["probed"] = three_hosts.shaped()
print(json.dumps(seen))

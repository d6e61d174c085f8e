"""Ends the service by SIGTERM, by SIGKILL, and takes a port away from it; tells what is left each time."""

import json
import signal

from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.emulator.service.client import EmulatorClient
from tests.system.guest_scripts import three_hosts

LINK = LinkSpec(delay_ns=10**9, rate_bps=1e6)
COMMAND = three_hosts.on("emulator", [*three_hosts.SERVICE, *three_hosts.PORTS])


def served_until(end: signal.Signals) -> int:
    """Serve a channel with packets in flight, end the service, and return its exit status."""
    with three_hosts.process(COMMAND, "listening", "stdout", end) as program:
        EmulatorClient(three_hosts.URL).configure(ChannelSpec(forward=LINK, reverse=LINK))
        three_hosts.send("sender", count=100, size_bytes=1000, wait_s=0.2)
    return program.returncode


three_hosts.make()
seen: dict[str, object] = {"before": three_hosts.shaped()}
seen["terminated_status"] = served_until(signal.SIGTERM)
seen["terminated"] = three_hosts.shaped()
seen["interrupted_status"] = served_until(signal.SIGINT)
seen["killed_status"] = served_until(signal.SIGKILL)
seen["killed"] = three_hosts.shaped()
with three_hosts.service() as emulator:
    seen["started_again"] = three_hosts.shaped()
    emulator.configure(ChannelSpec(forward=LINK))
    three_hosts.run("ip -n emulator link del to-sender")
    seen["port_gone"] = three_hosts.shaped()
    emulator.clear()
    seen["port_gone_cleared"] = three_hosts.shaped()
print(json.dumps(seen))

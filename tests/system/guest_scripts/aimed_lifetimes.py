"""What aimed faults that hold packets leave in the emulator after each way to end them. Tells it as JSON."""

import json
import subprocess
import time

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import EmulatorError
from owlt.emulator.service.client import EmulatorClient
from tests.system.guest_scripts import three_hosts

PLAIN = ChannelSpec.from_wire({"forward": {"delay": "5 ms"}})
FAULT = {"direction": "forward", "packet": "udp", "action": {"delay": "1 h"}}
FAULTED = ChannelSpec.from_wire(PLAIN.to_wire() | {"faults": [FAULT]})
three_hosts.make()
seen: dict[str, list[bool]] = {}


def note(name: str) -> None:
    """Whether there is a tap, and whether there are filters."""
    has_tap = "owlt-tap" in three_hosts.run("ip netns exec emulator ls /sys/class/net")
    seen[name] = [has_tap, "owlt-aims" in three_hosts.run("tc -n emulator filter show dev to-receiver egress")]


def hold(emulator: EmulatorClient) -> None:
    emulator.configure(FAULTED)
    emulator.faults_start()
    three_hosts.send("sender", 5, 100, 0.01, 0.2)
    assert emulator.faults_status()["held"] == 5


with three_hosts.service() as emulator:
    hold(emulator)
    note("holding")
    emulator.clear()
    note("cleared")
    hold(emulator)
    emulator.configure(PLAIN)
    note("replaced")
    hold(emulator)
    emulator.change("forward", delay="7 ms")
    note("changed")
    emulator.certify(PLAIN, {"budget_s": 5.0})
    note("certified")
    emulator.clear()
    hold(emulator)
note("stopped")
killed = subprocess.Popen(
    three_hosts.on("emulator", [*three_hosts.SERVICE, *three_hosts.PORTS]), stdout=subprocess.DEVNULL
)
client = EmulatorClient(three_hosts.URL)
while True:
    try:
        hold(client)
        break
    except EmulatorError:
        time.sleep(0.1)
killed.kill()
killed.wait()
note("killed")
with three_hosts.service():
    note("served again")
print(json.dumps(seen))

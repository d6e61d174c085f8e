"""Starts a timeline, removes a port of the emulator before its first step, and prints the status then."""

import json
import time

from owlt.emulator.channel.spec import ChannelSpec
from tests.system.guest_scripts import three_hosts

CHANNEL = {
    "both": {"delay": "10 ms", "rate": "1 Mbit/s"},
    "timeline": {"steps": [{"at": "0.5 s", "forward": {"delay": "20 ms"}}, {"at": "1 h", "forward": {"up": False}}]},
}
LONGEST_S = 10.0

three_hosts.make()
with three_hosts.service() as emulator:
    emulator.configure(ChannelSpec.from_wire(CHANNEL))
    emulator.timeline_start()
    three_hosts.run("ip -n emulator link del to-receiver")
    end_s = time.monotonic() + LONGEST_S
    while emulator.timeline_status()["running"] and time.monotonic() < end_s:
        time.sleep(0.05)
    print(json.dumps(emulator.timeline_status()))

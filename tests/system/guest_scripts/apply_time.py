"""Measures how long it takes to apply a channel with all its stages over XML-RPC, on a real clock, and to start."""

import json
import time

from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from tests.system.guest_scripts import three_hosts

LINK = LinkSpec(delay_ns=25_000_000, rate_bps=10e6, packet_error_rate=0.01)

three_hosts.make()
begun_s = time.monotonic()
with three_hosts.service() as emulator:
    started_s = time.monotonic() - begun_s
    times_s = []
    for _ in range(21):
        begun_s = time.monotonic()
        emulator.configure(ChannelSpec(forward=LINK, reverse=LINK))
        times_s.append(time.monotonic() - begun_s)
print(json.dumps({"start_s": started_s, "first_s": times_s[0], "median_s": sorted(times_s)[10]}))

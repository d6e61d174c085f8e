"""Sends the same packets over the same errors three times, with the seeds 1, 1 and 2, captured in a, b and c."""

from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from tests.system.guest_scripts import three_hosts

three_hosts.make()
with three_hosts.service() as emulator:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        emulator.configure(ChannelSpec(forward=LinkSpec(packet_error_rate=0.05, seed=seed)))
        with three_hosts.captures(name):
            three_hosts.send("sender", count=2000, size_bytes=100, pause_s=20e-6)
print("{}")

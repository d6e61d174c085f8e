"""Sends two protocols' packets, as many and as long, through the same channels, captured in a folder each.

The one is three_hosts' numbered UDP; the other has another port and random contents behind its numbers. Folders are
named CHANNEL-one, CHANNEL-other, and CHANNEL-reseeded for the first protocol over the channel with another seed.
"""

import random
import subprocess
import sys
import time

from owlt.emulator.channel.spec import ChannelSpec
from tests.system.guest_scripts import three_hosts

COUNT, SIZE_BYTES = 2000, 400
CHANNELS = {
    "dropped": {"packet_error_rate": 0.05, "error_effect": "drop"},
    "bursts": {"loss": {"model": "gilbert_elliott", "mean_rate": 0.05, "burst_packets": 4}},
    "four-states": {"loss": {"model": "four_state", "p13": 0.02, "p31": 0.3, "p32": 0.2, "p23": 0.7, "p14": 0.01}},
    "bit-errors": {"bit_error_rate": 1e-5, "error_effect": "drop"},
    "pattern": {"pattern": {"packets": [0, 1, 5, 700, 1999]}, "error_effect": "drop"},
}


def send_other() -> None:
    """The other protocol, from the sender's namespace."""
    import socket

    contents = random.Random(7)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        for number in range(COUNT):
            out.sendto(number.to_bytes(8, "big") + contents.randbytes(SIZE_BYTES - 8), ("10.77.0.2", 48_000))
            time.sleep(20e-6)


def main() -> None:
    """All channels, three times each."""
    three_hosts.make()
    with three_hosts.service() as emulator:
        for name, link in CHANNELS.items():
            for kind, seed in (("one", 1), ("other", 1), ("reseeded", 2)):
                emulator.configure(ChannelSpec.from_wire({"forward": {**link, "seed": seed}}))
                with three_hosts.captures(f"{name}-{kind}"):
                    if kind == "other":
                        subprocess.run(three_hosts.on("sender", [sys.executable, __file__, "other"]), check=True)
                        time.sleep(0.1)
                    else:
                        three_hosts.send("sender", COUNT, SIZE_BYTES, 20e-6)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        send_other()
    else:
        main()

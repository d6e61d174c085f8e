"""Sends packets through channels that hold nothing up and times each; then times applying channels.

tree.py BLAST JSON, with `channels` (written, by name), `count`, `size_bytes`, `repetitions`, `applied` (likewise). It
has to run on the guest's real clock. Prints a JSON object.
"""

import json
import sys
import time
from typing import Any

from emulator.channel import ChannelSpec
from tests.system.guest_scripts import three_hosts

PORT = 47001


def sent_in_s(blast: str, count: int, size_bytes: int) -> float:
    """How long a blast from the sender took."""
    command = [blast, three_hosts.ADDRESSES["receiver"], str(PORT), str(count), str(size_bytes)]
    return float(three_hosts.run(" ".join(three_hosts.on("sender", command))))


def main(blast: str, asked: dict[str, Any]) -> None:
    """All channels in turn, as often as asked, so that what else the machine does meets all of them."""
    times_s: dict[str, list[float]] = {name: [] for name in asked["channels"]}
    applied_s: dict[str, list[float]] = {name: [] for name in asked["applied"]}
    passed: dict[str, float] = {}
    with three_hosts.service() as emulator:
        for _ in range(asked["repetitions"]):
            for name, written in asked["channels"].items():
                emulator.configure(ChannelSpec.from_wire(written))
                times_s[name].append(sent_in_s(blast, asked["count"], asked["size_bytes"]))
                pipe = emulator.statistics()["forward"].get("pipe", {})
                passed[name] = pipe.get("packets", 0) + pipe.get("dropped_packets", 0)
            for name, written in asked["applied"].items():
                channel = ChannelSpec.from_wire(written)
                begun_s = time.monotonic()
                emulator.configure(channel)
                applied_s[name].append(time.monotonic() - begun_s)
    print(json.dumps({"times_s": times_s, "applied_s": applied_s, "passed": passed}))


if __name__ == "__main__":
    three_hosts.make()
    main(sys.argv[1], json.loads(sys.argv[2]))

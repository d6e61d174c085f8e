"""Sends packets through channels that hold nothing up and times each by the host's clock.

tree.py BLAST JSON, with `channels` (written, by name), `count`, `size_bytes`, `repetitions`. Prints a JSON object. The
host's clock is that of the file system: it stamps the files that the guest writes.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from owlt.emulator.channel.spec import ChannelSpec
from tests.system.guest_scripts import three_hosts

PORT = 47001
DRAINING_S = 0.1


def wall_s() -> float:
    """Seconds of the host's clock."""
    stamp = Path(os.environ["OUT_DIR"], "stamp")
    stamp.write_text("")
    return stamp.stat().st_mtime


def sent_in_s(blast: str, count: int, size_bytes: int) -> float:
    """How long a blast from the sender took, to the last packet's arrival."""
    command = [blast, three_hosts.ADDRESSES["receiver"], str(PORT), str(count), str(size_bytes)]
    begun_s = wall_s()
    three_hosts.run(" ".join(three_hosts.on("sender", command)))
    time.sleep(DRAINING_S)
    return wall_s() - begun_s


def arrived() -> int:
    """How many packets the receiver's interface has counted."""
    return int(three_hosts.run("ip netns exec receiver cat /sys/class/net/test0/statistics/rx_packets"))


def main(blast: str, asked: dict[str, Any]) -> None:
    """All channels in turn, as often as asked, so that what else the machine does meets all of them."""
    times_s: dict[str, list[float]] = {name: [] for name in asked["channels"]}
    missing: dict[str, int] = dict.fromkeys(asked["channels"], 0)
    with three_hosts.service() as emulator:
        for _ in range(asked["repetitions"]):
            for name, written in asked["channels"].items():
                emulator.configure(ChannelSpec.from_wire(written))
                before = arrived()
                times_s[name].append(sent_in_s(blast, asked["count"], asked["size_bytes"]))
                missing[name] += asked["count"] - (arrived() - before)
    print(json.dumps({"times_s": times_s, "missing": missing}))


if __name__ == "__main__":
    three_hosts.make()
    main(sys.argv[1], json.loads(sys.argv[2]))

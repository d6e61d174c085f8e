"""Times applying channels over XML-RPC, on the guest's real clock: apply.py JSON, with `channels` and `repetitions`."""

import json
import sys
import time
from typing import Any

from owlt.emulator.channel.spec import ChannelSpec
from tests.system.guest_scripts import three_hosts


def main(asked: dict[str, Any]) -> None:
    """All channels in turn, so that each takes the place of another."""
    times_s: dict[str, list[float]] = {name: [] for name in asked["channels"]}
    with three_hosts.service() as emulator:
        for _ in range(asked["repetitions"]):
            for name, written in asked["channels"].items():
                channel = ChannelSpec.from_wire(written)
                begun_s = time.monotonic()
                emulator.configure(channel)
                times_s[name].append(time.monotonic() - begun_s)
    print(json.dumps({"times_s": times_s}))


if __name__ == "__main__":
    three_hosts.make()
    main(json.loads(sys.argv[1]))

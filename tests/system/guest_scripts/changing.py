"""Changes links while numbered packets pass from the sender; each case has its captures in a folder of its name.

Tells for each case when (guest time in ns) things were done, what the emulator described before and after, and what
it counted.
"""

import json
import time
from collections.abc import Callable
from threading import Thread
from typing import Any

from emulator.channel import ChannelSpec
from tests.system.guest_scripts import three_hosts

COUNT, SIZE_BYTES, PAUSE_S = 400, 100, 0.01
three_hosts.make()
seen: dict[str, Any] = {}


def case(name: str, channel: dict[str, Any], act: Callable[[Any], dict[str, Any]]) -> None:
    with three_hosts.service() as emulator:
        asked = ChannelSpec.from_wire(channel)
        described = emulator.configure(asked).to_wire()
        with three_hosts.captures(name):
            sending = Thread(target=three_hosts.send, args=("sender", COUNT, SIZE_BYTES, PAUSE_S, 2.0))
            sending.start()
            time.sleep(1)
            done = act(emulator)
            sending.join()
        seen[name] = done | {
            "configured": described,
            "described": emulator.describe().to_wire(),
            "statistics": emulator.statistics(),
            "kernel": three_hosts.shaped(),
        }


def changed(**fields: Any) -> Callable[[Any], dict[str, Any]]:
    def act(emulator: Any) -> dict[str, Any]:
        time.sleep(1)
        before_ns = time.time_ns()
        emulator.change("forward", **fields)
        return {"before_ns": before_ns, "after_ns": time.time_ns()}

    return act


def played(emulator: Any) -> dict[str, Any]:
    started_ns = time.time_ns()
    emulator.timeline_start()
    time.sleep(2.5)
    return {"started_ns": started_ns, "status": emulator.timeline_status()}


def outage(**fields: Any) -> dict[str, Any]:
    return {
        "forward": {"delay": "50 ms", "rate": "200 kbit/s", "queue": "1000 packets"},
        "timeline": {
            "steps": [{"at": "0.5 s", "forward": {"up": False, **fields}}, {"at": "1.5 s", "forward": {"up": True}}]
        },
    }


LONG = {"forward": {"delay": "500 ms", "seed": 5, "packet_error_rate": 0.0}}
case("lowered", LONG, changed(delay="100 ms"))
case("lowered-free", {"forward": {**LONG["forward"], "keeps_order": False}}, changed(delay="100 ms"))
case("raised", {"forward": {"delay": "100 ms"}}, changed(delay="500 ms"))
case("everything-off", {"forward": {"delay": "500 ms", "rate": "1 Mbit/s"}}, changed(delay="0 s", rate="unlimited"))
case("rate-added", {"forward": {"delay": "100 ms"}}, changed(rate="1 Mbit/s"))
case("errors-on-and-off", {"forward": {"delay": "100 ms", "bit_error_rate": 0.01}}, changed(bit_error_rate="none"))
case("dropped", outage(), played)
case("held", outage(while_down="hold"), played)
case(
    "held-bytes",
    {**outage(while_down="hold"), "forward": {"delay": "50 ms", "rate": "200 kbit/s", "queue": "5 kB"}},
    played,
)
case(
    "looped",
    {
        "forward": {"delay": "100 ms"},
        "timeline": {"steps": [{"at": "100 ms", "forward": {"delay": "110 ms"}}], "loop_after": "200 ms"},
    },
    played,
)
print(json.dumps(seen))

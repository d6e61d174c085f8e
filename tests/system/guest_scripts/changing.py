"""Changes links while numbered packets pass from the sender; each case has its captures in a folder of its name.

Tells for each case when (guest time in ns) things were done, what the emulator described before and after, and what
it counted.
"""

import json
import time
from collections.abc import Callable
from threading import Thread
from typing import Any

from owlt.emulator.channel.spec import ChannelSpec
from tests.system.guest_scripts import three_hosts

COUNT, SIZE_BYTES, PAUSE_S = 400, 100, 0.01
three_hosts.make()
seen: dict[str, Any] = {}


def case(
    name: str,
    channel: dict[str, Any],
    act: Callable[[Any], dict[str, Any]],
    count: int = COUNT,
    pause_s: float = PAUSE_S,
) -> None:
    with three_hosts.service() as emulator:
        asked = ChannelSpec.from_wire(channel)
        described = emulator.configure(asked).to_wire()
        with three_hosts.captures(name):
            sending = Thread(target=three_hosts.send, args=("sender", count, SIZE_BYTES, pause_s, 2.0))
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


def ended_early(emulator: Any) -> dict[str, Any]:
    """A hold of an hour, ended by hand."""
    emulator.timeline_start()
    time.sleep(1)
    emulator.timeline_stop()
    held_ns = time.time_ns()
    emulator.change("forward", up=True)
    return {"held_ns": held_ns, "ended_ns": time.time_ns()}


def in_the_middle(emulator: Any) -> dict[str, Any]:
    """What is told while packets are held."""
    started_ns = time.time_ns()
    emulator.timeline_start()
    time.sleep(1.2)
    middle = {"described": emulator.describe().to_wire(), "statistics": emulator.statistics()}
    time.sleep(1.3)
    return {"started_ns": started_ns, "middle": middle}


def after_a_bypass(emulator: Any) -> dict[str, Any]:
    emulator.bypass()
    return {"answered": emulator.change("forward", delay="1 ms").to_wire()}


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
LOSSY = {"packet_error_rate": 0.1, "error_effect": "drop", "seed": 5}
case("undisturbed", {"forward": LOSSY}, lambda emulator: {})
case(
    "other-way-changed",
    {"forward": LOSSY},
    lambda emulator: {"answered": emulator.change("reverse", delay="9 ms").to_wire()},
)
case("delay-of-a-lossy-link-changed", {"forward": LOSSY}, changed(delay="9 ms"))
case(
    "many-in-flight",
    {"forward": {"delay": "2 s", "rate": "100 Mbit/s"}},
    changed(delay="1 ms"),
    count=10_000,
    pause_s=250e-6,
)
SLOW = {"delay": "50 ms", "rate": "200 kbit/s", "queue": "20 packets"}
DOWN = {"up": False, "while_down": "hold"}
case(
    "hold-ended-early",
    {
        "forward": SLOW,
        "timeline": {"steps": [{"at": "0.5 s", "forward": DOWN}, {"at": "1 h", "forward": {"up": True}}]},
    },
    ended_early,
)
case(
    "step-within-a-hold",
    {
        "forward": SLOW,
        "timeline": {
            "steps": [
                {"at": "0.5 s", "forward": DOWN},
                {"at": "0.6 s", "reverse": {"delay": "3 ms"}},
                {"at": "1.5 s", "forward": {"up": True}},
            ]
        },
    },
    in_the_middle,
)
case(
    "dropped-then-held",
    {
        "forward": {**SLOW, "queue": "1000 packets"},
        "timeline": {
            "steps": [
                {"at": "0.5 s", "forward": {"up": False}},
                {"at": "1 s", "forward": {"while_down": "hold"}},
                {"at": "1.5 s", "forward": {"up": True}},
            ]
        },
    },
    played,
)
case("down-with-duplicates", {"forward": {"up": False, "duplication_rate": 0.5}}, lambda emulator: {})
case("changed-after-a-bypass", {}, after_a_bypass)
print(json.dumps(seen))

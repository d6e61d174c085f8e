"""Certifies another channel while the emulator has one, and prints what it had before and what it has afterwards.

Each case tells the channel as described and the timeline's status, both `before` and `after`, and what became of it.
"""

import json
import time
from collections.abc import Callable
from typing import Any

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import EmulatorError
from owlt.emulator.service.client import EmulatorClient
from tests.system.guest_scripts import three_hosts

OTHER = {"both": {"delay": "5 ms", "packet_error_rate": 0.1, "error_effect": "drop"}}
FEW = {"packets": 50, "tolerance_ns": 1000}
STEPS = {
    "both": {"rate": "1 Mbit/s"},
    "timeline": {
        "steps": [
            {"at": "10 s", "forward": {"delay": "20 ms"}},
            {"at": "1000 s", "forward": {"delay": "30 ms"}, "reverse": {"up": False, "while_down": "hold"}},
            {"at": "1100 s", "reverse": {"up": True}},
        ]
    },
}


def case(act: Callable[[EmulatorClient], None], other: dict[str, Any] = OTHER) -> dict[str, Any]:
    """Bring the emulator into a state, have it certify another channel, and look."""
    with three_hosts.service() as emulator:
        act(emulator)
        told: dict[str, Any] = {"before": looked_at(emulator), "refused": ""}
        try:
            told["verdict"] = emulator.certify(ChannelSpec.from_wire(other), FEW)["verdict"]
        except EmulatorError as problem:
            told["refused"] = str(problem)
        told["after"] = looked_at(emulator)
        if told["after"]["timeline"]["running"]:
            time.sleep(1095 - told["after"]["timeline"]["elapsed_s"])
            told["later"] = looked_at(emulator)
            time.sleep(10)
            told["at the end"] = looked_at(emulator)
        return told


def looked_at(emulator: EmulatorClient) -> dict[str, Any]:
    """The channel read back from the kernel, and where its timeline is."""
    return {"channel": emulator.describe().to_wire(), "timeline": emulator.timeline_status()}


def changed(emulator: EmulatorClient) -> None:
    """The state is no longer the one that was configured."""
    emulator.configure(ChannelSpec.from_wire({"forward": {"mtu": "1280 B", "bit_error_rate": 1e-6}}))
    emulator.change("forward", mtu="none", bit_error_rate=1e-5)


def changed_from_nothing(emulator: EmulatorClient) -> None:
    """No channel was ever configured."""
    emulator.change("both", delay="7 ms")
    emulator.change("reverse", loss={"model": "gilbert_elliott", "mean_rate": 0.01, "burst_packets": 3})


def within_a_timeline(seconds: float) -> Callable[[EmulatorClient], None]:
    """The timeline has been running for so long."""

    def act(emulator: EmulatorClient) -> None:
        emulator.configure(ChannelSpec.from_wire(STEPS))
        emulator.timeline_start()
        time.sleep(seconds)

    return act


if __name__ == "__main__":
    three_hosts.make()
    print(
        json.dumps(
            {
                "changed": case(changed),
                "changed from nothing": case(changed_from_nothing),
                "within a timeline": case(within_a_timeline(500.25)),
                "held": case(within_a_timeline(1050)),
                "at the end of a timeline": case(within_a_timeline(1200)),
                "bypass": case(lambda emulator: emulator.bypass()),
                "nothing": case(lambda emulator: emulator.clear()),
                "refused": case(
                    within_a_timeline(500.25), {"forward": {"up": False, "while_down": "hold", "rate": "1 Mbit/s"}}
                ),
            }
        )
    )

"""Sends numbered packets through a channel with aimed faults, a case for each action; each has its captures in a folder
of its name. Tells what the emulator reported.
"""

import json
from typing import Any

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import FaultsNotReplaced
from tests.system.guest_scripts import three_hosts
from tests.system.guest_scripts.packets import PORT

COUNT, SIZE_BYTES, PAUSE_S = 20, 100, 0.01
three_hosts.make()
seen: dict[str, Any] = {}
NUMBER_IS = f"udp dst port {PORT} and udp[12:4]"
THIRD = {"direction": "forward", "packet": "udp", "occurrence": 3}
DELAY = {"forward": {"delay": "50 ms"}}


def case(
    name: str,
    *faults: dict[str, Any],
    count: int = COUNT,
    instead_of: tuple[dict[str, Any], ...] = (),
    **more: Any,
) -> None:
    """With `instead_of`, these faults are started, and the others take their place before the first packet, but not
    afterwards."""
    first = instead_of or faults
    described = emulator.configure(ChannelSpec.from_wire({**DELAY, "faults": list(first), **more})).to_wire()
    refusal = ""
    with three_hosts.captures(name):
        emulator.faults_start()
        if instead_of:
            described = emulator.faults_replace(faults).to_wire()
        three_hosts.send("sender", count, SIZE_BYTES, PAUSE_S, 1.5)
    if instead_of:
        try:
            emulator.faults_replace(instead_of)
        except FaultsNotReplaced as refused:
            refusal = str(refused)
    seen[name] = {
        "refusal": refusal,
        "configured": described,
        "described": emulator.describe().to_wire(),
        "status": emulator.faults_status(),
        "statistics": emulator.statistics(),
    }


with three_hosts.service() as emulator:
    case("control")
    case("drop", THIRD | {"action": "drop"})
    never = {"packet": "udp", "occurrence": 1000, "action": "drop"}
    both = tuple({"direction": direction, **never} for direction in ("forward", "reverse"))
    case("drop-instead", THIRD | {"action": "drop"}, instead_of=both)
    case("drop-list", THIRD | {"occurrence": [1, "4-6"], "action": "drop"})
    case("drop-every", THIRD | {"occurrence": {"every": 5}, "action": "drop"})
    case("drop-by-content", THIRD | {"packet": f"{NUMBER_IS} = 7", "occurrence": 1, "action": "drop"})
    case("delay", THIRD | {"action": {"delay": "95 ms"}})
    case("hold-until", THIRD | {"action": {"hold_until": "1 s"}})
    case(
        "hold-until-packet",
        THIRD | {"action": {"hold_until_packet": {"direction": "forward", "packet": f"{NUMBER_IS} = 9"}}},
    )
    case("duplicate", THIRD | {"action": {"duplicate": 4}})
    case("reorder", THIRD | {"action": {"reorder_behind": 3}})
    case("replay", THIRD | {"action": {"replay_after": "105 ms"}})
    case("corrupt-bits", THIRD | {"action": {"corrupt_bits": [400, 401]}})
    case("corrupt-field", THIRD | {"action": {"corrupt_field": "udp[8:4] = 0xdeadbeef"}})
    case("from-until", THIRD | {"occurrence": "all", "from": "55 ms", "until": "105 ms", "action": "drop"})
    case(
        "after",
        THIRD | {"name": "first", "action": "drop"},
        THIRD | {"after": "first", "occurrence": 2, "action": "drop"},
    )
    case("probability", THIRD | {"occurrence": "all", "probability": 0.3, "seed": 5, "action": "drop"}, count=400)
    case("same-probability", THIRD | {"occurrence": "all", "probability": 0.3, "seed": 5, "action": "drop"}, count=400)
    lossy = {"forward": {"delay": "50 ms", "pattern": {"packets": [1, 4, 5]}, "error_effect": "drop"}}
    case("delay-and-errors", THIRD | {"occurrence": "all", "action": {"delay": "50 ms"}}, **lossy)
    case("out-of-scope", THIRD | {"action": "drop"}, fault_scope="udp port 9")
print(json.dumps(seen))

"""Kills the service by SIGKILL and clears up after it with --clear; serves with just the rights that its unit gives."""

import json
import re
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL, SIGTERM

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.service.client import EmulatorClient
from tests.system.guest_scripts import three_hosts

CHANNEL = ChannelSpec.from_wire(
    {
        "both": {
            "delay": "25 ms",
            "rate": "10 Mbit/s",
            "queue": "64 kB",
            "mtu": "1400 B",
            "bit_error_rate": 1e-6,
            "seed": 1,
        },
    }
)
COMMAND = three_hosts.on("emulator", [*three_hosts.SERVICE, *three_hosts.PORTS])
CLEAR = three_hosts.on("emulator", [sys.executable, "-m", "owlt.emulator", "--clear", *three_hosts.PORTS])
UNIT = Path(__file__).parents[3] / "emulator" / "service" / "owlt-emulator.service"


def killed() -> str:
    """Kill a service with a channel applied and a lease held; return what is there after it."""
    with three_hosts.process(COMMAND, "listening", "stdout", SIGKILL):
        client = EmulatorClient(three_hosts.URL)
        client.lease("night", 600)
        client.configure(CHANNEL)
    return three_hosts.shaped()


def cleared() -> dict[str, object]:
    done = subprocess.run(CLEAR, capture_output=True, text=True, check=False)
    return {"status": done.returncode, "said": done.stderr, "left": three_hosts.shaped()}


def rights() -> str:
    """The rights that the unit gives, as setpriv names them."""
    (names,) = re.findall("^CapabilityBoundingSet=(.*)$", UNIT.read_text(), re.MULTILINE)
    return ",".join("+" + name.removeprefix("CAP_").lower() for name in names.split())


def with_the_units_rights() -> dict[str, object]:
    bounded = ["setpriv", f"--bounding-set=-all,{rights()}", "--no-new-privs"]
    with three_hosts.process([*COMMAND[:4], *bounded, *COMMAND[4:]], "listening", "stdout", SIGTERM) as program:
        rights_held = re.findall("^CapEff:\t(.*)$", Path(f"/proc/{program.pid}/status").read_text(), re.MULTILINE)
        client = EmulatorClient(three_hosts.URL)
        applied = client.configure(CHANNEL)
        described = client.describe()
    return {
        "rights": rights_held,
        "applied": applied == described and not applied.unimpaired,
        "status": program.returncode,
        "left": three_hosts.shaped(),
    }


three_hosts.make()
seen: dict[str, object] = {"before": three_hosts.shaped()}
seen["killed"] = killed()
seen["cleared"] = cleared()
seen["cleared_again"] = cleared()
killed()
with three_hosts.service() as emulator:
    seen["restarted"] = three_hosts.shaped()
    seen["restarted_lease"] = emulator.lease_status()
    seen["restarted_channel"] = emulator.describe().unimpaired
killed()
three_hosts.run("ip -n emulator address add 192.0.2.1/24 dev to-receiver")
seen["inhabited"] = cleared()
three_hosts.run("ip -n emulator address del 192.0.2.1/24 dev to-receiver")
seen["with_the_units_rights"] = with_the_units_rights()
killed()
three_hosts.run("ip -n emulator link del to-sender")
seen["port_gone"] = cleared()
print(json.dumps(seen))

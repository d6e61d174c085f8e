"""Gives the emulator ports that it must not shape and a kernel that refuses; tells what it said and what was left.

Runs itself again in the emulator's namespace, so that the emulator is used without its service.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.emulator.faults import EmulatorError
from owlt.emulator.service.emulator import Emulator
from tests.system.guest_scripts import three_hosts
from tests.system.guest_scripts.three_hosts import run

CHANNEL = ChannelSpec(forward=LinkSpec(delay_ns=10**6, rate_bps=1e6)).to_wire()
FOREIGN = {
    "address": ("ip address add 192.0.2.1/24 dev to-sender", "ip address del 192.0.2.1/24 dev to-sender"),
    "bridge": ("ip address add 192.0.2.1/24 dev channel", "ip address del 192.0.2.1/24 dev channel"),
    "route": ("ip route add default dev to-receiver", "ip route del default dev to-receiver"),
    "qdisc": (
        "tc qdisc add dev to-receiver root handle 8: netem delay 1ms",
        "tc qdisc del dev to-receiver root",
    ),
    "ingress": ("tc qdisc add dev to-sender ingress", "tc qdisc del dev to-sender ingress"),
    "clsact": ("tc qdisc add dev to-sender clsact", "tc qdisc del dev to-sender clsact"),
}
LINK_LOCAL = (
    "sysctl -qw net.ipv6.conf.to-sender.disable_ipv6=0",
    "sysctl -qw net.ipv6.conf.to-sender.disable_ipv6=1",
)
LACKING_RIGHTS = """
from owlt.emulator.service.emulator import Emulator
import sys, json
try:
    Emulator("to-sender", "to-receiver").configure(json.loads(sys.argv[1]))
except Exception as error:
    print(type(error).__name__, error)
"""


def refusal(sender_port: str = "to-sender", receiver_port: str = "to-receiver") -> str:
    """What the emulator says against taking over two ports and applying a channel; nothing if it does not."""
    try:
        emulator = Emulator(sender_port, receiver_port)
        emulator.configure(CHANNEL)
        emulator.stop()
    except EmulatorError as error:
        return f"{type(error).__name__}: {error}"
    return ""


@contextmanager
def while_there(there: str, gone: str) -> Iterator[None]:
    run(there)
    yield
    run(gone)


def of_ports() -> dict[str, dict[str, object]]:
    seen: dict[str, dict[str, object]] = {
        "missing": {"said": refusal("to-nowhere")},
        "same": {"said": refusal("to-sender", "to-sender")},
        "loopback": {"said": refusal("lo")},
        "fit": {"said": refusal()},
    }
    for name, commands in FOREIGN.items():
        with while_there(*commands):
            before = run("tc qdisc show")
            seen[name] = {"said": refusal(), "untouched": before == run("tc qdisc show")}
    with while_there(*LINK_LOCAL):
        seen["link_local"] = {"said": refusal(), "address": run("ip -6 -o address show dev to-sender")}
    return seen


def after_start() -> dict[str, object]:
    """A port that somebody begins to live on while a channel is applied."""
    emulator = Emulator("to-sender", "to-receiver")
    emulator.configure(CHANNEL)
    with while_there(*FOREIGN["address"]):
        before = run("tc qdisc show")
        try:
            emulator.configure(ChannelSpec().to_wire())
            said = ""
        except EmulatorError as error:
            said = f"{type(error).__name__}: {error}"
        untouched = before == run("tc qdisc show")
        emulator.stop()
    return {"said": said, "untouched": untouched, "left": run("tc qdisc show") + run("ip -o link")}


def half_way() -> dict[str, object]:
    """A channel whose pipe the kernel takes and whose bottleneck it does not: the device's name is taken."""
    emulator = Emulator("to-sender", "to-receiver")
    before = run("tc qdisc show")
    emulator.configure(ChannelSpec(forward=LinkSpec(packet_error_rate=1)).to_wire())
    old = run("tc qdisc show")
    index = run("cat /sys/class/net/to-sender/ifindex").strip()
    with while_there(
        f"ip link property add dev channel altname owlt-ifb{index}",
        f"ip link property del dev channel altname owlt-ifb{index}",
    ):
        try:
            emulator.configure(CHANNEL)
            said = ""
        except EmulatorError as error:
            said = f"{type(error).__name__}: {error}"
    cleared = run("tc qdisc show") == before
    described = emulator.describe()
    emulator.stop()
    return {"said": said, "old_was_there": old != before, "cleared": cleared, "described": described}


def without_rights() -> str:
    return subprocess.run(
        [
            *["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"],
            *[sys.executable, "-c", LACKING_RIGHTS, json.dumps(CHANNEL)],
        ],
        capture_output=True,
        text=True,
        check=False,
    ).stdout


if sys.argv[1:] == ["inside"]:
    print(
        json.dumps(
            {
                "ports": of_ports(),
                "after_start": after_start(),
                "half_way": half_way(),
                "without_rights": without_rights(),
            }
        )
    )
else:
    three_hosts.make()
    subprocess.run(three_hosts.on("emulator", [sys.executable, __file__, "inside"]), check=True)

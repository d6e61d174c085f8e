"""The network of the local rig, and of the inside of a guest: three namespaces and their links, by name.

It is made with ip and ethtool, which needs root. All interfaces and namespaces carry the prefix `owlt-` or lie within
such a namespace, so that they can be found and removed by name. What runs in the namespaces belongs to
`orchestrator.rigs.namespaces`; the channel between the emulator's ports is shaped by its service, never from here.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

from orchestrator.hosts.exit_status import how_ended
from orchestrator.hosts.host import HostError
from orchestrator.rigs import rig

ROLES = ("sender", "receiver", "emulator")
MANAGEMENT_BRIDGE = "owlt-mgmt"
MAC = {"sender": "02:00:00:00:4d:01", "receiver": "02:00:00:00:4d:02"}


def namespace(role: str) -> str:
    """The network namespace of a host."""
    return f"owlt-{role}"


def management_port(role: str) -> str:
    """The management bridge's interface towards a host."""
    return f"owlt-{role[:6]}"


def links() -> list[str]:
    """`ip -batch` lines that make the namespaces and wire them.

    On the management network a host reaches only the orchestrator, so implementations communicate over the channel.
    """
    lines = [f"netns add {namespace(role)}" for role in ROLES]
    lines += [
        f"link add {MANAGEMENT_BRIDGE} type bridge stp_state 0 mcast_snooping 0",
        f"addr add {rig.ORCHESTRATOR_ADDRESS}/24 dev {MANAGEMENT_BRIDGE}",
        f"link set {MANAGEMENT_BRIDGE} up",
    ]
    for role in ROLES:
        lines += [
            f"link add {management_port(role)} type veth peer name mgmt0 netns {namespace(role)}",
            f"link set {management_port(role)} master {MANAGEMENT_BRIDGE} up",
            f"link set {management_port(role)} type bridge_slave isolated on",
        ]
    for role, port in (("sender", rig.SENDER_PORT), ("receiver", rig.RECEIVER_PORT)):
        lines.append(
            f"link add {rig.TEST_INTERFACE} netns {namespace(role)} address {MAC[role]} "
            f"type veth peer name {port} netns {namespace('emulator')}"
        )
    return lines


def host_script(role: str) -> str:
    """Shell lines, run inside the sender's or receiver's namespace, that set up its interfaces."""
    other = "receiver" if role == "sender" else "sender"
    address = {"sender": rig.SENDER_ADDRESS, "receiver": rig.RECEIVER_ADDRESS}
    test = rig.TEST_INTERFACE
    return f"""set -e
{rig.QUIET_KERNEL}
ip -batch - <<END
link set lo up
{_management(role)}
addr add {address[role]}/{rig.TEST_PREFIX} dev {test}
link set {test} up
neigh add {address[other]} lladdr {MAC[other]} dev {test} nud permanent
route add 224.0.0.0/4 dev {test}
END
{_without_offloads(test)}
{shlex.join(rig.card_command(test, rig.CARD_RATE_BPS))}
"""


def emulator_script() -> str:
    """Shell lines, run inside the emulator's namespace: a bridge without an address between its two ports.

    Snooping off, or NORM's groups are lost once a querier is seen; spanning tree off, or the ports wait 30 s.
    """
    ports = (rig.SENDER_PORT, rig.RECEIVER_PORT)
    return f"""set -e
{rig.QUIET_KERNEL}
ip -batch - <<END
link set lo up
{_management("emulator")}
link add channel type bridge stp_state 0 mcast_snooping 0
link set {ports[0]} master channel up
link set {ports[1]} master channel up
link set channel up
END
{_without_offloads(ports[0])}
{_without_offloads(ports[1])}
"""


def _management(role: str) -> str:
    """`ip -batch` lines in a host: its address, and a route to the orchestrator alone."""
    address = rig.MANAGEMENT_ADDRESSES[role]
    return f"""addr add {address}/32 dev mgmt0
link set mgmt0 up
route add {rig.ORCHESTRATOR_ADDRESS}/32 dev mgmt0 src {address}"""


def _without_offloads(interface: str) -> str:
    # a super-packet would be hit, dropped and counted as one
    return f"ethtool -K {interface} tx off rx off tso off gso off gro off >/dev/null"


def make_network() -> None:
    """Make the namespaces, the links between them and the emulator's bridge."""
    ip_batch(links())
    Path("/proc/sys/net/ipv4/conf", MANAGEMENT_BRIDGE, "forwarding").write_text("0")
    for role in ("sender", "receiver"):
        _in_namespace(role, host_script(role))
    _in_namespace("emulator", emulator_script())


def wait_until_bridged(deadline_s: float) -> None:
    """Wait until both ports forward. The kernel passes on that a link is up once a second at most, and until
    then the bridge drops what it is given."""
    end_s = time.monotonic() + deadline_s
    pause_s = 0.01
    while (ports := _port_states()) != ["forwarding"] * 2:
        if time.monotonic() > end_s:
            raise HostError(f"the emulator's ports do not forward after {deadline_s:g} s, they are {ports}")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.2)


def _port_states() -> list[str]:
    command = ["bridge", "-json", "-n", namespace("emulator"), "link", "show"]
    shown = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout or "[]")
    return [port["state"] for port in shown if port["ifname"] in (rig.SENDER_PORT, rig.RECEIVER_PORT)]


def leftovers() -> list[str]:
    """What stands of a rig on this kernel: its namespaces, the management bridge and that one's ports."""
    spaces = [namespace(role) for role in ROLES if Path("/run/netns", namespace(role)).exists()]
    return spaces + [name for name in _management_links() if Path("/sys/class/net", name).exists()]


def clear() -> None:
    """Remove what stands of a rig. Programs are ended by who started them.

    The interfaces go first and by name: those of a removed namespace are gone only some time after it.
    """
    standing = leftovers()
    for name in _management_links():
        if name in standing:
            subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)
    for role in ROLES:
        if namespace(role) in standing:
            subprocess.run(["ip", "netns", "del", namespace(role)], check=False, capture_output=True)


def _management_links() -> list[str]:
    return [*(management_port(role) for role in ROLES), MANAGEMENT_BRIDGE]


def clear_with_programs() -> None:
    """End what still runs in this kernel's rig, such as programs whose sshd or worker was killed; then clear it."""
    for role in ROLES:
        shown = subprocess.run(["ip", "netns", "pids", namespace(role)], capture_output=True, text=True, check=False)
        for pid in shown.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    clear()


def ip_batch(lines: list[str]) -> None:
    """Have `ip` carry out some lines. Raises HostError."""
    succeed(["ip", "-batch", "-"], "\n".join(lines))


def _in_namespace(role: str, script: str) -> None:
    succeed(["ip", "netns", "exec", namespace(role), "sh", "-s"], script)


def succeed(command: list[str], text: str) -> None:
    """Run a command with a text as its input. Raises HostError."""
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise HostError(
            f"{' '.join(command)} {how_ended(done.returncode)}: {done.stderr.strip()}; its input was:\n{text}"
        )

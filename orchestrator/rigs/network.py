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
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from owlt.emulator.channel.spec import ETHERNET_MTU_BYTES
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.hosts.printable import how_ended
from owlt.orchestrator.rigs import rig

ROLES = ("sender", "receiver", "emulator")
MANAGEMENT_LINK = "owlt-mgmt"
"""The orchestrator's end of the link to the emulator's service. Sender and receiver have no management interface: a
program that forges packets cannot disturb the rig."""
MAC = {"sender": "02:00:00:00:4d:01", "receiver": "02:00:00:00:4d:02"}
ADDRESSES = {"sender": rig.SENDER_ADDRESS, "receiver": rig.RECEIVER_ADDRESS}
_PORT = {"sender": rig.SENDER_PORT, "receiver": rig.RECEIVER_PORT}


def namespace(role: str) -> str:
    """The network namespace of a host."""
    return f"owlt-{role}"


def namespace_file(role: str) -> Path:
    """The file of a host's network namespace."""
    return Path("/run/netns", namespace(role))


def links() -> list[str]:
    """`ip -batch` lines that make the namespaces and wire them."""
    lines = [f"netns add {namespace(role)}" for role in ROLES]
    lines += [
        f"link add {MANAGEMENT_LINK} type veth peer name mgmt0 netns {namespace('emulator')}",
        f"addr add {rig.ORCHESTRATOR_ADDRESS}/24 dev {MANAGEMENT_LINK}",
        f"link set {MANAGEMENT_LINK} up",
    ]
    lines += [
        f"link add {rig.TEST_INTERFACE} netns {namespace(role)} address {MAC[role]} "
        f"type veth peer name {port} netns {namespace('emulator')}"
        for role, port in _PORT.items()
    ]
    return lines


def host_script(role: str) -> str:
    """Shell lines, run inside the sender's or receiver's namespace, that set up its test interface, new or used."""
    other = "receiver" if role == "sender" else "sender"
    test = rig.TEST_INTERFACE
    return f"""set -e
{rig.QUIET_KERNEL}
ip -batch - <<END
link set lo up
link set {test} address {MAC[role]} mtu {ETHERNET_MTU_BYTES} txqueuelen 1000
link set {test} alias "" group default promisc off allmulticast off multicast on arp on
addr add {ADDRESSES[role]}/{rig.TEST_PREFIX} dev {test}
link set {test} up
neigh add {ADDRESSES[other]} lladdr {MAC[other]} dev {test} nud permanent
route add 224.0.0.0/4 dev {test}
END
{_without_offloads(test)}
{shlex.join(rig.card_command(test, rig.CARD_RATE_BPS))}
"""


def emulator_script() -> str:
    """Shell lines, run inside the emulator's namespace: a bridge without an address between its two ports.

    Snooping off, or NORM's groups are lost once a querier is seen; spanning tree off, or the ports wait 30 s. The
    bridge learns no addresses: it forwards every frame from one port to the other, also after a frame with a forged
    source. The kernel ignores ARP on the bridge and, through its reverse path filter, IP: otherwise it would also
    accept packets for its management address there.
    """
    ports = tuple(_PORT.values())
    attached = ("master channel up", "type bridge_slave learning off")
    bridged = "\n".join(f"link set {port} {each}" for port in ports for each in attached)
    return f"""set -e
{rig.QUIET_KERNEL}
ip -batch - <<END
link set lo up
addr add {rig.EMULATOR_ADDRESS}/32 dev mgmt0
link set mgmt0 up
route add {rig.ORCHESTRATOR_ADDRESS}/32 dev mgmt0 src {rig.EMULATOR_ADDRESS}
link add channel type bridge stp_state 0 mcast_snooping 0
{bridged}
link set channel arp off
link set channel up
END
echo 1 >/proc/sys/net/ipv4/conf/channel/rp_filter
{_without_offloads(ports[0])}
{_without_offloads(ports[1])}
"""


def _without_offloads(interface: str) -> str:
    # a super-packet would be hit, dropped and counted as one
    return f"ethtool -K {interface} tx off rx off tso off gso off gro off >/dev/null"


def make_network() -> None:
    """Make the namespaces, the links between them and the emulator's bridge."""
    ip_batch(links())
    Path("/proc/sys/net/ipv4/conf", MANAGEMENT_LINK, "forwarding").write_text("0")
    for role in ("sender", "receiver"):
        _in_namespace(role, host_script(role))
    _in_namespace("emulator", emulator_script())


def renew(used: Mapping[str, int]) -> None:
    """Give hosts new network namespaces and move their test interfaces there, so that nothing that the kernel keeps
    in a namespace, such as routes and route exceptions, is left from previous runs. Raises HostError.

    `used` are descriptors of the previous namespaces, by role. Programs that still run there have no interface.
    """
    renamed = "\n".join(f"netns {verb} {namespace(role)}" for role in used for verb in ("del", "add"))
    moved = "".join(
        f"nsenter --net=/proc/{os.getpid()}/fd/{previous} ip link set {rig.TEST_INTERFACE} netns {namespace(role)}\n"
        f"nsenter --net={namespace_file(role)} sh -s <<'HOST'\n{host_script(role)}HOST\n"
        for role, previous in used.items()
    )
    succeed(["sh", "-s"], f"set -e\nip -batch - <<END\n{renamed}\nEND\n{moved}")


def wait_until_bridged(deadline_s: float) -> None:
    """Wait until both ports forward.

    The kernel reports link changes at most once a second, and until then the bridge drops all frames.
    """
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
    """The remains of a rig on this kernel: its namespaces and the link to the emulator."""
    spaces = [namespace(role) for role in ROLES if namespace_file(role).exists()]
    return spaces + [MANAGEMENT_LINK] * Path("/sys/class/net", MANAGEMENT_LINK).exists()


def clear() -> None:
    """Remove the remains of a rig. Programs are ended by those who started them.

    The interface goes first and by name: those of a removed namespace are gone only some time after it.
    """
    standing = leftovers()
    if MANAGEMENT_LINK in standing:
        subprocess.run(["ip", "link", "del", MANAGEMENT_LINK], check=False, capture_output=True)
    for role in ROLES:
        if namespace(role) in standing:
            subprocess.run(["ip", "netns", "del", namespace(role)], check=False, capture_output=True)


def clear_with_programs() -> None:
    """End what still runs in this kernel's rig, such as programs whose worker was killed; then clear it."""
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

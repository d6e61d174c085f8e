"""Attaches both stages to a veth pair, sends real frames of 9014 bytes, and prints what came of them.

The way: origin (egress: errors) -> entrance (ingress: gate, then a redirection) -> end (egress), where frames are seen.
"""

import json
import socket
import subprocess
import time
from contextlib import closing

from owlt.emulator.kernel.bpf.loading import bpf_reason
from owlt.emulator.kernel.bpf_stages import ErrorProcess, ErrorStage
from owlt.emulator.kernel.gate import Admission, GateStage
from owlt.emulator.kernel.kernel_requests import REDIRECT
from owlt.emulator.kernel.rtnetlink import open_rtnetlink
from tests.system.guest_scripts.bpf_run import flipped

FRAME = bytes(6) + bytes(range(6)) + b"\x88\xb5" + bytes(n % 251 for n in range(9000))
COUNT = 50
INTERFACES = ("origin", "entrance", "end")


def sh(command: str) -> str:
    """What a command line prints."""
    return subprocess.run(command, shell=True, check=True, capture_output=True, text=True).stdout


def opened(interface: str) -> socket.socket:
    """A socket for whole frames that does not wait."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    made.bind((interface, 3))
    made.setblocking(False)
    return made


sh("sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1")
sh("ip link add origin mtu 9100 type veth peer name entrance mtu 9100 && ip link add end mtu 9100 type dummy")
for interface in INTERFACES:
    sh(f"ip link set {interface} up && tc qdisc add dev {interface} clsact")
told = {"reason": bpf_reason()}
with (
    open_rtnetlink() as netlink,
    closing(ErrorStage.load(ErrorProcess("bit", "flip", rate=0.01, seed=5))) as errors,
    closing(GateStage.load(Admission(9000, None, 0))) as gate,
):
    origin, entrance, end = (socket.if_nametoindex(interface) for interface in INTERFACES)
    errors.attach(netlink, origin)
    gate.attach(netlink, entrance)
    netlink.tc(
        "add-filter",
        "matchall",
        index=entrance,
        parent=0xFFFF_FFF2,
        handle=1,
        prio=REDIRECT,
        action={"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": end},
    )
    told["shown"] = sh("tc filter show dev origin egress") + sh("tc filter show dev entrance ingress")
    with closing(opened("origin")) as sender, closing(opened("end")) as receiver:
        found = []
        for _ in range(COUNT):
            sender.send(FRAME)
            time.sleep(0.001)
            found.append(flipped(FRAME, receiver.recv(10_000)))
        sender.send(FRAME + b"x")
        time.sleep(0.001)
        try:
            receiver.recv(10_000)
            told["too_long"] = "passed"
        except BlockingIOError:
            told["too_long"] = "dropped"
    told |= {"found": found, "errors": errors.counters(), "gate": gate.counters()}
print(json.dumps(told))

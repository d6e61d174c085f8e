"""The MTU of the test path during a run, on a rig that owlt makes; the interfaces of a lab rig are its owner's."""

from __future__ import annotations

from contextlib import ExitStack

from emulator.channel.spec import ETHERNET_MTU_BYTES
from orchestrator.rigs.rig import Rig


def set_mtu(rig: Rig, mtu_bytes: int, undo: ExitStack) -> None:
    """Give the hosts' interfaces and the emulator's ports this MTU, which `undo` takes back."""
    if mtu_bytes == ETHERNET_MTU_BYTES:
        return
    ends = [(end.host, end.interface) for end in (rig.sender, rig.receiver)]
    ports = [(rig.emulator, port) for port in (rig.sender_port, rig.receiver_port)]
    for host, interface in (*ends, *ports):
        undo.callback(host.run, _command(interface, ETHERNET_MTU_BYTES))
        host.check(_command(interface, mtu_bytes))


def _command(interface: str, mtu_bytes: int) -> list[str]:
    return ["ip", "link", "set", "dev", interface, "mtu", str(mtu_bytes)]

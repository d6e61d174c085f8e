"""Injects frames into a port without a host: through an interface of our own that leads to the port's ingress. Every
frame written to the interface is redirected, at its egress, to the ingress of the port, and passes the captures, the
filters and the bridge as a host's frames do. Writing is by a packet socket, frame by frame.

The redirection is a program of four instructions, not a mirred action: in Linux 7 that marks frames, and netem does not
duplicate marked ones (net/sched/sch_netem.c, tc_depth).
"""

import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from owlt.emulator.kernel.bpf.loading import BpfError, libbpf
from owlt.emulator.kernel.kernel_requests import add_program, refused, silence
from owlt.emulator.kernel.ports import EGRESS_FILTERS, KernelState, Port
from owlt.emulator.kernel.rtnetlink import IPRoute, NetlinkError

INJECTION_PREFIX = "owlt-inject"
LONGEST_FRAME_BYTES = 9014
"""A jumbo frame: 9000 bytes behind the Ethernet header."""

_MOVE, _CALL, _EXIT = 0xB7, 0x85, 0x95  # BPF_ALU64 | BPF_MOV, BPF_JMP | BPF_CALL, BPF_JMP | BPF_EXIT
_REDIRECT, _TO_INGRESS = 23, 1  # BPF_FUNC_redirect, BPF_F_INGRESS
_SCHEDULER_CLASSIFIER = 3  # BPF_PROG_TYPE_SCHED_CLS
_SO_SNDBUFFORCE = 32  # asm-generic/socket.h: root may pass the limit
_SEND_BUFFER_BYTES = 1 << 28
"""A frame counts against the socket until it has left the channel, so this bounds what can be in flight."""


@contextmanager
def injecting(netlink: IPRoute, entrance: int) -> Iterator[socket.socket]:
    """Yield a socket: a frame sent with it comes in at the interface with the index `entrance`. Removes the interface
    afterwards. Raises ChannelRefused if the kernel does not support this.
    """
    name = f"{INJECTION_PREFIX}{entrance}"
    try:
        with refused(f"{name}, to inject probes"):
            _make(netlink, name, entrance)
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as out:
            out.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _SEND_BUFFER_BYTES)
            out.bind((name, 0))
            yield out
    finally:
        _remove(netlink, name)


def clear_injection(netlink: IPRoute, state: KernelState, port: Port) -> None:
    """Remove the interface and redirection that a killed measurement left behind."""
    name = f"{INJECTION_PREFIX}{port.index}"
    if name in state.links:
        _remove(netlink, name)


def _make(netlink: IPRoute, name: str, entrance: int) -> None:
    _remove(netlink, name)
    _add_link(netlink, name)
    (index,) = netlink.link_lookup(ifname=name)
    silence(netlink, index)
    netlink.tc("add", "clsact", index=index)
    program = _redirection(entrance)
    try:
        add_program(netlink, index, EGRESS_FILTERS, program, "owlt-inject")
    finally:
        os.close(program)
    netlink.link("set", index=index, state="up")


def _add_link(netlink: IPRoute, name: str) -> None:
    """Add a dummy, or an ifb if the kernel has no dummy: frames never reach their own egress."""
    try:
        netlink.link("add", ifname=name, kind="dummy", mtu=LONGEST_FRAME_BYTES)
    except NetlinkError as error:
        if error.code != errno.EOPNOTSUPP:
            raise
        netlink.link("add", ifname=name, kind="ifb", mtu=LONGEST_FRAME_BYTES)


def _redirection(entrance: int) -> int:
    """Load `return bpf_redirect(entrance, BPF_F_INGRESS)` and return its file descriptor."""
    instructions = struct.pack(
        "=" + 4 * "BBhi",
        *(_MOVE, 1, 0, entrance),
        *(_MOVE, 2, 0, _TO_INGRESS),
        *(_CALL, 0, 0, _REDIRECT),
        *(_EXIT, 0, 0, 0),
    )
    count = ctypes.c_size_t(len(instructions) // 8)
    program: int = libbpf().bpf_prog_load(_SCHEDULER_CLASSIFIER, b"owlt_inject", b"", instructions, count, None)
    if program < 0:
        raise BpfError(f"eBPF program owlt_inject: load: {os.strerror(-program)}; next: use a kernel of 5.15 or newer")
    return program


def _remove(netlink: IPRoute, name: str) -> None:
    for index in netlink.link_lookup(ifname=name):
        netlink.link("del", index=index)

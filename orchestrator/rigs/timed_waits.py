"""The waits of programs that a timer ended, as the guests' kernel records them on the exact clock (waits-7.3.patch).

Only confined programs are recorded, which have their own PID namespace; their network namespace identifies the host.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from owlt.agents.contract.implementation import Role
from owlt.orchestrator.hosts.printable import printable
from owlt.results.waits import RunWaits, summarised

RECORDED_WAITS = Path("/proc/timed_waits")
_HEAD = struct.Struct("=QQ")
"""The number of waits for which there was no room, and the sum of their lengths (struct waits_head)."""
_WAIT = struct.Struct("=QQIIHHI16s")
"""The end and the length of a wait, the network namespace, the process, the system call, the timer, padding, the
name of the process (struct timed_wait)."""

SYSTEM_CALLS = {
    **{0: "read", 1: "write", 7: "poll", 19: "readv", 20: "writev", 23: "select", 34: "pause", 35: "nanosleep"},
    **{42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg", 61: "wait4"},
    **{128: "rt_sigtimedwait", 130: "rt_sigsuspend", 202: "futex", 208: "io_getevents", 219: "restart_syscall"},
    **{220: "semtimedop", 230: "clock_nanosleep", 232: "epoll_wait", 242: "mq_timedsend", 243: "mq_timedreceive"},
    **{270: "pselect6", 271: "ppoll", 281: "epoll_pwait", 288: "accept4", 299: "recvmmsg", 307: "sendmmsg"},
    **{333: "io_pgetevents", 441: "epoll_pwait2", 449: "futex_waitv", 455: "futex_wait"},
}
"""System calls that can wait, by their numbers on x86-64 (arch/x86/entry/syscalls/syscall_64.tbl)."""
_SLEEP = 1
TIMERS = {2: "timerfd", 3: "timer_create", 4: "alarm"}
"""Timers that are not the time-out of the system call itself (enum waking_timer)."""


class WaitRecorder:
    """The recorder of a guest's kernel; `networks` are the files of its hosts' network namespaces."""

    def __init__(self, networks: Mapping[Role, Path]) -> None:
        self._networks = networks

    def begin(self) -> None:
        """Record from now on, and forget what was recorded and the windows. Takes no virtual time. Raises OSError."""
        _write("begin")

    def skip(self, role: Role, from_ns: int, to_ns: int) -> None:
        """End at once, for each thread of the host, its next wait that begins in this window, in ns since 1970. A
        thread skips one wait of each window, so a window that is given twice skips two. To the host's programs it looks
        as if the time had passed: their clocks go ahead. A timer is skipped if it is set in the window. There may be 64
        windows. Raises OSError."""
        _write(f"{self._networks[role].stat().st_ino} {from_ns} {to_ns}")

    def waits(self) -> RunWaits:
        """The waits on both hosts since the recording began. Raises OSError."""
        numbers: dict[int, Role] = {path.stat().st_ino: role for role, path in self._networks.items()}
        return parse_recorded(RECORDED_WAITS.read_bytes(), numbers)


def _write(order: str) -> None:
    descriptor = os.open(RECORDED_WAITS, os.O_WRONLY)  # a file of Python asks for more, and a refusal takes time
    try:
        os.write(descriptor, order.encode())
    finally:
        os.close(descriptor)


def parse_recorded(content: bytes, networks: Mapping[int, Role]) -> RunWaits:
    """The waits in what the kernel recorded."""
    unrecorded, unrecorded_ns = _HEAD.unpack_from(content)
    waits = [
        (networks[network], _process(name), _kind(call, timer), ended_ns - length_ns, length_ns)
        for ended_ns, length_ns, network, _, call, timer, _, name in _WAIT.iter_unpack(content[_HEAD.size :])
        if network in networks
    ]
    return summarised(waits, unrecorded, unrecorded_ns)


@cache
def _process(name: bytes) -> str:
    return printable(name.rstrip(b"\0").decode(errors="replace"))


@cache
def _kind(call: int, timer: int) -> str:
    return TIMERS[timer] if timer != _SLEEP else SYSTEM_CALLS.get(call, f"system call {call}")

"""What happened to a run's programs: which were killed, and which of their waits a timer ended.

Programs are killed by the rig's kernel because memory ran out, or by the guest's warden, which ends an implementation's
programs in a guest at the supervisor's request. On the clock exact, a program that computes without end stops virtual
time, so no timer in the guest expires and a time limit has no effect. The supervisor, which uses the machine's clock,
types a line at the guest's console: the number of seconds without an event. This is an interrupt, and the process that
waits for the line has real-time priority, so it runs before all others (sched(7)).

Waits are recorded by the guests' kernel on the clock exact (waits-7.3.patch), and only those of confined programs,
which have their own PID namespace; their network namespace identifies the host.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

from owlt.agents.contract.implementation import Role
from owlt.orchestrator.hosts.confinement import MEMORY_FIRST
from owlt.orchestrator.hosts.printable import printable
from owlt.results.waits import RunWaits, summarised

WARDEN_NOTE = "/run/owlt-ended"
"""In the guest: which programs were killed, and after how many seconds."""

_WARDEN_LISTENS = f"""while silence_s=$(dd bs=64 count=1 2>/dev/null) && [ -n "$silence_s" ]; do
  cat /proc/[0-9]*/status 2>/dev/null | awk -F '\\t' '
    /^Name:/ {{ name = $2 }}
    /^State:/ {{ state = substr($2, 1, 1) }}
    /^NSpid:/ && NF > 2 {{ programs++; if (state == "R") running[name]++; if (NF == 3 && $3 == 1) print $2 }}
    END {{
      for (name in running) names = names (names ? ", " : "") running[name] " x " name
      if (programs) print "'"$silence_s"'", programs, names >"{WARDEN_NOTE}"
    }}' | xargs -r kill -KILL
done"""

WARDEN_SCRIPT = "chrt -f 1 sh -c {} </dev/console >/dev/null 2>&1 &".replace(
    "{}", "'" + _WARDEN_LISTENS.replace("'", "'\\''") + "'"
)
"""Shell lines that start the warden in a guest."""


def ask_warden(console: IO[str] | None, silence_s: float) -> bool:
    """Have a guest end its programs, through its console. False if it has none, or has ended."""
    if console is None:
        return False
    with suppress(OSError, ValueError):
        console.write(f"{silence_s:g}\n")
        console.flush()
        return True
    return False


def take_note(path: str = WARDEN_NOTE) -> str:
    """The programs that the warden of this guest has killed since the last call, as a sentence; "" if none."""
    note = Path(path)
    try:
        silence_s, programs, *names = note.read_bytes().decode(errors="replace").strip().split(" ", 2)
    except FileNotFoundError:
        return ""
    note.unlink()
    running = f" (running: {names[0]})" if names else ""
    return (
        f"the implementation computed for {silence_s} s of wall time during which no virtual time passed; "
        f"its {programs} processes were killed{running}"
    )


KERNEL_LOG = "/dev/kmsg"
RECORD_BYTES = 8192
_KILLED = re.compile(rf"Killed process \d+ \((.*)\) .*\boom_score_adj:{MEMORY_FIRST}$", re.MULTILINE)


class KilledPrograms:
    """The programs that were killed since the last `take`, a sentence each."""

    def __init__(self, note: str = WARDEN_NOTE) -> None:
        """Begin with what the kernel logs from now on. If its log cannot be read, memory is never named.

        `note` is where the guest's warden writes.
        """
        self._note = note
        self._log: int | None = None
        with suppress(OSError):
            self._log = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._log, 0, os.SEEK_END)

    def take(self) -> list[str]:
        """Return the sentences, and forget them."""
        return [printable(each) for each in (take_note(self._note), for_memory(self._logged())) if each]

    def close(self) -> None:
        """Read no more."""
        if self._log is not None:
            os.close(self._log)

    def _logged(self) -> str:
        """The kernel's log since the last call, one record per line (Documentation/ABI/testing/dev-kmsg)."""
        records = []
        while self._log is not None:
            try:
                records.append(os.read(self._log, RECORD_BYTES))
            except BlockingIOError:
                break
            except BrokenPipeError:  # older records were overwritten before they were read
                continue
        return b"".join(records).decode(errors="replace")


def for_memory(log: str) -> str:
    """The implementation's programs that the kernel ended for memory, from its log, as a sentence; "" if none."""
    killed = _KILLED.findall(log)
    return f"the kernel killed {', '.join(killed)} because memory ran out" if killed else ""


RECORDED_WAITS = Path("/proc/timed_waits")
_HEAD = struct.Struct("=QQ")
"""The number of waits for which there was no room, and the sum of their lengths (struct waits_head)."""
_WAIT = struct.Struct("=QQIIHHI16s")
"""The end and the length of a wait, the network namespace, the process, the system call, the timer, nothing, the
name of the process (struct timed_wait)."""

SYSTEM_CALLS = {
    **{0: "read", 1: "write", 7: "poll", 19: "readv", 20: "writev", 23: "select", 34: "pause", 35: "nanosleep"},
    **{42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg", 61: "wait4"},
    **{128: "rt_sigtimedwait", 130: "rt_sigsuspend", 202: "futex", 208: "io_getevents", 219: "restart_syscall"},
    **{220: "semtimedop", 230: "clock_nanosleep", 232: "epoll_wait", 242: "mq_timedsend", 243: "mq_timedreceive"},
    **{270: "pselect6", 271: "ppoll", 281: "epoll_pwait", 288: "accept4", 299: "recvmmsg", 307: "sendmmsg"},
    **{333: "io_pgetevents", 441: "epoll_pwait2", 449: "futex_waitv", 455: "futex_wait"},
}
"""Those that can wait, by their numbers on x86-64 (arch/x86/entry/syscalls/syscall_64.tbl)."""
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
        """Have the next wait of each of a host's threads end at once that begins in this window, in ns since 1970. A
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

"""Reads clocks in a guest, and prints what they cost and whether a program that may make no system call can read them.

strict seccomp(2) allows read, write and exit only: a reading that enters the kernel ends the program.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import time
from collections.abc import Callable
from itertools import pairwise

LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_SECCOMP, SECCOMP_MODE_STRICT = 22, 1
SYS_CLOCK_GETTIME, SYS_SETTIMEOFDAY = 228, 164
READINGS = 20
SET_TO_NS = 2_000_000_000 * 10**9
ZONE = (-60, 1)


def by_the_kernel(clock: int) -> int:
    """A clock, by a system call, in ns."""
    shown = ctypes.create_string_buffer(16)
    LIBC.syscall(SYS_CLOCK_GETTIME, clock, shown)
    seconds, ns = struct.unpack("qq", shown.raw)
    return int(seconds * 10**9 + ns)


def time_of_day() -> tuple[int, int, int]:
    """gettimeofday(2), with its time zone: us since 1970, minutes west of Greenwich, kind of summer time."""
    LIBC.gettimeofday(TIMEVAL, TIMEZONE)
    seconds, us = struct.unpack("qq", TIMEVAL.raw)
    return (seconds * 10**6 + us, *struct.unpack("ii", TIMEZONE.raw))


def is_read_without_the_kernel(read: Callable[[], object]) -> bool:
    """Whether a program that may make no system call can read a clock like this."""
    receiving, sending = os.pipe()
    if not os.fork():
        LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0)
        for _ in range(READINGS):
            read()
        os.write(sending, b"read")
        os.abort()
    os.close(sending)
    os.wait()
    return os.read(receiving, 4) == b"read"


def alternating_steps_ns(clock: int) -> list[int]:
    """By how much the clock goes on from readings without the kernel to readings by it, and back."""
    readings = [read(clock) for _ in range(1000) for read in (time.clock_gettime_ns, by_the_kernel)]
    return sorted({after - before for before, after in pairwise(readings)})


TIMEVAL, TIMEZONE = ctypes.create_string_buffer(16), ctypes.create_string_buffer(b"\xff" * 8, 8)
LENT = {"monotonic": time.CLOCK_MONOTONIC, "realtime": time.CLOCK_REALTIME}
CLOCKS = {**LENT, "boottime": time.CLOCK_BOOTTIME}
lent = [time.monotonic_ns() for _ in range(1000)]
without_kernel = {
    name: is_read_without_the_kernel(lambda clock=clock: time.clock_gettime_ns(clock)) for name, clock in CLOCKS.items()
}
without_kernel["gettimeofday"] = is_read_without_the_kernel(time_of_day)
steps_ns = {name: alternating_steps_ns(clock) for name, clock in LENT.items()}
LIBC.syscall(SYS_SETTIMEOFDAY, struct.pack("qq", SET_TO_NS // 10**9, 0), struct.pack("ii", *ZONE))
now_us, *zone = time_of_day()
print(
    json.dumps(
        {
            "steps_ns": sorted({after - before for before, after in pairwise(lent)}),
            "alternating_steps_ns": steps_ns,
            "without_kernel": without_kernel,
            "after_set_ns": [1000 * now_us - SET_TO_NS, time.time_ns() - SET_TO_NS],
            "zone": zone,
        }
    )
)

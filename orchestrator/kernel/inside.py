"""Tests the features of a guest's kernel, run in the guest: `python -m owlt.orchestrator.kernel.inside CLOCK`.

The result is written after each step, because a kernel without the last feature hangs there.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import struct
import sys
import time
from pathlib import Path
from typing import cast

from owlt.agents.contract.implementation import Clock
from owlt.emulator.kernel import capabilities
from owlt.emulator.kernel.rtnetlink import open_rtnetlink
from owlt.orchestrator.kernel.probe import FINDINGS_NAME, SLEEP_S

BPF_SYSCALL_NUMBER = 321
BPF_PROG_LOAD = 5
BPF_PROG_TYPE_SOCKET_FILTER = 1
RETURN_NOTHING = struct.pack("=BBhi", 0xB7, 0, 0, 0) + struct.pack("=BBhi", 0x95, 0, 0, 0)
"""r0 = 0; exit (RFC 9669)."""
READ_TSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")
"""rdtsc; shl rdx, 32; or rax, rdx; ret."""


def slept(asked_s: float) -> dict[str, float]:
    """The duration of a sleep by the guest's own clock, and by the time stamp counter in ticks."""
    with mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC) as code:
        code.write(READ_TSC)
        start = ctypes.c_char.from_buffer(code)
        read_tsc = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(start))
        start_s, start_ticks = time.monotonic(), read_tsc()
        time.sleep(asked_s)
        result = {"slept_s": time.monotonic() - start_s, "slept_ticks": read_tsc() - start_ticks}
        del start
    return result


def bpf_loads() -> bool:
    """Whether bpf(2) loads a program."""
    libc = ctypes.CDLL(None, use_errno=True)
    program, licence = ctypes.create_string_buffer(RETURN_NOTHING), ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack(
        "=IIQQ", BPF_PROG_TYPE_SOCKET_FILTER, 2, ctypes.addressof(program), ctypes.addressof(licence)
    )
    descriptor = libc.syscall(BPF_SYSCALL_NUMBER, BPF_PROG_LOAD, attributes, len(attributes))
    if descriptor >= 0:
        os.close(descriptor)
    return bool(descriptor >= 0)


def spin_ends() -> bool:
    """Loop without a system call until a child has set a byte. Hangs if nothing preempts the loop."""
    with mmap.mmap(-1, mmap.PAGESIZE) as shared:
        child = os.fork()
        if child == 0:
            shared[0] = 1
            os._exit(0)
        while not shared[0]:
            pass
        os.waitpid(child, 0)
    return True


def main(clock: Clock) -> None:
    """Test the features, the cheapest first, and write the results."""
    findings: dict[str, object] = dict(slept(SLEEP_S[clock]))
    Path(FINDINGS_NAME).write_text(json.dumps(findings))
    if clock != "exact":
        return
    with open_rtnetlink() as netlink:
        findings |= {"bpf": bpf_loads(), "capabilities": capabilities.probe(netlink)}
    Path(FINDINGS_NAME).write_text(json.dumps(findings))
    findings["ends_spins"] = spin_ends()
    Path(FINDINGS_NAME).write_text(json.dumps(findings))


if __name__ == "__main__":
    main(cast(Clock, sys.argv[1]))

"""On the exact clock nothing preempts a program: one that waits in a loop still ends, one that computes goes on."""

from __future__ import annotations

import subprocess
from dataclasses import replace

import pytest

from tests.conftest import require, require_command
from tests.system.conftest import PROJECT, Guest

SCRIPT = PROJECT / "tests/system/guest_scripts/built.sh"
SOURCE = PROJECT / "tests/system/programs/loops.c"
BOTH = pytest.mark.parametrize("seccomp", [True, False], ids=["seccomp", "ptrace"])


def in_mode(guest: Guest, seccomp: bool) -> Guest:
    """The same guest with its programs under seccomp, or under ptrace."""
    if seccomp:
        require(guest.kernel.seccomp, "a kernel whose guests run under seccomp")
    return replace(guest, kernel=guest.kernel.model_copy(update={"seccomp": seccomp}))


def looped(guest: Guest, way: str, timeout_s: float = 60) -> tuple[int, bool]:
    """Nanoseconds of virtual time that it took, and whether the other thread ran before the end."""
    program = guest.out_dir / "loops"
    command = [require_command("gcc"), "-O1", "-pthread", "-o", str(program), str(SOURCE)]
    subprocess.run(command, check=True)
    took_ns, result = guest.run(SCRIPT, "loops", way, timeout_s=timeout_s).stdout.split()
    return int(took_ns), bool(int(result))


@BOTH
def test_a_loop_that_waits_for_another_thread_ends_in_no_time(guest: Guest, seccomp: bool) -> None:
    took_ns, ran = looped(in_mode(guest, seccomp), "wait")

    assert ran
    assert took_ns < 1_000_000


@BOTH
def test_a_long_computation_is_not_taken_for_a_loop_that_waits(guest: Guest, seccomp: bool) -> None:
    took_ns, ran_before_the_end = looped(in_mode(guest, seccomp), "compute")

    assert not ran_before_the_end
    assert took_ns < 1_000_000


@BOTH
def test_without_the_kernels_watch_the_same_loop_hangs(guest: Guest, seccomp: bool) -> None:
    """The control. The watch lives on SIGVTALRM, which is blocked here."""
    chosen = in_mode(guest, seccomp)
    without_watch = guest.out_dir / "without-watch"
    without_watch.write_text(f'#!/bin/sh\nexec env --block-signal=VTALRM {chosen.kernel.path} "$@"\n')
    without_watch.chmod(0o755)

    with pytest.raises(AssertionError, match="hung in the guest"):
        looped(
            replace(chosen, kernel=chosen.kernel.model_copy(update={"path": without_watch})),
            "wait",
            timeout_s=5,
        )

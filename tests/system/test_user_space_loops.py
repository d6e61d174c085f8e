"""On the exact clock nothing preempts a program: one that waits in a loop still ends, one that computes goes on."""

from __future__ import annotations

import pytest

from tests.system.conftest import PROJECT, Guest, compiled, in_mode, started_by

SCRIPT = PROJECT / "tests/system/guest_scripts/built.sh"
BOTH = pytest.mark.parametrize("seccomp", [True, False], ids=["seccomp", "ptrace"])


def looped(guest: Guest, way: str, timeout_s: float = 60) -> tuple[int, bool]:
    """Nanoseconds of virtual time that it took, and whether the other thread ran before the end."""
    compiled("loops.c", guest.out_dir)
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
    without_watch = started_by("env --block-signal=VTALRM", in_mode(guest, seccomp))

    with pytest.raises(AssertionError, match="hung in the guest"):
        looped(without_watch, "wait", timeout_s=5)

"""The rack of these tests is free for the next run after one that was killed."""

from __future__ import annotations

import os
import subprocess

from tests.conftest import require
from tests.lab.rack import Place, clear, leftovers, own, pids, wait_until, wire

UNUSED = Place("owlt-unused", "10.81.0")


def test_what_a_killed_run_left_of_a_rack_is_removed_with_its_programs() -> None:
    require(os.geteuid() == 0, "root, to make network namespaces")
    try:
        wire(UNUSED)
        inside = ["ip", "netns", "exec", UNUSED.namespace("sender")]
        with subprocess.Popen([*inside, "sleep", "600"]) as program:
            # until then nothing in the namespace is to be killed, and the program would run to its end
            wait_until(lambda: pids(UNUSED) == [program.pid], "the program in the namespace")
            assert len(leftovers(UNUSED)) == 4

            with own(UNUSED):
                assert leftovers(UNUSED) == []

            assert program.wait(10) == -9
    finally:
        clear(UNUSED)

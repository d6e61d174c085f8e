"""What a rig does on several hosts at once."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.rigs.rig import Rig
from tests.memory.rig import MemoryRig

ONE_PROCESSOR = MemoryRig().rig
MACHINES = replace(ONE_PROCESSOR, has_machines=True)


def test_machines_do_at_the_same_time_what_does_not_depend_on_each_other() -> None:
    both = threading.Barrier(2, timeout=10)

    assert sorted(MACHINES.at_once(both.wait, both.wait)) == [0, 1]


def test_hosts_that_share_processors_do_one_thing_after_the_other() -> None:
    both = threading.Barrier(2, timeout=0.1)

    with pytest.raises(threading.BrokenBarrierError):
        ONE_PROCESSOR.at_once(both.wait, both.wait)


@pytest.mark.parametrize("rig", [ONE_PROCESSOR, MACHINES], ids=["one processor", "machines"])
def test_results_are_in_the_order_of_the_calls(rig: Rig) -> None:
    assert rig.at_once(lambda: "a", lambda: 2, lambda: None) == ["a", 2, None]


def test_a_failure_on_one_machine_is_raised_when_the_others_have_finished() -> None:
    failed, finished = threading.Event(), threading.Event()

    def fail() -> None:
        failed.set()
        raise HostError("the sender: no SSH")

    def finish_later() -> None:
        failed.wait(10)
        time.sleep(0.1)
        finished.set()

    with pytest.raises(HostError, match="the sender: no SSH"):
        MACHINES.at_once(fail, finish_later)
    assert finished.is_set()

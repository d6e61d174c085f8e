"""A sweep whose processes are killed at random moments comes to the same end as one that nobody disturbs."""

from __future__ import annotations

from multiprocessing import resource_tracker
from pathlib import Path

import pytest

from tests.bench.kills import kill_local, kill_virtual
from tests.system.conftest import Guest

pytestmark = pytest.mark.timeout(1200)

VIRTUAL_KILLS, LOCAL_KILLS = 6, 4


def test_kills_on_the_virtual_rig_leave_every_run_once_with_the_same_packets(
    tmp_path: Path, guest_kernel: object
) -> None:
    resource_tracker.ensure_running()  # a process of this one, which is not left over

    assert kill_virtual(tmp_path, VIRTUAL_KILLS) == []


def test_kills_on_the_local_rig_leave_every_run_once_and_nothing_else(guest: Guest) -> None:
    assert kill_local(guest, LOCAL_KILLS) == []

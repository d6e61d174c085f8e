"""A timeline that breaks off says why: a run that relied on it has to be marked."""

from __future__ import annotations

import json

from tests.system.conftest import Guest
from tests.system.test_emulator_channel import SCRIPTS


def test_a_step_that_fails_ends_the_timeline_with_its_reason(guest: Guest) -> None:
    done = guest.run(SCRIPTS / "broken_timeline.py", timeout_s=120)

    assert done.returncode == 0, done.stderr
    status = json.loads(done.stdout)
    assert (status["running"], status["steps_applied"]) == (False, 0)
    assert status["failure"].startswith("step 1, at 0.5 s: ")

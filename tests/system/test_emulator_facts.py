"""The real emulator does what the one in memory is held to in `tests/unit/emulator/test_memory_emulator.py`."""

from __future__ import annotations

import json

from tests.emulator_facts import FACTS
from tests.system.conftest import Guest
from tests.system.test_emulator_channel import SCRIPTS


def test_what_holds_of_every_emulator_holds_of_the_real_one(guest: Guest) -> None:
    done = guest.run(SCRIPTS / "emulator_facts.py", timeout_s=120)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"asked": list(FACTS), "failed": {}}

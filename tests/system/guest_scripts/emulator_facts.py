"""Asks every fact of `tests.emulator_facts` of the real emulator, over HTTP; prints those that do not hold, and why."""

import json
import traceback

from tests.emulator_facts import FACTS
from tests.system.guest_scripts import three_hosts

three_hosts.make()
failed: dict[str, str] = {}
for name, fact in FACTS.items():
    with three_hosts.service() as emulator:
        try:
            fact(emulator)
        except BaseException:
            failed[name] = traceback.format_exc()
print(json.dumps({"asked": list(FACTS), "failed": failed}))

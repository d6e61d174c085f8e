"""With `-n 2`, two groups of tests run side by side: those of bare machines, in a rack of their own, and all others.

Within a group they run one after the other: they share a rack, and this machine has room for one local rig. (The groups
of xdist itself, `--dist loadgroup`, have no effect with pytest 9.2: tests of one rack were spread over both workers.)
"""

from __future__ import annotations

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling


class Groups(LoadScopeScheduling):
    """Gives each worker a group."""

    def _split_scope(self, nodeid: str) -> str:
        return "bare machines" if "test_provisioning.py" in nodeid else "others"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Groups:
    return Groups(config, log)

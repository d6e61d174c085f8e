"""Two groups of tests, which can run side by side: those of bare machines, in a rack of their own, and all others."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "lab":
            group = "bare machines" if item.path.name == "test_provisioning.py" else "others"
            item.add_marker(pytest.mark.xdist_group(group))

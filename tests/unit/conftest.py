"""Unit tests are quick: a test that starts Wireshark's programs or another interpreter belongs to tests/programs."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

ELSEWHERE = {"tshark", "capinfos", "editcap", "mergecap", "python", "python3", Path(sys.executable).name, "owlt"}


def refuse_slow_programs(event: str, arguments: tuple[object, ...]) -> None:
    """Fail the unit test that starts one of them; tests of other folders may be in the same session."""
    if event == "subprocess.Popen" and os.environ.get("PYTEST_CURRENT_TEST", "").startswith("tests/unit/"):
        name = Path(os.fsdecode(arguments[0])).name  # type: ignore[call-overload]
        assert name not in ELSEWHERE, f"{name} takes long to start: move this test to tests/programs"


sys.addaudithook(refuse_slow_programs)


def pytest_collection_finish() -> None:
    """Keep the collector of cycles from visiting what stays until the end: five thousand tests and all modules."""
    gc.collect()
    gc.freeze()

"""Unit tests are quick: a test that starts Wireshark's programs or another interpreter belongs to tests/programs."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ELSEWHERE = {"tshark", "capinfos", "editcap", "mergecap", "python", "python3", Path(sys.executable).name, "owlt"}

_start = subprocess.Popen.__init__


def refuse_slow_programs(process: subprocess.Popen[Any], args: Any, *more: Any, **options: Any) -> None:
    """Fail the unit test that starts one of them; tests of other folders may be in the same session."""
    if os.environ.get("PYTEST_CURRENT_TEST", "").startswith("tests/unit/"):
        program = options.get("executable") or (args if isinstance(args, str | bytes | os.PathLike) else args[0])
        name = Path(os.fsdecode(program)).name
        assert name not in ELSEWHERE, f"{name} takes long to start: move this test to tests/programs"
    _start(process, args, *more, **options)


subprocess.Popen.__init__ = refuse_slow_programs  # type: ignore[method-assign]  # an audit hook is called for each import


def pytest_collection_finish() -> None:
    """Keep the collector of cycles from visiting what stays until the end: five thousand tests and all modules."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="package", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Unit tests neither use nor change the user's cache: its kernels, and what earlier sweeps took."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield

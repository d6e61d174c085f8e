"""A host on this kernel does what the one in memory is held to in `tests/unit/orchestrator/test_memory_host.py`."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

import pytest

from owlt.orchestrator.rigs import namespaces, network
from tests.conftest import require
from tests.host_facts import FACTS, PROGRAMS, Place


@pytest.fixture(autouse=True)
def _capabilities() -> None:
    require(os.geteuid() == 0, "root, to make network namespaces")
    namespaces.clear_abandoned()
    require(not network.leftovers(), "a machine on which no local rig stands")


def test_what_holds_of_every_host_holds_on_this_kernel(tmp_path: Path) -> None:
    failed: dict[str, str] = {}
    with namespaces.raised(tmp_path / "rig", tmp_path, tmp_path) as rig:
        host = rig.sender.host
        programs = f"{host.base}/programs"
        host.check(["mkdir", "-p", programs])
        for name, (text, _) in PROGRAMS.items():
            host.write_file(f"{programs}/{name}", f"#!/bin/sh\n{text}\n".encode())
            host.check(["chmod", "+x", f"{programs}/{name}"])
        for name, fact in FACTS.items():
            directory, logs = f"{host.base}/{name}", tmp_path / name
            host.check(["mkdir", "-p", directory])
            logs.mkdir()
            try:
                fact(Place(host, directory, programs, logs))
            except BaseException:
                failed[name] = traceback.format_exc()

    assert failed == {}, "\n".join(failed.values())

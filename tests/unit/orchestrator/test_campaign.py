"""What is checked before the first run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from orchestrator.campaign import perform_sweep
from orchestrator.errors import Missing
from orchestrator.supervisor import Event

LOCAL = """\
name: base
seed: 1
rig: local
clock: real
implementations: cfdp
file_size: 1 kB
rate: unlimited
delay: 0 s
packet_error_rate: 0
"""


def nobody_observes(_plan: object, _done: object) -> object:
    def observe(_event: Event) -> None:
        return None

    return observe


def test_the_local_rig_needs_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(LOCAL)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(Missing, match="needs root: run owlt with sudo"):
        perform_sweep(sweep, tmp_path / "results", None, nobody_observes)  # type: ignore[arg-type]

    assert not (tmp_path / "results").exists()

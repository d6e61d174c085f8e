"""Runs that share their beginning, as those of a proof: each is the same as when it is performed alone and whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.system.fault_trials import UDP, owlt, with_defect

pytestmark = pytest.mark.usefixtures("guest_kernel")
FROM_A_BEGINNING = "runs/shared-beginning/"
"""In the commands of such a run: its programs were started once for all runs."""


def is_shared(run: Path) -> bool:
    return FROM_A_BEGINNING in str(json.loads((run / "record.json").read_text())["receiver"]["command"])


@pytest.mark.parametrize("endpoint", ["cfdp", "ltp", "saratoga", "bp-cs"])
def test_a_run_that_shares_its_beginning_has_the_packets_of_the_whole_run(tmp_path: Path, endpoint: str) -> None:
    profile = with_defect("none", tmp_path, endpoint, UDP if endpoint == "bp-cs" else {})
    _, proof = owlt(tmp_path, "prove", str(profile), "--file-size", "2 kB")
    runs = [Path(trial["run"]) for trial in proof["trials"] if trial["faults"]]
    chosen = runs[0], runs[-1]

    replays = [owlt(tmp_path, "replay", str(run))[1] for run in chosen]

    assert all(is_shared(tmp_path / run) for run in runs)
    assert [replay["captures"] for replay in replays] == [{"sender.pcap": "", "receiver.pcap": ""}] * 2

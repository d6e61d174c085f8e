"""A sweep that is extended twice: recorded runs are not touched, and the result is that of the sweep done at once."""

from __future__ import annotations

import json
from pathlib import Path

from tests.system.sweeps import owlt, perform, records, sweep_file

SHORT = {"file_size": "10 kB", "packet_error_rate": [0, 0.05], "certify": False}
LONGER = SHORT | {"repetitions": 2}
WHOLE = LONGER | {"implementations": ["cfdp", "ltp"]}


def test_an_extended_sweep_keeps_its_runs_and_ends_as_the_complete_sweep(tmp_path: Path, guest_kernel: object) -> None:
    extended, at_once = tmp_path / "extended", tmp_path / "at-once"
    kept: dict[Path, bytes] = {}
    for changes in (SHORT, LONGER, WHOLE):
        assert perform(tmp_path, extended, **changes).returncode == 0
        assert {path: path.read_bytes() for path in kept} == kept
        kept = {path: path.read_bytes() for path in extended.glob("runs/*/record.json")}
    assert perform(tmp_path, at_once, **WHOLE).returncode == 0

    decisive = ("seed", "file_sha256", "outcome", "channel", "parameters", "repetition")
    one, other = (
        {run_id: [record[key] for key in decisive] for run_id, record in records(results).items()}
        for results in (extended, at_once)
    )
    assert one == other
    assert len(one) == 8
    history = json.loads((extended / "plan.json").read_text())["history"]
    assert [each["added"] for each in history] == [2, 2, 4]


def test_fewer_repetitions_than_are_recorded_are_refused_and_change_nothing(
    tmp_path: Path, guest_kernel: object
) -> None:
    results = tmp_path / "results"
    assert perform(tmp_path, results, **LONGER).returncode == 0
    before = (results / "plan.json").read_bytes()

    refused = owlt("run", sweep_file(tmp_path, **SHORT), "--results", results)

    assert refused.returncode == 2
    assert "repetitions: 2 there, 1 here: 2 recorded runs (" in refused.stderr
    assert (results / "plan.json").read_bytes() == before

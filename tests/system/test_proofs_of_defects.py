"""`owlt prove` on our endpoints with planted defects: each is found, with the smallest set of faults that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.system.fault_trials import PLANTED, owlt, with_defect

pytestmark = pytest.mark.usefixtures("guest_kernel")


@pytest.mark.parametrize("defect", PLANTED)
def test_a_proof_finds_a_planted_defect_with_the_fewest_faults_that_show_it(tmp_path: Path, defect: str) -> None:
    planted = PLANTED[defect]
    profile = with_defect(defect, tmp_path, planted.endpoint, planted.parameters)
    words = ["--losses", str(len(planted.faults)), "--faults", planted.kinds, "--file-size", "2 kB"]
    status, proof = owlt(tmp_path, "prove", str(profile), *words)
    failed = [trial["faults"] for trial in proof["trials"] if trial["outcome"] != "completed"]

    assert status == 1
    assert list(planted.faults) in failed
    assert min(map(len, failed)) == len(planted.faults)
    channel = YAML(typ="safe").load(Path(tmp_path / proof["counterexample"]).read_text())
    hit = [fault["occurrence"] for fault in channel["faults"]]
    assert sum(len(each) if isinstance(each, list) else 1 for each in hit) == len(planted.faults)

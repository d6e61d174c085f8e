"""Each reproduction in its quick form: performed in guests, and its claims judged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.commands.reproduce import reproductions
from tests.system.sweeps import owlt

CONFIRMED = {
    "acs-asymmetric-2022": {"acs-data", "cs-small-over-acs", "equal-at-1400", "large-over-acs", "acs-arrivals"},
    "delack-leo-2017": {"goodput-low", "rto-falls"},
    "grc-nack-2012": {"cfdp-growth", "ltp-growth", "norm-growth", "second-cfdp", "norm-slowest", "saratoga-get"},
    "ltp-segments-2024": {"fragments-engaged", "whole-1400", "whole-4400", "whole-9600"},
    "tcp-deepspace-2002": {"model", "rtt-1ms", "reno-falls-with-rtt", "far-link-unused"},
}
"""Claims that the quick form decides, with room to their bounds."""


@pytest.mark.parametrize("name", [path.name for path in reproductions()])
def test_the_quick_form_judges_the_claims(name: str, tmp_path: Path, guest_kernel: object) -> None:
    done = owlt("reproduce", name, "--quick", "--results", tmp_path / "results", "--json")

    assert done.returncode == 0, done.stderr
    judged = json.loads(done.stdout)
    verdicts = {each["id"]: each["verdict"] for each in judged["claims"]}
    assert {id for id, verdict in verdicts.items() if verdict == "confirmed"} >= CONFIRMED[name]
    assert Path(judged["page"]).read_text().startswith(f"# {name}")

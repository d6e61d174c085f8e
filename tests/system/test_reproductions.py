"""Each reproduction in its quick form: performed in guests, and its claims judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.reproduce import perform_all, reproductions
from owlt.orchestrator.own_directories import third_party_directory
from tests.missing_implementation import MISSING
from tests.system.sweeps import owlt

INSIDE = {
    "acs-asymmetric-2022": {"acs-data", "cs-small-over-acs", "equal-at-1400", "large-over-acs", "acs-arrivals"},
    "delack-leo-2017": {"goodput-low", "rto-falls"},
    "grc-nack-2012": {"cfdp-growth", "ltp-growth", "norm-growth", "second-cfdp", "norm-slowest", "saratoga-get"},
    "ltp-segments-2024": {"fragments-engaged", "whole-1400", "whole-4400", "whole-9600"},
    "tcp-deepspace-2002": {"model", "rtt-1ms", "far-link-unused"},
    "tiptop-quic": {"defaults-fail", "right-rtt"},
}
"""Claims whose value in the quick form is inside their bounds, with room."""
WITH_FAILURES = ("tiptop-quic",)
"""Some of whose runs fail, which is what it shows."""
COMPILED = {"tiptop-quic": ("quinn", "quiche", "tquic", "quic-go")}
"""Third-party programs that take too long to compile for `make test` to install them."""


@pytest.mark.parametrize("name", [path.name for path in reproductions()])
def test_the_quick_form_judges_the_claims(name: str, tmp_path: Path, guest_kernel: object) -> None:
    if missing := [each for each in COMPILED.get(name, ()) if not (third_party_directory() / each).exists()]:
        pytest.skip(f"missing capability: {', '.join(missing)}; owlt third-party install {' '.join(missing)}")
    done = owlt("reproduce", name, "--quick", "--results", tmp_path / "results", "--json")

    assert done.returncode == (3 if name in WITH_FAILURES else 0), done.stderr
    judged = json.loads(done.stdout)
    claims = {each["id"]: each for each in judged["claims"]}
    assert {id for id, each in claims.items() if each["ours"] is not None and _is_inside(each)} >= INSIDE[name]
    assert {each["verdict"] for each in claims.values() if each["error"]} == set()  # one repetition decides nothing
    assert json.loads((tmp_path / "results" / "reproduction.json").read_text())["runs_before"] == 0
    assert Path(judged["page"]).read_text().startswith(f"# {name}")


def _is_inside(claim: dict[str, Any]) -> bool:
    least, most = claim["least"], claim["most"]
    return (least is None or claim["ours"] >= least) and (most is None or claim["ours"] <= most)


SWEEP = """\
name: NAME
title: One transfer
seed: 1
implementations: IMPLEMENTATION
file_size: 10 kB
channel: bypass
"""
CLAIMS = """\
paper: {authors: A, title: T, year: 2024, published_in: J}
chosen: before the runs
if_installed: [tcp, mine]
claims:
  - {id: one, kind: arithmetic, states: S, place: section 1, ours: SELECT 2, accept: {most: 3}}
"""


def test_a_sweep_is_skipped_where_its_implementation_is_missing(
    tmp_path: Path, guest_kernel: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """And performed where it is installed, as tcp is."""
    source, results = tmp_path / "small", tmp_path / "results"
    source.mkdir()
    (source / "claims.yaml").write_text(CLAIMS)
    (tmp_path / "mine.yaml").write_text(MISSING)
    for file, implementation in {"sweep": "cfdp", "tcp": "tcp", "mine": tmp_path / "mine.yaml"}.items():
        text = SWEEP.replace("NAME", f"small-{file}").replace("IMPLEMENTATION", str(implementation))
        (source / f"{file}.yaml").write_text(text)

    status, performed = perform_all(source, False, results, 1, Printer())

    assert (status, performed) == (0, [results, tmp_path / "results-tcp"])
    printed = " ".join(capsys.readouterr().out.split())
    assert "small-mine is skipped: implementation 'mine' needs mine, which is missing" in printed

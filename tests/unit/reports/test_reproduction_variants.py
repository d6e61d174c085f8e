"""grc-nack-2012 judges a claim with one variant of an implementation; its bounds serve for the other variants too."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.orchestrator.commands.reproduce import reproduction_directory
from owlt.reports.reproduction.claims import Claim, load_claims
from owlt.reports.reproduction.database import database
from owlt.reports.results.load import load_results


def test_a_claim_of_several_variants_is_judged_with_the_one_that_the_table_names(demo: Path) -> None:
    loaded = load_claims(reproduction_directory("grc-nack-2012"))
    claims = {each.id: each for each in loaded.claims}

    with database([load_results(demo)], loaded) as connection:
        rows = connection.execute("SELECT id, judged FROM bounds").fetchall()
    assert len(rows) == len({row[0] for row in rows}) > 1
    for id, judged in rows:
        assert claims[id].ours.endswith(f"value FROM variants WHERE id = '{id}' AND kind = '{judged}'"), id


def test_the_table_of_bounds_has_those_of_the_claims(demo: Path) -> None:
    loaded = load_claims(reproduction_directory("grc-nack-2012"))

    with database([load_results(demo)], loaded) as connection:
        rows = connection.execute("SELECT id, least, most FROM accepted").fetchall()
    assert {id: (least, most) for id, least, most in rows} == {each.id: each.bounds for each in loaded.claims}


def test_the_bounds_of_a_value_are_its_share_on_either_side() -> None:
    values = {"id": "a", "kind": "measurement", "states": "S", "place": "1", "paper": 10, "ours": "SELECT 1"}

    assert Claim.model_validate(values | {"accept": {"within": 0.1}}).bounds == pytest.approx((9, 11))

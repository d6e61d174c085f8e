"""grc-nack-2012 judges a claim with one variant of an implementation; its bounds serve for the other variants too."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.orchestrator.commands.reproduce import reproduction_directory
from owlt.reports.reproduction.claims import Claim, load_claims
from owlt.reports.reproduction.judging import database
from owlt.reports.results.load import load_results

Bounds = tuple[float | None, float | None]


def bounds_of(claim: Claim) -> Bounds:
    """The least and the largest value that confirm a claim."""
    accept = claim.accept
    assert accept is not None
    if accept.within is None:
        return accept.least, accept.most
    assert claim.paper is not None
    return claim.paper * (1 - accept.within), claim.paper * (1 + accept.within)


def test_other_variants_are_compared_with_the_bounds_of_the_claim(demo: Path) -> None:
    loaded = load_claims(reproduction_directory("grc-nack-2012"))
    claims = {each.id: each for each in loaded.claims}

    with database([load_results(demo)], loaded) as connection:
        rows = connection.execute("SELECT id, judged, least, most FROM bounds").fetchall()
    assert len(rows) == len({row[0] for row in rows}) > 1
    for id, judged, *bounds in rows:
        repeated = [None if bound is None else float(bound) for bound in bounds]
        assert repeated == [None if bound is None else pytest.approx(bound) for bound in bounds_of(claims[id])], id
        assert claims[id].ours == f"SELECT value FROM variants WHERE id = '{id}' AND kind = '{judged}'"


def test_the_bounds_of_a_value_are_its_share_on_either_side() -> None:
    claim = Claim.model_validate(
        {"id": "a", "states": "S", "place": "1", "paper": 10, "ours": "SELECT 1", "accept": {"within": 0.1}}
    )

    assert bounds_of(claim) == pytest.approx((9, 11))

"""What a page of a reproduction says of its verdicts: the confidence of intervals, and the error of all verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from owlt.reports.reproduction.archive import Evidence, Facts
from owlt.reports.reproduction.claim_verdicts import Count, Judged, Value, judge_cases
from owlt.reports.reproduction.claims import Claim, Reproduction, digests_of
from owlt.reports.reproduction.page import chosen_text, confidence_text, family_text, rounded_up, verdict_text
from owlt.results.files import Reproduced

FIVE = [10.0, 10.1, 10.2, 9.9, 9.8]
TEN = [10 + 0.01 * each for each in range(10)]


def judged(values: Sequence[Value], **changes: Any) -> Judged:
    fields = {"id": "one", "kind": "measurement", "states": "S", "place": "1", "paper": 10, "ours": "SELECT 1"}
    return judge_cases(Claim.model_validate(fields | {"accept": {"within": 0.1}} | changes), {"": values})


def share(successes: int, trials: int) -> Judged:
    return judged([Count(successes, trials)], accept={"least": 0.5})


@pytest.mark.parametrize(
    ("verdicts", "text"),
    [
        ([judged([10.0], determined=True)], ""),
        ([judged(TEN), share(40, 50)], "Intervals have a confidence of at least 95 %."),
        (
            [judged(FIVE)],
            "Intervals are the range of the repetitions; the confidence of a range is 93.75 % with 5 repetitions.",
        ),
        (
            [judged(FIVE), judged(TEN), judged(FIVE[:3])],
            "Intervals have a confidence of at least 95 %, except the range of few repetitions: 75 % with 3 "
            "repetitions, 93.75 % with 5 repetitions.",
        ),
        (
            [judged(FIVE), share(4, 5)],
            "Intervals have a confidence of at least 95 %, except the range of few repetitions: 93.75 % with 5 "
            "repetitions.",
        ),
    ],
)
def test_the_page_states_the_confidence_of_its_intervals(verdicts: Sequence[Judged], text: str) -> None:
    assert confidence_text(verdicts) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0.28125, "0.2813"), (0.05, "0.05"), (1 / 3, "0.3334"), (1.0, "1"), (9.9999e-5, "0.0001")]
)
def test_the_sum_of_errors_is_rounded_up(value: float, text: str) -> None:
    assert rounded_up(value) == text


def test_the_sum_of_errors_on_a_page_is_an_upper_bound() -> None:
    """Nine of 1/32 are 0.28125."""
    assert "is wrong is at most 0.2813 (the sum" in family_text([judged(FIVE)] * 9)


def test_the_page_says_if_so_few_repetitions_cannot_be_significant() -> None:
    text = family_text([judged(FIVE)] * 9)

    assert "With Holm's correction, 0 of them are significant" in text
    assert text.endswith(
        "With 5 repetitions, an error is at least 0.03125, so none of the 9 can be significant; that takes at least 8 "
        "repetitions."
    )


def test_the_page_says_which_verdicts_cannot_be_significant_beside_those_that_are() -> None:
    twenty = judged([10 + 0.01 * each for each in range(20)], id="twenty")

    assert "so none of the other 3 can be significant; that takes at least 6" in family_text(
        [twenty, *[judged(FIVE)] * 3]
    )


def test_the_page_says_nothing_of_more_repetitions_if_these_can_be_significant() -> None:
    assert family_text([judged(TEN)] * 9).endswith("9 of them are significant at a family-wise error of 0.05.")


def test_a_page_without_chance_has_no_error() -> None:
    assert family_text([judged([10.0], determined=True)]) == "No verdict depends on chance."


def test_an_undecided_claim_names_more_repetitions_than_were_performed() -> None:
    assert verdict_text(judged([10.0, 10.1, 10.2, 9.9, 11.01])) == (
        "**undecided**: inside, about 9 repetitions would decide"
    )


def reproduction(kind: str = "measurement", **changes: Any) -> Reproduction:
    fields = {"id": "one", "states": "S", "place": "1", "ours": "SELECT 1", "accept": {"most": 1}}
    paper = {"authors": "A", "title": "T", "year": 2002, "published_in": "J"}
    claims = [fields | {"kind": kind}, fields | {"id": "two", "kind": "measurement"}]
    return Reproduction.model_validate(
        {"paper": paper, "chosen": "before", "also": ["long"], "claims": claims} | changes
    )


def changes_since(recorded: Reproduction, current: Reproduction) -> str:
    import duckdb  # here, because it complains at the end if it is loaded before the collector is frozen

    noted = Reproduced(claims_sha256="0" * 64, claims=digests_of(recorded))
    with duckdb.connect() as connection:
        return " ".join(chosen_text(current, Evidence(connection, Facts(rows=(), reproduced={"s": noted}))).split())


def test_the_page_names_the_claims_that_changed_after_the_runs_started() -> None:
    controls = reproduction(controls=["long"])

    assert changes_since(controls, controls).endswith("; no claim has changed since then.")
    assert changes_since(controls, reproduction("setting", controls=["long"])).endswith("; changed since then: one.")


def test_a_claim_is_unchanged_if_an_earlier_version_recorded_it_without_controls() -> None:
    """The page states what such a digest does not show."""
    before, remark = reproduction(), "(these digests do not cover which sweeps are controls)."

    assert changes_since(before, reproduction(controls=["long"])).endswith(f"no claim has changed since then {remark}")
    assert changes_since(before, reproduction("setting", controls=["long"])).endswith(f"since then: one {remark}")


def test_a_change_of_controls_is_a_change_of_every_claim() -> None:
    other = reproduction(also=["long", "short"], controls=["short"])

    assert changes_since(reproduction(controls=["long"]), other).endswith("; changed since then: one, two.")

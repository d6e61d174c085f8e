"""The numbers by which a kernel draws errors: as exact as they claim, and the process that they make geometric."""

from __future__ import annotations

from math import exp, ldexp, log, log1p
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.emulator.certification.intervals import share_interval
from owlt.emulator.kernel.bpf_stages import (
    MOST_POSITIONS,
    ErrorProcess,
    factor_of,
    logarithms_of_mantissas,
    logarithms_of_powers,
    rate_of,
)
from tests.error_model import ErrorModel, exponential, gap

DRAWS = 20_000
ALPHA = 1e-6
RATES = st.floats(1e-15, 1, exclude_max=True)


@given(RATES)
def test_a_rate_comes_back_from_its_factor(rate: float) -> None:
    assert rate_of(factor_of(rate)) == pytest.approx(rate, rel=1e-13)


def test_a_rate_of_one_comes_back_from_its_factor() -> None:
    assert rate_of(factor_of(1.0)) == 1


@given(RATES)
def test_a_factor_fits_the_kernels_numbers(rate: float) -> None:
    factor = factor_of(rate)

    assert 2**63 <= factor.multiplier < 2**64
    assert 0 <= factor.shift < 64


def test_a_rate_too_small_for_the_kernels_numbers_is_refused() -> None:
    with pytest.raises(ValueError, match="error rate: expected 0, or at least"):
        factor_of(1e-18)


def test_the_logarithms_of_powers_have_a_place_each() -> None:
    assert sorted(logarithms_of_powers()) == [(n + 1) * logarithms_of_mantissas()[-1] for n in range(64)]


@given(st.integers(1, 2**64 - 1))
def test_an_exponential_is_the_logarithm_of_its_uniform_to_1e_8(x: int) -> None:
    lowest = x & -x
    uniform_logarithm = -log(2) * lowest.bit_length() + log1p(ldexp(x ^ lowest, -64))

    assert ldexp(exponential(x), -58) == pytest.approx(-uniform_logarithm, abs=1e-8)


@pytest.mark.parametrize("rate", [1e-12, 1e-6, 0.01, 0.5])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_gaps_are_geometric(rate: float, share: float) -> None:
    """As many gaps are at least a quantile as are above it in the geometric distribution."""
    model = ErrorModel(ErrorProcess("bit", "flip", rate=rate, seed=1))
    bound = round(log(share) / log1p(-rate))
    reached = sum(gap(model.draw(), rate) >= bound for _ in range(DRAWS))

    low, high = share_interval(reached, DRAWS, ALPHA)
    assert low <= exp(bound * log1p(-rate)) <= high


def test_gaps_of_a_rate_a_tenth_higher_are_distinguished() -> None:
    """The control of the test above."""
    model = ErrorModel(ErrorProcess("bit", "flip", rate=0.011, seed=1))

    _, high = share_interval(sum(gap(model.draw(), 0.011) >= 69 for _ in range(DRAWS)), DRAWS, ALPHA)
    assert high < 0.99**69


@given(st.lists(st.integers(1, 200), min_size=1, max_size=20))
def test_errors_are_those_of_the_stream_however_it_is_cut_into_frames(lengths: list[int]) -> None:
    process = ErrorProcess("bit", "flip", rate=0.01, seed=3)
    model, start, found = ErrorModel(process), 0, []
    for length in lengths:
        found += [start * 8 + bit for bit in model.errors_of(length)]
        start += length

    assert found == ErrorModel(process).errors_of(sum(lengths))


@pytest.mark.parametrize(
    ("asked", "objection"),
    [
        ({"rate": 1.5}, "expected 0..1, got 1.5"),
        ({"rate": float("nan")}, "got nan"),
        ({"rate": 0.1, "positions": (1,)}, "expected a rate or positions, got both"),
        ({"positions": (1, 1)}, "ascending"),
        ({"positions": (-1,)}, "ascending"),
        ({"positions": (2**64 - 1,)}, "ascending"),
        ({"positions": tuple(range(MOST_POSITIONS + 1))}, f"expected at most {MOST_POSITIONS}"),
        ({"seed": -1}, "got -1"),
    ],
    ids=str,
)
def test_what_is_no_process_is_refused(asked: dict[str, Any], objection: str) -> None:
    with pytest.raises(ValueError, match=objection):
        ErrorProcess("bit", "flip", **asked)

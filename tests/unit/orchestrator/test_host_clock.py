"""Offset and drift of a host's clock from readings, each with its error."""

from __future__ import annotations

import pytest

from owlt.orchestrator.hosts.host_clock import ClockReading, clock_of

S = 10**9


def readings(drift_ppm: float, errors_ns: list[int], offset_ns: int = 5_000_000) -> list[ClockReading]:
    """A reading every 10 s of a clock with this drift, each exact, to the error that it states."""
    return [
        ClockReading(10 * S * at, offset_ns + round(drift_ppm * 1e-6 * 10 * S * at), error_ns)
        for at, error_ns in enumerate(errors_ns)
    ]


def test_one_reading_has_an_offset_and_no_drift() -> None:
    clock = clock_of([ClockReading(S, -2_000_000, 300_000)])

    assert (clock.offset_ns, clock.offset_error_ns, clock.readings) == (-2_000_000, 300_000, 1)
    assert clock.drift_ppm is None


def test_the_offset_is_that_of_the_last_reading() -> None:
    clock = clock_of(readings(10, [1000, 2000, 3000]))

    assert (clock.at_ns, clock.offset_ns, clock.offset_error_ns) == (20 * S, 5_200_000, 3000)


@pytest.mark.parametrize("drift_ppm", [-40.0, 0.0, 12.5])
def test_the_drift_is_known_to_the_errors_of_the_readings_over_the_time_between_them(drift_ppm: float) -> None:
    clock = clock_of(readings(drift_ppm, [50_000, 50_000]))

    assert clock.drift_ppm == pytest.approx(drift_ppm)
    assert clock.drift_error_ppm == pytest.approx(10)  # 100 us in 10 s


def test_an_exact_reading_between_coarse_ones_makes_the_drift_more_certain() -> None:
    coarse, exact = (clock_of(readings(7, [500_000, error_ns, 500_000])) for error_ns in (500_000, 0))

    assert exact.drift_error_ppm is not None
    assert coarse.drift_error_ppm is not None
    assert exact.drift_error_ppm <= coarse.drift_error_ppm
    assert abs(exact.drift_ppm - 7) <= exact.drift_error_ppm  # type: ignore[operator]


def test_a_clock_that_was_set_has_no_drift() -> None:
    first, second, third = readings(0, [1000, 1000, 1000])
    step = ClockReading(third.at_ns, third.ahead_ns + S, third.error_ns)

    assert clock_of([first, second, step]).drift_ppm is None
    assert clock_of([first, second, third]).drift_ppm == pytest.approx(0)


def test_readings_within_a_second_say_nothing_of_a_drift() -> None:
    assert clock_of([ClockReading(0, 0, 1000), ClockReading(S // 2, 0, 1000)]).drift_ppm is None

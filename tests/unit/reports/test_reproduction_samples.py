"""The table `tcp_samples` of a reproduction: the sender's congestion window over time."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.orchestrator.run.observing import SAMPLES_NAME
from owlt.reports.reproduction.claims import Reproduction
from owlt.reports.reproduction.database import SAMPLES, database
from owlt.reports.results.load import load_results
from owlt.results.files import ReportError
from tests.unit.captures.making import SESSION
from tests.unit.reports.conftest import change_record, few, write_captures, write_results

RUN = "cfdp_1MB_10Mbps_25ms_per0_r1"
OF_RUN = Reproduction.model_validate(
    {
        "paper": {"authors": "A", "title": "T", "year": 2024, "published_in": "J"},
        "chosen": "before the runs",
        "packets_of": f"run_id = '{RUN}'",
        "claims": [{"id": "one", "kind": "program", "states": "S", "place": "section 1", "undecidable": "a reason"}],
    }
)
HEADINGS = "time_ns,socket,state,cwnd_segments,ssthresh_segments,total_retrans"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    directory = write_results(tmp_path / "results", few())
    write_captures(directory / "runs" / RUN)
    change_record(directory, RUN, session=SESSION.model_dump(mode="json"))
    return directory


def window_of(results: Path) -> list[tuple[object, ...]]:
    with database([load_results(results)], OF_RUN) as connection:
        query = "SELECT cwnd_segments, ssthresh_segments, total_retrans FROM tcp_samples ORDER BY at_s"
        return connection.execute(query).fetchall()


def seconds_between(results: Path) -> float:
    """From the first frame at the sender's port to the first sample."""
    with database([load_results(results)], OF_RUN) as connection:
        ((seconds,),) = connection.execute("SELECT min(at_s) FROM tcp_samples").fetchall()
    return float(seconds)


def test_samples_have_the_name_that_a_run_gives_them() -> None:
    assert SAMPLES == SAMPLES_NAME


def test_the_window_is_that_of_the_samples_and_a_missing_threshold_is_none(results: Path) -> None:
    rows = "1767225601000000000,0,established,10,,0\n1767225602000000000,0,established,20,15,1\n"
    (results / "runs" / RUN / SAMPLES).write_text(f"{HEADINGS}\n{rows}")

    assert window_of(results) == [(10, None, 0), (20, 15, 1)]


def test_samples_count_from_the_first_frame_as_packets_do(results: Path) -> None:
    """A sample that is taken 5 s later is 5 s later in the table."""
    seconds = []
    for time_ns in (1767225601000000000, 1767225606000000000):
        (results / "runs" / RUN / SAMPLES).write_text(f"{HEADINGS}\n{time_ns},0,established,10,,0\n")
        seconds.append(seconds_between(results))

    assert seconds[1] - seconds[0] == pytest.approx(5)


def test_a_run_without_tcp_has_no_samples(results: Path) -> None:
    assert window_of(results) == []


def test_damaged_samples_are_named_with_what_to_do(results: Path) -> None:
    (results / "runs" / RUN / SAMPLES).write_text("no,samples\n1,2\n")

    with pytest.raises(ReportError, match=rf"{SAMPLES}: cannot be read: .*owlt retry {results} --run {RUN}"):
        window_of(results)

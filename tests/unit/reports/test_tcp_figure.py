"""A connection over time: what is read of its samples, and that it is drawn."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from owlt.agents.probes.tcp_samples import SAMPLE_COLUMNS
from owlt.reports.drawing.sweep_figures import save
from owlt.reports.sessions.session_figures import draw_connection, read_connection
from owlt.results.files import ReportError

BEGIN_NS = 1_767_225_600_000_000_000


def row(place: int, socket: int = 0, **values: object) -> str:
    """A sample, 10 ms after the one before it."""
    given = {"time_ns": BEGIN_NS + 10_000_000 * place, "socket": socket, "ca_state": "open", "bytes_acked": place}
    given |= {"cwnd_segments": 10 + place, "srtt_us": 50_000, "rttvar_us": 1000} | values
    return ",".join(str(given.get(name, "")) for name in SAMPLE_COLUMNS)


def write(directory: Path, *rows: str) -> Path:
    path = directory / "tcp-sender.csv"
    path.write_text("\n".join([",".join(SAMPLE_COLUMNS), *rows]) + "\n")
    return path


def test_values_are_in_seconds_from_the_first_sample(tmp_path: Path) -> None:
    connection = read_connection(write(tmp_path, row(0), row(1), row(2, ca_state="loss")))

    assert connection is not None
    assert connection.time_s == pytest.approx([0, 0.01, 0.02])
    assert connection.srtt_s == pytest.approx([0.05] * 3)
    assert connection.state == ("open", "open", "loss")


def test_what_there_was_not_yet_is_nan(tmp_path: Path) -> None:
    connection = read_connection(write(tmp_path, row(0, srtt_us=""), row(1, ssthresh_segments=7)))

    assert connection is not None
    assert math.isnan(connection.srtt_s[0])
    assert math.isnan(connection.ssthresh_segments[0])
    assert connection.ssthresh_segments[1] == 7


def test_the_connection_that_carried_most_is_shown(tmp_path: Path) -> None:
    path = write(tmp_path, row(0), row(0, socket=1), row(1, bytes_acked=5), row(2, socket=1, bytes_acked=900))
    connection = read_connection(path)

    assert connection is not None
    assert connection.time_s == pytest.approx([0, 0.02])
    assert connection.others == 1


def test_without_samples_there_is_no_connection(tmp_path: Path) -> None:
    assert read_connection(write(tmp_path)) is None


HEAD = ",".join(SAMPLE_COLUMNS).encode()


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"time_ns\nx\n", HEAD + b"\n1\n", b"\xff\xfe" * 20])
def test_what_is_no_table_of_samples_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tcp-sender.csv"
    path.write_bytes(content)

    with pytest.raises(ReportError, match=r"tcp-sender\.csv"):
        read_connection(path)


@pytest.mark.parametrize("samples", [1, 2, 40])
def test_a_figure_of_any_length_is_the_same_bytes_every_time(tmp_path: Path, samples: int) -> None:
    rows = [row(n, ca_state="recovery" if n % 7 == 3 else "open") for n in range(samples)]
    connection = read_connection(write(tmp_path, *rows))
    assert connection is not None
    drawn = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        save(draw_connection(connection, "a run"), tmp_path / name, "tcp", with_pdf=True)
        drawn.append((tmp_path / name / "tcp.svg").read_bytes())

    assert drawn[0] == drawn[1]

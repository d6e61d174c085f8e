"""The table `quic_handshakes` of a reproduction, from the captures of a real run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from owlt.captures.frames.session import Session
from owlt.reports.reproduction.claims import Reproduction
from owlt.reports.reproduction.database import database
from owlt.reports.results.load import load_results
from owlt.results.files import ReportError
from tests.conftest import require_command
from tests.unit.reports.conftest import change_record, few, write_results

CAPTURE = Path(__file__).parents[2] / "unit" / "captures" / "golden" / "run-quic-aioquic.pcap"
SESSION = Session.model_validate(
    {"sender_address": "10.77.0.1", "receiver_address": "10.77.0.2", "udp_ports": (4433, 4434)}
)
RUN = "quic-aioquic_1MB_10Mbps_25ms_per0_r1"
OF_RUN = Reproduction.model_validate(
    {
        "paper": {"authors": "A", "title": "T", "year": 2024, "published_in": "J"},
        "handshakes_of": f"run_id = '{RUN}'",
        "chosen": "before the runs",
        "claims": [{"id": "one", "kind": "program", "states": "S", "place": "section 1", "undecidable": "a reason"}],
    }
)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    require_command("tshark")
    directory = write_results(tmp_path / "results", few(implementations=["quic-aioquic"]))
    for name in ("sender", "receiver"):
        shutil.copy(CAPTURE, directory / "runs" / RUN / f"{name}.pcap")
        (directory / "runs" / RUN / f"{name}.out").touch()
    change_record(directory, RUN, session=SESSION.model_dump(mode="json"))
    return directory


def test_a_run_has_a_row_for_each_host(results: Path) -> None:
    with database([load_results(results)], OF_RUN) as connection:
        rows = connection.execute(
            "SELECT from_sender, packets, needed + useless + answers FROM quic_handshakes ORDER BY from_sender"
        ).fetchall()

    assert [is_sender for is_sender, _, _ in rows] == [False, True]
    assert all(packets == counted > 0 for _, packets, counted in rows)


def test_a_capture_that_is_none_is_named_with_what_to_do(results: Path) -> None:
    (results / "runs" / RUN / "sender.pcap").write_bytes(b"no capture of packets")

    with (
        pytest.raises(ReportError, match=rf"{RUN}: cannot be read: .*owlt retry {results} --run {RUN}"),
        database([load_results(results)], OF_RUN),
    ):
        pass

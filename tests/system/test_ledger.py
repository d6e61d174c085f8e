"""The ledger of real runs: packets that the channel lost are named, and a packet taken out of a capture is found."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from owlt.captures.accounting.cutting import is_cut
from owlt.captures.accounting.ledger import Account, account
from owlt.captures.accounting.measures import direction_counters
from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.session import Session
from owlt.captures.matches.matching import match_captures
from owlt.orchestrator.run.analysis import analyse_run
from tests.conftest import require_command
from tests.system.sweeps import RECORDED, owlt, perform, records

LOST = (3, 4, 50, 77)
CHANNELS: dict[str, dict[str, Any]] = {
    "pattern": {"both": {"delay": "25 ms"}, "forward": {"pattern": {"packets": LOST}, "error_effect": "drop"}},
    "full-queue": {
        "both": {"delay": "25 ms"},
        "forward": {"rate": "5 Mbit/s", "queue": "8 packets", "pattern": {"packets": [20]}, "error_effect": "drop"},
    },
    "bits": {"both": {"delay": "25 ms", "bit_error_rate": 2.0e-5}},
    "twice": {"both": {"delay": "25 ms", "duplication_rate": 0.05, "packet_error_rate": 0.02}},
    "overtaken": {
        "both": {"delay": "25 ms", "keeps_order": False, "reordering": {"rate": 0.05, "by": "20 ms"}},
    },
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """CFDP and TCP over each of the channels, with their captures whole."""
    directory = tmp_path_factory.mktemp("ledger")
    files = []
    for name, links in CHANNELS.items():
        files.append(str(directory / f"{name}.yaml"))
        Path(files[-1]).write_text(json.dumps({"name": name, **links}))
    asked = {"rate": None, "delay": None, "packet_error_rate": None}
    done = perform(
        directory,
        directory / "results",
        **asked,
        implementations=["cfdp", "tcp"],
        channel=files,
        certify=False,
        keep_captures="full",
        runs_per_guest=2 * len(files),
    )
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


@pytest.fixture(scope="module")
def many_errors(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """A run of 2,000 packets of 1 kB, of which the channel damages more than half, and loses none."""
    directory = tmp_path_factory.mktemp("errors")
    channel = directory / "errors.yaml"
    channel.write_text(json.dumps({"name": "errors", "both": {"delay": "25 ms", "bit_error_rate": 1.0e-4}}))
    done = perform(
        directory,
        directory / "results",
        **{"rate": None, "delay": None, "packet_error_rate": None},
        implementations=["udp-blast"],
        file_size="2 MB",
        channel=[str(channel)],
        certify=False,
        keep_captures="full",
    )
    assert done.returncode in RECORDED, done.stderr
    (run_id,) = records(directory / "results")
    return directory / "results" / "runs" / run_id


def directory_of(results: Path, channel: str, implementation: str = "cfdp") -> Path:
    point = {"channel_name": channel, "implementation": implementation}
    (run_id,) = (run_id for run_id, run in records(results).items() if point.items() <= run.items())
    return results / "runs" / run_id


def accounts(run: Path, **replaced: Path) -> tuple[Account, Account]:
    """Of the sender's packets and of the receiver's; other captures may take the place of the run's own."""
    record = json.loads((run / "record.json").read_text())
    paths = {role: replaced.get(role, run / f"{role}.pcap") for role in ("sender", "receiver")}
    at_sender, at_receiver = (read_columns(path) for path in paths.values())
    forward, reverse = match_captures(at_sender, at_receiver, Session.model_validate(record["session"])).ways
    stages = record["emulator_statistics"]
    return (
        account(forward, direction_counters(stages["forward"])),
        account(reverse, direction_counters(stages["reverse"])),
    )


def numbers(run: Path, rows: list[int]) -> list[int]:
    """Which frames of the direction these are, as a pattern counts them; nothing else crosses in these runs."""
    at_sender = read_columns(run / "sender.pcap")
    session = Session.model_validate(json.loads((run / "record.json").read_text())["session"])
    return [int((at_sender.source[:row] == int(session.sender_address)).sum()) for row in rows]


def without_frame(run: Path, role: str, folder: Path, frame: int = 40) -> Path:
    """The run's capture of that role without this frame."""
    less = folder / f"{role}.pcap"
    command = [require_command("editcap"), "-F", "nsecpcap", run / f"{role}.pcap", less, str(frame)]
    subprocess.run(command, check=True)
    return less


@pytest.mark.parametrize("implementation", ["cfdp", "tcp"])
@pytest.mark.parametrize("channel", CHANNELS)
def test_the_ledger_closes_both_ways(results: Path, channel: str, implementation: str) -> None:
    for told in accounts(directory_of(results, channel, implementation)):
        assert told.reasons == ()
        assert told.ledger.unexplained == told.ledger.undetermined == 0


def test_what_the_time_was_spent_on_sums_to_every_session(results: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(results, tmp_path / "results")
    told = json.loads(owlt("why", copy, "--json").stdout)
    sessions = [json.loads(path.read_text()) for path in copy.glob("runs/*/time.json")]
    summaries = [json.loads(path.read_text()) for path in copy.glob("runs/*/summary.json")]

    assert len(sessions) == len(summaries) == 2 * len(CHANNELS)
    assert all(sum(each["total_ns"] for each in run["spent"]) == run["session_ns"] for run in sessions)
    assert sorted(run["session_ns"] for run in sessions) == sorted(
        each["last_packet_ns"] - each["first_packet_ns"] for each in summaries
    )
    assert told["without_time"] == []


def test_each_packet_that_a_pattern_drops_is_named(results: Path) -> None:
    run = directory_of(results, "pattern")
    forward, reverse = accounts(run)

    assert forward.ledger.lost == len(LOST)
    assert numbers(run, forward.missing["lost"].tolist()) == list(LOST)
    assert reverse.ledger.lost == 0


def test_what_a_full_queue_dropped_is_distinguished_from_what_the_link_lost(results: Path) -> None:
    run = directory_of(results, "full-queue", "tcp")
    stages = json.loads((run / "record.json").read_text())["emulator_statistics"]["forward"]
    ledger = accounts(run)[0].ledger

    assert ledger.queue == stages["bottleneck"]["dropped_packets"] > 0
    assert ledger.lost == stages["errors"]["dropped_packets"] == 1


def test_every_frame_that_the_errors_hit_is_found_damaged(results: Path) -> None:
    run = directory_of(results, "bits")
    statistics = json.loads((run / "record.json").read_text())["emulator_statistics"]
    found = [told.ledger.corrupted for told in accounts(run)]

    assert found == [statistics[way]["errors"]["hit_packets"] for way in ("forward", "reverse")]
    assert found[0] > 5


def test_packets_that_came_twice_and_damaged_are_as_many_as_netem_says(results: Path) -> None:
    run = directory_of(results, "twice")
    pipe = json.loads((run / "record.json").read_text())["emulator_statistics"]["forward"]["pipe"]
    ledger = accounts(run)[0].ledger

    assert ledger.duplicated == pipe["duplicated_packets"] > 0
    assert 0 < ledger.corrupted <= pipe["corrupted_packets"]


def test_packets_that_came_later_than_others_are_reordered(results: Path) -> None:
    ledger = accounts(directory_of(results, "overtaken"))[0].ledger

    assert ledger.reordered > 0
    assert ledger.reordering_extent > 0


@pytest.mark.parametrize(("role", "field"), [("receiver", "unexplained_missing"), ("sender", "unexplained_arrived")])
def test_a_packet_taken_out_of_a_capture_is_found(results: Path, tmp_path: Path, role: str, field: str) -> None:
    run = directory_of(results, "pattern")
    forward, _ = accounts(run, **{role: without_frame(run, role, tmp_path)})

    assert getattr(forward.ledger, field) == forward.ledger.unexplained == 1
    assert forward.reasons


def test_of_thousands_of_packets_that_bit_errors_hit_none_is_lost_and_each_is_accounted_for(many_errors: Path) -> None:
    """The emulator's own count of what it hit, against what the captures show."""
    hit = json.loads((many_errors / "record.json").read_text())["emulator_statistics"]["forward"]["errors"]
    forward, _ = accounts(many_errors)
    ledger = forward.ledger

    assert forward.reasons == ()
    assert ledger.sent == hit["packets"] > 2000
    assert ledger.corrupted + ledger.unrecognised == hit["hit_packets"] > 1000
    assert ledger.delivered == hit["packets"] - hit["hit_packets"]
    assert (ledger.lost, ledger.unexplained, ledger.undetermined) == (0, 0, 0)


def test_of_random_bytes_every_damaged_copy_is_recognised(many_errors: Path) -> None:
    assert accounts(many_errors)[0].ledger.unrecognised == 0


@pytest.mark.parametrize(("role", "field"), [("receiver", "unexplained_missing"), ("sender", "unexplained_arrived")])
def test_among_damaged_packets_one_that_a_capture_does_not_have_is_found(
    many_errors: Path, tmp_path: Path, role: str, field: str
) -> None:
    forward, _ = accounts(many_errors, **{role: without_frame(many_errors, role, tmp_path)})

    assert getattr(forward.ledger, field) == forward.ledger.unexplained == 1
    assert forward.ledger.unrecognised == 0
    assert forward.reasons


@pytest.mark.parametrize("implementation", ["cfdp", "tcp"])
def test_the_tables_of_a_run_that_bit_errors_hit_are_the_same_when_its_captures_are_cut(
    results: Path, tmp_path: Path, implementation: str
) -> None:
    run = tmp_path / "run"
    shutil.copytree(directory_of(results, "bits", implementation), run)
    before = tables_of(run, tmp_path / "before")
    dissectors = json.loads((results / "plan.json").read_text())["implementations"]
    analyse_run(
        run, "headers", {name: implementation.get("dissector", []) for name, implementation in dissectors.items()}
    )

    assert is_cut(run / "sender.pcap") and is_cut(run / "receiver.pcap")
    assert tables_of(run, tmp_path / "after") == before
    assert b",corrupted," in before["packets.csv"]


def tables_of(run: Path, directory: Path) -> dict[str, bytes]:
    done = owlt("analyse", run, "--out", directory)
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in directory.glob("*.csv")}

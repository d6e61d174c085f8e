"""The papers' own implementations are started as the papers say, shown on stand-ins: programs of `standins/` with the
console, the options and the files of an original, refuse all else, and carry the file in a way of their own.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from owlt.orchestrator.profiles.catalogue import PROFILES
from tests.system.conftest import in_guest
from tests.system.sweeps import RECORDED, perform, records

STANDINS = Path(__file__).parent / "standins"
PROGRAMS = {
    "gsfc-cfdp": "cfdp_flight.py",
    "ltplib": "ltpd.py",
    "nrl-norm": "norm.py",
    "saratoga-perl": "saratoga_v0.py",
    "ion-ltp": "ion/ionadmin",
    "ion-acs": "ion/ionadmin",
    "hdtn-ltp": "hdtn/bpreceivefile",
}
MAIN_PAPER = ("gsfc-cfdp", "ltplib", "nrl-norm", "saratoga-perl")


def on_stand_in(directory: Path, name: str) -> Path:
    """The profile of an original with another place to look for its program, and nothing else changed."""
    yaml = YAML()
    profile = yaml.load(PROFILES / "implementations" / f"{name}.yaml")
    (binary,) = profile["binary"].values()
    program = str(STANDINS / PROGRAMS[name])
    binary["search"] = [program, in_guest(program)]  # for the check before the sweep, and for the guest
    path = directory / f"{name}.yaml"
    yaml.dump(profile, path)
    return path


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Path:
    """Each original once at the main paper's slower rate, told 1 Mbit/s as there; custody in its two ways."""
    directory = tmp_path_factory.mktemp("originals")
    done = perform(
        directory,
        directory / "results",
        implementations=[str(on_stand_in(directory, name)) for name in PROGRAMS],
        rate="1024 kbit/s",
        delay="1250 ms",
        parameters={"ion-acs": {"custody": ["acs", "cs"], "bundle_bytes": 30_000}},
        advertised={name: {"rate": {"1024 kbit/s": "1 Mbit/s"}} for name in MAIN_PAPER},
        certify=False,
        runs_per_guest=12,
    )
    assert done.returncode in RECORDED, done.stderr
    return directory / "results"


def run_of(results: Path, name: str) -> tuple[dict[str, Any], Path]:
    """The record and the directory of an implementation's one run."""
    ((run_id, record),) = [item for item in records(results).items() if item[1]["implementation"] == name]
    return record, results / "runs" / run_id


def said(results: Path, name: str, side: str) -> str:
    """What a side's output and errors showed."""
    _, run = run_of(results, name)
    return "".join((run / f"{side}.{end}").read_text().replace("\r\n", "\n") for end in ("out", "err"))


def arguments(results: Path, name: str, side: str) -> list[str]:
    """The command of a side, without its program."""
    record, _ = run_of(results, name)
    return list(record[side]["command"][1:])


def duct(results: Path, side: str) -> dict[str, Any]:
    """The duct that a side of HDTN was given."""
    found = re.search("stand-in duct: (.*)", said(results, "hdtn-ltp", side))
    assert found is not None
    return dict(json.loads(found[1]))


def test_every_original_is_started_talked_to_and_stopped(results: Path) -> None:
    found = records(results)

    assert len(found) == len(PROGRAMS) + 1
    assert {run["implementation"]: run["outcome"] for run in found.values() if run["outcome"] != "completed"} == {}


def test_what_is_sent_is_on_the_ports_of_the_profile(results: Path) -> None:
    for path in results.glob("runs/*/summary.json"):
        assert json.loads(path.read_text())["str_sent"] >= 100, path


def test_cfdp_is_typed_one_put_at_the_papers_entities_and_timers(results: Path) -> None:
    sender = said(results, "gsfc-cfdp", "sender")

    assert arguments(results, "gsfc-cfdp", "sender") == ["101", "mib.nodes"]
    assert arguments(results, "gsfc-cfdp", "receiver") == ["102", "mib.nodes"]
    assert sender.count("put file-100000.bin 102\n") == 1
    settings = dict(re.findall(r"Setting MIB parameter '(\w+)' to '(\d+)'", sender))
    timers = {"ack_timeout": "50", "ack_limit": "250", "nak_timeout": "50", "nak_limit": "250"}
    assert settings == timers | {"inactivity_timeout": "86400", "outgoing_file_chunk_size": "997"}


def test_cfdp_is_paced_by_its_hosts_card(results: Path) -> None:
    record, _ = run_of(results, "gsfc-cfdp")

    assert record["sender"]["card_rate_bps"] == 1_000_000


def test_ltpd_has_the_papers_arguments(results: Path) -> None:
    told = ["-D", "10.77.0.2:1113", "-S", "10.77.0.1:1113", "-m", "client", "-v", "-2", "1024", "-b", "12000000", "-i"]

    assert arguments(results, "ltplib", "sender")[:-1] == told
    assert "LTPD: l2mtu=1024\nLTPD: rxbufsize=12000000" in said(results, "ltplib", "receiver")


def test_norm_has_the_papers_arguments_and_is_given_a_rate_of_its_own(results: Path) -> None:
    sender, receiver = (" ".join(arguments(results, "nrl-norm", side)) for side in ("sender", "receiver"))

    told = r"norm\.py address 224\.1\.2\.3/12347 interface \S+ sendfile \S+ id 8471 debug 10 rate 1000000"
    assert re.search(rf"/{told}$", sender), sender
    told = r"address 224\.1\.2\.3/12347 interface \S+ rxcachedir \. debug 10 id 8472"
    assert re.fullmatch(told, receiver), receiver


def test_norm_is_over_after_its_last_flush(results: Path) -> None:
    record, _ = run_of(results, "nrl-norm")

    assert "flush_count:20" in said(results, "nrl-norm", "sender")
    assert record["sender"]["stopped"]


def test_saratoga_is_typed_one_get_and_given_a_rate_of_its_own(results: Path) -> None:
    assert arguments(results, "saratoga-perl", "sender") == []
    assert said(results, "saratoga-perl", "receiver").count("get file-100000.bin\n") == 1
    assert "serving at 1000 Kbps" in said(results, "saratoga-perl", "sender")


def test_ion_is_given_bytes_a_second_and_whole_seconds(results: Path) -> None:
    contacts = [line for line in said(results, "ion-ltp", "sender").splitlines() if " a contact " in line]

    assert [line.split()[-3:] for line in contacts] == [["1", "2", "128000"], ["2", "1", "128000"]]
    assert "stand-in ionadmin: a range +1 +604800 1 2 2\n" in said(results, "ion-ltp", "sender")


def test_ion_is_started_in_the_order_that_it_needs(results: Path) -> None:
    for name, programs in (
        ("ion-ltp", ["ionadmin", "ltpadmin", "bpadmin", "ipnadmin", "bpsendfile"]),
        ("ion-acs+custody=acs", ["ionadmin", "acsadmin", "bpadmin", "ipnadmin", "bpsendfile"]),
        ("ion-acs+custody=cs", ["ionadmin", "bpadmin", "ipnadmin", "bpsendfile"]),
    ):
        assert list(dict.fromkeys(re.findall(r"stand-in (\w+):", said(results, name, "sender")))) == programs, name


def test_ion_expects_the_error_rate_of_its_channel(results: Path) -> None:
    """None here; tests/unit/orchestrator/test_original_profiles.py has what it is elsewhere."""
    assert "stand-in ltpadmin: m maxber 0.000000000000\n" in said(results, "ion-ltp", "sender")


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("ion-ltp", "ION-OPEN-SOURCE-4.1.3 bpv6 "),
        ("ion-acs+custody=acs", "ION-OPEN-SOURCE-4.1.3 bpv6 "),
        ("hdtn-ltp", "HDTN version 1.3.1 "),
    ],
)
def test_a_record_has_the_version_of_an_original(results: Path, name: str, version: str) -> None:
    record, _ = run_of(results, name)

    assert record["versions"]["implementation"].startswith(version + "(sha256 ")


def test_a_run_of_hdtn_is_over_when_its_receiver_has_closed_the_file(results: Path) -> None:
    """Which it says with the file's path: sooner by far than the time limit, and so is what it says after the name."""
    record, _ = run_of(results, "hdtn-ltp")
    took_s = (record["ended_at_ns"] - record["started_at_ns"]) / 1e9

    assert f"]: closed /run/owlt/receiver/runs/{record['run_id']}/inbox/file-100000.bin\n" in said(
        results, "hdtn-ltp", "receiver"
    )
    assert took_s < 30


def test_both_programs_of_hdtn_end_without_being_killed(results: Path) -> None:
    record, _ = run_of(results, "hdtn-ltp")

    assert (record["sender"]["exit_status"], record["receiver"]["exit_status"]) == (0, 0)
    assert record["sender"]["left_running"] + record["receiver"]["left_running"] == []


def test_ion_has_memory_for_aggregates_of_a_small_file(results: Path) -> None:
    for side in ("sender", "receiver"):
        assert "Couldn't initialize ACS" not in said(results, "ion-acs+custody=acs", side)


def test_hdtn_is_known_not_to_repeat_itself(results: Path) -> None:
    record, _ = run_of(results, "hdtn-ltp")

    assert "RDSEED" in record["not_repeatable"]


def test_a_bundle_with_custody_has_the_size_and_the_timer_that_it_was_given(results: Path) -> None:
    sender = said(results, "ion-acs+custody=acs", "sender")

    assert re.findall("bpsendfile: (.*)", sender) == [*["1.1 30008"] * 3, "1.1 10008"]
    assert "a outduct udp 10.77.0.2:4556 'udpclo 10.77.0.2:4556 6'" in sender
    assert "a ipn:1.0 1000 1" in said(results, "ion-acs+custody=acs", "receiver")


def test_hdtn_has_the_channel_in_its_ducts_and_its_options(results: Path) -> None:
    sender, receiver = duct(results, "sender"), duct(results, "receiver")

    assert sender["oneWayLightTimeMs"] == receiver["oneWayLightTimeMs"] == 1250
    assert (sender["remoteHostname"], receiver["ltpRemoteUdpHostname"]) == ("10.77.0.2", "10.77.0.1")
    assert (sender["thisLtpEngineId"], sender["remoteLtpEngineId"]) == (1, 2)
    assert (receiver["thisLtpEngineId"], receiver["remoteLtpEngineId"]) == (2, 1)


@pytest.mark.parametrize(
    ("program", "wrong"),
    [
        ("cfdp_flight.py", ["flight", "101"]),
        ("ltpd.py", ["-m", "server", "-v", "-2", "1024", "-b", "1", "-D", "192.0.2.1:1113", "-S", "192.0.2.2:1113"]),
        ("norm.py", ["address", "224.1.2.3/12347", "rate", "1000000"]),
        ("saratoga_v0.py", ["get", "file"]),
        ("ion/ionadmin", ["node.ionrc", "contacts.ionrc"]),
        ("ion/bpsendfile", ["ipn:1.1", "ipn:2.1", "file", "1", "600"]),
        ("hdtn/bpsendfile", ["--file-or-folder-path", "file"]),
    ],
)
def test_a_stand_in_refuses_what_its_original_does_not_take(tmp_path: Path, program: str, wrong: list[str]) -> None:
    command = [sys.executable, str(STANDINS / program), *wrong]
    done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)

    assert (done.returncode, "refused" in done.stderr) == (2, True), done.stderr


def test_a_stand_in_refuses_a_line_that_ion_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "node.ionrc").write_text("a range +1 +600 1 2 0.25\n")
    command = [sys.executable, str(STANDINS / "ion" / "ionadmin"), "node.ionrc"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "a range +1 +600 1 2 0.25" in done.stderr

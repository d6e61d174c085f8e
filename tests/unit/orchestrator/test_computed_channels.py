"""`owlt channel mars` and its like: the files that they write, and their errors."""

from __future__ import annotations

import itertools
import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from emulator.channel.channel_file import load_channel
from orchestrator.commands import cli
from orchestrator.errors import Missing, OwltError

LEO = ("leo", "--date", "2026-11-22", "--from", "43.6,1.44", "--to=-41.3,174.8", "--hours", "0.25", "--step", "10")
TLE = Path(__file__).parents[1] / "emulator" / "test_orbits.py"


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def channel(*words: str) -> Any:
    result = CliRunner().invoke(cli.app, ["channel", *words, "--json"], catch_exceptions=False)
    return json.loads(result.stdout)


def refusal(*words: str) -> str:
    with pytest.raises(OwltError) as error:
        CliRunner().invoke(cli.app, ["channel", *words], catch_exceptions=False)
    return str(error.value)


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("mars", "--date", "2026-11-22"), "mars-2026-11-22.yaml"),
        (("moon", "--date", "2026-11-22T14:30"), "moon-2026-11-22-1430.yaml"),
        (("l2", "--date", "2026-11-22"), "l2-2026-11-22.yaml"),
        (("planet", "venus", "--date", "2026-11-22"), "venus-2026-11-22.yaml"),
        (LEO, "leo-2026-11-22.yaml"),
        (("pass", "--date", "2026-11-22", "--station", "madrid", "--step", "60"), "pass-2026-11-22.yaml"),
        (("land-mobile", "--snr", "7", "--hours", "0.01"), "land-mobile-7dB-1.yaml"),
    ],
)
def test_a_computed_channel_is_an_ordinary_channel_file(words: tuple[str, ...], file: str) -> None:
    written = channel(*words)

    profile = load_channel(Path(file))
    assert (written["path"], written["name"]) == (file, profile.name)
    assert profile.channel.timeline is not None


def test_forward_is_the_downlink_unless_uplink_is_given() -> None:
    channel("mars", "--date", "2026-11-22", "--hours", "1")
    channel("mars", "--date", "2026-11-22", "--hours", "1", "--uplink", "--out", "up.yaml")

    down, up = (load_channel(Path(name)).channel for name in ("mars-2026-11-22.yaml", "up.yaml"))
    assert down.forward.delay_ns == up.reverse.delay_ns != down.reverse.delay_ns


def test_values_of_the_links_are_those_given() -> None:
    channel("moon", "--date", "2026-11-22", "--both", "rate=2Mbit/s", "--reverse", "rate=8kbit/s")

    links = load_channel(Path("moon-2026-11-22.yaml")).channel
    assert (links.forward.rate_bps, links.reverse.rate_bps) == (2e6, 8e3)


def test_a_wrong_value_of_a_link_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    message = refusal("moon", "--date", "2026-11-22", "--both", "rate=2")

    assert "forward.rate: got 2, expected a number with one of the units" in message
    assert list(tmp_path.iterdir()) == []


def test_a_station_makes_contacts() -> None:
    assert channel("mars", "--date", "2026-11-22", "--station", "goldstone", "--step", "600")["contacts"] == 1


def test_contacts_that_hold_repeat_the_channel() -> None:
    channel("pass", "--date", "2026-11-22", "--station", "madrid", "--outside", "hold", "--step", "60")

    timeline = load_channel(Path("pass-2026-11-22.yaml")).channel.timeline
    assert timeline is not None
    assert timeline.loop_after_ns == 86_460 * 10**9


def test_an_outage_at_each_handover_ends_after_its_time() -> None:
    written = channel(*LEO, "--interruption", "200ms")
    timeline = load_channel(Path("leo-2026-11-22.yaml")).channel.timeline
    assert timeline is not None
    steps = timeline.steps
    outages = [
        later.at_ns - step.at_ns
        for step, later in itertools.pairwise(steps)
        if not step.forward.up and later.forward.up
    ]

    assert written["handovers"] >= 1
    assert outages == [200_000_000] * written["handovers"]


def test_a_satellite_of_a_tle_is_found_by_its_name() -> None:
    lines = TLE.read_text().partition('TLE = """\\\n')[2].partition('"""')[0]
    Path("stations.txt").write_text(lines)

    written = channel(
        "pass", "--date", "2014-01-21", "--station", "43.6,1.44", "--tle", "stations.txt",
        "--satellite", "ISS (ZARYA)", "--step", "30",
    )  # fmt: skip
    assert written["contacts"] >= 3
    assert "ISS (ZARYA) over 43.6,1.44" in written["title"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("mars", "--date", "22.11.2026"), "--date: got '22.11.2026', expected a date"),
        (("mars", "--date", "1850-01-01"), "expected a year from 1900 to 2049"),
        (("mars", "--date", "2026-11-22", "--hours", "0"), "--hours: got 0, expected more than 0"),
        (("mars", "--date", "2026-11-22", "--step", "0.1"), "864001 steps, expected 2 to 100000 steps"),
        (("moon", "--date", "2026-11-22", "--station", "cleveland"), "--station: got 'cleveland', expected LATITUDE"),
        (("moon", "--date", "2026-11-22", "--station", "95,0"), "--station: got '95,0'"),
        (("mars", "--date", "2026-11-22", "--station", "goldstone", "--hours", "1"), "mars is never 10 degrees above"),
        ((*LEO, "--altitude", "800"), "--altitude: got '800', expected 160 km to 36000 km"),
        ((*LEO, "--planes", "7"), "--satellites: got 66, expected a multiple of --planes 7"),
        ((*LEO, "--satellites", "4", "--planes", "1"), "the constellation never connects the two places"),
        (("land-mobile", "--snr", "7", "--attempts", "5"), "--attempts: got 5, expected 1 to 4"),
        (("land-mobile", "--snr", "7", "--step", "50 ms"), "--step: got '50 ms', expected a multiple of"),
        (("land-mobile", "--snr", "7", "--step", "10 ms"), "--step: got '10 ms', expected a multiple of"),
        (("land-mobile", "--snr", "7", "--table", "none.csv"), "--table none.csv: no such file"),
        (("land-mobile", "--snr", "7", "--base", "cislunar", "--both", "rate=2"), "forward.rate: got 2, expected a"),
        (("land-mobile", "--snr", "7", "--base", "lunar-trace"), "lunar-trace changes more than delay and up"),
        (("coded", "--rate", "2", "--ebn0", "6"), "--rate: got '2', expected a number with one of the units"),
        (("coded", "--rate", "2Mbit/s"), "got neither --ebn0 nor --frame-error-rate, expected one of them"),
        (
            ("coded", "--rate", "2Mbit/s", "--ebn0", "6", "--frame-error-rate", "0.1"),
            "got both --ebn0 and --frame-error-rate, expected one of them",
        ),
        (("coded", "--rate", "2Mbit/s", "--ebn0", "12"), "expected 1e-12 to less than 1; such a link has hardly any"),
        (("coded", "--rate", "2Mbit/s", "--ebn0", "100000"), "--ebn0: got 100000, expected -100 to 100 dB"),
        (("coded", "--rate", "2Mbit/s", "--ebn0", "nan"), "--ebn0: got nan, expected -100 to 100 dB"),
        (
            ("coded", "--rate", "2Mbit/s", "--frame-error-rate", "0.1", "--table", "ldpc.csv"),
            "--table: got it with --frame-error-rate, expected one of them",
        ),
        (("coded", "--rate", "2Mbit/s", "--ebn0", "6", "--coded-bytes", "9"), "--coded-bytes: the code rs-223 determ"),
        (
            ("coded", "--rate", "2Mbit/s", "--code", "other", "--ebn0", "6"),
            "--code other: frame sizes are missing, expected",
        ),
        (("coded", "--rate", "2Mbit/s", "--ebn0", "6", "--table", "none.csv"), "--table none.csv: no such file"),
        (("pass", "--date", "2026-11-22", "--station", "madrid", "--tle", "none.txt"), "--tle none.txt: no such file"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_a_mistake_is_named_with_what_was_expected(words: tuple[str, ...], message: str) -> None:
    assert message in refusal(*words)


def test_an_unknown_key_of_a_link_is_named_once_and_not_for_each_step() -> None:
    message = refusal("mars", "--date", "2026-11-22", "--hours", "1", "--forward", "rte=2Mbit/s")

    assert message.count("forward.rte: is not a known key; did you mean rate?") == 1


def test_a_text_that_is_no_tle_is_refused() -> None:
    Path("notes.txt").write_text("hello\n")

    assert "notes.txt: no line that begins with '1 '" in refusal(
        "pass", "--date", "2026-11-22", "--station", "madrid", "--tle", "notes.txt"
    )


def test_an_existing_file_is_not_overwritten() -> None:
    channel("moon", "--date", "2026-11-22", "--hours", "1")

    message = refusal("moon", "--date", "2026-11-22", "--hours", "2")
    assert "moon-2026-11-22.yaml: this file exists already; remove it, or give another name with --out" in message


def test_a_missing_library_is_named_with_the_extra_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skyfield", None)

    with pytest.raises(Missing, match=r"skyfield is missing; install the extra 'orbits'"):
        CliRunner().invoke(cli.app, ["channel", "moon", "--date", "2026-11-22"], catch_exceptions=False)


def test_harq_adds_its_delays_to_those_of_the_base() -> None:
    channel(*LEO, "--both", "rate=40Mbit/s")
    channel("land-mobile", "--snr", "10", "--base", "leo-2026-11-22.yaml", "--hours", "0.05", "--out", "both.yaml")

    base, both = (load_channel(Path(name)).channel for name in ("leo-2026-11-22.yaml", "both.yaml"))
    assert both.forward.delay_ns - base.forward.delay_ns == 10_000_000
    assert both.reverse.delay_ns == base.reverse.delay_ns
    assert both.forward.rate_bps == 40e6


def test_harq_delays_packets_by_whole_retransmissions() -> None:
    channel("land-mobile", "--snr", "7", "--hours", "0.02", "--retransmission", "25 ms", "--out", "harq.yaml")

    timeline = load_channel(Path("harq.yaml")).channel.timeline
    assert timeline is not None
    jitters = [step.forward.jitter for step in timeline.steps]
    assert {value for jitter in jitters if jitter for value in jitter.table} == {0, 1, 2, 3}
    assert {jitter.amount_ns for jitter in jitters if jitter} == {25_000_000}


@pytest.mark.parametrize(("step", "step_ns"), [((), 100_000_000), (("--step", "500 ms"), 500_000_000)])
def test_the_steps_of_a_fading_channel_have_the_length_asked_for(step: tuple[str, ...], step_ns: int) -> None:
    channel("land-mobile", "--snr", "7", "--hours", "0.02", "--out", "harq.yaml", *step)

    timeline = load_channel(Path("harq.yaml")).channel.timeline
    assert timeline is not None
    moments_ns = [step.at_ns for step in timeline.steps]
    assert {at_ns % step_ns for at_ns in moments_ns} == {0}
    assert min(b - a for a, b in pairwise(moments_ns)) == step_ns


@pytest.mark.parametrize(("flag", "keeps_order"), [((), False), (("--in-order",), True)])
def test_packets_overtake_each_other_unless_delivery_is_in_order(flag: tuple[str, ...], keeps_order: bool) -> None:
    channel("land-mobile", "--snr", "7", "--hours", "0.01", "--out", "harq.yaml", *flag)

    assert load_channel(Path("harq.yaml")).channel.forward.keeps_order is keeps_order


def test_a_table_of_success_probabilities_replaces_the_computed_one() -> None:
    Path("table.csv").write_text("snr_db,1,2\n-20,0.5,0.5\n30,0.5,0.5\n")

    written = channel("land-mobile", "--snr", "7", "--hours", "0.01", "--table", "table.csv")
    assert (written["success"], written["attempts"]) == (pytest.approx(0.75), pytest.approx([0.5, 0.25]))


@pytest.mark.parametrize(
    ("success", "of_the_link", "expected"), [("1", "0.5", 0.5), ("0.9", "0.5", 0.55), ("0.99999", "0", 1e-5)]
)
def test_packets_that_harq_loses_add_to_those_of_the_link(success: str, of_the_link: str, expected: float) -> None:
    Path("table.csv").write_text(f"snr_db,1\n-20,{success}\n30,{success}\n")
    link = f"packet_error_rate={of_the_link}"
    channel(
        "land-mobile", "--snr", "7", "--hours", "0.01", "--table", "table.csv", "--forward", link, "--out", "h.yaml"
    )

    assert load_channel(Path("h.yaml")).channel.states[0]["forward"].packet_error_rate == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "snr,1\n0,1\n",
        "snr_db,1\n0,1.5\n",
        "snr_db,1\n5,1\n0,1\n",
        "snr_db,1,2,3,4,5\n0,1,1,1,1,1\n",
        "snr_db,1\n0,x\n",
    ],
)
def test_what_is_no_table_of_success_probabilities_is_refused(text: str) -> None:
    Path("table.csv").write_text(text)

    message = refusal("land-mobile", "--snr", "7", "--table", "table.csv")
    assert "table.csv: got no table of success probabilities, expected a header snr_db,1," in message


def test_a_coded_link_has_the_rate_that_its_code_leaves() -> None:
    written = channel("coded", "--rate", "1279 kbit/s", "--frame-error-rate", "0.001", "--both", "delay=1250ms")

    spec = load_channel(Path("coded-rs-223.yaml")).channel
    assert (written["frame_bytes"], written["coded_bytes"], written["steps"]) == (1109, 1279, 0)
    assert spec.forward.rate_bps == 1_109_000
    assert spec.forward.coding is not None
    assert (spec.forward.coding.frame_bytes, spec.forward.coding.frame_error_rate) == (1109, 0.001)
    assert (spec.reverse.coding, spec.reverse.delay_ns, spec.timeline) == (None, 1_250_000_000, None)


def test_a_higher_ebn0_loses_fewer_frames() -> None:
    rates = [
        channel("coded", "--rate", "1 Mbit/s", "--ebn0", ebn0, "--out", f"{ebn0}.yaml")["frame_error_rate"]
        for ebn0 in ("5.5", "6", "6.5")
    ]

    assert rates == sorted(rates, reverse=True)


def test_frame_error_rates_come_from_a_table_if_one_is_given() -> None:
    Path("ldpc.csv").write_text("ebn0_db,frame_error_rate\n1,0.1\n2,0.001\n")
    words = ("coded", "--rate", "2Mbit/s", "--code", "other", "--frame-bytes", "1000", "--coded-bytes", "2000")

    assert channel(*words, "--table", "ldpc.csv", "--ebn0", "1.5")["frame_error_rate"] == pytest.approx(0.01)
    assert "--ebn0: got 3, expected 1 to 2 dB, which ldpc.csv covers" in refusal(
        *words, "--table", "ldpc.csv", "--ebn0", "3"
    )


@pytest.mark.parametrize("text", ["", "ebn0,rate\n1,0.1\n2,0.1\n", "ebn0_db,frame_error_rate\n2,0.1\n1,0.2\n"])
def test_what_is_no_table_of_frame_error_rates_is_refused(text: str) -> None:
    Path("ldpc.csv").write_text(text)

    message = refusal("coded", "--rate", "2Mbit/s", "--ebn0", "1", "--table", "ldpc.csv")
    assert "ldpc.csv: got no table of frame error rates, expected the header ebn0_db,frame_error_rate" in message

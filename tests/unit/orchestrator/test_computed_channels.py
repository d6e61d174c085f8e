"""`owlt channel mars` and its like: the files that they write, and their errors."""

from __future__ import annotations

import itertools
import json
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from owlt.emulator.channel.channel_file import load_channel
from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.models.constellations import Constellation
from owlt.orchestrator.commands import cli
from owlt.orchestrator.errors import Missing, OwltError
from owlt.orchestrator.profiles.catalogue import PROFILES
from tests.unit.emulator.tle_files import tle_text

CHANNELS = PROFILES / "channels"
START = datetime(2026, 11, 22, tzinfo=UTC)
LEO = ("leo", "--date", "2026-11-22", "--from", "43.6,1.44", "--to=-41.3,174.8", "--hours", "0.25", "--step", "10")
TLE = Path(__file__).parents[1] / "emulator" / "test_orbits.py"


@pytest.fixture(autouse=True)
def in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def channel(*words: str) -> Any:
    result = CliRunner().invoke(cli.app, ["channel", *words, "--json"], catch_exceptions=False)
    return json.loads(result.stdout)


def table_of(spec: ChannelSpec) -> list[float]:
    assert spec.forward.jitter is not None
    return list(spec.forward.jitter.table)


def trace_of(path: Path) -> list[list[str]]:
    """The rows, without the comment and the header."""
    return [line.split(",") for line in path.read_text().splitlines()[2:]]


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


def test_a_constellation_of_a_tle_file_makes_a_channel_like_the_ideal_one() -> None:
    """To 2 us: the elements are rounded (tests/unit/emulator/test_tle_constellation.py has the bound)."""
    Path("sixty-six.txt").write_text(tle_text(Constellation(800, 86.4, 6, 11), START))
    ideal = channel(*LEO, "--out", "ideal.yaml")
    written = channel(*LEO, "--tle", "sixty-six.txt", "--out", "tle.yaml")

    same = ("satellites", "planes", "handovers", "without_path_s", "steps")
    assert [written[key] for key in same] == [ideal[key] for key in same]
    assert written["least_delay_s"] == pytest.approx(ideal["least_delay_s"], abs=2e-6)
    assert written["largest_delay_s"] == pytest.approx(ideal["largest_delay_s"], abs=2e-6)
    assert "from the elements in sixty-six.txt of 2026-11-22" in load_channel(Path("tle.yaml")).source


def test_one_satellite_is_no_constellation() -> None:
    Path("one.txt").write_text(tle_text(Constellation(800, 86.4, 1, 1), START))

    message = refusal(*LEO, "--tle", "one.txt")
    assert message.startswith(
        "--tle one.txt: not a constellation: fewer than 3 satellites in the planes of S10001, exp"
    )
    assert "at least 3 satellites in each plane (nodes within 2 degrees); add the missing satellites" in message


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
        (("land-mobile", "--snr", "7", "--hours", "0.00001", "--average"), "--hours: got"),
        (("land-mobile", "--snr", "7", "--hours", "0.00002"), "--hours: got 2e-05, expected at least a step"),
        ((*LEO, "--tle", "none.txt"), "--tle none.txt: no such file"),
        ((*LEO, "--tle", "none.txt", "--planes", "6"), "--planes: the elements of --tle determine it; leave it out"),
        (("land-mobile", "--snr", "7", "--attempts", "5"), "--attempts: got 5, expected 1 to 4"),
        (("land-mobile", "--snr", "7", "--step", "50 ms"), "--step: got '50 ms', expected a multiple of"),
        (("land-mobile", "--snr", "7", "--step", "10 ms"), "--step: got '10 ms', expected a multiple of"),
        (("land-mobile", "--snr", "7", "--coherence", "20 ms"), "--coherence: needs --average, expected"),
        (
            ("land-mobile", "--snr", "7", "--average", "--coherence", "20 us"),
            "--coherence: got '20 us', expected at least",
        ),
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
            "--table: cannot be combined with --frame-error-rate, expected one of them",
        ),
        (
            ("coded", "--rate", "2Mbit/s", "--ebn0", "6", "--interleaving", "6"),
            "--interleaving: got 6, expected one of",
        ),
        (("coded", "--rate", "2Mbit/s", "--ebn0", "6", "--interleaving", "7"), "131.0-B, 1, 2, 3, 4, 5, 8"),
        (("coded", "--rate", "2Mbit/s", "--ebn0", "6", "--interleaving", "9"), "--interleaving: got 9"),
        (
            ("coded", "--rate", "2kbit/s", "--ebn0", "6", "--frame", "tc", "--code", "rs-223"),
            "--code: got rs-223, expected one of bch-sec, bch-ted, other for tc frames",
        ),
        (
            ("coded", "--rate", "2kbit/s", "--ebn0", "6", "--frame", "aos", "--code", "bch-sec"),
            "--code: got bch-sec, expected one of rs-223, rs-239, other for aos frames",
        ),
        (
            ("coded", "--rate", "2kbit/s", "--ebn0", "6", "--frame", "tc", "--frame-bytes", "1020"),
            "--frame-bytes: got 1020, expected 32 to 1019 bytes of packets: a TC frame has 1024 with its header",
        ),
        (
            ("coded", "--rate", "2kbit/s", "--ebn0", "6", "--frame", "tc", "--interleaving", "5"),
            "--interleaving: the code bch-sec determines it",
        ),
        (
            ("coded", "--rate", "2kbit/s", "--ebn0", "6", "--header", "8", "--error-control"),
            "--header: got it together with --error-control, expected one of them",
        ),
        (
            ("coded", "--rate", "2kbit/s", "--ebn0", "6", "--code", "other", "--header", "8"),
            "--header: the code other determines it; leave it out: --frame-bytes counts packets only",
        ),
        (
            ("coded", "--rate", "2kbit/s", "--ebn0", "6", "--base", "lunar-trace"),
            "--base: lunar-trace has a timeline, expected a channel that does not change",
        ),
        (("coded", "--rate", "2kbit/s", "--ebn0", "6", "--base", "bypass"), "--base: bypass is a bypass, expected"),
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


MIXED = ("--average", "--hours", "0.17", "--seed", "14", "--both", "rate=42.64Mbit/s", "--both", "delay=84.515918ms")


@pytest.mark.parametrize("name", sorted(path.stem for path in CHANNELS.glob("leo-harq-*-mixed*.yaml")))
def test_channels_with_the_same_shares_at_every_moment_are_those_of_the_command(name: str) -> None:
    """The error rates of the profiles have five decimal places."""
    _, _, snr, _, *variant = name.split("-", 4)
    channel(
        "land-mobile", "--snr", snr, *MIXED, *(["--in-order"] if variant == ["in-order"] else []), "--out", "harq.yaml"
    )

    computed, shipped = (load_channel(each).channel for each in (Path("harq.yaml"), CHANNELS / f"{name}.yaml"))
    rounded = round(computed.forward.packet_error_rate, 5)
    for state in shipped.states if variant != ["moving"] else []:
        assert state["forward"] == computed.forward.model_copy(update={"packet_error_rate": rounded})
        assert state["reverse"] == computed.reverse
    if variant == ["moving"]:  # whose first attempt is half a retransmission of its table
        assert shipped.forward.packet_error_rate == rounded
        assert table_of(shipped) == [0.5 + value for value in table_of(computed)]


def test_the_channel_of_shared_fades_is_the_beginning_of_that_of_the_command() -> None:
    channel("land-mobile", "--snr", "10", *MIXED, "--coherence", "20 ms", "--out", "fading.yaml")

    shipped = trace_of(CHANNELS / "leo-harq-10-fading.csv")
    assert trace_of(Path("fading.csv"))[: len(shipped)] == shipped


def test_packets_that_share_a_fade_need_the_same_number_of_attempts_or_are_all_lost() -> None:
    channel("land-mobile", "--snr", "7", *MIXED, "--coherence", "20 ms", "--out", "fading.yaml")

    links = [state["forward"] for state in load_channel(Path("fading.yaml")).channel.states[1:]]
    assert {len(set(link.jitter.table)) for link in links if link.jitter} == {1}
    assert {link.packet_error_rate for link in links} == {0, 1}


def test_shared_fades_have_the_shares_of_the_channel_that_is_the_same_at_every_moment() -> None:
    mixed = channel("land-mobile", "--snr", "7", *MIXED, "--out", "mixed.yaml")
    fading = channel("land-mobile", "--snr", "7", *MIXED, "--coherence", "20 ms", "--out", "fading.yaml")

    assert fading["success"] == pytest.approx(mixed["success"], abs=1 / 30_600)
    assert fading["attempts"] == pytest.approx(mixed["attempts"], abs=1 / 30_600)


def test_another_seed_has_other_shares() -> None:
    """The control of the test above."""
    channel("land-mobile", "--snr", "7", *MIXED, "--seed", "15", "--out", "computed.yaml")

    shipped = load_channel(CHANNELS / "leo-harq-7-mixed.yaml").channel
    assert table_of(load_channel(Path("computed.yaml")).channel) != table_of(shipped)


@pytest.mark.parametrize("snr", [7, 13])
def test_fading_channels_are_those_of_the_command(snr: int) -> None:
    """And so have the shares of leo-harq-N-mixed: the same model, values and seed. Delays to 2 ns."""
    leo = ("--from", "43.6,1.44", "--to=-41.3,174.8", "--both", "rate=42.64Mbit/s")
    channel("leo", "--date", "2026-11-22T00:41", "--hours", "0.05", *leo, "--out", "toulouse-wellington.yaml")
    channel(
        "land-mobile", "--snr", str(snr), "--step", "500 ms", "--base", "toulouse-wellington.yaml",
        "--hours", "0.17", "--seed", "14", "--out", "harq.yaml",
    )  # fmt: skip

    computed, shipped = (trace_of(each) for each in (Path("harq.csv"), CHANNELS / f"leo-harq-{snr}.csv"))
    assert [row[3:] for row in computed if any(row[3:])] == [row[3:] for row in shipped if any(row[3:])]
    for own, other in zip(computed, shipped, strict=False):
        if float(own[0]) < 180:  # the delays that were computed here
            assert [float(cell or 0) for cell in own[:3]] == pytest.approx(
                [float(c or 0) for c in other[:3]], abs=0.002
            )


def test_a_channel_with_the_same_shares_at_every_moment_keeps_the_delays_of_its_base() -> None:
    channel(*LEO, "--both", "rate=40Mbit/s")
    channel(
        "land-mobile", "--snr", "10", "--average", "--base", "leo-2026-11-22.yaml", "--step", "10 s",
        "--hours", "0.2", "--out", "both.yaml",
    )  # fmt: skip

    base, both = (load_channel(Path(name)).channel for name in ("leo-2026-11-22.yaml", "both.yaml"))
    count = len(both.states)
    assert count > 70
    delays_ns = [(state["forward"].delay_ns - 10_000_000, state["reverse"].delay_ns) for state in both.states]
    assert delays_ns == [(state["forward"].delay_ns, state["reverse"].delay_ns) for state in base.states[:count]]
    assert len({state["forward"].jitter for state in both.states}) == 1


def test_a_channel_with_the_same_shares_that_is_shorter_than_a_step_of_its_base_is_refused() -> None:
    channel(*LEO, "--both", "rate=40Mbit/s")
    base = ("--base", "leo-2026-11-22.yaml", "--step", "10 s")

    message = refusal("land-mobile", "--snr", "10", "--average", *base, "--hours", "0.001")
    assert "--hours: got 0.001, expected at least a step" in message


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


@pytest.mark.parametrize(
    ("words", "frame_bytes", "coded_bytes"),
    [
        ((), 1109, 1279),
        (("--frame", "aos"), 1109, 1279),
        (("--error-control",), 1107, 1279),
        (("--header", "20"), 1095, 1279),
        (("--frame", "tc"), 1019, 1186),
        (("--frame", "tc", "--error-control"), 1017, 1186),
        (("--frame", "tc", "--frame-bytes", "100"), 100, 130),
    ],
    ids=str,
)
def test_the_kind_of_frame_determines_its_header(words: tuple[str, ...], frame_bytes: int, coded_bytes: int) -> None:
    """TM and AOS 6, TC 5, error control 2; 105 bytes of a TC frame are 15 codeblocks of 8 bytes, and 10 bytes."""
    written = channel("coded", "--rate", "64 kbit/s", "--frame-error-rate", "0.001", *words)

    assert (written["frame_bytes"], written["coded_bytes"]) == (frame_bytes, coded_bytes)


def test_both_links_are_coded_one_after_the_other() -> None:
    channel("coded", "--rate", "2 Mbit/s", "--ebn0", "6", "--both", "delay=1250ms", "--out", "down.yaml")
    words = ("--frame", "tc", "--rate", "8 kbit/s", "--frame-error-rate", "0.01", "--link", "reverse")
    written = channel("coded", *words, "--base", "down.yaml")

    down, both = (load_channel(Path(name)) for name in ("down.yaml", written["path"]))
    assert written["path"] == "coded-bch-sec-reverse.yaml"
    assert both.channel.forward == down.channel.forward
    assert both.channel.reverse.coding is not None
    assert (both.channel.reverse.coding.frame_bytes, both.channel.reverse.delay_ns) == (1019, 1_250_000_000)
    assert both.channel.reverse.rate_bps == pytest.approx(8000 * 1019 / 1186, abs=0.5)
    assert "other values of down" in both.source and "TM frames" in both.source


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

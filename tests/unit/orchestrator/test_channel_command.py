"""`owlt channel`, with an emulator at the other end of a real connection that records its calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from owlt.emulator.channel.link import Jitter
from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import TimelineError
from owlt.emulator.service.emulator import Emulator
from owlt.emulator.service.server import EmulatorServer
from owlt.orchestrator.commands import cli
from owlt.orchestrator.commands.channel_text import curves_of, link_rows, step_rows
from owlt.orchestrator.commands.computed_channels import fields_of, merged
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.profiles.catalogue import channel_files, find_channel
from owlt.reports.drawing.channel import draw_channel
from tests.unit.orchestrator.test_inventory import EMULATOR, EXAMPLE, changed, with_host

CHECKS = [
    {"direction": "forward", "quantity": "delay (ms)", "verdict": "ok", "specified": 25.0, "measured": 25.001,
     "low": 24.999, "high": 25.003, "count": 20, "reason": ""},
    {"direction": "reverse", "quantity": "rate (bit/s)", "verdict": "failed", "specified": 1e7, "measured": 9e6,
     "low": 8.9e6, "high": 9.1e6, "count": 50, "reason": "slower than specified"},
]  # fmt: skip


class RecordingEmulator(Emulator):
    """Accepts every channel, and records the calls that change something."""

    def __init__(self) -> None:
        self.channel = ChannelSpec()
        self.calls: list[str] = []
        self.timeline_begins = True
        self.checks = CHECKS
        self.options: object = None

    def configure(self, channel: object) -> Any:
        self.calls.append("configure")
        self.channel = ChannelSpec.from_wire(channel)
        return self.channel.to_wire()

    def change(self, direction: str, changes: Any) -> Any:
        self.calls.append(f"change {direction} {changes}")
        wire = self.channel.to_wire()
        ways = ("forward", "reverse") if direction == "both" else (direction,)
        self.channel = ChannelSpec.from_wire(wire | {way: wire[way] | changes for way in ways})
        return self.channel.to_wire()

    def bypass(self) -> Any:
        return self.configure({"bypass": True})

    def describe(self) -> Any:
        return self.channel.to_wire()

    def snapshot(self) -> Any:
        return {"channel": self.describe(), "statistics": self.statistics()}

    def clear(self) -> bool:
        self.calls.append("clear")
        self.channel = ChannelSpec()
        return True

    def timeline_start(self) -> Any:
        self.calls.append("timeline_start")
        if not self.timeline_begins:
            raise TimelineError("timeline: no thread to be had")
        return self.timeline_status()

    def timeline_status(self) -> Any:
        return {"running": False, "elapsed_s": 0.0, "steps_applied": 0, "late_ns": [], "failure": ""}

    def statistics(self) -> Any:
        return {"forward": {"pipe": {"packets": 1234.0}}, "reverse": {"pipe": {"dropped_packets": 7.0}}}

    def certify(self, channel: object, options: Any = None) -> Any:
        self.options = options
        verdicts = [check["verdict"] for check in self.checks]
        return {"verdict": "failed" if "failed" in verdicts else "ok", "channel": channel, "checks": self.checks}


@pytest.fixture
def emulator() -> RecordingEmulator:
    return RecordingEmulator()


@pytest.fixture
def url(emulator: RecordingEmulator) -> Iterator[str]:
    server = EmulatorServer(emulator, "127.0.0.1", 0)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://{server.address}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OWLT_EMULATOR", raising=False)
    monkeypatch.delenv("OWLT_TOKEN_FILE", raising=False)
    monkeypatch.delenv("OWLT_CA_FILE", raising=False)
    monkeypatch.chdir(tmp_path)


def owlt(*arguments: str) -> Result:
    return CliRunner().invoke(cli.app, arguments)


def refusal(*arguments: str) -> str:
    result = owlt(*arguments)
    assert isinstance(result.exception, OwltError), result.output
    return str(result.exception)


def test_every_channel_is_listed() -> None:
    listed = owlt("channel", "list").output

    assert all(path.stem in listed for path in channel_files())


def test_a_channel_is_described_without_writing_a_file(tmp_path: Path) -> None:
    result = owlt("channel", "show", "deep-space")

    assert result.exit_code == 0, result.output
    assert all(word in result.output for word in ("600 s", "2 Mbit/s", "8 kbit/s", "source:"))
    assert not list(tmp_path.iterdir())


def test_a_channel_is_drawn_into_the_file_that_is_named(tmp_path: Path) -> None:
    result = owlt("channel", "show", "deep-space", "--out", "deep-space.svg")

    assert "figure: deep-space.svg" in result.output
    assert (tmp_path / "deep-space.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize("path", channel_files(), ids=lambda path: path.stem)
def test_every_channel_can_be_drawn(path: Path) -> None:
    """To write the file is the same for all, and takes most of the time."""
    profile = find_channel(path.stem)

    canvas = draw_channel(curves_of(profile.channel), profile.title or profile.name)
    canvas.draw_without_rendering()

    delay, rate, _ = canvas.axes  # of a channel without errors the third panel is empty
    assert (profile.title or profile.name) in [text.get_text() for text in canvas.texts]
    assert all(axes.lines or axes.texts for axes in (delay, rate))


def test_a_channel_is_drawn_as_pdf(tmp_path: Path) -> None:
    owlt("channel", "show", "geo", "--out", str(tmp_path / "figure.pdf"))

    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")


def test_a_channel_is_drawn_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        owlt("channel", "show", "lunar-trace", "--out", str(tmp_path / name / "figure.svg"))

    assert (tmp_path / "one" / "figure.svg").read_bytes() == (tmp_path / "two" / "figure.svg").read_bytes()


def test_a_figure_of_an_unknown_kind_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    assert "expected one of .pdf, .svg, .png" in refusal("channel", "show", "geo", "--out", "figure.jpg")
    assert not list(tmp_path.iterdir())


def test_an_unknown_channel_is_answered_with_the_command_that_lists_them() -> None:
    text = refusal("channel", "show", "venus")

    assert "'venus'" in text
    assert "see 'owlt channel list'" in text


def test_the_channel_of_the_emulator_is_shown_with_its_counters(url: str, emulator: RecordingEmulator) -> None:
    emulator.channel = find_channel("cislunar").channel
    output = owlt("channel", "show", "--emulator", url).output

    assert all(word in output for word in ("1.25 s", "10 Mbit/s", "pipe packets", "1,234", "pipe dropped packets", "7"))


def test_a_channel_is_set_as_it_is_in_its_profile(url: str, emulator: RecordingEmulator) -> None:
    result = owlt("channel", "set", "leo-contacts", "--emulator", url)

    assert result.exit_code == 0, result.output
    assert emulator.channel == find_channel("leo-contacts").channel
    assert emulator.calls == ["configure"]
    assert "not started" in result.output


def test_the_environment_can_name_the_emulator(
    url: str, emulator: RecordingEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWLT_EMULATOR", url)
    owlt("channel", "set", "geo")

    assert emulator.channel == find_channel("geo").channel


def test_a_channel_is_set_with_changed_values(url: str, emulator: RecordingEmulator) -> None:
    arguments = ["--both", "delay=300ms", "--both", "mtu=1500 B", "--reverse", "rate=unlimited"]
    owlt("channel", "set", "geo", *arguments, "--forward", "jitter.amount=5ms", "--emulator", url)

    links = emulator.channel
    assert (links.forward.rate_bps, links.reverse.rate_bps) == (1e7, None)
    assert (links.forward.jitter, links.reverse.jitter) == (Jitter(amount_ns=5_000_000), None)
    assert {links.forward.delay_ns, links.reverse.delay_ns} == {300_000_000}
    assert {links.forward.mtu_bytes, links.reverse.mtu_bytes} == {1500}


def test_a_timeline_is_started_by_an_option(url: str, emulator: RecordingEmulator) -> None:
    owlt("channel", "set", "lunar-trace", "--start", "--emulator", url)

    assert emulator.calls == ["configure", "timeline_start"]


def test_a_channel_whose_timeline_does_not_start_is_removed(url: str, emulator: RecordingEmulator) -> None:
    emulator.timeline_begins = False

    assert "no thread to be had" in refusal("channel", "set", "lunar-trace", "--start", "--emulator", url)
    assert emulator.calls == ["configure", "timeline_start", "clear"]


def test_a_start_without_a_timeline_is_refused_before_any_call(url: str, emulator: RecordingEmulator) -> None:
    assert "no timeline" in refusal("channel", "set", "geo", "--start", "--emulator", url)
    assert emulator.calls == []


def test_an_invalid_value_is_refused_before_any_call(url: str, emulator: RecordingEmulator) -> None:
    assert "write the unit" in refusal("channel", "set", "geo", "--both", "delay=300", "--emulator", url)
    assert emulator.calls == []


def test_some_values_of_one_link_are_changed(url: str, emulator: RecordingEmulator) -> None:
    emulator.channel = find_channel("geo").channel
    result = owlt("channel", "change", "reverse", "delay=1s", "rate=none", "--emulator", url)

    assert result.exit_code == 0, result.output
    assert emulator.channel.reverse.to_wire() == {"delay": "1 s"}
    assert emulator.channel.forward == find_channel("geo").channel.forward


def test_a_seed_beyond_the_integers_of_xml_rpc_arrives(url: str, emulator: RecordingEmulator) -> None:
    owlt("channel", "change", "forward", f"seed={2**40}", "packet_error_rate=0.1", "--emulator", url)

    assert emulator.channel.forward.seed == 2**40


def test_the_same_values_of_both_links_are_changed_in_one_call(url: str, emulator: RecordingEmulator) -> None:
    emulator.channel = find_channel("geo").channel
    options = ("--both", "delay=1s", "--both", "mtu=1400B")
    result = owlt("channel", "change", *options, "--emulator", url)

    assert result.exit_code == 0, result.output
    assert emulator.calls == ["change both {'delay': '1s', 'mtu': '1400B'}"]
    assert {emulator.channel.link(way).delay_ns for way in ("forward", "reverse")} == {10**9}


@pytest.mark.parametrize("given", [("both", "delay=1s"), ("forward",), ("delay=1s",), ()])
def test_a_change_without_a_direction_or_without_a_value_is_refused(given: tuple[str, ...]) -> None:
    text = refusal("channel", "change", *given, "--emulator", "http://127.0.0.1:9")

    assert "expected forward or reverse and KEY=VALUE, or --both KEY=VALUE" in text


def test_a_change_of_one_link_and_of_both_at_once_is_refused() -> None:
    text = refusal(
        "channel", "change", "forward", "delay=1s", "--both", "mtu=1400B", "--emulator", "http://127.0.0.1:9"
    )

    assert "--both: cannot be combined with 'forward delay=1s'; give one of them" in text


def test_a_channel_is_removed(url: str, emulator: RecordingEmulator) -> None:
    emulator.channel = find_channel("geo").channel

    assert owlt("channel", "clear", "--emulator", url).exit_code == 0
    assert emulator.channel == ChannelSpec()


def test_the_emulator_becomes_a_transparent_bridge(url: str, emulator: RecordingEmulator) -> None:
    assert owlt("channel", "bypass", "--emulator", url).exit_code == 0
    assert emulator.channel.bypass


def test_a_certificate_that_failed_is_printed_and_ends_with_status_1(url: str) -> None:
    result = owlt("channel", "certify", "terrestrial", "--emulator", url)

    assert result.exit_code == 1
    assert all(word in result.output for word in ("24.999", "25.003", "9,000,000", "failed"))
    assert all(len(line) < 150 for line in result.output.splitlines())
    assert [line for line in result.output.splitlines() if "delay (ms)" in line and "ok" in line]
    assert "slower than specified" not in result.output


def test_a_certificate_is_printed_as_json(url: str) -> None:
    result = owlt("channel", "certify", "terrestrial", "--json", "--emulator", url)

    assert json.loads(result.stdout)["checks"] == CHECKS
    assert result.exit_code == 1


def test_the_errors_that_a_certificate_would_find_are_printed(url: str, emulator: RecordingEmulator) -> None:
    power = {"detectable_low": 0.006, "detectable_high": 0.018, "detection_probability": 0.99}
    aim = {"aim_low": 0.00667, "aim_high": 0.015}
    emulator.checks = [CHECKS[0] | {"quantity": "share lost"} | power, CHECKS[0] | power | aim]

    printed = owlt("channel", "certify", "--emulator", url).output
    assert "excludes 0.006 or less, 0.018 or more" in printed
    assert "can only exclude 0.006 or less, 0.018 or more" in printed
    assert "errors that a sample of this size finds with a probability of 99%" in printed


def test_the_budget_is_passed_on(url: str, emulator: RecordingEmulator) -> None:
    emulator.checks = CHECKS[:1]
    owlt("channel", "certify", "--budget", "10 min", "--emulator", url)

    assert emulator.options == {"budget_s": 600.0}


def test_a_certificate_that_is_ok_ends_with_status_0(url: str, emulator: RecordingEmulator) -> None:
    emulator.checks = CHECKS[:1]

    assert owlt("channel", "certify", "--emulator", url).exit_code == 0


def test_the_reason_why_a_quantity_was_not_measured_is_printed(url: str, emulator: RecordingEmulator) -> None:
    emulator.checks = [CHECKS[1] | {"verdict": "not measured", "reason": "it would take 3 h"}]

    assert "reverse: rate (bit/s): it would take 3 h" in owlt("channel", "certify", "--emulator", url).output


def test_the_tolerance_is_passed_on(url: str, emulator: RecordingEmulator) -> None:
    emulator.checks = CHECKS[:1]
    owlt("channel", "certify", "--tolerance", "50 us", "--emulator", url)

    assert emulator.options == {"tolerance_ns": 50_000}


@pytest.mark.parametrize("tolerance", ["200", "0 s", "1 h", "soon"])
def test_an_invalid_tolerance_is_refused(tolerance: str) -> None:
    text = refusal("channel", "certify", "--tolerance", tolerance, "--emulator", "http://127.0.0.1:9")

    assert text.startswith("--tolerance: got ")


def test_an_emulator_that_does_not_answer_is_an_error() -> None:
    assert "no answer to snapshot" in refusal("channel", "show", "--emulator", "http://127.0.0.1:9")


@pytest.mark.parametrize("command", [("show",), ("set", "geo"), ("clear",), ("bypass",), ("certify",)])
def test_a_missing_url_of_the_emulator_is_an_error(command: tuple[str, ...]) -> None:
    assert "OWLT_EMULATOR" in refusal("channel", *command)


def test_an_invalid_url_is_an_error() -> None:
    text = refusal("channel", "clear", "--emulator", "ftp://192.0.2.1")

    assert text == "emulator URL: got 'ftp://192.0.2.1', expected http://... or https://..."


def test_a_token_file_that_others_may_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x" * 43)
    (tmp_path / "token").chmod(0o644)
    text = refusal("channel", "clear", "--emulator", "http://127.0.0.1:9", "--token-file", str(tmp_path / "token"))

    assert "chmod 600" in text


def test_a_missing_token_file_is_an_error() -> None:
    text = refusal("channel", "clear", "--emulator", "http://127.0.0.1:9", "--token-file", "none")

    assert text == "--token-file: no such file: none"


def test_a_mistake_ends_the_command_with_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["owlt", "channel", "set", "venus"])
    with pytest.raises(SystemExit) as end:
        cli.main()

    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("owlt: channel 'venus': not found")


def test_a_key_with_a_dot_is_a_key_inside_a_key() -> None:
    assert fields_of("--both", ["delay=300ms", "jitter.amount=5 ms", "jitter.distribution=uniform", "up=false"]) == {
        "delay": "300ms",
        "jitter": {"amount": "5 ms", "distribution": "uniform"},
        "up": False,
    }


@pytest.mark.parametrize(
    "texts", [["delay"], ["=3"], ["delay="], ["delay=1s", "delay=2s"], ["a=1", "a.b.c=2"], ["a={"]]
)
def test_an_invalid_field_is_refused(texts: list[str]) -> None:
    with pytest.raises(OwltError):
        fields_of("--both", texts)


def test_a_value_without_a_key_is_refused_with_the_option_that_has_it() -> None:
    with pytest.raises(OwltError, match="--forward: got 'rate', expected KEY=VALUE, such as delay=300ms"):
        fields_of("--forward", ["rate"])


def test_a_ca_file_that_is_missing_is_named_with_its_option(tmp_path: Path) -> None:
    words = ["channel", "clear", "--emulator", "https://127.0.0.1:9", "--ca-file", str(tmp_path / "none")]

    assert str(CliRunner().invoke(cli.app, words).exception) == f"--ca-file: no such file: {tmp_path}/none"


def test_the_values_of_one_link_override_those_of_both() -> None:
    shared, own = {"jitter": {"amount": "5 ms"}, "mtu": "1 kB"}, {"jitter": {"distribution": "uniform"}, "mtu": "2 kB"}

    assert merged(shared, own) == {"jitter": {"amount": "5 ms", "distribution": "uniform"}, "mtu": "2 kB"}


def test_only_the_quantities_that_a_channel_has_are_shown() -> None:
    rows = link_rows(ChannelSpec.from_wire({"forward": {"duplication_rate": 0.1}}))

    assert [row[0] for row in rows] == ["delay", "rate", "errors", "duplication"]


FIELDS: list[dict[str, Any]] = [
    {"delay": "25 ms"},
    *({"jitter": {"amount": "1 ms", "distribution": name}} for name in ("uniform", "normal", "pareto", "paretonormal")),
    {"jitter": {"amount": "1 ms", "distribution": "table", "table": [0, 1.5]}},
    {"keeps_order": False},
    {"keeps_order": False, "reordering": {"rate": 0.1, "by": "1 ms"}},
    {"rate": "1 Mbit/s", "overhead": "24 B"},
    *({"rate": "1 Mbit/s", "queue": queue} for queue in ("5 packets", "64 kB", "50 ms", "2 BDP")),
    {"mtu": "1500 B"},
    {"packet_error_rate": 0.1, "seed": 1},
    {"bit_error_rate": 1e-6, "error_effect": "drop"},
    {"pattern": {"packets": [1]}},
    {"pattern": {"bits": [1, 2]}, "error_effect": "drop"},
    {"loss": {"model": "gilbert_elliott", "mean_rate": 0.01, "burst_packets": 5}},
    {"loss": {"model": "four_state", "p13": 0.01, "p31": 0.3, "p32": 0.2, "p23": 0.5, "p14": 0.001}},
    {"duplication_rate": 0.1},
    {"up": False},
    {"up": False, "while_down": "drop"},
]


@pytest.mark.parametrize("link", FIELDS, ids=str)
def test_every_kind_of_field_is_described_at_the_beginning_and_in_a_step(link: dict[str, Any], tmp_path: Path) -> None:
    steps = {"steps": [{"at": "1 s", "reverse": link}]}
    (tmp_path / "c.yaml").write_text(json.dumps({"forward": link, "timeline": steps}))
    result = owlt("channel", "show", "c.yaml")

    assert result.exit_code == 0, result.exception


def texts_of(link: dict[str, Any]) -> dict[str, str]:
    return {name: forward for name, forward, _ in link_rows(ChannelSpec.from_wire({"forward": link}))}


def test_links_are_described_in_plain_words() -> None:
    text = texts_of({"pattern": {"bits": [1]}, "keeps_order": False, "rate": "1 Mbit/s", "queue": "2 BDP"})

    assert text["errors"] == "1 listed bit, flipped"
    assert text["order"] == "packets may overtake each other"
    assert text["queue"] == "2 BDP"


def test_steps_are_described_in_plain_words() -> None:
    base = {"rate": "1 Mbit/s", "keeps_order": False, "while_down": "hold"}
    changes = [{"up": False}, {"up": True, "rate": "none", "keeps_order": True}, {"up": False, "while_down": "drop"}]
    steps = [{"at": f"{at} s", "forward": each} for at, each in enumerate(changes)]
    text = [row[1] for row in step_rows(ChannelSpec.from_wire({"forward": base, "timeline": {"steps": steps}}))]

    assert text[0] == "down, packets held"
    assert set(text[1].split(", ")) == {"up", "rate unlimited", "order kept"}
    assert text[2] == "down, packets dropped"


def test_curves_show_that_errors_are_listed() -> None:
    curves = curves_of(ChannelSpec.from_wire({"forward": {"pattern": {"packets": [1]}}}))

    assert (curves.forward.errors_listed, curves.reverse.errors_listed) == (True, False)


@pytest.mark.parametrize(
    ("wire", "words"),
    [
        ({}, "no errors, no losses"),
        ({"forward": {"pattern": {"packets": [1]}}}, "forward: errors as listed\nreverse: none"),
        (
            {"forward": {"pattern": {"packets": [1]}}, "reverse": {"packet_error_rate": 0.1}},
            "forward: errors as listed",
        ),
    ],
)
def test_a_figure_names_the_errors_that_no_curve_shows(wire: Any, words: str) -> None:
    canvas = draw_channel(curves_of(ChannelSpec.from_wire(wire)), "")

    assert words in [text.get_text() for text in canvas.axes[2].texts]


def test_a_long_timeline_is_described_by_its_first_steps_and_its_last() -> None:
    rows = step_rows(find_channel("lunar-trace").channel)

    assert len(rows) < 25
    assert "last at 14160 s" in rows[-2][1]


def test_curves_have_a_value_for_each_interval_of_time() -> None:
    curves = curves_of(find_channel("leo-contacts").channel)

    assert curves.edges_s is not None
    assert curves.edges_s.tolist() == [0, 480, 5700, 6240, 11400, 11760, 28800]
    assert curves.forward.up.tolist() == [True, False] * 3


def test_curves_of_a_bit_error_rate_rise_with_the_length() -> None:
    curves = curves_of(ChannelSpec.from_wire({"forward": {"bit_error_rate": 1e-6}}))

    assert curves.lengths_bytes[[0, -1]].tolist() == [64, 9000]
    assert np.allclose(curves.forward.highest_error_rate, 1 - (1 - 1e-6) ** (8 * curves.lengths_bytes))
    assert not curves.reverse.highest_error_rate.any()


def test_curves_of_packet_errors_and_losses_are_flat() -> None:
    loss = {"model": "gilbert_elliott", "mean_rate": 0.1, "burst_packets": 3}
    curves = curves_of(ChannelSpec.from_wire({"both": {"packet_error_rate": 0.5, "loss": loss}}))

    assert np.allclose(curves.reverse.highest_error_rate, 0.55)


def test_curves_have_jitter_as_a_band_around_the_delay() -> None:
    jitter = {"amount": "10 ms", "distribution": "uniform"}
    curves = curves_of(ChannelSpec.from_wire({"forward": {"delay": "50 ms", "jitter": jitter}}))

    assert np.allclose([curves.forward.delay_low_s, curves.forward.delay_high_s], [[0.041], [0.059]], atol=1e-4)


@pytest.mark.parametrize("command", [("show",), ("set", "geo"), ("change", "--both", "delay=1ms"), ("clear",),
                                     ("bypass",), ("certify",)])  # fmt: skip
def test_the_emulator_of_a_lab_rig_is_that_of_its_inventory_whatever_the_variables_say(
    command: tuple[str, ...], url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in (("EMULATOR", url), ("TOKEN_FILE", "./token"), ("CA_FILE", "ca.pem")):
        monkeypatch.setenv(f"OWLT_{variable}", value)
    inventory = changed(tmp_path, with_host(EMULATOR, owlt_service_token_file="no-token"))

    assert f"owlt_service_token_file: {tmp_path / 'no-token'}" in refusal(
        "channel", *command, "--rig", f"{inventory}:rack1"
    )


@pytest.mark.parametrize("option", ["--emulator", "--token-file", "--ca-file"])
def test_a_lab_rig_cannot_be_combined_with_what_its_inventory_has(option: str) -> None:
    text = refusal("channel", "clear", "--rig", f"{EXAMPLE}:rack1", option, "other")

    assert text == f"--rig: cannot be combined with {option}; leave out {option}: the inventory has it"


def test_the_file_of_the_ca_may_be_in_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWLT_CA_FILE", "missing.pem")

    assert "--ca-file: no such file: missing.pem" in refusal("channel", "show", "--emulator", "https://127.0.0.1:1")

"""All commands have one style: help pages, usage errors, versions, verbosity, JSON and completion."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner, Result

from owlt.installation import own_version
from owlt.orchestrator.commands.cli import app, main
from owlt.orchestrator.commands.edges import InterruptionOptions, Mode
from owlt.orchestrator.commands.fault_tests import OneTransfer
from owlt.orchestrator.commands.output import Printer, verbosity
from owlt.orchestrator.commands.prove import Faults
from owlt.orchestrator.commands.soak import LifeOptions
from owlt.orchestrator.commands.usage import UsageError, profile_names
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.profiles import catalogue
from tests.import_graph import PROJECT


def every_command(group: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*words, name)
        if isinstance(command, TyperGroup):
            yield from every_command(command, (*words, name))


COMMANDS = [words for words in every_command(typer.main.get_command(app)) if words != ("emulator", "serve")]
each_command = pytest.mark.parametrize("words", COMMANDS, ids=" ".join)


def owlt(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments, prog_name="owlt")


@pytest.fixture(autouse=True)
def normal_verbosity() -> Iterator[None]:
    yield
    verbosity.quiet = verbosity.verbose = False


@each_command
def test_h_is_short_for_help(words: tuple[str, ...]) -> None:
    assert owlt(*words, "-h").output == owlt(*words, "--help").output


@each_command
def test_the_summary_of_a_command_is_one_line_that_is_not_cut_off(words: tuple[str, ...]) -> None:
    page = owlt(*words[:-1], "--help").output

    (line,) = [line for line in page.splitlines() if line.startswith(f"  {words[-1]} ")]
    assert line.endswith(".")
    assert not line.endswith("...")
    assert len(line) <= 80


@each_command
def test_every_argument_and_option_has_a_help_text(words: tuple[str, ...]) -> None:
    command: Any = typer.main.get_command(app)
    for name in words:
        command = command.commands[name]

    assert [parameter.name for parameter in command.params if not parameter.help] == []


def test_a_group_without_a_command_prints_its_help_page() -> None:
    bare = owlt("channel")

    assert bare.exit_code == 0
    assert bare.output == owlt("channel", "--help").output


def test_the_version_is_printed_with_the_commit() -> None:
    assert owlt("--version").output == f"owlt {own_version()}\n"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["plam"], "unknown command 'plam'; did you mean plan?"),
        (["channel", "shw"], "channel: unknown command 'shw'; did you mean show?"),
        (["kernel", "x"], "kernel: unknown command 'x'; known: show, build"),
        (
            ["implementations", "shape"],
            "implementations: unknown command 'shape'; known: list, show, check, table",
        ),
        (["plan", "demo", "--bogus"], "plan: unknown option --bogus; see: owlt plan --help"),
        (["run", "demo", "--guest", "3"], "run: unknown option --guest; did you mean --guests?"),
        (["plan", "demo", "--zzz"], "plan: unknown option --zzz; see: owlt plan --help"),
        (["run"], "run: SWEEP is missing; see: owlt run --help"),
        (["plan", "demo", "extra"], "plan: got unexpected extra argument(s) (extra); see: owlt plan --help"),
        (
            ["channel", "show", "--out"],
            "channel show: option '--out' requires an argument; see: owlt channel show --help",
        ),
        (["-q", "doctor", "-v"], "got --quiet and --verbose, expected one of them; leave one out"),
    ],
)
def test_a_usage_error_names_the_command_and_the_fix(arguments: list[str], text: str) -> None:
    error = owlt(*arguments).exception

    assert isinstance(error, UsageError)
    assert str(error) == text


@pytest.mark.parametrize(
    ("value", "problem"),
    [("many", "got 'many', expected a whole number"), ("0", "got 0, expected a number of at least 1")],
)
def test_a_wrong_value_is_named_with_its_option_and_what_was_expected(value: str, problem: str) -> None:
    error = str(owlt("run", "demo", "--guests", value).exception)

    assert error == f"run: --guests: {problem}; see: owlt run --help"


PLANETS = "mercury, venus, jupiter, saturn, uranus, neptune"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("channel", "planet", "pluto"), f"NAME: got 'pluto', expected one of {PLANETS}"),
        (("channel", "mars", "--outside", "x"), "--outside: got 'x', expected one of drop, hold"),
        (("channel", "mars", "--hours", "x"), "--hours: got 'x', expected a number"),
        (("dashboard", "--port", "99999"), "--port: got 99999, expected a number of at most 65535"),
    ],
)
def test_a_value_that_is_refused_is_named_in_the_words_of_owlt(words: tuple[str, ...], problem: str) -> None:
    command = " ".join(words).partition(" --")[0].removesuffix(" pluto")

    assert str(owlt(*words).exception) == f"{command}: {problem}; see: owlt {command} --help"


@pytest.mark.parametrize("position", ["before", "behind"])
def test_the_traceback_of_an_error_is_printed_with_v_alone(
    position: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["channel", "check", "venus"]
    monkeypatch.setattr("sys.argv", ["owlt", *(["-v", *words] if position == "before" else [*words, "-v"])])
    with pytest.raises(SystemExit):
        main()
    assert "Traceback" in capsys.readouterr().err

    monkeypatch.setattr("sys.argv", ["owlt", *words])
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.startswith("owlt: channel 'venus': not found")


def test_quiet_suppresses_notes_but_not_results(capsys: pytest.CaptureFixture[str]) -> None:
    verbosity.quiet = True

    Printer().note("figure: x.svg")
    Printer().text("a result")

    assert capsys.readouterr() == ("a result\n", "")


def test_with_json_notes_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    printer = Printer(as_json=True)

    printer.note("figure: x.svg")
    printer.text("a result")
    printer.json({"path": Path("x.svg"), "rate_bps": float("nan"), "names": ("a",)})

    out, err = capsys.readouterr()
    assert json.loads(out) == {"path": "x.svg", "rate_bps": None, "names": ["a"]}
    assert err == "figure: x.svg\n"


def test_one_thing_is_printed_as_its_keys_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    Printer().keys({"name": "a", "ready": True, "clocks": ["exact", "real"], "queue": None, "limits": {"delay_s": 1}})

    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == ["key value", "name a", "ready yes", "clocks exact, real", "queue none", 'limits {"delay_s": 1}']


@pytest.mark.parametrize("group", ["sweeps", "implementations", "channel", "third-party"])
def test_an_empty_list_is_valid_json(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (catalogue, importlib.import_module("owlt.orchestrator.profiles.third_party")):
        monkeypatch.setattr(module, "PROFILES", tmp_path)

    assert owlt(group, "list", "--json").stdout == "[]\n"


def test_completion_without_profiles_offers_nothing(tmp_path: Path) -> None:
    assert profile_names("sweeps", "", tmp_path / "gone") == []


EXAMINING = {
    "run": ("run", "profiles/sweeps/demo.yaml", "--results", "{results}"),
    "plan": ("plan", "profiles/sweeps/demo.yaml", "--results", "{results}"),
    "retry": ("retry", "{results}"),
    "extend": ("extend", "{results}"),
    "merge of": ("merge", "{new}", "{results}"),
    "merge into": ("merge", "{results}", "{other}"),
    "report": ("report", "{results}"),
    "report of several": ("report", "{other}", "{results}"),
    "report elsewhere": ("report", "{results}", "--out", "{new}"),
    "report into": ("report", "{other}", "--out", "{results}"),
    "answer": ("answer", "{results}"),
    "compare": ("compare", "{other}", "{results}"),
    "figure": ("figure", "{results}", "--y", "goodput", "--x", "delay", "--out", "{new}.pdf"),
    "replay": ("replay", "{results}/runs/one"),
    "analyse": ("analyse", "{results}/runs/one"),
    "reproduce": ("reproduce", "acs-asymmetric-2022", "--judge", "{results}"),
}


@pytest.mark.parametrize("words", EXAMINING.values(), ids=EXAMINING)
def test_a_command_refuses_results_with_a_link_in_them_and_writes_nothing(
    tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(PROJECT)
    results, other, new = (tmp_path / name for name in ("results", "other", "new"))
    for directory in (results, other):
        (directory / "runs" / "one").mkdir(parents=True)
        (directory / "plan.json").write_text("{}")
    (results / "runs" / "one" / "record.json").write_text("{}")
    (results / "runs" / "one" / "sender.pcap").symlink_to("/etc/passwd")
    before = sorted(tmp_path.rglob("*"))

    refused = owlt(*(word.format(results=results, other=other, new=new) for word in words))

    assert isinstance(refused.exception, OwltError)
    assert f"{results}/runs/one/sender.pcap: is a link" in str(refused.exception)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_results_directory_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "results").symlink_to("disk")

    refused = owlt("report", str(tmp_path / "results"))

    assert f"{tmp_path}/disk: is not a results directory" in str(refused.exception)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("edges", InterruptionOptions(["1 s", "2 h"], [Mode.DROP], "forward", announce=True, phases=3)),
        ("edges", InterruptionOptions(restart="sender")),
        ("prove", Faults(2, "drop,delay", "3 s")),
        ("soak", LifeOptions("2 days", "1 h", ["2^31 s"])),
        ("prove", OneTransfer("3 kB", "geo", ["segment_bytes=500", "timer_s=2"])),
        ("bisect", OneTransfer("3 kB", "geo", ["segment_bytes=500"])),
    ],
)
def test_the_options_in_the_command_that_resumes_are_read_as_the_same_options(command: str, options: Any) -> None:
    group: Any = typer.main.get_command(app)
    read = group.commands[command].make_context(command, ["ltp", *options.words]).params

    assert {name: read[name] or None for name in asdict(options)} == {
        name: value or None for name, value in asdict(options).items()
    }

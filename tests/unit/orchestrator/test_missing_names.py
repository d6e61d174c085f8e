"""Names and paths that do not exist: all mistakes of a file are reported at once, with what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from owlt.orchestrator.commands import cli
from owlt.orchestrator.errors import OwltError, ProfileError, did_you_mean
from owlt.orchestrator.profiles.catalogue import resolve
from owlt.orchestrator.profiles.load import load_sweep
from tests.unit.reports.conftest import few, write_results

SWEEP = """\
name: small
seed: 5
implementations: [cfdp, norm]
file_size: 1 MB
channel: geo
"""


def mistakes(directory: Path, *changes: tuple[str, str]) -> list[str]:
    """The lines in which a sweep with these changes is refused, without the file."""
    text = SWEEP
    for old, new in changes:
        text = text.replace(old, new)
    path = directory / "small.yaml"
    path.write_text(text)
    with pytest.raises(ProfileError) as raised:
        resolve(path)
    return [line.removeprefix(f"{path}:") for line in str(raised.value).splitlines()]


def test_the_sweep_without_changes_has_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SWEEP)

    assert list(resolve(tmp_path / "small.yaml").implementations) == ["cfdp", "norm"]


@pytest.mark.parametrize("axis", ["[cfpd, norm]", "cfpd"])
def test_a_misspelt_implementation_is_reported_with_a_misspelt_key(tmp_path: Path, axis: str) -> None:
    text = mistakes(tmp_path, ("seed", "sede"), ("[cfdp, norm]", axis))

    assert [line for line in text if "sede: is not a known key" in line]
    assert [
        line
        for line in text
        if line.startswith("3: implementations: 'cfpd' is not a known implementation") and "did you mean cfdp?" in line
    ]


def test_a_missing_file_is_reported_with_a_wrong_value(tmp_path: Path) -> None:
    text = mistakes(tmp_path, ("1 MB", "1 mega"), ("norm]", "mine.yaml]"))

    assert [line for line in text if line.startswith("4: file_size: got '1 mega'")]
    assert [line for line in text if line.startswith("3: implementations: there is no such file: ")]


def test_a_misspelt_channel_is_reported_with_a_misspelt_implementation(tmp_path: Path) -> None:
    text = mistakes(tmp_path, ("cfdp", "cfpd"), ("geo", "geoo"))

    assert [line.partition(":")[0] for line in text] == ["3", "5"]


def test_an_unknown_parameter_is_reported_with_a_misspelt_implementation(tmp_path: Path) -> None:
    text = mistakes(tmp_path, ("cfdp", "cfpd"), ("channel", "parameters: {norm: {parity: 3}}\nchannel"))

    assert [line for line in text if "parameters.norm.parity: is not a parameter of norm" in line]
    assert len(text) == 2


def test_parameters_of_a_misspelt_implementation_are_not_a_second_mistake(tmp_path: Path) -> None:
    text = mistakes(tmp_path, ("[cfdp", "[cfpd"), ("channel", "parameters: {cfdp: {segment_bytes: 997}}\nchannel"))

    assert len(text) == 1


def test_a_clock_that_a_rig_does_not_have_is_reported_with_the_names(tmp_path: Path) -> None:
    text = mistakes(tmp_path, ("seed: 5", "seed: 5\nrig: local"), ("cfdp", "cfpd"))

    assert [line for line in text if "clock: got 'exact', expected real" in line]
    assert [line for line in text if "implementations: 'cfpd' is not a known implementation" in line]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["analyse", "NOTHERE"], "expected a run's directory, such as results/demo/runs/RUN, two captures, or one"),
        (["analyse", "NOTHERE", "--at", "sender"], "expected a run's directory"),
        (["analyse", "NOTHERE", "ALSO"], "expected a run's directory"),
        (["report", "NOTHERE"], "expected a results directory that 'owlt run' made"),
        (["dissect", "NOTHERE", "1"], "expected a capture: a pcap or pcapng file"),
        (["run", "NOTHERE.yaml"], "relative paths are resolved against the current directory"),
        (["plan", "NOTHERE.yaml"], "relative paths are resolved against the current directory"),
        (["channel", "show", "NOTHERE.yaml"], "relative paths are resolved against the current directory"),
        (["implementations", "check", "NOTHERE.yaml"], "relative paths are resolved against the current directory"),
    ],
)
def test_a_path_that_does_not_exist_is_named_with_what_was_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], wanted: str
) -> None:
    monkeypatch.chdir(tmp_path)

    error = CliRunner().invoke(cli.app, arguments).exception

    assert isinstance(error, OwltError)
    assert str(error).startswith("there is no such ")
    assert f"{tmp_path}/NOTHERE" in str(error)
    assert wanted in str(error)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["channel", "show"], ["run"], ["implementations", "check"], ["channel", "certify"]]
)
def test_an_unknown_name_is_answered_with_the_command_that_lists_the_names(arguments: list[str]) -> None:
    error = CliRunner().invoke(cli.app, [*arguments, "NOTHERE"]).exception

    assert isinstance(error, OwltError)
    assert "'NOTHERE': not found; see 'owlt " in str(error)


@pytest.mark.parametrize(("word", "name"), [("lpt", "ltp"), ("lt", "ltp"), ("--guest", "--guests")])
def test_a_name_that_resembles_another_is_suggested(word: str, name: str) -> None:
    assert did_you_mean(word, [name, "--json"], "") == f"did you mean {name}?"


@pytest.mark.parametrize(
    ("word", "name"), [("--bogus", "--verbose"), ("completion", "implementations"), ("--", "--json")]
)
def test_a_name_that_resembles_no_other_is_answered_without_a_suggestion(word: str, name: str) -> None:
    assert did_you_mean(word, [name], "see the list") == "see the list"


@pytest.mark.parametrize(
    ("words", "suggestion"),
    [
        (
            "channel certify geo --rig virtul",
            "--rig: got 'virtul', expected an inventory, or virtual; did",
        ),
        ("rigs up geo --rig virtul", "did you mean virtual?"),
        ("channel planet saturm", "did you mean saturn?"),
        ("channel leo --pattern strar", "did you mean star?"),
        ("schema swep", "did you mean sweep?"),
        ("implementations show TCP", "did you mean tcp?"),
        ("plan demo --only delya=25ms", "did you mean delay?"),
        ("plan demo --only implementation=lpt", "did you mean ltp?"),
        ("figure {results} --y godput", "did you mean goodput?"),
        ("figure {results} --y goodput --kind boxx", "did you mean box?"),
        ("figure {results} --y goodput --x delay --format pfd", "did you mean pdf?"),
        ("figure {results} --y goodput --x delay --theory mathsi", "did you mean mathis?"),
        ("figure {results} --y goodput --x delay --filter implementation=nrom", "did you mean norm?"),
        ("answer {results} --criterion godput", "did you mean goodput?"),
        ("compare {results} {results} --criterion godput", "did you mean goodput?"),
        ("retry {results} --outcome fialed", "did you mean failed?"),
        ("retry {results} --cell implementation=nrom", "did you mean norm?"),
    ],
)
def test_a_misspelt_name_of_a_closed_set_is_answered_with_the_nearest(
    tmp_path: Path, words: str, suggestion: str
) -> None:
    write_results(tmp_path / "results", few(implementations=["cfdp", "norm"], repetitions=2))
    problem = CliRunner().invoke(cli.app, words.format(results=tmp_path / "results").split()).exception

    assert isinstance(problem, OwltError)
    assert suggestion in str(problem)


def test_a_misspelt_word_of_a_sweep_is_answered_with_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text("clock: exakt\nassertions: {measure: godput, at_least: 1}\n")

    with pytest.raises(ProfileError) as raised:
        load_sweep(path)
    assert "did you mean exact?" in str(raised.value)
    assert "did you mean goodput?" in str(raised.value)

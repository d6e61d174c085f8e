"""What commands say of names and paths where nothing is: all mistakes of a file at once, and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestrator import cli
from orchestrator.campaign import resolve
from orchestrator.errors import OwltError, ProfileError

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


def test_the_sweep_without_a_mistake_is_no_mistake(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SWEEP)

    assert list(resolve(tmp_path / "small.yaml").implementations) == ["cfdp", "norm"]


@pytest.mark.parametrize("axis", ["[cfpd, norm]", "cfpd"])
def test_a_misspelt_implementation_is_told_with_a_misspelt_key(tmp_path: Path, axis: str) -> None:
    told = mistakes(tmp_path, ("seed", "sede"), ("[cfdp, norm]", axis))

    assert [line for line in told if "sede: is not a known key" in line]
    assert [line for line in told if line.startswith("3: implementations: got 'cfpd'") and "did you mean cfdp?" in line]


def test_a_file_that_is_not_there_is_told_with_a_wrong_value(tmp_path: Path) -> None:
    told = mistakes(tmp_path, ("1 MB", "1 mega"), ("norm]", "mine.yaml]"))

    assert [line for line in told if line.startswith("4: file_size: got '1 mega'")]
    assert [line for line in told if line.startswith("3: implementations: there is no such file: ")]


def test_a_misspelt_channel_is_told_with_a_misspelt_implementation(tmp_path: Path) -> None:
    told = mistakes(tmp_path, ("cfdp", "cfpd"), ("geo", "geoo"))

    assert [line.partition(":")[0] for line in told] == ["3", "5"]


def test_a_parameter_that_is_not_there_is_told_with_a_misspelt_implementation(tmp_path: Path) -> None:
    told = mistakes(tmp_path, ("cfdp", "cfpd"), ("channel", "parameters: {norm: {parity: 3}}\nchannel"))

    assert [line for line in told if "parameters.norm.parity: is not a parameter of norm" in line]
    assert len(told) == 2


def test_parameters_of_a_misspelt_implementation_are_no_second_mistake(tmp_path: Path) -> None:
    told = mistakes(tmp_path, ("[cfdp", "[cfpd"), ("channel", "parameters: {cfdp: {segment_bytes: 997}}\nchannel"))

    assert len(told) == 1


def test_a_clock_that_a_rig_has_not_is_told_with_the_names(tmp_path: Path) -> None:
    told = mistakes(tmp_path, ("seed: 5", "seed: 5\nrig: local"), ("cfdp", "cfpd"))

    assert [line for line in told if "clock: got 'exact', wanted real" in line]
    assert [line for line in told if "implementations: got 'cfpd'" in line]


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["analyse", "NOTHERE"], "wanted a run's directory, such as results/demo/runs/RUN, two captures, or one"),
        (["analyse", "NOTHERE", "--at", "sender"], "wanted a run's directory"),
        (["analyse", "NOTHERE", "ALSO"], "wanted a run's directory"),
        (["report", "NOTHERE"], "wanted a results directory that 'owlt run' made"),
        (["dissect", "NOTHERE", "1"], "wanted a capture: a pcap or pcapng file"),
        (["run", "NOTHERE"], "(paths count from where owlt is run)"),
        (["plan", "NOTHERE"], "(paths count from where owlt is run)"),
        (["channel", "show", "NOTHERE.yaml"], "(paths count from where owlt is run)"),
        (["implementations", "check", "NOTHERE.yaml"], "(paths count from where owlt is run)"),
    ],
)
def test_a_path_where_nothing_is_is_named_with_what_was_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], wanted: str
) -> None:
    monkeypatch.chdir(tmp_path)

    told = CliRunner().invoke(cli.app, arguments).exception

    assert isinstance(told, OwltError)
    assert str(told).startswith("there is no such ")
    assert f"{tmp_path}/NOTHERE" in str(told)
    assert wanted in str(told)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["channel", "show"], ["implementations", "check"], ["channel", "certify"]])
def test_a_name_that_no_profile_has_says_what_lists_them(arguments: list[str]) -> None:
    told = CliRunner().invoke(cli.app, [*arguments, "NOTHERE"]).exception

    assert isinstance(told, OwltError)
    assert "'NOTHERE': not found; 'owlt " in str(told)

"""Versions that differ between the runs of a directory: how many boxes mix them, and whether it shows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from owlt.reports.page.provenance import MixedVersions, mixed_versions
from owlt.reports.results.load import load_results
from tests.unit.reports.conftest import change_record, few, page_text, write_results

ASKED = few(repetitions=10, implementations="cfdp")
"""Two boxes of ten runs."""
Change = Callable[[int], bool]


def mixed(directory: Path, is_newer: Change, factor: float = 1.0, asked: object = ASKED) -> list[MixedVersions]:
    """What is found if some repetitions of every box are of a newer version of owlt, so many times as fast."""
    write_results(directory, asked)  # type: ignore[arg-type]
    for path in sorted((directory / "runs").iterdir()):
        if is_newer(int(path.name.rpartition("_r")[2])):
            versions = json.loads((path / "record.json").read_text())["versions"]
            change_record(directory, path.name, versions=versions | {"owlt": "0.2.0"})
            summary = path / "summary.json"
            values = json.loads(summary.read_text())
            summary.write_text(json.dumps(values | {"goodput_bps": values["goodput_bps"] * factor}))
    return mixed_versions(load_results(directory))


def test_one_version_is_not_mixed(tmp_path: Path) -> None:
    assert mixed(tmp_path, lambda repetition: False) == []


def test_versions_of_different_speed_in_a_box_matter(tmp_path: Path) -> None:
    (found,) = mixed(tmp_path, lambda repetition: repetition > 5, factor=3.0)

    assert (found.name, found.versions, found.boxes, found.mixed, found.differing) == (
        "owlt",
        ("0.1.0", "0.2.0"),
        2,
        2,
        2,
    )
    assert "It matters: in 2 of 2 comparisons" in found.text


def test_versions_of_the_same_speed_do_not_show(tmp_path: Path) -> None:
    (found,) = mixed(tmp_path, lambda repetition: repetition % 2 == 0)

    assert found.text.startswith("2 of 2 boxes mix runs of owlt 0.1.0 and 0.2.0. It does not show in the goodputs")


def test_a_single_run_of_a_version_cannot_tell_whether_it_matters(tmp_path: Path) -> None:
    (found,) = mixed(tmp_path, lambda repetition: repetition == 1)

    assert "There are too few runs of each version in a box to show whether it matters" in found.text


def test_versions_that_share_no_box_are_named_as_such(tmp_path: Path) -> None:
    asked = few(repetitions=2, implementations=["cfdp", "ltp"], packet_error_rate=0)
    write_results(tmp_path, asked)
    for path in (tmp_path / "runs").glob("ltp*"):
        change_record(tmp_path, path.name, versions={"owlt": "0.2.0"})
    found = {each.name: each for each in mixed_versions(load_results(tmp_path))}

    assert (found["owlt"].boxes, found["owlt"].mixed) == (2, 0)
    assert "no box mixes them" in found["owlt"].text


@pytest.mark.parametrize("version", ["cfdp-py 0.6.0"])
def test_the_page_cautions_about_two_versions_of_an_implementation(tmp_path: Path, version: str) -> None:
    directory = write_results(tmp_path, few(repetitions=2, implementations="cfdp", packet_error_rate=0))
    change_record(directory, "cfdp_1MB_10Mbps_25ms_per0_r1", versions={"cfdp": version})

    assert "1 of 1 boxes mixes runs of cfdp cfdp-py 0.6.0 and cfdp-py 0.7.0" in page_text(directory)

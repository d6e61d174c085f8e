"""Build files: those that come with owlt load, and what is wrong with one is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.builds import all_builds, find_builds, load_build
from orchestrator.builds.build import Script
from orchestrator.builds.places import PROJECT
from orchestrator.errors import ProfileError

WHOLE = """\
name: mine
title: my build
licence: MIT
required: false
programs: [mine]
recipe: {kind: cargo, crate: mine, version: 1.2.3, minimum_rust: "1.85"}
version_command: ["{bin}/mine", --version]
"""


def complaint(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ProfileError) as caught:
        load_build(path)
    return str(caught.value).removeprefix(f"{path}: ")


def test_the_builds_that_come_with_owlt_load_the_required_ones_first() -> None:
    required = [build.name for build in all_builds() if build.required]

    assert required == ["iperf3", "licklider", "ngtcp2", "normcast", "socat", "uftp"]
    assert [build.name for build in all_builds()] == [*required, "dtn7", "quic-go", "srt", "udpcast"]


def test_every_script_is_there_and_can_be_run() -> None:
    scripts = [PROJECT / build.recipe.script for build in all_builds() if isinstance(build.recipe, Script)]

    assert scripts
    assert all(script.stat().st_mode & 0o111 for script in scripts)


def test_builds_are_found_by_name_each_once() -> None:
    assert [build.name for build in find_builds(["uftp", "socat", "uftp"])] == ["uftp", "socat"]


def test_a_name_that_is_nearly_right_is_corrected() -> None:
    with pytest.raises(ProfileError, match=r"build 'licklide': not found; did you mean licklider\?"):
        find_builds(["licklide"])


def test_a_name_that_is_unknown_gets_the_list() -> None:
    with pytest.raises(ProfileError, match="wanted one of iperf3, licklider"):
        find_builds(["ion"])


def test_a_key_that_is_missing_is_named(tmp_path: Path) -> None:
    assert complaint(tmp_path, WHOLE.replace("licence: MIT\n", "")) == "licence: is missing; add it (string)"


def test_a_key_of_no_build_is_named(tmp_path: Path) -> None:
    told = complaint(tmp_path, WHOLE + "homepage: none\n")

    assert told.startswith("homepage: is not a known key; known here: licence, name, ")


def test_a_key_of_no_recipe_is_corrected_to_one_of_its_kind(tmp_path: Path) -> None:
    told = complaint(tmp_path, WHOLE.replace("crate: mine", "crates: mine"))

    assert told == "recipe.crates: is not a known key; did you mean crate?"


def test_a_value_of_a_wrong_kind_is_shown_beside_what_was_wanted(tmp_path: Path) -> None:
    told = complaint(tmp_path, WHOLE.replace("required: false", "required: perhaps"))

    assert told.startswith("required: got 'perhaps', wanted a valid boolean")


def test_a_recipe_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    assert "'debian', 'cargo', 'go', 'script'" in complaint(tmp_path, WHOLE.replace("kind: cargo", "kind: npm"))


def test_a_program_is_a_name_and_no_path(tmp_path: Path) -> None:
    assert "wanted the name of a program" in complaint(tmp_path, WHOLE.replace("programs: [mine]", "programs: [a/b]"))


def test_a_file_is_called_as_its_build(tmp_path: Path) -> None:
    told = complaint(tmp_path, WHOLE.replace("name: mine", "name: yours"))

    assert told == "name: got 'yours', wanted 'mine' as the file is called"


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    assert complaint(tmp_path, "- one\n").startswith("the file: got ['one'], wanted ")

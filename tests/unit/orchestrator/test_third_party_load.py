"""The files of profiles/third-party/ load, and each mistake in such a file is reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from owlt.orchestrator.errors import ProfileError
from owlt.orchestrator.profiles.third_party import (
    Maven,
    Pypi,
    Script,
    all_installables,
    find_installables,
    load_installable,
    lock_path,
    python_driver,
    script_path,
)

WHOLE = """\
name: mine
title: my program
licence: MIT
required: false
programs: [mine]
recipe: {kind: cargo, crate: mine, version: 1.2.3, sha256: SHA256, minimum_rust: "1.85"}
version_command: ["{bin}/mine", --version]
""".replace("SHA256", 64 * "a")


def complaint(tmp_path: Path, text: str) -> str:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ProfileError) as caught:
        load_installable(path)
    return re.sub(rf"^{re.escape(str(path))}:\d+: ", "", str(caught.value))


def test_the_shipped_files_load_with_the_required_implementations_first() -> None:
    required = [installable.name for installable in all_installables() if installable.required]

    assert required == ["iperf3", "licklider", "ngtcp2", "normcast", "socat", "uftp"]
    others = [installable.name for installable in all_installables() if not installable.required]
    assert [installable.name for installable in all_installables()] == [*required, *others]


def test_every_script_is_there_and_can_be_run() -> None:
    scripts = [
        script_path(installable.recipe) for installable in all_installables() if isinstance(installable.recipe, Script)
    ]

    assert scripts
    assert all(script.stat().st_mode & 0o111 for script in scripts)


def test_a_lock_pins_the_version_of_its_recipe_and_has_hashes_but_no_address() -> None:
    recipes = [installable.recipe for installable in all_installables() if isinstance(installable.recipe, Pypi)]

    assert recipes
    for recipe in recipes:
        lines = lock_path(recipe).read_text().replace("\\\n", "").splitlines()
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+( +--hash=sha256:[0-9a-f]{64})+", line) for line in lines), recipe.lock
        assert f"{Path(recipe.lock).stem}=={recipe.version}" in [line.split()[0] for line in lines]


def test_a_lock_of_jars_pins_the_version_of_its_recipe_and_no_two_jars_have_the_same_name() -> None:
    recipes = [installable.recipe for installable in all_installables() if isinstance(installable.recipe, Maven)]

    assert recipes
    for recipe in recipes:
        lines = lock_path(recipe).read_text().splitlines()
        matches = [
            re.fullmatch(r"[0-9a-f]{64}  (?:[\w.-]+/)+([\w.-]+)/([\w.-]+)/(\1-\2(-[\w-]+)?\.jar)", line)
            for line in lines
        ]
        names = [match[3] for match in matches if match]
        assert len(set(names)) == len(lines)
        assert any(name.endswith(f"-core-{recipe.version}.jar") for name in names)


def test_every_python_driver_is_there() -> None:
    recipes = [installable.recipe for installable in all_installables() if isinstance(installable.recipe, Pypi)]

    assert all(python_driver(recipe.driver).is_file() for recipe in recipes if recipe.driver)


def test_implementations_are_found_by_name_each_once() -> None:
    assert [installable.name for installable in find_installables(["uftp", "socat", "uftp"])] == ["uftp", "socat"]


def test_a_name_that_is_nearly_right_is_corrected() -> None:
    with pytest.raises(ProfileError, match=r"implementation 'licklide': not found; did you mean licklider\?"):
        find_installables(["licklide"])


def test_an_unknown_name_is_answered_with_the_list() -> None:
    with pytest.raises(ProfileError, match="known: iperf3, licklider"):
        find_installables(["ion"])


def test_a_missing_key_is_named(tmp_path: Path) -> None:
    assert complaint(tmp_path, WHOLE.replace("licence: MIT\n", "")) == "licence: is missing; add it (string)"


def test_an_unknown_key_is_named(tmp_path: Path) -> None:
    told = complaint(tmp_path, WHOLE + "homepage: none\n")

    assert told.startswith("homepage: is not a known key; known: licence, name, ")


def test_an_unknown_key_of_a_recipe_is_corrected_to_one_of_its_kind(tmp_path: Path) -> None:
    told = complaint(tmp_path, WHOLE.replace("crate: mine", "crates: mine"))

    assert told == "recipe.crates: is not a known key; did you mean crate?"


def test_a_value_of_a_wrong_kind_is_shown_beside_the_expected_one(tmp_path: Path) -> None:
    told = complaint(tmp_path, WHOLE.replace("required: false", "required: perhaps"))

    assert told.startswith("required: got 'perhaps', expected true or false")


def test_a_recipe_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    assert "'debian', 'cargo', 'driver', 'go', 'pypi', 'maven', 'script'" in complaint(
        tmp_path, WHOLE.replace("kind: cargo", "kind: npm")
    )


def test_a_hash_that_is_no_sha256_is_refused(tmp_path: Path) -> None:
    told = complaint(tmp_path, WHOLE.replace(64 * "a", "abc"))

    assert told.startswith("recipe.sha256: got 'abc', expected ")


def test_a_program_is_a_name_without_a_directory(tmp_path: Path) -> None:
    assert "expected the name of a program" in complaint(tmp_path, WHOLE.replace("programs: [mine]", "programs: [a/b]"))


def test_the_name_of_a_file_is_its_key_name(tmp_path: Path) -> None:
    told = complaint(tmp_path, WHOLE.replace("name: mine", "name: yours"))

    assert told.startswith("name: got 'yours', expected 'mine', the name of the file; ")


def test_a_file_that_is_not_a_mapping_is_refused(tmp_path: Path) -> None:
    assert complaint(tmp_path, "- one\n").startswith("got ['one'], expected ")

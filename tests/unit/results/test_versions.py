"""Files of an older schema version are upgraded step by step."""

from __future__ import annotations

from typing import Any

import pytest

from owlt.results.upgrades import NewerVersion, Steps, Values, current_version, renamed, upgraded


def longer(values: Values) -> dict[str, Any]:
    return {**values, "path": [*values.get("path", []), values.get("schema_version", 1)]}


STEPS: Steps = {2: longer, 3: longer}


def test_the_current_version_is_the_one_that_the_last_step_leads_to() -> None:
    assert current_version(STEPS) == 4


@pytest.mark.parametrize(("written", "path"), [(2, [2, 3]), (3, [3]), (4, None)])
def test_a_file_takes_every_step_from_its_version_on(written: int, path: list[int] | None) -> None:
    values = upgraded({"schema_version": written}, STEPS)

    assert (values["schema_version"], values.get("path")) == (4, path)


def test_a_file_without_a_version_is_of_the_first() -> None:
    assert upgraded({}, {1: longer}) == {"schema_version": 2, "path": [1]}


def test_a_version_older_than_the_first_step_stays_as_it_is() -> None:
    assert upgraded({"schema_version": 1}, STEPS) == {"schema_version": 1}


def test_a_newer_version_is_refused_with_both_versions() -> None:
    with pytest.raises(NewerVersion, match="schema version 5; this version of owlt reads up to 4"):
        upgraded({"schema_version": 5}, STEPS)


@pytest.mark.parametrize("values", [[], "text", None, {"schema_version": "2"}, {"schema_version": True}])
def test_values_without_a_valid_version_are_left_for_the_check_of_their_form(values: object) -> None:
    assert upgraded(values, STEPS) == values


def test_renaming_keeps_the_order() -> None:
    assert list(renamed({"a": 1, "b": 2, "c": 3}, {"b": "x"}).items()) == [("a", 1), ("x", 2), ("c", 3)]

"""The closure of an implementation in Python: the interpreter, and the modules and libraries that it loads."""

from __future__ import annotations

import pytest

from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.run.closure import closure_of, place_of


@pytest.fixture(scope="module")
def places() -> set[str]:
    return {place_of(path) for path in closure_of(find_implementation("cfdp"))}


@pytest.mark.parametrize(
    "end",
    [
        *("owlt/agents/cfdp/__main__.py", "owlt/agents/endpoint/udp.py", "/site-packages/cfdppy/__init__.py"),
        *("/json/__init__.py", "/libc.so.6", "/ld-linux-x86-64.so.2"),
    ],
)
def test_what_the_program_loads_is_in_its_closure(places: set[str], end: str) -> None:
    assert any(place.endswith(end) for place in places)


@pytest.mark.parametrize("part", ["orchestrator/", "site-packages/numpy/", "__pycache__", "agents/ltp/"])
def test_what_it_does_not_load_is_not(places: set[str], part: str) -> None:
    assert [place for place in places if part in place] == []

"""Chromium, started once for all tests of a process that want it; each has a tab with cookies of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.chromium import CHROMIUM, MISSING, Page, browser
from tests.conftest import require


@pytest.fixture(scope="session")
def new_page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Page]]:
    """Opens a tab. CI promises chromium: there a missing one fails."""
    require(CHROMIUM, MISSING)
    with browser(tmp_path_factory.mktemp("chromium")) as new:
        yield new


@pytest.fixture
def page(new_page: Callable[[], Page]) -> Iterator[Page]:
    """A tab."""
    page = new_page()
    yield page
    page.close()

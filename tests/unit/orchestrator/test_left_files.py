"""How the files that a side left are named, from the output of find(1) on its host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from owlt.orchestrator.hosts.host import Completed
from owlt.orchestrator.run.left_files import files_left


class Listing:
    """A host on which every command prints the same."""

    def __init__(self, output: bytes) -> None:
        self._output = output

    def run(self, _: Sequence[str]) -> Completed:
        return Completed(0, self._output, b"")


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (b"/runs/x/a/b", "a/b"),
        (b"/runs/x.room/tmp/a", "/tmp/a"),
        (b"/runs/x.room/shm/a", "/dev/shm/a"),
        (b"/runs/x.room/tmp", "/runs/x.room/tmp"),  # a side has removed its /tmp, and made a file of this name
        (b"/runs/x/with space", "with space"),
    ],
)
def test_a_file_is_named_as_its_side_sees_it(path: bytes, named: str) -> None:
    host: Any = Listing(b"5.5 7 " + path + b"\0")

    assert files_left(host, "/runs/x", 0, []) == [f"{named} (7 B)"]


def test_a_file_that_was_there_before_or_is_known_is_not_left() -> None:
    host: Any = Listing(b"4.9 7 /runs/x/before\x005.5 7 /runs/x/known\x005.5 7 /runs/x/left\0")

    assert files_left(host, "/runs/x", 5_000_000_000, ["known"]) == ["left (7 B)"]

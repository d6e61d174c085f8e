"""One `owlt run` at a time on a results directory; the others are other processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.orchestrator.errors import OwltError
from owlt.results.lock import LOCK_NAME, ResultsInUse, locked, require_free


def test_a_lock_that_cannot_be_opened_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).mkdir()

    with pytest.raises(OwltError, match=r"lock: cannot be opened \(is a directory, expected a file.* --results"):
        require_free(tmp_path)


def test_asking_whether_a_directory_is_free_changes_nothing(tmp_path: Path) -> None:
    require_free(tmp_path)
    require_free(tmp_path / "nothing")

    assert list(tmp_path.iterdir()) == []


def test_a_name_from_another_machine_that_was_left_is_reported(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).write_text('{"host": "elsewhere", "pid": 7, "started": "2026-01-01 00:00:00 +0000"}')

    with locked(tmp_path) as left:
        assert str(left) == "process 7 on elsewhere, started 2026-01-01 00:00:00 +0000"


@pytest.mark.parametrize("content", [b"", b"\xff\x00", b"[]", b'{"host": 1}'])
def test_a_damaged_lock_file_locks_all_the_same(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCK_NAME).write_bytes(content)

    with locked(tmp_path), pytest.raises(ResultsInUse):
        require_free(tmp_path)


def test_a_lock_that_was_released_names_nobody(tmp_path: Path) -> None:
    with locked(tmp_path):
        pass

    assert (tmp_path / LOCK_NAME).read_text() == ""

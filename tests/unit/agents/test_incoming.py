"""A file that comes in: where it is meanwhile, and when it appears."""

import os
from pathlib import Path

import pytest

from owlt.agents.endpoint.files import IncomingFile


@pytest.fixture
def output(tmp_path: Path) -> Path:
    return tmp_path / "output"


def test_pieces_in_any_order_make_the_file(output: Path) -> None:
    with IncomingFile(output) as file:
        file.write(4, memoryview(b"time"))
        file.write(0, b"one ")
        file.finish()

    assert output.read_bytes() == b"one time"


def test_it_appears_when_it_is_finished_and_nothing_is_left_beside_it(output: Path) -> None:
    with IncomingFile(output) as file:
        file.write(0, b"all")
        assert {path.name for path in output.parent.iterdir()} == {"output.part"}
        file.finish()
        assert {path.name for path in output.parent.iterdir()} == {"output"}


def test_what_is_not_finished_does_not_appear(output: Path) -> None:
    with IncomingFile(output) as file:
        file.write(0, b"some")

    assert not output.exists()


def test_pieces_that_follow_each_other_are_written_together(output: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[int, int]] = []
    pwrite = os.pwrite

    def note(file: int, piece: memoryview, offset: int) -> int:
        written.append((offset, len(piece)))
        return pwrite(file, piece, offset)

    monkeypatch.setattr(os, "pwrite", note)
    with IncomingFile(output) as file:
        for number in range(100):
            file.write(1000 * number, bytes(1000))
        file.write(200_000, b"after a gap")
        file.finish()

    assert written == [(0, 66_000), (66_000, 34_000), (200_000, 11)]


def test_what_comes_again_replaces_what_waits(output: Path) -> None:
    with IncomingFile(output) as file:
        file.write(0, b"light year")
        file.write(6, b"time")
        file.finish()

    assert output.read_bytes() == b"light time"


def test_what_came_is_kept_where_the_file_is_not_finished(output: Path) -> None:
    with IncomingFile(output) as file:
        file.write(0, b"some")

    assert file.part.read_bytes() == b"some"


def test_a_piece_is_written_by_parts_where_the_kernel_takes_no_more(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, piece, offset: pwrite(file, piece[:3], offset))
    with IncomingFile(output) as file:
        file.write(0, b"light time")
        file.finish()

    assert output.read_bytes() == b"light time"


def test_what_is_written_can_be_read_before_it_appears(output: Path) -> None:
    with IncomingFile(output) as file:
        file.write(0, b"checked")
        with file.opened() as content:
            assert content.read() == b"checked"

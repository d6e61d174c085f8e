"""A file that comes in: where it is meanwhile, and when it appears."""

import os
from pathlib import Path

import pytest

from agents.incoming import IncomingFile


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


def test_what_waits_in_the_buffer_is_in_the_finished_file(output: Path) -> None:
    with IncomingFile(output, 1 << 20) as file:
        file.content.write(b"light ")
        file.content.write(b"time")
        file.finish()

    assert output.read_bytes() == b"light time"


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
        file.content.seek(0)
        assert file.content.read() == b"checked"

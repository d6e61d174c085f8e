"""The file that a sender sends, as bytes to slice."""

from pathlib import Path

from owlt.agents.endpoint.files import map_file


def test_a_slice_of_it_is_what_the_file_has_there(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"one light time")

    content = map_file(tmp_path / "file")

    assert content[4:9] == b"light"
    assert len(content) == 14


def test_a_slice_behind_its_end_is_shorter(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"light")

    assert map_file(tmp_path / "file")[3:100] == b"ht"


def test_an_empty_file_has_no_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    assert map_file(tmp_path / "file") == b""

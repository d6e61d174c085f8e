"""Files in somebody else's results directory: which are opened and which refused; nothing outside is touched."""

from __future__ import annotations

import json
import math
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from owlt.results import plain_files
from owlt.results.plain_files import (
    NotPlain,
    as_file_name,
    create,
    directories_in,
    files_in,
    link,
    make_directory,
    move,
    open_in_place,
    open_to_lock,
    read_json,
    read_plain,
    real_root,
    remove,
    remove_tree,
    require_plain_tree,
    write_whole,
)

SECRET = "a secret of another directory\n"


@pytest.fixture(params=["at once", "by hand"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With openat2(2), and without it, as on an older kernel."""
    if request.param == "by hand":
        monkeypatch.setattr(plain_files, "_has_openat2", lambda: False)
    return str(request.param)


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    directory = tmp_path / "victim"
    directory.mkdir()
    (directory / "secret").write_text(SECRET)
    return directory


@pytest.fixture
def results(tmp_path: Path, victim: Path) -> Iterator[Path]:
    """A directory with one file, and entries that are not plain."""
    directory = tmp_path / "results"
    directory.mkdir()
    (directory / "file").write_text("text")
    (directory / "directory").mkdir()
    (directory / "directory" / "file").write_text("text")
    (directory / "link").symlink_to(victim / "secret")
    (directory / "dangling").symlink_to(victim / "new")
    (directory / "zeros").symlink_to("/dev/zero")
    (directory / "linked").symlink_to(victim)
    os.mkfifo(directory / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(directory / "socket"))
        yield directory


NOT_PLAIN = ("link", "dangling", "zeros", "linked/secret", "pipe", "socket", "directory", "../victim/secret")


def test_a_plain_file_is_read(results: Path) -> None:
    assert read_plain(results / "file") == b"text"
    assert read_plain(results / "directory" / "file") == b"text"


@pytest.mark.parametrize("name", NOT_PLAIN)
def test_what_is_not_plain_is_not_read(results: Path, name: str) -> None:
    with pytest.raises(NotPlain, match=name.replace(".", r"\.")):
        read_plain(f"{results}/{name}")


def test_a_device_is_not_opened() -> None:
    with pytest.raises(NotPlain, match="/dev/zero: is a device, expected a file"):
        read_plain("/dev/zero")
    with pytest.raises(NotPlain, match="/dev/null: is a device"):
        open_in_place("/dev/null", "a")


@pytest.mark.parametrize(
    "text", ["NaN", "[1, Infinity]", '{"a": 1e31}', "9223372036854775808", "[" * 10_000, "1" * 5000]
)
def test_json_with_numbers_outside_the_valid_range_is_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "record.json").write_text(text)

    with pytest.raises(ValueError):  # the words are the parser's
        read_json(tmp_path / "record.json")


def test_a_number_that_may_be_infinite_may_not_be_nan(tmp_path: Path) -> None:
    (tmp_path / "certificate.json").write_text("[-Infinity, 1]")
    assert read_json(tmp_path / "certificate.json", may_be_infinite=True) == [-math.inf, 1]

    (tmp_path / "certificate.json").write_text("[NaN]")
    with pytest.raises(ValueError, match="too large"):
        read_json(tmp_path / "certificate.json", may_be_infinite=True)


def test_json_with_ordinary_values_is_read(tmp_path: Path) -> None:
    text = '{"a": [1, -2.5, 1767225600000000000, true, null, "1e400"], "b": {"c": 1e15}}'
    (tmp_path / "record.json").write_text(text)

    assert read_json(tmp_path / "record.json") == json.loads(text)


@pytest.mark.parametrize("name", NOT_PLAIN)
@pytest.mark.parametrize("mode", ["r+", "a", "a+"])
def test_an_entry_that_is_not_a_plain_file_is_not_changed_in_place(
    results: Path, victim: Path, name: str, mode: str
) -> None:
    with pytest.raises(NotPlain):
        open_in_place(f"{results}/{name}", mode)

    assert [(path.name, path.read_text()) for path in victim.iterdir()] == [("secret", SECRET)]


def test_a_missing_file_is_created_for_appending(results: Path) -> None:
    for text in ("one\n", "two\n"):
        with open_in_place(results / "journal", "a") as file:
            file.write(text)

    assert (results / "journal").read_text() == "one\ntwo\n"


def test_a_file_with_a_further_name_elsewhere_is_read_and_locked_but_not_changed(results: Path, victim: Path) -> None:
    os.link(victim / "secret", results / "lock")

    with pytest.raises(NotPlain, match="one of 2 hard links"):
        open_in_place(results / "lock", "a+")
    open_to_lock(results / "lock").close()
    assert read_plain(results / "lock") == SECRET.encode()


@pytest.mark.parametrize("name", ["link", "dangling", "pipe", "socket", "file", "new"])
def test_a_file_that_is_written_as_a_whole_replaces_a_link(results: Path, victim: Path, name: str) -> None:
    write_whole(results / name, "new text")

    assert (results / name).read_text() == "new text"
    assert not (results / name).is_symlink()
    assert [(path.name, path.read_text()) for path in victim.iterdir()] == [("secret", SECRET)]


def test_a_draft_that_is_a_link_is_replaced(results: Path, victim: Path) -> None:
    (results / ".plan.json.draft").symlink_to(victim / "secret")

    write_whole(results / "plan.json", "{}")

    assert (victim / "secret").read_text() == SECRET


CHANGES: dict[str, Callable[[Path], object]] = {
    "create": lambda results: create(results / "linked" / "new"),
    "write": lambda results: write_whole(results / "linked" / "new", "text"),
    "make": lambda results: make_directory(results / "linked" / "below"),
    "make in place": lambda results: make_directory(results / "linked"),
    "move in": lambda results: move(results / "file", results / "linked" / "file"),
    "move out": lambda results: move(results / "linked" / "secret", results / "stolen"),
    "remove": lambda results: remove(results / "linked" / "secret"),
    "append": lambda results: open_in_place(results / "linked" / "new", "a"),
    "further name": lambda results: link(results / "link", results / "stolen"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_nothing_is_changed_below_a_link(results: Path, victim: Path, change: Callable[[Path], object]) -> None:
    before = sorted(path.name for path in results.iterdir())

    with pytest.raises(NotPlain):
        change(results)

    assert [(path.name, path.read_text()) for path in victim.iterdir()] == [("secret", SECRET)]
    assert sorted(path.name for path in results.iterdir()) == before


def test_removing_a_tree_removes_a_link_and_not_what_it_leads_to(results: Path, victim: Path) -> None:
    remove_tree(results / "linked")
    remove_tree(results / "directory")
    remove_tree(results / "linked" / "secret")

    assert not (results / "linked").exists()
    assert not (results / "directory").exists()
    assert (victim / "secret").exists()


def test_entries_are_listed_by_what_they_are(results: Path) -> None:
    assert [path.name for path in files_in(results)] == ["file"]
    assert [path.name for path in directories_in(results)] == ["directory"]
    assert files_in(results / "linked") == []


@pytest.mark.parametrize("name", ["link", "dangling", "zeros", "linked", "pipe", "socket"])
def test_a_tree_with_anything_but_files_and_directories_is_refused(tmp_path: Path, results: Path, name: str) -> None:
    place = tmp_path / "tree" / "runs" / "one"
    place.mkdir(parents=True)
    (place / "record.json").write_text("{}")
    require_plain_tree(tmp_path / "tree")

    (results / name).rename(place / "odd")
    with pytest.raises(NotPlain, match="runs/one/odd"):
        require_plain_tree(tmp_path / "tree")


def test_the_exception_of_a_tree_is_not_searched_but_must_be_a_directory(results: Path) -> None:
    for path in results.iterdir():
        if path.name not in ("directory", "pipe", "linked"):
            remove_tree(path)
    (results / "pipe").rename(results / "directory" / "pipe")
    (results / "linked").rename(results / "directory" / "linked")
    require_plain_tree(results, except_for="directory")

    (results / "directory" / "linked").rename(results / "linked")
    with pytest.raises(NotPlain, match=r"linked: is a link.*expected a directory"):
        require_plain_tree(results, except_for="linked")


def test_directories_that_are_nested_without_end_are_refused(tmp_path: Path) -> None:
    deepest = tmp_path / "tree"
    for _ in range(plain_files.MOST_DIRECTORIES + 2):
        deepest = deepest / "d"
    deepest.mkdir(parents=True)

    with pytest.raises(NotPlain, match="directories deep"):
        require_plain_tree(tmp_path / "tree")


def test_a_file_above_its_size_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "record.json").write_bytes(bytes(1001))

    assert len(read_plain(tmp_path / "record.json", 1001)) == 1001
    with pytest.raises(NotPlain, match="has 1,001 bytes, expected at most 1,000"):
        read_plain(tmp_path / "record.json", 1000)


def test_a_large_file_of_holes_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "sender.pcap"
    path.write_bytes(b"pcap")
    os.truncate(path, 10**12)

    with pytest.raises(NotPlain, match="holes"):
        open_to_lock(path)


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "/etc/passwd", "a\0b", "a\nb", "\x1b[2J", "x" * 256])
def test_a_text_that_cannot_be_the_name_of_a_file_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="name of a file"):
        as_file_name(text)


def test_a_name_of_a_file_may_have_any_printable_character() -> None:
    assert as_file_name("ltp+mtu=1500 µs…_r1") == "ltp+mtu=1500 µs…_r1"


def test_the_directory_that_the_user_names_may_lie_behind_links(tmp_path: Path, results: Path) -> None:
    (tmp_path / "elsewhere").symlink_to(results)

    assert read_plain(real_root(tmp_path / "elsewhere") / "file") == b"text"
    assert read_plain(real_root(tmp_path / "results" / ".." / "results") / "file") == b"text"


def test_a_named_directory_without_links_keeps_its_name(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(results.parent)

    assert real_root(Path("results")) == Path("results")

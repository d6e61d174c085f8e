"""What is replaced stays until its successor is complete; builders that are killed are real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from owlt.reports.replacing import replaced_directory, replaced_files

OURS = ("index.html", "figures")


def earlier(directory: Path) -> Path:
    report = directory / "report"
    (report / "figures").mkdir(parents=True)
    (report / "index.html").write_text("earlier")
    (report / "figures" / "a.svg").write_text("earlier")
    return report


def build(report: Path, text: str = "new") -> None:
    with replaced_directory(report, OURS) as draft:
        (draft / "index.html").write_text(text)


def test_the_earlier_directory_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    report = earlier(tmp_path)

    with replaced_directory(report, OURS) as draft:
        (draft / "index.html").write_text("new")
        assert (report / "index.html").read_text() == "earlier"
        assert (report / "figures" / "a.svg").exists()

    assert [path.name for path in report.iterdir()] == ["index.html"]
    assert (report / "index.html").read_text() == "new"


@pytest.mark.parametrize("problem", [KeyboardInterrupt, OSError, ValueError])
def test_a_build_that_does_not_end_well_changes_nothing(tmp_path: Path, problem: type[BaseException]) -> None:
    report = earlier(tmp_path)

    with pytest.raises(problem), replaced_directory(report, OURS):
        raise problem

    assert (report / "index.html").read_text() == "earlier"
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["report"]


def test_what_somebody_else_put_into_the_directory_is_kept(tmp_path: Path) -> None:
    report = earlier(tmp_path)
    (report / "notes.txt").write_text("mine")

    build(report)

    assert (report / "notes.txt").read_text() == "mine"


def test_files_are_replaced_one_by_one_where_others_lie_beside_them(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("earlier")
    (tmp_path / "sender.pcap").write_text("a capture")

    with replaced_files(tmp_path) as draft:
        (draft / "index.html").write_text("new")
        assert (tmp_path / "index.html").read_text() == "earlier"

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "index.html": "new",
        "sender.pcap": "a capture",
    }

"""What is replaced stays until its successor is complete; builders that are killed are real processes."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from reports.replacing import replaced_directory, replaced_files

OURS = ("index.html", "figures")
KILLED = """\
import os, signal, sys
from pathlib import Path
from reports.replacing import replaced_directory, replaced_files
with {name}(Path(sys.argv[1]){more}) as draft:
    (draft / "index.html").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
WRITER = """\
import sys, time
from pathlib import Path
from reports.replacing import replaced_directory
with replaced_directory(Path(sys.argv[1]), ("one", "two")) as draft:
    (draft / "one").write_text(sys.argv[2])
    time.sleep(0.3)
    (draft / "two").write_text(sys.argv[2])
"""


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


def test_what_a_killed_build_left_is_removed_by_the_next(tmp_path: Path) -> None:
    report = earlier(tmp_path)
    program = KILLED.format(name="replaced_directory", more=", ()")
    killed = subprocess.run([sys.executable, "-c", program, str(report)], check=False)

    assert killed.returncode == -signal.SIGKILL
    assert (report / "index.html").read_text() == "earlier"
    assert list(tmp_path.glob(".report.draft-*"))
    build(report)
    assert (report / "index.html").read_text() == "new"
    assert not list(tmp_path.glob(".report.draft-*"))


def test_two_builds_at_once_each_give_a_complete_directory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "report")]
    both = [subprocess.Popen([*command, text]) for text in ("first", "second")]

    assert [process.wait(60) for process in both] == [0, 0]
    assert (tmp_path / "report" / "one").read_text() == (tmp_path / "report" / "two").read_text()


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


def test_files_of_a_killed_build_are_removed_by_the_next(tmp_path: Path) -> None:
    program = KILLED.format(name="replaced_files", more="")
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert (tmp_path / ".draft").is_dir()

    with replaced_files(tmp_path):
        pass

    assert list(tmp_path.iterdir()) == []

"""Reports and files of builds that run at once, or were killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from owlt.reports.replacing import replaced_files
from tests.unit.reports.test_replacing import build, earlier

KILLED = """\
import os, signal, sys
from pathlib import Path
from owlt.reports.replacing import replaced_directory, replaced_files
with {name}(Path(sys.argv[1]){more}) as draft:
    (draft / "index.html").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""

WRITER = """\
import sys, time
from pathlib import Path
from owlt.reports.replacing import replaced_directory
with replaced_directory(Path(sys.argv[1]), ("one", "two")) as draft:
    (draft / "one").write_text(sys.argv[2])
    time.sleep(0.3)
    (draft / "two").write_text(sys.argv[2])
"""


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


def test_files_of_a_killed_build_are_removed_by_the_next(tmp_path: Path) -> None:
    program = KILLED.format(name="replaced_files", more="")
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert (tmp_path / ".draft").is_dir()

    with replaced_files(tmp_path):
        pass

    assert list(tmp_path.iterdir()) == []

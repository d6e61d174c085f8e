"""A report made by another process."""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[3]


def names_in(report: Path) -> list[str]:
    return sorted(str(path.relative_to(report)) for path in report.rglob("*") if path.is_file())


def test_a_report_made_by_another_process_elsewhere_is_the_same_bytes(reported: Path, tmp_path: Path) -> None:
    shutil.copytree(reported / "runs", tmp_path / "runs")
    shutil.copy(reported / "plan.json", tmp_path)
    code = "import sys, pathlib, owlt.reports.page.page; owlt.reports.page.page.build_report(pathlib.Path(sys.argv[1]))"
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], check=True, cwd=PROJECT, env=os.environ | {"PYTHONHASHSEED": "7"}
    )

    names = names_in(reported / "report")

    assert names_in(tmp_path / "report") == names
    assert filecmp.cmpfiles(reported / "report", tmp_path / "report", names, shallow=False) == (names, [], [])

"""What a file is, by stat(1) and by lstat(2)."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from owlt.orchestrator.hosts.host import STATUS_FORMAT, status_from_line
from owlt.orchestrator.hosts.near_host import statuses_here


def stat_here(paths: Sequence[str]) -> list[str]:
    shown = subprocess.run(["stat", STATUS_FORMAT, "--", *paths], capture_output=True, text=True, check=True)
    return shown.stdout.splitlines()


def test_the_status_of_a_file_is_what_stat_prints(tmp_path: Path) -> None:
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.write(b"packets")
        file.truncate(1 << 30)
    (tmp_path / "link").symlink_to(sparse)
    paths = (str(tmp_path), str(sparse), str(tmp_path / "link"))

    assert statuses_here(paths) == [status_from_line(line) for line in stat_here(paths)]

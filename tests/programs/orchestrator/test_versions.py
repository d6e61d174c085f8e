"""Which libraries the version of an implementation names: those that its programs bring, and those that it needs."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from owlt.orchestrator.hosts.binaries import LIBRARIES
from owlt.orchestrator.run.versions import LOADED


def printed(*command: str) -> list[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_libraries_beside_a_program_are_named_and_those_of_the_system_are_not(tmp_path: Path) -> None:
    for name in ("bin", "lib"):
        (tmp_path / name).mkdir()
    program = shutil.copy("/bin/ls", tmp_path / "bin")
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    library = next(path for path in re.findall(r"=> (/\S+)", listed) if "/libc." not in path)
    assert subprocess.run(["sh", "-c", LIBRARIES, "sh", program], capture_output=True, check=False).stdout == b""

    brought = shutil.copy(library, tmp_path / "lib" / Path(library).name)

    assert printed("sh", "-c", LIBRARIES, "sh", program) == [str(brought)]


def test_a_library_that_is_needed_is_named_by_its_file() -> None:
    (path,) = printed(sys.executable, "-c", LOADED, "libz.so.1")

    assert Path(path).name.startswith("libz.so.1")
    assert Path(path).is_file()

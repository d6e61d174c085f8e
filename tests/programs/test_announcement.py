"""What `make demo` says before it installs or builds anything."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from owlt.orchestrator.kernel.kernel import recipe_digest

PROJECT = Path(__file__).parents[2]


def announced(cache: Path) -> str:
    env = os.environ | {"XDG_CACHE_HOME": str(cache)}
    return subprocess.run([PROJECT / ".ci" / "announce"], env=env, capture_output=True, text=True, check=True).stdout


def test_a_kernel_that_has_to_be_built_is_announced_with_its_time(tmp_path: Path) -> None:
    assert "build the guests' kernel from Debian's signed source, 4 to 9 minutes" in announced(tmp_path)


def test_a_kernel_of_todays_recipe_is_not(tmp_path: Path) -> None:
    entry = tmp_path / "owlt" / "kernels" / f"7.3.4-{recipe_digest()}-631d6cfb"
    entry.mkdir(parents=True)
    (entry / "kernel.json").touch()

    assert "kernel" not in announced(tmp_path)


def test_a_kernel_of_another_recipe_does_not_count(tmp_path: Path) -> None:
    entry = tmp_path / "owlt" / "kernels" / "7.3.4-0123456789abcdef-631d6cfb"
    entry.mkdir(parents=True)
    (entry / "kernel.json").touch()

    assert "kernel" in announced(tmp_path)


def test_the_demo_announces_before_it_installs() -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    make = subprocess.run(["make", "-n", "demo"], cwd=PROJECT, env=env, capture_output=True, text=True, check=True)

    assert make.stdout.splitlines()[0] == ".ci/announce"

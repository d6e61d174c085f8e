"""Which owlt this is: its version and, where it runs from a clone, the commit and whether files differ from it."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from importlib.metadata import version

from owlt import PACKAGE

PROJECT = PACKAGE.parent
"""The clone, if this owlt is one; else the directory that it is installed in."""


@cache
def own_version() -> str:
    """The version and the commit, such as "0.1.0+g1a2b3c4d5e", with "-dirty" at the end if files were changed.

    Outside of a clone, the version alone.
    """
    number = version("owlt")
    if not (PROJECT / ".git").exists():
        return number
    commit = _git("rev-parse", "--short=10", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return f"{number}+g{commit}{'-dirty' if changed else ''}" if commit else number


def _git(*words: str) -> str:
    """The output of git for this clone, for any owner and without writing to it; "" if git fails."""
    command = ["git", "--no-optional-locks", "-c", f"safe.directory={PROJECT}", "-C", str(PROJECT), *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""

"""Which owlt this is: its version and, where it runs from a clone, the commit and whether files differ from it."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

PROJECT = Path(__file__).parents[1]


@cache
def own_version() -> str:
    """Such as "0.1.0+g1a2b3c4d5e", with "-dirty" behind it where files were changed; the version alone elsewhere."""
    told = version("owlt")
    whosever = f"safe.directory={PROJECT}"
    describe = [
        "git",
        "-c",
        whosever,
        "-C",
        str(PROJECT),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=10",
        "--exclude=*",
    ]
    try:
        commit = subprocess.run(describe, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # no git
        commit = ""
    return f"{told}+g{commit}" if commit and (PROJECT / ".git").exists() else told

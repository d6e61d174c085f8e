"""How owlt is installed here: as a clone or as a package; where its data and its cache are; what sets it up."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).parent
"""The directory of the package `owlt`: its modules, `profiles` and `playbooks`."""
DEBIAN_PACKAGES = PACKAGE / "debian-packages"
"""The program that lists and installs the Debian packages that owlt needs."""


def is_clone() -> bool:
    """Whether owlt is imported from a clone, which has a Makefile and where the parts of the package are links."""
    return (PACKAGE / "orchestrator").is_symlink()


def cache_directory() -> Path:
    """What owlt keeps for this user on this machine (XDG Base Directory Specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "owlt"


def setup_command() -> str:
    """The command that installs and builds what owlt needs beside Python packages."""
    return "make setup" if is_clone() else "owlt setup"


def third_party_command(name: str) -> str:
    """The command that installs one third-party implementation."""
    return f"make third-party IMPLEMENTATION={name}" if is_clone() else f"owlt third-party install {name}"

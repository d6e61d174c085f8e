"""Third-party builds that a registry has: which there are, whether they are here, and getting them.

`build` says what a build file holds and `load` reads it, `places` knows where builds go, `toolchains` finds the
compilers, `installing` does the work. How a build is launched is no matter of this package: see `agents.contract`.
"""

from __future__ import annotations

from orchestrator.builds.build import Build
from orchestrator.builds.installing import Ending, how_to_install, install
from orchestrator.builds.load import all_builds, find_builds, load_build
from orchestrator.builds.places import builds_directory, home, is_installed

__all__ = [
    "Build",
    "Ending",
    "all_builds",
    "builds_directory",
    "find_builds",
    "home",
    "how_to_install",
    "install",
    "is_installed",
    "load_build",
]

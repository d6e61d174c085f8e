"""How owlt is installed here: as a clone or as a package; where its data and its cache are; which command sets it up;
and which owlt this is: its version and, where it runs from a clone, the commit and whether files differ from it."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from owlt import PACKAGE

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Iterator


PROJECT = PACKAGE.parent
"""The clone, if this owlt is one; else the directory that it is installed in."""
PARTS = ("agents", "captures", "emulator", "orchestrator", "playbooks", "profiles", "reports")
"""The folders at the top of a clone that are parts of the package; in a clone, the package has links to them."""
DEBIAN_PACKAGES = PACKAGE / "debian-packages"
"""The program that lists and installs the Debian packages that owlt needs."""


def is_clone() -> bool:
    """Whether owlt is imported from a clone, which has a Makefile and where the parts of the package are links."""
    return (PACKAGE / "orchestrator").is_symlink()


def cache_directory() -> Path:
    """The directory of owlt's cache for this user on this machine (XDG Base Directory Specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "owlt"


def setup_command() -> str:
    """The command that installs and builds what owlt needs beside Python packages."""
    return "make setup" if is_clone() else "owlt setup"


def write_source(archive: Path) -> None:
    """Write the source of an installed owlt, as a clone has it, as a tar file: the same bytes for the same files.

    Every installed package has beside its modules what only its source needs, in `owlt/source`.
    """
    import tarfile  # here: every program of owlt imports this module

    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for path, name in _source_files():
            tar.add(path, name, filter=_without_owner_and_time)
        for part in PARTS:
            link = tarfile.TarInfo(f"owlt/{part}")
            link.type, link.linkname = tarfile.SYMTYPE, f"../{part}"
            tar.addfile(link)


def _source_files() -> Iterator[tuple[Path, str]]:
    """Each file of this package, with its path in a clone."""
    for path in sorted(PACKAGE.rglob("*")):
        place = path.relative_to(PACKAGE)
        if not path.is_file() or "__pycache__" in place.parts or path.name.endswith((".bpf.o", ".bpf.sha256")):
            continue
        if place.parts[0] == "source":
            yield path, str(place.relative_to("source"))
        else:
            yield path, str(place if place.parts[0] in PARTS else Path("owlt") / place)


def _without_owner_and_time(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = "root"
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


@cache
def own_version() -> str:
    """The version and the commit, such as "0.1.0+g1a2b3c4d5e", with "-dirty" at the end if files were changed.

    Outside of a clone, the version alone.
    """
    from importlib.metadata import version  # slow to load

    number = version("owlt")
    if not (PROJECT / ".git").exists():
        return number
    commit = _git("rev-parse", "--short=10", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return f"{number}+g{commit}{'-dirty' if changed else ''}" if commit else number


def _git(*words: str) -> str:
    """The output of git for this clone, for any owner and without writing to it; "" if git fails."""
    import subprocess  # slow to load

    command = ["git", "--no-optional-locks", "-c", f"safe.directory={PROJECT}", "-C", str(PROJECT), *words]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""

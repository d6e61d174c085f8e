"""How owlt is installed here: as a clone or as a package; where its data and its cache are; which command sets it
up."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from owlt import PACKAGE

if TYPE_CHECKING:
    import tarfile
    from collections.abc import Iterator

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

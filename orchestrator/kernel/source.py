"""Chooses and fetches the kernel source: Debian's signed `linux-source` package, or a tarball."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import Missing, OwltError
from owlt.orchestrator.kernel.apt import IsolatedApt
from owlt.orchestrator.kernel.archive import Archive, code_name, machine_archives, main_archive, release_archives
from owlt.orchestrator.kernel.kernel import Observe

Version = tuple[int, int]

SECCOMP_SINCE = (6, 16)
"""User-Mode Linux runs programs under seccomp instead of ptrace, twice as fast, since this version."""
PROVEN = ((7, 3), (6, 12), (6, 1))
"""Versions to which the patches apply and on which the tests have run."""
NEWER_SUITES = ("trixie-backports", "stable-backports", "testing")
"""Where newer kernels are, in the order of trying; the running release's own suites come last."""


@dataclass(frozen=True)
class Source:
    """A kernel source tarball and what it is, version included."""

    name: str
    tarball: Path


def source_version(package: str) -> Version | None:
    """The version in a package name such as linux-source-6.1; None when it is not such a name."""
    match = re.fullmatch(r"linux-source-(\d+)\.(\d+)", package)
    return (int(match[1]), int(match[2])) if match else None


def choose(packages: Iterable[str]) -> str | None:
    """The package to build from: one with seccomp mode before one without, then a proven one, then the newest."""
    versions = {package: version for package in packages if (version := source_version(package))}
    return max(versions, key=lambda package: _preference(versions[package]), default=None)


def _preference(version: Version) -> tuple[bool, bool, Version]:
    return version >= SECCOMP_SINCE, version in PROVEN, version


def local_source(tarball: Path) -> Source:
    """A tarball that the user gives. Raises Missing when it is not there."""
    if not tarball.is_file():
        raise Missing(Mistake.of(f"--source {tarball}", "there is no such file", "a kernel source tarball (.tar.xz)"))
    return Source(tarball.name, tarball.resolve())


def fetch_source(
    directory: Path,
    observe: Observe,
    package: str | None = None,
    archives: list[Archive] | None = None,
    release: str | None = None,
) -> Source:
    """Fetch the best package, or the specified one, into `directory`, and extract its tarball.

    `archives` and `release`, a code name, are by default those of this machine. The search ends with a suite that has a
    tested kernel with seccomp mode. Raises Missing if there is no usable package.
    """
    offers: dict[str, IsolatedApt] = {}
    looked_in = []
    archives = machine_archives() if archives is None else archives
    for suite, sources in places(archives, release or code_name()):
        observe("source", None, f"looking in {suite}")
        apt = IsolatedApt(directory / f"apt-{suite}", sources)
        refusal = apt.update()
        packages = [name for name in apt.packages("linux-source-") if package in (None, name)]
        offers |= {name: apt for name in packages if source_version(name) and name not in offers}
        looked_in.append(f"{suite}: {refusal or ', '.join(sorted(packages)) or 'none'}")
        best = choose(offers)
        if best and (package or _preference(source_version(best) or (0, 0))[:2] == (True, True)):
            break
    chosen = choose(offers)
    if chosen is None:
        raise Missing(_no_source(package or "linux-source package", looked_in))
    observe("source", None, f"fetching {chosen}")
    return _taken_out(offers[chosen].download(chosen), directory)


def places(archives: list[Archive], release: str) -> list[tuple[str, str]]:
    """The suites to look in, each with the `.sources` text that reaches it through the machine's own mirror."""
    main = main_archive(archives, release)
    newer = [(suite, main.entry(suite)) for suite in NEWER_SUITES] if main else []
    own = "\n".join(archive.entry() for archive in release_archives(archives, release))
    return newer + ([(release or "own", own)] if own else [])


def _no_source(package: str, looked_in: list[str]) -> str:
    looked = "; ".join(looked_in) or "apt has no archive of this release here"
    return f"no {package} to build from ({looked}): fix apt's sources, or owlt kernel build --source TARBALL"


def _taken_out(package_file: Path, directory: Path) -> Source:
    """The tarball in a package file, and the package's name and version. The package file is deleted."""
    unpacked = directory / "package"
    subprocess.run(["dpkg-deb", "--extract", package_file, unpacked], check=True)
    tarballs = sorted(unpacked.glob("usr/src/linux-source-*.tar.*"))
    if not tarballs:
        raise OwltError(Mistake(f"{package_file.name} has no usr/src/linux-source-*.tar.*", fix="use --source TARBALL"))
    form = "--showformat=${Package} ${Version}"
    name = subprocess.run(["dpkg-deb", "--show", form, package_file], capture_output=True, text=True, check=True)
    package_file.unlink()
    return Source(name.stdout.strip(), tarballs[0])

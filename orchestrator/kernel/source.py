"""Debian's kernel source package, fetched by apt with its signature checked, without touching the machine's own lists.

Mirrors and proxies come from the machine's apt configuration. Works as an ordinary user.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from orchestrator.errors import Missing
from orchestrator.kernel.kernel import Observe

SECCOMP_SINCE = (6, 16)
FALLBACK = (6, 1)
SUITES = ("trixie-backports", "trixie", "bookworm")
"""Where to look, in this order: the first that has a source with seccomp mode wins, else the fallback's."""

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")

Version = tuple[int, int]


@dataclass(frozen=True)
class Source:
    """A kernel source tarball and what it is."""

    name: str
    tarball: Path


def local_source(tarball: Path) -> Source:
    """A tarball that the user gives. Raises Missing when it is not there."""
    if not tarball.is_file():
        raise Missing(f"--source {tarball}: there is no such file; wanted a linux-source tarball (.tar.xz)")
    return Source(tarball.name, tarball.resolve())


def source_version(package: str) -> Version | None:
    """The version in a package name such as linux-source-6.1; None when it has none."""
    match = re.fullmatch(r"linux-source-(\d+)\.(\d+)", package)
    return (int(match[1]), int(match[2])) if match else None


def choose(packages: list[str]) -> str | None:
    """The newest source that has seccomp mode; None when there is none."""
    versions = {package: source_version(package) for package in packages}
    able = [package for package, version in versions.items() if version and version >= SECCOMP_SINCE]
    return max(able, key=lambda package: versions[package] or (0, 0), default=None)


def fetch_source(directory: Path, observe: Observe) -> Source:
    """Fetch the best source package into `directory` and unpack its tarball there.

    Raises Missing when no mirror that this machine knows has one that will do.
    """
    mirror = _debian_mirror()
    fallback = f"linux-source-{FALLBACK[0]}.{FALLBACK[1]}"
    for suite in SUITES:
        observe("source", None, f"looking in {suite}")
        apt = _IsolatedApt(directory / f"apt-{suite}", mirror, suite)
        if not apt.update():
            continue
        packages = apt.packages("linux-source-")
        package = choose(packages) or (fallback if suite == SUITES[-1] and fallback in packages else None)
        if package:
            observe("source", None, f"fetching {package}")
            return _unpack(apt.download(package), package, directory)
    raise Missing(
        f"no kernel source: the mirror that apt uses here has no {', '.join(SUITES)} with linux-source 6.16 or newer "
        f"or {fallback}; give a tarball: owlt kernel build --source linux-source-X.Y.tar.xz"
    )


def _debian_mirror() -> str:
    """The mirror from which this machine takes Debian itself."""
    shown = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    for line in shown.splitlines():
        origin, label, uri = line.split("|", 2)
        if (origin, label) == ("Debian", "Debian"):
            return uri
    raise Missing(
        "apt knows no Debian mirror here (or has no lists yet): run 'apt-get update', or use --source TARBALL"
    )


class _IsolatedApt:
    """apt with lists, cache and sources of its own, and the machine's configuration otherwise."""

    def __init__(self, directory: Path, mirror: str, suite: str) -> None:
        self._directory = directory
        for name in ("lists/partial", "archives/partial", "sources"):
            (directory / name).mkdir(parents=True)
        (directory / "status").touch()
        (directory / "sources" / "debian.sources").write_text(
            f"Types: deb\nURIs: {mirror}\nSuites: {suite}\nComponents: main\nSigned-By: {KEYRING}\n"
        )
        settings = {
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": directory / "sources",
            "Dir::State": directory,
            "Dir::State::lists": directory / "lists",
            "Dir::State::status": directory / "status",
            "Dir::Cache": directory,
            "Dir::Cache::archives": directory / "archives",
            "APT::Sandbox::User": "",
            "APT::Get::AllowUnauthenticated": "false",
            "Acquire::AllowInsecureRepositories": "false",
        }
        self._options = [option for name, value in settings.items() for option in ("-o", f"{name}={value}")]

    def _apt(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [program, *self._options, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=self._directory / "archives")

    def update(self) -> bool:
        """Whether the suite's list came, signed."""
        return self._apt("apt-get", "update", "--error-on=any").returncode == 0

    def packages(self, prefix: str) -> list[str]:
        """The names of its packages that begin so."""
        return self._apt("apt-cache", "pkgnames", prefix).stdout.split()

    def download(self, package: str) -> Path:
        """The package's file, checked against the signed list."""
        done = self._apt("apt-get", "download", package)
        found = sorted((self._directory / "archives").glob(f"{package}_*.deb"))
        if done.returncode != 0 or not found:
            raise Missing(f"apt could not fetch {package}: {done.stderr.strip()}")
        return found[0]


def _unpack(package_file: Path, package: str, directory: Path) -> Source:
    subprocess.run(["dpkg-deb", "--extract", package_file, directory / "package"], check=True)
    (tarball,) = (directory / "package" / "usr" / "src").glob("linux-source-*.tar.xz")
    version = subprocess.run(
        ["dpkg-deb", "--field", package_file, "Version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    package_file.unlink()
    return Source(f"{package} {version}", tarball)

"""Chooses and fetches the kernel source: Debian's signed `linux-source` package, or a tarball.

Packages come from the archives that apt uses on this machine (sources.list(5)), but with sources, lists and a cache of
their own, so that the machine's stay as they are, and an ordinary user can fetch them. The machine's configuration is
used only to reach its mirrors (proxies, date checks). By default apt checks that an index is signed and that a package
is the one in the index; no setting here or there disables this.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import Missing, OwltError
from owlt.orchestrator.kernel.kernel import Observe

ROLLING = ("stable", "oldstable", "testing", "unstable", "sid")
"""Names that a suite can have besides its code name."""
LENT = re.compile(r"Acquire::(https?|ftp|Retries|Proxy|Check-Valid-Until|Check-Date)\b", re.IGNORECASE)
Version = tuple[int, int]
SECCOMP_SINCE = (6, 16)
"""User-Mode Linux runs programs under seccomp instead of ptrace, twice as fast, since this version."""
PROVEN = ((7, 3), (6, 12), (6, 1))
"""Versions to which the patches apply and on which the tests have run."""
NEWER_SUITES = ("trixie-backports", "stable-backports", "testing")
"""The suites with newer kernels, in the order in which they are tried; the running release's own suites come last."""


@dataclass(frozen=True)
class KernelSource:
    """A kernel source tarball and what it is, version included."""

    name: str
    tarball: Path


def local_source(tarball: Path) -> KernelSource:
    """A tarball that the user gives. Raises Missing when it is not there."""
    if not tarball.is_file():
        raise Missing(Mistake.of(f"--source {tarball}", "there is no such file", "a kernel source tarball (.tar.xz)"))
    return KernelSource(tarball.name, tarball.resolve())


def fetch_source(
    directory: Path,
    observe: Observe,
    package: str | None = None,
    archives: list[Archive] | None = None,
    release: str | None = None,
) -> KernelSource:
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


def places(archives: list[Archive], release: str) -> list[tuple[str, str]]:
    """The suites to look in, each with the `.sources` text that reaches it through the machine's own mirror."""
    main = main_archive(archives, release)
    newer = [(suite, main.entry(suite)) for suite in NEWER_SUITES] if main else []
    own = "\n".join(archive.entry() for archive in release_archives(archives, release))
    return newer + ([(release or "own", own)] if own else [])


def _no_source(package: str, looked_in: list[str]) -> str:
    looked = "; ".join(looked_in) or "apt has no archive of this release here"
    return f"no {package} to build from ({looked}): fix apt's sources, or owlt kernel build --source TARBALL"


def _taken_out(package_file: Path, directory: Path) -> KernelSource:
    """The tarball in a package file, and the package's name and version. The package file is deleted."""
    unpacked = directory / "package"
    subprocess.run(["dpkg-deb", "--extract", package_file, unpacked], check=True)
    tarballs = sorted(unpacked.glob("usr/src/linux-source-*.tar.*"))
    if not tarballs:
        raise OwltError(Mistake(f"{package_file.name} has no usr/src/linux-source-*.tar.*", fix="use --source TARBALL"))
    form = "--showformat=${Package} ${Version}"
    name = subprocess.run(["dpkg-deb", "--show", form, package_file], capture_output=True, text=True, check=True)
    package_file.unlink()
    return KernelSource(name.stdout.strip(), tarballs[0])


@dataclass(frozen=True)
class Archive:
    """One entry of apt's sources."""

    uris: str
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str = ""
    """A key file, fingerprints or a key block, as written; empty: the keys that apt trusts for all archives."""

    def entry(self, *suites: str) -> str:
        """Its `.sources` text, for its own suites or for others of the same archive."""
        lines = [
            "Types: deb",
            f"URIs: {self.uris}",
            f"Suites: {' '.join(suites or self.suites)}",
            f"Components: {' '.join(self.components)}",
        ]
        return "\n".join(lines + [f"Signed-By: {self.signed_by}"] * bool(self.signed_by)) + "\n"


def machine_archives() -> list[Archive]:
    """The binary archives that apt is configured with here; none where there is no apt."""
    archives: list[Archive] = []
    for path in _source_files():
        text = path.read_text(errors="replace")
        archives += parse_sources(text) if path.suffix == ".sources" else parse_list(text)
    return archives


def _source_files() -> list[Path]:
    asked = ["LIST", "Dir::Etc::sourcelist/f", "PARTS", "Dir::Etc::sourceparts/d"]
    try:
        shown = subprocess.run(["apt-config", "shell", *asked], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    places = {name: Path(place) for name, place in re.findall(r"(\w+)='([^']*)'", shown)}
    parts = sorted(places["PARTS"].glob("*")) if "PARTS" in places else []
    files = [places[name] for name in ("LIST",) if name in places and places[name].is_file()]
    return files + [path for path in parts if path.suffix in (".list", ".sources")]


def code_name() -> str:
    """The running release's code name, such as bookworm; empty where it has none (os-release(5))."""
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "")


def release_archives(archives: Iterable[Archive], release: str) -> list[Archive]:
    """The archives with suites of the release: its main one, its updates and its security fixes."""
    return [
        archive
        for archive in archives
        if "main" in archive.components
        and any(re.match(rf"{re.escape(release)}\b", suite) or suite in ROLLING for suite in archive.suites)
    ]


def main_archive(archives: Iterable[Archive], release: str) -> Archive | None:
    """The archive that has the release itself, and so Debian's other releases too; not another vendor's archive for
    it."""

    def likeness(archive: Archive) -> tuple[bool, bool, bool]:
        last_step = archive.uris.rstrip("/").rpartition("/")[2]
        return release in archive.suites, last_step.startswith("debian"), f"{release}-updates" in archive.suites

    mine = release_archives(archives, release)
    return max((archive for archive in mine if {release, *ROLLING} & set(archive.suites)), key=likeness, default=None)


def parse_list(text: str) -> list[Archive]:
    """The `deb` entries of a one-line-style file."""
    line = re.compile(r"deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)(?P<components>[^#\n]*)")
    return [
        Archive(
            uris=match["uri"],
            suites=(match["suite"],),
            components=tuple(match["components"].split()),
            signed_by=" ".join(re.findall(r"\bsigned-by=(\S+)", match["options"] or "", re.IGNORECASE)),
        )
        for match in map(line.match, text.splitlines())
        if match
    ]


def parse_sources(text: str) -> list[Archive]:
    """The enabled `deb` entries of a deb822-style file."""
    return [
        Archive(
            uris=fields.get("uris", ""),
            suites=tuple(fields.get("suites", "").split()),
            components=tuple(fields.get("components", "").split()),
            signed_by=fields.get("signed-by", ""),
        )
        for fields in map(_fields, _paragraphs(text))
        if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes").lower() in ("yes", "true", "1")
    ]


def _paragraphs(text: str) -> Iterator[list[str]]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        if paragraph.strip():
            yield paragraph.strip("\n").splitlines()


def _fields(paragraph: list[str]) -> dict[str, str]:
    """Field names in lower case. A value keeps its further lines as they are: a key block has many."""
    fields: dict[str, str] = {}
    name = ""
    for line in paragraph:
        if line[:1].isspace():
            fields[name] += f"\n{line}"
        else:
            name, _, value = line.partition(":")
            name = name.strip().lower()
            fields[name] = value.strip()
    return fields


class IsolatedApt:
    """apt in a directory that does not exist yet, with the given `.sources` text."""

    def __init__(self, directory: Path, sources: str) -> None:
        self._directory = directory
        for name in ("lists/partial", "archives/partial", "sources", "none"):
            (directory / name).mkdir(parents=True)
        (directory / "status").touch()
        (directory / "sources" / "archive.sources").write_text(sources)
        configuration = directory / "apt.conf"
        configuration.write_text(_lent() + _own(directory))
        self._environment = os.environ | {"APT_CONFIG": str(configuration), "LC_ALL": "C"}

    def update(self) -> str:
        """Fetch the signed indexes. Returns what was wrong, empty when all came."""
        done = self._run("apt-get", "update", "--error-on=any")
        return "" if done.returncode == 0 else _complaint(done.stderr)

    def packages(self, prefix: str) -> list[str]:
        """The names that begin so."""
        return self._run("apt-cache", "pkgnames", prefix).stdout.split()

    def download(self, package: str) -> Path:
        """Fetch the newest version of a package. Raises Missing with apt's words."""
        done = self._run("apt-get", "download", package)
        packages = sorted((self._directory / "archives").glob(f"{package}_*.deb"))
        if done.returncode != 0 or not packages:
            raise Missing(
                Mistake(
                    f"apt did not fetch {package}: {_complaint(done.stderr)}", fix="see whether 'apt-get update' works"
                )
            )
        return packages[-1]

    def _run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self._directory / "archives",
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


def _own(directory: Path) -> str:
    """Its directories, without the hooks and preferences of the machine, and without a change of user: apt's user
    cannot read root's cache."""
    settings = {
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": directory / "none",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": directory / "none",
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": directory / "sources",
        "Dir::State": directory,
        "Dir::State::status": directory / "status",
        "Dir::Cache": directory,
        "Acquire::Languages": "none",
        "APT::Sandbox::User": "",
    }
    return "".join(f'{name} "{value}";\n' for name, value in settings.items())


def _lent() -> str:
    shown = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    return "".join(f"{line}\n" for line in shown.splitlines() if LENT.match(line))


def _complaint(stderr: str) -> str:
    """apt's first error, without its mark."""
    lines = [line[2:].strip() for line in stderr.splitlines() if line.startswith("E:")]
    return lines[0] if lines else stderr.strip() or "it gave no reason"

"""The package archives that apt uses on this machine, read from its own sources (sources.list(5)).

What is offered there, and fetching it, are left to `apt` and `source`.
"""

from __future__ import annotations

import platform
import re
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROLLING = ("stable", "oldstable", "testing", "unstable", "sid")
"""Names that a suite can have besides its code name."""


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


def code_name() -> str:
    """The running release's code name, such as bookworm; empty where it has none (os-release(5))."""
    return platform.freedesktop_os_release().get("VERSION_CODENAME", "")


def release_archives(archives: Iterable[Archive], release: str) -> list[Archive]:
    """Those with suites of the release: its main one, its updates and its security fixes."""
    return [
        archive
        for archive in archives
        if "main" in archive.components
        and any(re.match(rf"{re.escape(release)}\b", suite) or suite in ROLLING for suite in archive.suites)
    ]


def main_archive(archives: Iterable[Archive], release: str) -> Archive | None:
    """The one that has the release itself, and so Debian's other releases too; not another vendor's for it."""

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

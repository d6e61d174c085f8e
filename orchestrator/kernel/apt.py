"""apt with sources, lists and a cache of its own, so that the machine's stay as they are. Works as an ordinary user.

The machine's configuration lends how to reach its mirrors (proxies, date checks). That an index is signed, and a
package is the one in the index, apt checks by its defaults, which nothing here or there weakens.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import Missing

LENT = re.compile(r"Acquire::(https?|ftp|Retries|Proxy|Check-Valid-Until|Check-Date)\b", re.IGNORECASE)


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

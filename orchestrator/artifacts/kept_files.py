"""Files that a profile keeps of a run that failed: the end of each, beside the run's record."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from owlt.orchestrator.hosts.host import Host

KEPT_NAME = "kept"
KEPT_BYTES = 1_000_000
"""Number of bytes that are kept of each file, from its end: logs end with what went wrong."""


def keep_files(names: Iterable[str], host: Host, run_dir: str, directory: Path) -> None:
    """Copy the ends of files of a host's run directory, if they exist, to `kept/ROLE/` in the run's results directory.

    Only regular files below the run directory are copied; links are not followed.
    """
    for name in names:
        path = str(PurePosixPath(run_dir, name))
        if not _is_own(host, run_dir, path):
            continue
        content = host.check(["tail", "--bytes", str(KEPT_BYTES), "--", path])
        target = directory / KEPT_NAME / host.role / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _is_own(host: Host, run_dir: str, path: str) -> bool:
    """Whether a path is a regular file that is reached without a link."""
    real = host.run(["realpath", "--canonicalize-existing", "--", run_dir, path])
    if real.exit_status != 0:
        return False
    directory, file = real.stdout.decode(errors="replace").splitlines()[:2]
    is_direct = PurePosixPath(directory, PurePosixPath(path).relative_to(run_dir)) == PurePosixPath(file)
    return is_direct and host.run(["test", "-f", path]).exit_status == 0

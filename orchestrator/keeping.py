"""What a build wrote that its profile wants kept: the end of each such file, beside the record of a run that failed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from orchestrator.host import Host

KEPT_NAME = "kept"
KEPT_BYTES = 1_000_000
"""Of each file the last so many bytes: logs end with what went wrong."""


def keep_files(names: Iterable[str], host: Host, run_dir: str, directory: Path) -> None:
    """Copy the ends of files of a run directory to `kept/ROLE/` in the run's directory; those that exist.

    Only regular files that are below the run directory, not what a link leads to.
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
    """Whether there is a regular file at a path, without a link on the way to it."""
    real = host.run(["realpath", "--canonicalize-existing", "--", run_dir, path])
    if real.exit_status != 0:
        return False
    directory, file = real.stdout.decode(errors="replace").splitlines()[:2]
    is_direct = PurePosixPath(directory, PurePosixPath(path).relative_to(run_dir)) == PurePosixPath(file)
    return is_direct and host.run(["test", "-f", path]).exit_status == 0

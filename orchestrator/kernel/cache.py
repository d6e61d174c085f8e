"""Built kernels, kept for every clone on this machine: a directory each, named by version and recipe."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from orchestrator.kernel.kernel import Kernel

KERNEL_NAME = "kernel.json"


def cache_directory() -> Path:
    """Where kernels are kept: in the user's cache (XDG Base Directory Specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "owlt" / "kernels"


def cached(recipe: str) -> list[Kernel]:
    """The kernels of this recipe that are cached here, the newest version first."""
    found = []
    for entry in cache_directory().glob(f"*/{KERNEL_NAME}"):
        try:
            kernel = Kernel.model_validate_json(entry.read_text())
        except (OSError, ValidationError):
            continue
        if kernel.recipe == recipe and kernel.path.exists():
            found.append(kernel)
    return sorted(found, key=lambda kernel: _order(kernel.version), reverse=True)


def keep(linux: Path, kernel: Kernel) -> Kernel:
    """Put a built kernel into the cache: all of it or nothing. Returns it where it now is."""
    directory = cache_directory()
    key = hashlib.sha256(f"{kernel.package} {kernel.recipe}".encode()).hexdigest()[:8]
    entry = directory / f"{kernel.version}-{kernel.recipe}-{key}"
    draft = directory / f".{entry.name}.draft"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    shutil.copy2(linux, draft / "linux")
    kept = kernel.model_copy(update={"path": entry / "linux"})
    (draft / KERNEL_NAME).write_text(kept.model_dump_json(indent=2) + "\n")
    shutil.rmtree(entry, ignore_errors=True)
    draft.rename(entry)
    return kept


@contextmanager
def only_one_builds() -> Iterator[None]:
    """Wait while another process builds."""
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]

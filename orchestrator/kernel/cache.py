"""Built kernels, kept for every clone on this machine: a directory each, named by version and recipe."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from orchestrator.errors import Missing
from orchestrator.kernel.kernel import Kernel, Observe

KERNEL_NAME = "kernel.json"
WORKSHOP = ".build-"


def cache_directory() -> Path:
    """Where kernels are kept: in the user's cache (XDG Base Directory Specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "owlt" / "kernels"


def cached(recipe: str) -> list[Kernel]:
    """The kernels of this recipe that are cached here, the best first: what it can do, then how new it is."""
    found = []
    for entry in cache_directory().glob(f"*/{KERNEL_NAME}"):
        try:
            kernel = Kernel.model_validate_json(entry.read_text())
        except (OSError, ValidationError):
            continue
        if kernel.recipe == recipe and kernel.path.exists():
            found.append(kernel)
    return sorted(found, key=lambda kernel: (-len(kernel.lacks), _order(kernel.version)), reverse=True)


def keep(linux: Path, kernel: Kernel) -> Kernel:
    """Put a built kernel into the cache: all of it or nothing. Returns it where it now is."""
    directory = cache_directory()
    key = hashlib.sha256(f"{kernel.package} {kernel.recipe}".encode()).hexdigest()[:8]
    entry = directory / f"{kernel.version}-{kernel.recipe}-{key}"
    with workshop() as place:
        draft = place / "entry"
        draft.mkdir()
        shutil.copy2(linux, draft / "linux")
        kept = kernel.model_copy(update={"path": entry / "linux"})
        (draft / KERNEL_NAME).write_text(kept.model_dump_json(indent=2) + "\n")
        if entry.exists():
            entry.rename(place / "replaced")
        draft.rename(entry)
    return kept


@contextmanager
def workshop() -> Iterator[Path]:
    """A directory to build in, on the cache's file system; gone afterwards."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=WORKSHOP, dir=cache_directory()) as name:
        yield Path(name)


@contextmanager
def only_one_builds(observe: Observe) -> Iterator[None]:
    """Wait while another process builds; then clear away what one that was killed has left."""
    directory = cache_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / ".lock").open("w")
    except OSError as problem:
        raise Missing(f"{directory}: {problem.strerror}; set XDG_CACHE_HOME to a directory of yours") from problem
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            observe("wait", None, "another build is under way")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in directory.glob(f"{WORKSHOP}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]

"""The cache of built kernels, shared by all clones on this machine: a directory each, named by version and recipe."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from owlt import installation
from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.kernel.kernel import Kernel, Observe

KERNEL_NAME = "kernel.json"
PROGRAM_NAME = "linux"
"""The kernel beside it. `path` in kernel.json is this name, so that the cache can be moved and copied."""
WORKSHOP = ".build-"


def cache_directory() -> Path:
    """The directory of cached kernels, in the user's cache (XDG Base Directory Specification)."""
    return installation.cache_directory() / "kernels"


def cached(recipe: str) -> list[Kernel]:
    """The cached kernels of a recipe, the best first: by features, then by version."""
    kernels = []
    for entry in cache_directory().glob(f"*/{KERNEL_NAME}"):
        try:
            kernel = Kernel.model_validate_json(entry.read_text())
        except (OSError, ValidationError):
            continue
        kernel = kernel.model_copy(update={"path": entry.with_name(PROGRAM_NAME)})
        if kernel.recipe == recipe and kernel.path.exists():
            kernels.append(kernel)
    return sorted(kernels, key=lambda kernel: (-len(kernel.missing_features), _order(kernel.version)), reverse=True)


def keep(linux: Path, kernel: Kernel) -> Kernel:
    """Put a built kernel into the cache, completely or not at all. Returns it with its new path."""
    directory = cache_directory()
    key = hashlib.sha256(f"{kernel.package} {kernel.recipe}".encode()).hexdigest()[:8]
    entry = directory / f"{kernel.version}-{kernel.recipe}-{key}"
    with workshop() as place:
        draft = place / "entry"
        draft.mkdir()
        shutil.copy2(linux, draft / PROGRAM_NAME)
        noted = kernel.model_copy(update={"path": Path(PROGRAM_NAME)})
        (draft / KERNEL_NAME).write_text(noted.model_dump_json(indent=2) + "\n")
        if entry.exists():
            entry.rename(place / "replaced")
        draft.rename(entry)
    return kernel.model_copy(update={"path": entry / PROGRAM_NAME})


@contextmanager
def workshop() -> Iterator[Path]:
    """A temporary directory to build in, on the cache's file system."""
    cache_directory().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=WORKSHOP, dir=cache_directory()) as name:
        yield Path(name)


@contextmanager
def only_one_builds(observe: Observe) -> Iterator[None]:
    """Wait while another process builds; then remove what killed builds left."""
    directory = cache_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / ".lock").open("w")
    except OSError as problem:
        raise Missing(
            Mistake(
                f"cannot be used: {problem.strerror}",
                fix="set XDG_CACHE_HOME to a directory that you can write to",
                where=Place(str(directory)),
            )
        ) from problem
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

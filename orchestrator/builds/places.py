"""Where builds are kept, how a finished one is told from half of one, and who may change them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.builds.build import Build, Debian, Script
from orchestrator.errors import Missing

PROJECT = Path(__file__).parents[2]
STAMP_NAME = "stamp"
LOG_NAME = "install.log"
FRESH = ".fresh-"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def builds_directory() -> Path:
    """Where builds are kept, a directory NAME/bin each: in the user's cache (XDG Base Directory Specification)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "owlt" / "builds"


def home(build: Build) -> Path:
    """A build's own directory: bin, the log of its installation, the stamp of its recipe."""
    return builds_directory() / build.name


def is_installed(build: Build) -> bool:
    """Whether all of its programs are there and, for what is compiled, of today's recipe."""
    packaged = isinstance(build.recipe, Debian)
    place = search_path() if packaged else str(home(build) / "bin")
    if not all(shutil.which(name, path=place) for name in build.programs):
        return False
    return packaged or _read(home(build) / STAMP_NAME) == stamp(build)


def stamp(build: Build) -> str:
    """A digest of all that decides what is installed."""
    source = build.recipe.model_dump_json(exclude={"minimum_rust", "minimum_go", "services"})
    recipe = f"{source} {sorted(build.programs)}".encode()
    if isinstance(build.recipe, Script):
        script = PROJECT / build.recipe.script
        recipe += script.read_bytes() if script.exists() else b""
    return hashlib.sha256(recipe).hexdigest()


def search_path() -> str:
    """The path, and where system programs are that an ordinary user's path leaves out."""
    return os.pathsep.join(filter(None, [os.environ.get("PATH", ""), SYSTEM_PATH]))


@contextmanager
def fresh(build: Build) -> Iterator[Path]:
    """A directory to install into. It becomes the build's own at the end, or, on an error, leaves its log there."""
    place = Path(tempfile.mkdtemp(prefix=f"{FRESH}{build.name}-", dir=builds_directory()))
    try:
        yield place
        (place / STAMP_NAME).write_text(stamp(build))
        place.chmod(0o755)
        _replace(home(build), place)
    finally:
        if place.exists():
            home(build).mkdir(exist_ok=True)
            if (place / LOG_NAME).exists():
                (place / LOG_NAME).replace(home(build) / LOG_NAME)
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def only_one_installs(observe: Callable[[str], None]) -> Iterator[None]:
    """Wait while another process installs; then clear away what one that was killed has left.

    Raises Missing when the directory cannot be written.
    """
    directory = builds_directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        lock = (directory / ".lock").open("w")
    except OSError as problem:
        raise Missing(f"{directory}: {problem.strerror}; set XDG_CACHE_HOME to a directory of yours") from problem
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            observe("another 'owlt builds install' is under way; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left in directory.glob(f"{FRESH}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _replace(old: Path, new: Path) -> None:
    aside = old.with_name(f"{FRESH}{old.name}-replaced")
    if old.exists():
        old.rename(aside)
    new.rename(old)
    shutil.rmtree(aside, ignore_errors=True)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""

"""Where third-party implementations are installed, how a complete installation is recognised, and the lock on them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from owlt import PACKAGE
from owlt.inputs.mistake import Mistake, Place
from owlt.installation import cache_directory
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.third_party.installable import Debian, Installable, Script

STAMP_NAME = "stamp"
LOG_NAME = "install.log"
FRESH = ".fresh-"
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def third_party_directory() -> Path:
    """Where programs are installed, in NAME/bin each: in the user's cache (XDG Base Directory Specification)."""
    return cache_directory() / "third-party"


def home(installable: Installable) -> Path:
    """The directory of one implementation: bin, the log of its installation, the stamp of its recipe."""
    return third_party_directory() / installable.name


def is_installed(installable: Installable, path: str | None = None) -> bool:
    """Whether all of its programs are there and, if they were compiled, were compiled from the current recipe.

    `path` has the directories of the system's programs; default: `search_path()`.
    """
    packaged = isinstance(installable.recipe, Debian)
    system_path = search_path() if path is None else path
    directories = system_path if packaged else str(home(installable) / "bin")
    if not all(shutil.which(name, path=directories) for name in installable.programs):
        return False
    return packaged or _read(home(installable) / STAMP_NAME) == stamp(installable)


def stamp(installable: Installable) -> str:
    """A digest of everything that determines what is installed."""
    source = installable.recipe.model_dump_json(exclude={"minimum_rust", "minimum_go", "services"})
    recipe = f"{source} {sorted(installable.programs)}".encode()
    if isinstance(installable.recipe, Script):
        script = script_path(installable.recipe)
        recipe += script.read_bytes() if script.exists() else b""
    return hashlib.sha256(recipe).hexdigest()


def script_path(recipe: Script) -> Path:
    """The program of a recipe that is a script."""
    return (PACKAGE / "profiles" / "third-party" / recipe.script).resolve()


def search_path() -> str:
    """PATH, and the directories of system programs that an ordinary user's PATH does not have."""
    return os.pathsep.join(filter(None, [os.environ.get("PATH", ""), SYSTEM_PATH]))


@contextmanager
def fresh(installable: Installable) -> Iterator[Path]:
    """A directory to install into. At the end it replaces `home`; after an error only its log is moved there."""
    place = Path(tempfile.mkdtemp(prefix=f"{FRESH}{installable.name}-", dir=third_party_directory()))
    try:
        yield place
        (place / STAMP_NAME).write_text(stamp(installable))
        place.chmod(0o755)
        _replace(home(installable), place)
    finally:
        if place.exists():
            home(installable).mkdir(exist_ok=True)
            if (place / LOG_NAME).exists():
                (place / LOG_NAME).replace(home(installable) / LOG_NAME)
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def exclusive_lock(observe: Callable[[str], None]) -> Iterator[None]:
    """Wait while another process installs; then remove what a killed process left behind.

    Raises Missing if the directory is not writable.
    """
    directory = third_party_directory()
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
            observe("waiting for another 'owlt third-party install' to finish")
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

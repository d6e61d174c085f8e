"""The virtual-time kernel as a value, the recipe that it is made by, and the cache of built ones on this machine.

The cache has a directory for each kernel, named by version and recipe, and is shared by all clones. Building a kernel
belongs to `build`.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from owlt.agents.contract.implementation import Clock
from owlt.installation import cache_directory
from owlt.orchestrator.own_directories import only_process

Observe = Callable[[str, float | None, str], None]
"""Gets the phase of a kernel build, the part of it that is done (0 to 1, None if unknown), and a word on it."""


class Kernel(BaseModel):
    """A User-Mode Linux kernel that guests boot. Its features were tested in a guest on this machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    version: str
    package: str
    """Debian's source package and its version, or the name of the tarball."""
    recipe: str
    """The digest of the configuration fragment and the patches."""
    patches: list[str]
    """The patches that apply to this version."""
    hz: int
    seccomp: bool
    """Whether guests run their programs in seccomp mode here; with ptrace they take twice as long."""
    clocks: list[Clock]
    """The clocks on which a guest starts and time passes correctly."""
    ends_spins: bool
    """Whether a program that busy-waits for another one ends on the exact clock (the spin patch)."""
    virtual_tsc: bool
    """Whether RDTSC and RDTSCP show virtual time on `exact` and `skip` (the tsc patch)."""
    templates: bool
    """Whether a prepared guest can be copied (the template patch); without it, every run boots a guest."""
    netem_seed: bool
    """Whether netem takes a seed (Linux 6.7 and later)."""
    bpf: bool
    """Whether programs can be loaded with bpf(2)."""

    @property
    def summary(self) -> str:
        """Version, features and missing features in one line."""
        mode = "seccomp" if self.seccomp else "ptrace"
        return (
            f"Linux {self.version} ({self.package}), {mode}, {self.hz} Hz, clocks {', '.join(self.clocks)}, "
            f"patches {', '.join(self.patches) or 'none'}"
            + ("" if not self.missing_features else f"; missing: {', '.join(self.missing_features)}")
        )

    @property
    def missing_features(self) -> list[str]:
        """The features that a better kernel has."""
        features = {
            "seccomp mode (Linux 6.16)": self.seccomp,
            "netem's seed (Linux 6.7)": self.netem_seed,
            "an end of busy-waiting (the spin patch)": self.ends_spins,
            "a time stamp counter of virtual time (the tsc patch)": self.virtual_tsc,
            "copies of a prepared guest (the template patch)": self.templates,
            "bpf()": self.bpf,
        }
        return [name for name, is_there in features.items() if not is_there]


FRAGMENT = Path(__file__).with_name("guest.config")
PATCHES = sorted(Path(__file__).parent.glob("*.patch"))


def recipe_digest() -> str:
    """Changes whenever the fragment or a patch does."""
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in [FRAGMENT, *PATCHES]]
    return hashlib.sha256("".join(sums).encode()).hexdigest()[:16]


KERNEL_NAME = "kernel.json"
PROGRAM_NAME = "linux"
"""The kernel beside it. `path` in kernel.json is this name, so that the cache can be moved and copied."""
WORKSHOP = ".build-"


def kernels_directory() -> Path:
    """The directory of cached kernels, shared by all clones on this machine."""
    return cache_directory() / "kernels"


def find_kernel() -> Kernel | None:
    """The best cached kernel of the current recipe; None if there is none."""
    return next(iter(cached_kernels(recipe_digest())), None)


def cached_kernels(recipe: str) -> list[Kernel]:
    """The cached kernels of a recipe, the best first: by features, then by version."""
    kernels = []
    for entry in kernels_directory().glob(f"*/{KERNEL_NAME}"):
        try:
            kernel = Kernel.model_validate_json(entry.read_text())
        except (OSError, ValidationError):
            continue
        kernel = kernel.model_copy(update={"path": entry.with_name(PROGRAM_NAME)})
        if kernel.recipe == recipe and kernel.path.exists():
            kernels.append(kernel)
    return sorted(
        kernels, key=lambda kernel: (-len(kernel.missing_features), version_numbers(kernel.version)), reverse=True
    )


def keep_kernel(linux: Path, kernel: Kernel) -> Kernel:
    """Put a built kernel into the cache, completely or not at all. Returns it with its new path."""
    directory = kernels_directory()
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
    kernels_directory().mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=WORKSHOP, dir=kernels_directory()) as name:
        yield Path(name)


@contextmanager
def only_one_builds(observe: Observe) -> Iterator[None]:
    """Wait while another process builds; then remove what killed builds left. Raises Missing without a cache."""
    with only_process(kernels_directory(), WORKSHOP, lambda: observe("wait", None, "another build is under way")):
        yield


def version_numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]

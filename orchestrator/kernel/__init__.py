"""The virtual-time kernel: find the one that is cached, or build it.

`source` fetches, `make` makes, `recipe` says of what, `probe` boots it, `cache` keeps it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from orchestrator.errors import OwltError
from orchestrator.kernel import cache, recipe
from orchestrator.kernel.make import build_kernel, check_machine
from orchestrator.kernel.kernel import Kernel, Observe
from orchestrator.kernel.probe import seccomp_works
from orchestrator.kernel.source import fetch_source, local_source

__all__ = ["Kernel", "Observe", "build", "find"]


def find() -> Kernel | None:
    """The newest cached kernel of today's recipe; None when there is none."""
    found = cache.cached(recipe.digest())
    return found[0] if found else None


def build(tarball: Path | None, observe: Observe) -> Kernel:
    """Build a kernel from Debian's source package, or from a tarball, and cache it.

    Takes some minutes and 3 GB, which are given back. Raises OwltError or Missing with the next step.
    """
    with (
        cache.only_one_builds(),
        tempfile.TemporaryDirectory(prefix="owlt-kernel-", dir=cache.cache_directory()) as name,
    ):
        directory = Path(name)
        check_machine(directory)
        source = local_source(tarball) if tarball else fetch_source(directory, observe)
        built = build_kernel(source, directory, observe)
        observe("probe", None, "booting it")
        seccomp = seccomp_works(built.linux)
        if seccomp is None:
            raise OwltError(
                f"Linux {built.version} was built and does not boot here; try another: owlt kernel build --source"
            )
        kernel = Kernel(
            path=built.linux,
            version=built.version,
            package=source.name,
            recipe=recipe.digest(),
            patches=built.patches,
            seccomp=seccomp,
            hz=built.hz,
        )
        return cache.keep(built.linux, kernel)

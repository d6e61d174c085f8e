"""The virtual-time kernel: find the one that is cached, or build it.

`source` chooses and fetches (with `apt`, from the `archive`s of this machine), `make` makes, `recipe` says of what,
`probe` boots it and looks around `inside`, `cache` keeps it.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from orchestrator.kernel import cache, recipe
from orchestrator.kernel.kernel import Kernel, Observe
from orchestrator.kernel.make import build_kernel, check_machine
from orchestrator.kernel.probe import abilities
from orchestrator.kernel.source import fetch_source, local_source

__all__ = ["Kernel", "Observe", "build", "find"]


def find() -> Kernel | None:
    """The best cached kernel of today's recipe; None when there is none."""
    found = cache.cached(recipe.digest())
    return found[0] if found else None


def build(tarball: Path | None, observe: Observe, package: str | None = None) -> Kernel:
    """Build a kernel from a tarball, or from the Debian package asked for, or the best one; and cache it.

    Takes some minutes and 1.5 GB, which are given back. Raises OwltError or Missing with the next step.
    """
    before = find()
    with cache.only_one_builds(observe), cache.workshop() as directory:
        check_machine(directory)
        if (by_another := find()) and by_another != before and not (tarball or package):
            return by_another
        source = local_source(tarball) if tarball else fetch_source(directory, observe, package)
        built = build_kernel(source, directory, observe)
        observe("probe", None, "booting it")
        kernel = Kernel(
            path=built.linux,
            version=built.version,
            package=source.name,
            recipe=recipe.digest(),
            patches=built.patches,
            hz=built.hz,
            **asdict(abilities(built.linux)),
        )
        return cache.keep(built.linux, kernel)

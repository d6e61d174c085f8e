"""Find the best kernel in the cache, or build one and put it there."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from owlt.orchestrator.kernel import cache, recipe
from owlt.orchestrator.kernel.kernel import Kernel, Observe
from owlt.orchestrator.kernel.make import check_machine, compile_kernel
from owlt.orchestrator.kernel.probe import abilities
from owlt.orchestrator.kernel.source import fetch_source, local_source


def find_kernel() -> Kernel | None:
    """The best cached kernel of the current recipe; None if there is none."""
    kernels = cache.cached(recipe.digest())
    return kernels[0] if kernels else None


def build_kernel(tarball: Path | None, observe: Observe, package: str | None = None) -> Kernel:
    """Build a kernel and cache it: from a tarball, from the named Debian package, or from the best package available.

    Takes 4 to 9 minutes and 1.5 GB of disk space, which is freed afterwards. Raises OwltError or Missing with the next
    step.
    """
    before = find_kernel()
    with cache.only_one_builds(observe), cache.workshop() as directory:
        check_machine(directory)
        if (built_meanwhile := find_kernel()) and built_meanwhile != before and not (tarball or package):
            return built_meanwhile
        source = local_source(tarball) if tarball else fetch_source(directory, observe, package)
        built = compile_kernel(source, directory, observe)
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

"""`owlt setup`: what owlt needs on this machine beside Python packages, named or installed."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from owlt.inputs.mistake import Mistake
from owlt.installation import DEBIAN_PACKAGES
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.errors import Missing


def setup(
    install: Annotated[
        bool, typer.Option("--install", help="Install missing Debian packages, as root or with sudo.")
    ] = False,
) -> None:
    """Install and build what owlt needs beside Python packages.

    Names missing Debian packages, or installs them with --install. Compiles the emulator's eBPF programs. Builds the
    virtual-time kernel, unless it is cached: 4 to 9 minutes on two cores, once for this user.

    Exit status: 0 if everything is there, 2 if something is missing.
    """
    from owlt.emulator.kernel.bpf.compile import compile_all
    from owlt.orchestrator.commands.machine import build_kernel

    if install:
        install_packages()
    make_the_rest([] if install else missing_packages(), compile_all, build_kernel)


def make_the_rest(
    missing: Sequence[str], compile_programs: Callable[[], list[Path]], build_kernel: Callable[[], None]
) -> None:
    """Compile the eBPF programs and build the kernel. Raises Missing if Debian packages are missing, or a compiler."""
    from owlt.emulator.kernel.bpf.compile import CompileError

    if missing:
        names = " ".join(missing)
        fix = f"owlt setup --install, or as root: apt-get install --no-install-recommends {names}"
        raise Missing(Mistake(f"Debian packages are missing: {names}", fix=fix))
    try:
        compiled = compile_programs()
    except CompileError as problem:
        raise Missing(Mistake(str(problem))) from problem
    Printer().note(f"eBPF programs: {compiled[0].parent}")
    build_kernel()


def missing_packages() -> list[str]:
    """The Debian packages that owlt needs and that are not installed; none where dpkg is missing."""
    if shutil.which("dpkg-query") is None:
        return []
    done = subprocess.run(["bash", DEBIAN_PACKAGES, "--missing"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def install_packages() -> None:
    """Install the Debian packages that are missing; the program that does it prints its own line, or why it cannot."""
    sudo = "" if os.geteuid() == 0 else os.environ.get("SUDO") or shutil.which("sudo") or ""
    done = subprocess.run(["bash", DEBIAN_PACKAGES], env=os.environ | {"SUDO": sudo}, check=False)
    if done.returncode != 0:
        raise typer.Exit(2)

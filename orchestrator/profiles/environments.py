"""Python packages of a recipe in a virtual environment of their own, which works at any path: hosts see it at another.

The index is that of the machine's pip configuration; what it may offer is pinned by the recipe's lock file.
"""

from __future__ import annotations

import re
import shutil
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

from owlt.orchestrator.profiles.pins import DIFFERS, Refused
from owlt.orchestrator.profiles.third_party import Pypi, lock_path, python_driver

FIRST_LINES = """#!/bin/sh
"exec" "${0%/*}/python" "-I" "$0" "$@"
"""
"""Those of a Python program that the interpreter beside it runs: a shell executes the second one, to Python it is a
text."""
PIPS_FIRST_LINES = re.compile(r"\A#!.*\n('+exec' .*\n' '+\n)?")
"""Those that pip writes have the path of the interpreter, by way of a shell if it is long."""
OTHER_FILE = re.compile(r"^ *(\S+==\S+) .*\n(?: *(?:Expected|or) .*\n)+ *Got +([0-9a-f]+)$", re.MULTILINE)


def create_environment(recipe: Pypi, directory: Path) -> list[str]:
    """Make a virtual environment without packages; the command that installs those of the lock into it.

    No module in the current directory takes the place of pip or of what pip imports.
    Raises Refused if there is no pip.
    """
    if find_spec("pip") is None:
        raise Refused(f"{sys.executable} has no pip", f"run: {sys.executable} -m ensurepip")
    venv.create(directory, symlinks=True)
    pip = [sys.executable, "-P", "-m", "pip", "--python", str(directory / "bin" / "python")]
    exactly = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirement", str(lock_path(recipe))]
    return [*pip, "--disable-pip-version-check", "install", "--no-input", "--progress-bar", "off", *exactly]


def require_pinned_wheels(recipe: Pypi, log: str) -> None:
    """Raises Refused if pip's output says that the index offers another file than the lock names."""
    if found := OTHER_FILE.search(log):
        name, digest = found.groups()
        raise Refused(f"{name} has the hash {digest}; expected one of {lock_path(recipe)}", DIFFERS)


def finish_environment(recipe: Pypi, programs: list[str], directory: Path) -> None:
    """Put the driver into the environment, and have its programs run by the interpreter beside them."""
    if recipe.driver:
        driver = python_driver(recipe.driver)
        shutil.copy(driver, directory / "bin" / driver.name)
    for program in (directory / "bin" / name for name in programs):
        if program.exists():
            program.write_text(FIRST_LINES + PIPS_FIRST_LINES.sub("", program.read_text()))
            program.chmod(0o755)

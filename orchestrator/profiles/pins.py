"""Sources and packages of third-party implementations, pinned to the versions that were examined, by hashes in owlt.

A crate is compiled from the file whose hash was compared. go compares what it downloads with a sum, which is compared
with the recipe's here. A driver's hashes are in its lock file, and cargo compares them itself. Jars are compared before
anything can start them. pip compares wheels with the recipe's lock file; they are installed into a virtual environment
of their own, which works at any path, because hosts see it at another path. The index is the one in the machine's pip
configuration. A version other than that of the lock is compared with the digest that this index states.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Mapping
from importlib.util import find_spec
from io import BytesIO
from itertools import takewhile
from pathlib import Path
from typing import Any

from owlt.orchestrator.hosts.mount_namespace import with_own_devices
from owlt.orchestrator.hosts.printable import how_ended
from owlt.orchestrator.profiles.third_party import (
    LOCK_NAME,
    Cargo,
    Driver,
    Go,
    Maven,
    Pypi,
    UnpinnedPypi,
    driver_files,
    lock_path,
    python_driver,
)

DIFFERS = "the release has been replaced, or the registry's copy is damaged: compile nothing from it, and report it"
NO_ANSWER = "see whether the package registry answers, and repeat the command"


class Refused(Exception):
    """One implementation cannot be installed. `next_step` says how to fix it."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(reason)
        self.next_step = next_step


def pinned_crate(recipe: Cargo, cargo: Path, directory: Path, environment: Mapping[str, str]) -> Path:
    """Have cargo download the crate's file into its cache, and unpack the file in a new directory.

    Returns the package's path. Raises Refused if the file has another hash, or if it cannot be downloaded.
    """
    name = f"{recipe.crate}-{recipe.version}"
    _output_of([str(cargo), "info", "--quiet", f"{recipe.crate}@{recipe.version}"], environment)
    cache = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo") / "registry" / "cache"
    files = [path.read_bytes() for path in cache.glob(f"*/{name}.crate")]
    by_hash = {hashlib.sha256(file).hexdigest(): file for file in files}
    if recipe.sha256 not in by_hash:
        found = ", ".join(by_hash) or "of no file in cargo's cache"
        _require_equal(f"crate {recipe.crate} {recipe.version}", found, recipe.sha256)
    with tarfile.open(fileobj=BytesIO(by_hash[recipe.sha256])) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # since 3.11.4
        archive.extractall(directory)
    return directory / name


def pinned_module(recipe: Go, go: Path, directory: Path) -> Path:
    """Download the module, and compare its sum (go.dev/ref/mod, "go.sum files") with the recipe's.

    Returns a new directory with a module that requires exactly what this one does, with the sums in its files: for a
    program of a module that is not the main one, go reads no go.sum. Raises Refused if the sums differ, or if it cannot
    be downloaded.
    """
    module = f"{recipe.module} {recipe.version}"
    downloaded = json.loads(_output_of([str(go), "mod", "download", "-json", module.replace(" ", "@")], {}))
    _require_equal(f"Go module {module}", downloaded["Sum"], recipe.sum)
    files = Path(downloaded["Dir"])
    directory.mkdir()
    manifest = re.sub(r"^module\b.*", "module pinned", (files / "go.mod").read_text(), count=1, flags=re.MULTILINE)
    (directory / "go.mod").write_text(f"{manifest}\nrequire {module}\n")
    sums = (files / "go.sum").read_text() if (files / "go.sum").exists() else ""
    own = f"{module} {recipe.sum}\n{module}/go.mod {downloaded['GoModSum']}\n"
    (directory / "go.sum").write_text(sums + own)
    return directory


def copy_driver(recipe: Driver, cargo: Path, directory: Path, environment: Mapping[str, str]) -> Path:
    """Copy a driver's source into a new directory, with the lock file that cargo reads. Returns the package's path.

    The lock file in this repository names no registry; here, each package gets cargo's own name for its default one.
    """
    manifest, *others = driver_files(recipe)
    package = directory / manifest.parent.name
    package.mkdir(parents=True)
    for path in (manifest, *others):
        shutil.copyfile(path, directory / path.relative_to(manifest.parent.parent))
    question = ["metadata", "--no-deps", "--offline", "--format-version", "1", "--manifest-path"]
    answer: dict[str, Any] = json.loads(_output_of([str(cargo), *question, str(package / "Cargo.toml")], environment))
    (registry,) = {each["source"] for listed in answer["packages"] for each in listed["dependencies"]}
    lock = (package / LOCK_NAME).read_text().replace("\nchecksum = ", f'\nsource = "{registry}"\nchecksum = ')
    (package / "Cargo.lock").write_text(lock)
    return package


COPY_JARS = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
JAR = """<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version><classifier>{}</classifier>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
"""
PROJECT = """<project><modelVersion>4.0.0</modelVersion>
<groupId>owlt</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
{}</dependencies></project>
"""


def copy_jars_command(recipe: Maven, maven: Path, prefix: Path) -> list[str]:
    """The command that has Maven download the jars of the lock, and no others, into `prefix`/source."""
    source = prefix / "source"
    source.mkdir()
    (source / "pom.xml").write_text(
        PROJECT.format("".join(JAR.format(*_coordinates(jar)) for jar in _locked_jars(recipe)))
    )
    options = ["--batch-mode", "--no-transfer-progress", "--strict-checksums", "--file", str(source / "pom.xml")]
    return [str(maven), *options, COPY_JARS, "-Dmdep.useRepositoryLayout=true", f"-DoutputDirectory={source / 'jars'}"]


def install_jars(recipe: Maven, java: Path, program: str, prefix: Path) -> None:
    """Compare the downloaded jars with the lock, and make the command that starts `main_class` with them.

    Raises Refused if a jar is missing or has another hash, or two of them one name; then nothing is installed.
    """
    jars, locked = prefix / "source" / "jars", _locked_jars(recipe)
    names = [Path(jar).name for jar in locked]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        problem = f"two jars of {lock_path(recipe)} are named {twice}; one would overwrite the other"
        raise Refused(problem, "keep one of them in the lock")
    for jar, expected in locked.items():
        found = hashlib.sha256((jars / jar).read_bytes()).hexdigest() if (jars / jar).exists() else "of no file"
        _require_equal(Path(jar).name, found, expected)
    (prefix / "lib").mkdir()
    for jar in locked:
        (jars / jar).rename(prefix / "lib" / Path(jar).name)
    (prefix / "bin").mkdir()
    (prefix / "bin" / program).write_text(
        f"#!/bin/sh\n# jars: {hashlib.sha256(lock_path(recipe).read_bytes()).hexdigest()}\n"
        f'exec {java} -cp "${{0%/*}}/../lib/*" {recipe.main_class} "$@"\n'
    )
    (prefix / "bin" / program).chmod(0o755)


def _locked_jars(recipe: Maven) -> dict[str, str]:
    """The hash of each jar, by its path in a Maven repository."""
    lines = [line.split() for line in lock_path(recipe).read_text().splitlines()]
    return {path: digest for digest, path in lines}


def _coordinates(jar: str) -> tuple[str, str, str, str]:
    """Group, artifact, version and classifier of GROUP/ARTIFACT/VERSION/ARTIFACT-VERSION[-CLASSIFIER].jar."""
    *group, artifact, version, name = Path(jar).parts
    return ".".join(group), artifact, version, Path(name).stem.removeprefix(f"{artifact}-{version}").removeprefix("-")


def _require_equal(what: str, found: str | None, expected: str) -> None:
    if found != expected:
        raise Refused(f"{what} has the hash {found}; expected {expected}", DIFFERS)


def _output_of(command: list[str], environment: Mapping[str, str]) -> str:
    """What it prints. Raises Refused if it fails."""
    done = subprocess.run(
        with_own_devices(command),
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        words = [Path(command[0]).name, *takewhile(lambda word: not word.startswith("-"), command[1:])]
        raise Refused(f"{' '.join(words)} {how_ended(done.returncode)}: {(lines or ['no output'])[-1]}", NO_ANSWER)
    return done.stdout


FIRST_LINES = """#!/bin/sh
"exec" "${0%/*}/python" "-I" "$0" "$@"
"""
"""Those of a Python program that the interpreter beside it runs: a shell executes the second one, to Python it is a
text."""
PIPS_FIRST_LINES = re.compile(r"\A#!.*\n('+exec' .*\n' '+\n)?")
"""Those that pip writes have the path of the interpreter, by way of a shell if it is long."""
UNPINNED_LOCK = "unpinned.lock"
"""The lock of an environment whose package has another version than the recipe's lock; it stays in the environment."""
_WHEELS = ["--no-deps", "--only-binary", ":all:"]
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
    install = [*pip, "--disable-pip-version-check", "install", "--no-input", *_WHEELS]
    lock = lock_path(recipe)
    if isinstance(recipe, UnpinnedPypi):
        lock = directory / UNPINNED_LOCK
        lock.write_text(_unpinned(recipe, install))
    return [*install, "--progress-bar", "off", "--require-hashes", "--requirement", str(lock)]


def _unpinned(recipe: UnpinnedPypi, install: list[str]) -> str:
    """The recipe's lock with its package in another version, which has the digest that the index states.

    Raises Refused if the index has no such version, or states no digest.
    """
    text = lock_path(recipe).read_text()
    name = Path(recipe.lock).stem
    pinned = re.search(rf"^{re.escape(f'{name}=={recipe.pinned_version}')}\b(?:.*\\\n)*.*$", text, re.MULTILINE)
    if pinned is None:
        raise Refused(f"{recipe.lock} has no {name}=={recipe.pinned_version}", "correct the recipe")
    wanted = f"{name}=={recipe.version}"
    done = subprocess.run(
        [*install, "--dry-run", "--ignore-installed", "--quiet", "--report", "-", wanted],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        raise Refused(f"{wanted}: {(done.stderr.strip() or 'not found').splitlines()[-1]}", "give another version")
    (found,) = json.loads(done.stdout)["install"]
    digest = found["download_info"]["archive_info"].get("hashes", {}).get("sha256")
    if digest is None:
        raise Refused(f"{wanted}: the package index states no SHA-256", "use an index that states it")
    return text.replace(pinned[0], f"{wanted} \\\n    --hash=sha256:{digest}")


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

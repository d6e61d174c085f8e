"""A third-party implementation that owlt can install, as data: its name, its source, the programs that it installs.

They are read from profiles/third-party/. Where one is installed, and how a complete installation is recognised, is here
too; `installing` installs them.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from owlt import PACKAGE
from owlt.inputs.mistake import Mistake, got
from owlt.inputs.validation import mistakes_in
from owlt.orchestrator.errors import NotFound, OwltError, ProfileError, did_you_mean
from owlt.orchestrator.own_directories import third_party_directory
from owlt.orchestrator.profiles.catalogue import PROFILES
from owlt.orchestrator.profiles.load import read_document

Text = Annotated[str, Field(min_length=1)]
VERSION = r"\d+(\.\d+)*"
Version = Annotated[str, Field(pattern=rf"^{VERSION}$")]
AT = "@"
"""Between a name and a version that is not the pinned one."""


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Debian(_Value):
    """Debian packages, in the newest version that apt finds. Their programs are on PATH.

    `services` are started by the packages and listen on the network: they are disabled after the installation.
    """

    kind: Literal["debian"]
    packages: Annotated[list[Text], Field(min_length=1)]
    services: list[Text] = []


class Cargo(_Value):
    """A Rust crate, compiled with the dependency versions of its own lock file.

    `sha256` is that of the crate's file, which contains the lock file. `build_packages` are the Debian packages that
    compiling it needs besides the compiler.
    """

    kind: Literal["cargo"]
    crate: Text
    version: Version
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    minimum_rust: Version
    build_packages: list[Text] = []


class Driver(_Value):
    """A library at one version, with a small program of this project that uses it: agents/drivers/DRIVER.

    The driver's lock file has the version and the SHA-256 of the library and of everything else that is compiled.
    """

    kind: Literal["driver"]
    driver: Text
    language: Literal["rust"]
    version: Version
    minimum_compiler: Version
    build_packages: list[Text] = []


class Go(_Value):
    """Programs of one Go module at one version, whose sum is that of go.sum.

    `packages` are the module's own programs. `driver` is the folder in agents/drivers/ of the program of this project
    that uses the module, owlt-DRIVER.
    """

    kind: Literal["go"]
    module: Text
    packages: list[Text] = []
    driver: Text | None = None
    version: Annotated[str, Field(pattern=r"^v\d+\.\d+\.\d+")]
    sum: Annotated[str, Field(pattern=r"^h1:[0-9A-Za-z+/]{43}=$")]
    minimum_go: Version


class Pypi(_Value):
    """A Python package in a virtual environment of its own, with exactly the packages of `lock`.

    `lock` is a requirements file beside the implementation's file in profiles/third-party/: one version of each
    package, dependencies included, with the SHA-256 hashes of its wheels. `driver` is the folder in agents/drivers/ of
    the program of this project that uses the package; without it the package has programs of its own.
    """

    kind: Literal["pypi"]
    lock: Text
    version: Version
    driver: Text | None = None


class UnpinnedPypi(Pypi):
    """A Python package in a version other than that of `lock`; owlt has no digest of it. No file has this recipe."""

    pinned_version: Version


class Maven(_Value):
    """A program in Java: exactly the jars of `lock`, downloaded by Maven, and a command that starts `main_class`.

    `lock` is a file beside the implementation's file in profiles/third-party/, in the format of sha256sum: the hash of
    each jar, dependencies included, and its path in a Maven repository, GROUP/ARTIFACT/VERSION/FILE.
    """

    kind: Literal["maven"]
    lock: Text
    main_class: Text
    version: Version
    minimum_java: Version
    build_packages: list[Text] = []


class Script(_Value):
    """A script beside the implementation's file in profiles/third-party/.

    Its argument is the directory to install into; it creates DIRECTORY/bin.
    """

    kind: Literal["script"]
    script: Text
    version: Text


class Installable(_Value):
    """A third-party implementation that `owlt third-party install` can install.

    `version_command` may hold `{bin}`, the directory of its programs if they are not on PATH. An implementation whose
    programs print no version has no such command: its version is the recipe's.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
    title: Text
    licence: Text
    required: bool
    programs: Annotated[list[Text], Field(min_length=1)]
    recipe: Annotated[Debian | Cargo | Driver | Go | Pypi | Maven | Script, Field(discriminator="kind")]
    version_command: list[Text] = []

    @model_validator(mode="after")
    def _require_program_names(self) -> Self:
        if wrong := next((program for program in self.programs if "/" in program), None):
            raise ValueError(f"programs: got {wrong!r}, expected the name of a program, without a directory")
        return self

    @property
    def is_pinned(self) -> bool:
        """Whether owlt has the digest of this version; the digest of another version comes from the package index."""
        return not isinstance(self.recipe, UnpinnedPypi)

    @property
    def recipe_version(self) -> str:
        """The version that the recipe names; "Debian's" if the distribution decides."""
        return "Debian's" if isinstance(self.recipe, Debian) else self.recipe.version.removeprefix("v")


def all_installables() -> list[Installable]:
    """The implementations that owlt can install, required ones first.

    Raises ProfileError as `load_installable` does.
    """
    installables = [load_installable(path) for path in sorted((PROFILES / "third-party").glob("*.yaml"))]
    return sorted(installables, key=lambda installable: not installable.required)


def find_installables(names: list[str]) -> list[Installable]:
    """The implementations with these names, or NAME@VERSION; all if `names` is empty.

    Raises ProfileError for an unknown name, OwltError for a version that cannot be installed.
    """
    by_name = {installable.name: installable for installable in all_installables()}
    found = []
    for given in dict.fromkeys(names or by_name):
        name, has_version, version = given.partition(AT)
        if name not in by_name:
            fix = did_you_mean(name, by_name, f"known: {', '.join(by_name)}")
            raise NotFound(Mistake(f"implementation {name!r}: not found", fix=fix))
        found.append(at_version(by_name[name], version) if has_version else by_name[name])
    return found


def at_version(installable: Installable, version: str) -> Installable:
    """The implementation in a version; for the pinned version, the implementation itself.

    Raises OwltError if its recipe does not support other versions, or if the text is not a version.
    """
    recipe, name = installable.recipe, f"{installable.name}{AT}{version}"
    if version == installable.recipe_version:
        return installable
    if not isinstance(recipe, Pypi):
        problem = f"{name}: only version {installable.recipe_version} can be installed, since its kind is {recipe.kind}"
        raise OwltError(Mistake(problem, "an implementation of the kind pypi"))
    if not re.fullmatch(VERSION, version):
        raise OwltError(Mistake(f"{name}: is not a version", f"numbers, such as {installable.name}{AT}1.2.3"))
    other = UnpinnedPypi.model_validate(recipe.model_dump() | {"version": version, "pinned_version": recipe.version})
    return installable.model_copy(update={"name": name, "recipe": other})


def installed_versions(installable: Installable) -> list[Installable]:
    """The implementation in each version that is installed, the oldest first."""
    if not isinstance(installable.recipe, Pypi):
        return [installable] if is_installed(installable) else []
    names = {path.name for path in third_party_directory().glob(f"{installable.name}{AT}*")}
    versions = [name.partition(AT)[2] for name in names]
    others = [at_version(installable, version) for version in versions if re.fullmatch(VERSION, version)]
    found = {each.name: each for each in [installable, *others] if is_installed(each)}
    return sorted(found.values(), key=lambda each: version_numbers(each.recipe_version))


def version_numbers(version: str) -> tuple[int, ...]:
    """A version as numbers that sort in its order: 1.85.0 as (1, 85, 0)."""
    return tuple(int(part) for part in version.split(".") if part)


def load_installable(path: Path) -> Installable:
    """Read one file. Its name must be NAME.yaml, NAME being its key `name`.

    Raises ProfileError if the file is missing, is not valid YAML, or has wrong keys or values.
    """
    document = read_document(path)
    try:
        installable = Installable.model_validate(document.value)
    except ValidationError as problem:
        raise ProfileError(*map(document.positions.located, mistakes_in(problem, Installable))) from None
    if installable.name != path.stem:
        fix = "change the name or rename the file"
        where = document.positions.place(("name",))
        raise ProfileError(Mistake(got(installable.name), f"{path.stem!r}, the name of the file", fix, where))
    return installable


STAMP_NAME = "stamp"
NOT_IN_STAMP = {"minimum_rust", "minimum_go", "minimum_java", "minimum_compiler", "build_packages", "services"}
LOCK_NAME = "crates.lock"
"""Of a driver: Cargo.lock without the lines `source`, which name a registry."""
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


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
    source = installable.recipe.model_dump_json(exclude=NOT_IN_STAMP)
    recipe = f"{source} {sorted(installable.programs)}".encode()
    if isinstance(installable.recipe, Pypi):
        recipe += f" {sys.base_prefix} {sys.version_info[:2]}".encode()  # an environment is one of this interpreter
    return hashlib.sha256(recipe + b"".join(path.read_bytes() for path in _own_files(installable.recipe))).hexdigest()


def _own_files(recipe: Debian | Cargo | Driver | Go | Pypi | Maven | Script) -> list[Path]:
    """The files of this project that a recipe uses."""
    match recipe:
        case Script():
            return [script for script in [script_path(recipe)] if script.exists()]
        case Driver():
            return driver_files(recipe)
        case Go(driver=driver) if driver:
            return [go_driver(driver)]
        case Pypi(driver=driver):
            return [lock_path(recipe), *([python_driver(driver)] if driver else [])]
        case Maven():
            return [lock_path(recipe)]
        case _:
            return []


def driver_files(recipe: Driver) -> list[Path]:
    """The source of a driver in Rust: manifest, lock file, modules, and those that drivers share, one folder up."""
    directory = (PACKAGE / "agents" / "drivers" / recipe.driver).resolve()
    modules = [path for folder in (directory, directory.parent) for path in sorted(folder.glob("*.rs"))]
    return [directory / "Cargo.toml", directory / LOCK_NAME, *modules]


def go_driver(driver: str) -> Path:
    """The program of a driver in Go, one file."""
    return (PACKAGE / "agents" / "drivers" / driver / "main.go").resolve()


def python_driver(driver: str) -> Path:
    """The program of a driver in Python."""
    return (PACKAGE / "agents" / "drivers" / driver / f"owlt-{Path(driver).name}").resolve()


def lock_path(recipe: Pypi | Maven) -> Path:
    """The file with the version and hash of every package of a recipe."""
    return (PACKAGE / "profiles" / "third-party" / recipe.lock).resolve()


def script_path(recipe: Script) -> Path:
    """The program of a recipe that is a script."""
    return (PACKAGE / "profiles" / "third-party" / recipe.script).resolve()


def search_path() -> str:
    """PATH, and the directories of system programs that an ordinary user's PATH does not have."""
    return os.pathsep.join(filter(None, [os.environ.get("PATH", ""), SYSTEM_PATH]))


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""

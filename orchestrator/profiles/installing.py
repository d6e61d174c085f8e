"""Installs third-party implementations one after the other, each completely or not at all, and reports on each.

The compilers that they need are found here, in a new enough version. What can be installed, and what is, belongs to
`orchestrator.profiles.third_party`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from owlt.orchestrator.hosts.mount_namespace import with_own_devices
from owlt.orchestrator.hosts.printable import how_ended
from owlt.orchestrator.own_directories import only_process, third_party_directory
from owlt.orchestrator.profiles.pins import (
    Refused,
    copy_driver,
    copy_jars_command,
    create_environment,
    finish_environment,
    install_jars,
    pinned_crate,
    pinned_module,
    require_pinned_wheels,
)
from owlt.orchestrator.profiles.third_party import (
    STAMP_NAME,
    Cargo,
    Debian,
    Driver,
    Go,
    Installable,
    Maven,
    Pypi,
    Script,
    go_driver,
    home,
    is_installed,
    script_path,
    search_path,
    stamp,
    version_numbers,
)

Observe = Callable[[str], None]
"""Receives one short line per step."""
REFUSAL = "OWLT_REFUSAL"
"""Environment variable with the name of a file. A script of this project that fails for a reason that the user can fix
writes two lines into it: the reason, and how to fix it."""
LOG_NAME = "install.log"
FRESH = ".fresh-"
WAITING = "waiting for another 'owlt third-party install' to finish"
SYSTEMD = Path("/run/systemd/system")
APT_OPTIONS = ["-q", "-o", "DPkg::Lock::Timeout=600"]


@dataclass(frozen=True)
class BuildMachine:
    """The machine that is installed on: where its programs are, and what root's commands begin with."""

    path: str
    root_prefix: list[str] | None
    """Empty if this is root; None if there is no way to become root."""


def this_machine() -> BuildMachine:
    """The machine that this runs on, for the user that runs it."""
    return BuildMachine(search_path(), _root_prefix())


@dataclass(frozen=True)
class Installation:
    """The result of installing one implementation. `next_step` says how to fix a failure; "" if it is installed."""

    installable: Installable
    installed: bool
    message: str
    next_step: str = ""


def install(
    installables: Iterable[Installable], observe: Observe, output: Observe, machine: BuildMachine | None = None
) -> list[Installation]:
    """Install what is not installed yet. A failure is reported, and installing continues with the next one.

    `observe` receives one line per step, `output` each line that the installing programs print.
    Raises Missing if the third-party directory is not writable.
    """
    machine = machine or this_machine()
    requested = list(installables)
    if all(is_installed(installable, machine.path) for installable in requested):
        return [_succeeded(installable, "already installed", observe) for installable in requested]
    with only_process(third_party_directory(), FRESH, partial(observe, WAITING)):
        missing = [installable for installable in requested if not is_installed(installable, machine.path)]
        if any(map(_packages, missing)):
            _update_package_lists(machine, observe, output)
        return [_install_one(installable, machine, observe, output) for installable in requested]


def how_to_install(installable: Installable) -> str:
    """The command that installs it."""
    return f"owlt third-party install {installable.name}"


def compile_command(
    installable: Installable, prefix: Path, machine: BuildMachine | None = None
) -> tuple[list[str], dict[str, str]]:
    """The command that compiles the programs into an empty directory, and the variables to add to its environment.

    Raises Refused if its compiler is missing or too old, or if the sources are not those of the recipe's hashes.
    """
    machine = machine or this_machine()
    match installable.recipe:
        case Cargo(minimum_rust=minimum) | Driver(minimum_compiler=minimum) as recipe:
            cargo = find_toolchain(RUST, minimum, machine.path)
            environment = {"PATH": f"{cargo.parent}{os.pathsep}{machine.path}"}  # cargo looks for rustc there
            source = prefix / "source"
            if isinstance(recipe, Cargo):
                package = pinned_crate(recipe, cargo, source, environment)
            else:
                package = copy_driver(recipe, cargo, source, environment)
            directories = ["--root", str(prefix), "--target-dir", str(prefix / "target"), "--path", str(package)]
            return [str(cargo), "install", "--locked", *directories], environment
        case Go(packages=packages, driver=driver, minimum_go=minimum) as recipe:
            go = find_toolchain(GO, minimum, machine.path)
            module = pinned_module(recipe, go, prefix / "source")
            environment = {"GOBIN": str(prefix / "bin"), "GOFLAGS": "-trimpath -mod=readonly", "GOWORK": "off"}
            if driver:
                shutil.copy(go_driver(driver), module)
                return [
                    str(go),
                    "build",
                    "-C",
                    str(module),
                    "-o",
                    str(prefix / "bin" / f"owlt-{driver}"),
                    ".",
                ], environment
            return [str(go), "install", "-C", str(module), *packages], environment
        case Pypi() as recipe:
            return create_environment(recipe, prefix), {}
        case Maven(minimum_java=minimum) as recipe:
            find_toolchain(JAVA, minimum, machine.path)
            return copy_jars_command(recipe, find_toolchain(MAVEN, "3", machine.path), prefix), {}
        case Script() as recipe:
            return [str(script_path(recipe)), str(prefix)], {"SUDO": " ".join(machine.root_prefix or [])}
        case Debian():
            raise ValueError(f"{installable.name} is not compiled")


def _install_one(installable: Installable, machine: BuildMachine, observe: Observe, output: Observe) -> Installation:
    if is_installed(installable, machine.path):
        return _succeeded(installable, "already installed", observe)
    start_s = time.monotonic()
    try:
        if packages := _packages(installable):
            log = _install_packages(installable, packages, machine, observe, output)
        if isinstance(installable.recipe, Debian):
            _disable(installable.recipe.services, machine, log.with_name("services.log"), output)
            _require_programs(installable, machine.path, log)
        else:
            _compile(installable, machine, observe, output)
    except Refused as problem:
        observe(f"{installable.name}: not installed: {problem}")
        return Installation(installable, False, str(problem), problem.next_step)
    return _succeeded(installable, f"installed in {time.monotonic() - start_s:.0f} s", observe)


def _succeeded(installable: Installable, message: str, observe: Observe) -> Installation:
    observe(f"{installable.name}: {message}")
    return Installation(installable, True, message)


def _update_package_lists(machine: BuildMachine, observe: Observe, output: Observe) -> None:
    """Fetch apt's package lists. If that fails, the installation that follows reports what is missing."""
    root_prefix = machine.root_prefix
    if root_prefix is not None and shutil.which("apt-get", path=machine.path):
        observe("updating the Debian package lists")
        _run([*root_prefix, "apt-get", *APT_OPTIONS, "update"], {}, third_party_directory() / "apt-update.log", output)


def _packages(installable: Installable) -> list[str]:
    """The Debian packages that its installation installs."""
    match installable.recipe:
        case Debian(packages=packages):
            return packages
        case Cargo(build_packages=packages) | Driver(build_packages=packages) | Maven(build_packages=packages):
            return [package for package in packages if not _is_package_installed(package)]
        case _:
            return []


def _is_package_installed(package: str) -> bool:
    """True as well on a system without Debian packages, where the compiler says what is missing."""
    query = ["dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}", package]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=False).stdout.startswith("ii")
    except OSError:
        return True


def _install_packages(
    installable: Installable, packages: list[str], machine: BuildMachine, observe: Observe, output: Observe
) -> Path:
    """Returns the log."""
    names = " ".join(packages)
    by_hand = f"as root, run: apt-get install --no-install-recommends {names}"
    if not shutil.which("apt-get", path=machine.path):
        raise Refused("apt-get is missing", f"install {installable.title} with the package manager of your system")
    root_prefix = machine.root_prefix
    if root_prefix is None:
        raise Refused(f"Debian packages are missing and only root can install them: {names}", by_hand)
    home(installable).mkdir(exist_ok=True)
    log = home(installable) / LOG_NAME
    observe(f"{installable.name}: installing Debian packages: {names}")
    command = ["apt-get", *APT_OPTIONS, "install", "-y", "--no-install-recommends", *packages]
    status, last_lines = _run([*root_prefix, "env", "DEBIAN_FRONTEND=noninteractive", *command], {}, log, output)
    if status != 0:
        raise Refused(f"apt-get {how_ended(status)}: {last_lines[-1]}", f"see {log}; then {by_hand}")
    return log


def _disable(services: list[str], machine: BuildMachine, log: Path, output: Observe) -> None:
    if services and SYSTEMD.is_dir():
        _run([*(machine.root_prefix or []), "systemctl", "disable", "--now", *services], {}, log, output)


def _compile(installable: Installable, machine: BuildMachine, observe: Observe, output: Observe) -> None:
    recipe = installable.recipe
    with _fresh(installable) as prefix:
        command, environment = compile_command(installable, prefix, machine)
        title = f"{installable.title} {installable.recipe_version}"
        compiled = not isinstance(recipe, Pypi | Maven)
        work = f"downloading and compiling {title}; this takes minutes" if compiled else f"downloading {title}"
        observe(f"{installable.name}: {work}")
        kept_log = home(installable) / LOG_NAME
        refusal = prefix / "refusal"
        environment = environment | {REFUSAL: str(refusal)}
        status, last_lines = _run(command, environment, prefix / LOG_NAME, output, with_own_devices(command))
        if status != 0 and refusal.exists():
            problem, fix = refusal.read_text().splitlines()
            raise Refused(problem, fix)
        if status != 0:
            if isinstance(recipe, Pypi):
                require_pinned_wheels(recipe, (prefix / LOG_NAME).read_text())
            reason = f"{Path(command[0]).name} {how_ended(status)}: {last_lines[-1]}"
            raise Refused(reason, f"see {kept_log}; then {how_to_install(installable)}")
        if isinstance(recipe, Maven):
            java = find_toolchain(JAVA, recipe.minimum_java, machine.path)
            install_jars(recipe, java, installable.programs[0], prefix)
        for directory in ("source", "target"):
            shutil.rmtree(prefix / directory, ignore_errors=True)
        if isinstance(recipe, Pypi):
            finish_environment(recipe, installable.programs, prefix)
        _require_programs(installable, str(prefix / "bin"), kept_log)


@contextmanager
def _fresh(installable: Installable) -> Iterator[Path]:
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


def _replace(old: Path, new: Path) -> None:
    aside = old.with_name(f"{FRESH}{old.name}-replaced")
    if old.exists():
        old.rename(aside)
    new.rename(old)
    shutil.rmtree(aside, ignore_errors=True)


def _require_programs(installable: Installable, path: str, log: Path) -> None:
    if missing := [name for name in installable.programs if not shutil.which(name, path=path)]:
        raise Refused(f"the installation has not created its programs: {', '.join(missing)}", f"see {log}")


def _run(
    command: list[str], environment: dict[str, str], log: Path, output: Observe, executed: list[str] | None = None
) -> tuple[int, list[str]]:
    """Run a command to its end and log its output. Returns the exit status and the last two non-empty lines.

    `executed` is the command line that runs it, if that is not the command itself.
    """
    last_lines = deque(["no output"], maxlen=2)
    with log.open("w") as log_file:
        log_file.write(f"$ {' '.join(command)}\n")
        try:
            process = subprocess.Popen(
                executed or command,
                env=os.environ | environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        except OSError as problem:
            return 127, [f"{command[0]}: {problem.strerror}"]
        with process:
            try:
                for line in process.stdout or ():
                    log_file.write(line)
                    if text := line.strip():
                        last_lines.append(text)
                        output(text)
            except BaseException:
                process.terminate()
                raise
    return process.returncode, list(last_lines)


def _root_prefix() -> list[str] | None:
    """The words before a command that make root run it: none if this is root; None if there is no way."""
    if os.geteuid() == 0:
        return []
    sudo = os.environ.get("SUDO") or shutil.which("sudo")
    return sudo.split() if sudo else None


@dataclass(frozen=True)
class Toolchain:
    """A compiler's driver, the directory that is searched besides PATH, and how to install it."""

    program: str
    language: str
    directory: Path
    version_command: tuple[str, ...]
    source: str


RUST = Toolchain(
    program="cargo",
    language="Rust",
    directory=Path("~/.cargo/bin"),
    version_command=("--version",),
    source="rustup (see the Rust project's site), or 'apt-get install cargo' if 'apt-cache policy cargo' shows such a "
    "version",
)
GO = Toolchain(
    program="go",
    language="Go",
    directory=Path("/usr/local/go/bin"),
    version_command=("version",),
    source="the Go project's archive, unpacked in /usr/local, or 'apt-get install golang-go' if "
    "'apt-cache policy golang-go' shows such a version",
)
JAVA = Toolchain(
    program="java",
    language="Java",
    directory=Path("/usr/lib/jvm/default-java/bin"),
    version_command=("--version",),
    source="'apt-get install default-jre-headless' if 'apt-cache policy default-jre-headless' shows such a version",
)
MAVEN = Toolchain(
    program="mvn",
    language="Maven",
    directory=Path("/usr/share/maven/bin"),
    version_command=("--batch-mode", "--version"),
    source="'apt-get install maven', or the Maven project's archive",
)


def find_toolchain(toolchain: Toolchain, minimum: str, path: str | None = None) -> Path:
    """The newest driver found in `path`, by default `search_path()`, or in the toolchain's own directory.

    Raises Refused if none is new enough.
    """
    directories = [*(search_path() if path is None else path).split(":"), str(toolchain.directory.expanduser())]
    drivers = {Path(path) for directory in directories if (path := shutil.which(toolchain.program, path=directory))}
    versions = {driver: _version(driver, toolchain) for driver in drivers}
    best = max(versions, key=lambda driver: version_numbers(versions[driver]), default=None)
    if best and version_numbers(versions[best]) >= version_numbers(minimum):
        return best
    found = f"{best} is {versions[best] or 'of an unknown version'}" if best else f"{toolchain.program} is missing"
    raise Refused(
        f"installing it needs {toolchain.language} {minimum} or later; {found}",
        f"install {toolchain.language} {minimum} or later, so that {toolchain.program} is on PATH or in "
        f"{toolchain.directory}: {toolchain.source}",
    )


def _version(driver: Path, toolchain: Toolchain) -> str:
    done = subprocess.run([driver, *toolchain.version_command], capture_output=True, text=True, check=False)
    match = re.search(r"(?<![\[\d])\d+(\.\d+)*", done.stdout)  # mvn prints escape sequences
    return match[0] if match else ""

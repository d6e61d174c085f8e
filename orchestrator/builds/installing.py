"""Getting builds: one after the other, each whole or not at all, and what became of each."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from orchestrator.builds import toolchains
from orchestrator.builds.build import Build, Cargo, Debian, Go, Script
from orchestrator.builds.places import (
    LOG_NAME,
    PROJECT,
    builds_directory,
    fresh,
    home,
    is_installed,
    only_one_installs,
    search_path,
)
from orchestrator.exit_status import how_ended

Observe = Callable[[str], None]
"""Told what is done now, a short line each time."""

OURS_REFUSED = 2
NEXT = "owlt: next: "
"""How our own scripts end when the user can mend it: this status, the reason, and a line that begins so."""

SYSTEMD = Path("/run/systemd/system")
APT_OPTIONS = ["-q", "-o", "DPkg::Lock::Timeout=600"]


@dataclass(frozen=True)
class Ending:
    """What became of one build. `reason` and `next_step` are empty where it is installed."""

    build: Build
    installed: bool
    told: str
    next_step: str = ""


class _Refused(Exception):
    """A build that cannot be installed here and now. `next_step` is the user's."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(reason)
        self.next_step = next_step


def install(builds: Iterable[Build], observe: Observe, output: Observe) -> list[Ending]:
    """Install those that are not there yet. One that cannot be is told of, and the others go on.

    `observe` gets a line for each step, `output` each line of the programs that do it.
    Raises Missing when the directory of builds cannot be written.
    """
    wanted = list(builds)
    if all(map(is_installed, wanted)):
        return [_ended_well(build, "is there already", observe) for build in wanted]
    with only_one_installs(observe):
        if any(isinstance(build.recipe, Debian) and not is_installed(build) for build in wanted):
            _update_lists(observe, output)
        return [_install_one(build, observe, output) for build in wanted]


def how_to_install(build: Build) -> str:
    """The command that gets a build."""
    return f"make builds BUILD={build.name}"


def compile_command(build: Build, prefix: Path) -> tuple[list[str], dict[str, str]]:
    """The command that makes a build in an empty directory, and what it adds to the environment.

    Raises NotHere where its compiler is missing or too old.
    """
    match build.recipe:
        case Cargo(crate=crate, version=version, minimum_rust=minimum):
            cargo = toolchains.find(toolchains.RUST, minimum)
            places = ["--root", str(prefix), "--target-dir", str(prefix / "target")]
            path = {"PATH": f"{cargo.parent}{os.pathsep}{search_path()}"}  # cargo looks for rustc there
            return [str(cargo), "install", "--locked", *places, "--version", f"={version}", crate], path
        case Go(packages=packages, version=version, minimum_go=minimum):
            go = toolchains.find(toolchains.GO, minimum)
            places_of_go = {"GOBIN": str(prefix / "bin"), "GOFLAGS": "-trimpath"}
            return [str(go), "install", *(f"{package}@{version}" for package in packages)], places_of_go
        case Script(script=script):
            return [str(PROJECT / script), str(prefix)], {"SUDO": " ".join(_as_root() or [])}
        case Debian():
            raise ValueError(f"{build.name} is not compiled")


def _install_one(build: Build, observe: Observe, output: Observe) -> Ending:
    if is_installed(build):
        return _ended_well(build, "is there already", observe)
    start_s = time.monotonic()
    try:
        if isinstance(build.recipe, Debian):
            _install_packages(build, build.recipe, observe, output)
        else:
            _compile(build, observe, output)
    except (_Refused, toolchains.NotHere) as problem:
        observe(f"{build.name}: not installed: {problem}")
        return Ending(build, False, str(problem), problem.next_step)
    return _ended_well(build, f"installed in {time.monotonic() - start_s:.0f} s", observe)


def _ended_well(build: Build, told: str, observe: Observe) -> Ending:
    observe(f"{build.name}: {told}")
    return Ending(build, True, told)


def _update_lists(observe: Observe, output: Observe) -> None:
    """Fetch apt's lists. Where that fails, installing says what is missing."""
    as_root = _as_root()
    if as_root is not None and shutil.which("apt-get", path=search_path()):
        observe("fetching the lists of Debian packages")
        _run([*as_root, "apt-get", *APT_OPTIONS, "update"], {}, builds_directory() / "apt-update.log", output)


def _install_packages(build: Build, recipe: Debian, observe: Observe, output: Observe) -> None:
    names = " ".join(recipe.packages)
    by_hand = f"as root: apt-get install --no-install-recommends {names}"
    if not shutil.which("apt-get", path=search_path()):
        raise _Refused("apt-get is not here", f"install {build.title} as your system does")
    as_root = _as_root()
    if as_root is None:
        raise _Refused(f"these Debian packages are missing, and this is not root: {names}", by_hand)
    home(build).mkdir(exist_ok=True)
    log = home(build) / LOG_NAME
    observe(f"{build.name}: installing Debian packages: {names}")
    command = ["apt-get", *APT_OPTIONS, "install", "-y", "--no-install-recommends", *recipe.packages]
    status, told = _run([*as_root, "env", "DEBIAN_FRONTEND=noninteractive", *command], {}, log, output)
    if status != 0:
        raise _Refused(f"apt-get {how_ended(status)}: {told[-1]}", f"see {log}; then {by_hand}")
    if recipe.services and SYSTEMD.is_dir():
        _run([*as_root, "systemctl", "disable", "--now", *recipe.services], {}, log.with_name("services.log"), output)
    _complain_of_missing_programs(build, search_path(), log)


def _compile(build: Build, observe: Observe, output: Observe) -> None:
    with fresh(build) as prefix:
        command, environment = compile_command(build, prefix)
        observe(f"{build.name}: getting and compiling {build.title} {build.told_version}, which takes minutes")
        kept_log = home(build) / LOG_NAME
        status, told = _run(command, environment, prefix / LOG_NAME, output)
        if status == OURS_REFUSED and told[-1].startswith(NEXT):
            raise _Refused(told[0].removeprefix("owlt: "), told[-1].removeprefix(NEXT))
        if status != 0:
            reason = f"{Path(command[0]).name} {how_ended(status)}: {told[-1]}"
            raise _Refused(reason, f"see {kept_log}; then {how_to_install(build)}")
        shutil.rmtree(prefix / "target", ignore_errors=True)
        _complain_of_missing_programs(build, str(prefix / "bin"), kept_log)


def _complain_of_missing_programs(build: Build, path: str, log: Path) -> None:
    if missing := [name for name in build.programs if not shutil.which(name, path=path)]:
        raise _Refused(f"it was installed without its programs {', '.join(missing)}", f"see {log}")


def _run(command: list[str], environment: dict[str, str], log: Path, output: Observe) -> tuple[int, list[str]]:
    """Run to the end, every line into the log. Returns the exit status and the last two lines that are not empty."""
    last = deque(["it wrote nothing"], maxlen=2)
    with log.open("w") as kept:
        kept.write(f"$ {' '.join(command)}\n")
        try:
            process = subprocess.Popen(
                command,
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
                    kept.write(line)
                    if told := line.strip():
                        last.append(told)
                        output(told)
            except BaseException:
                process.terminate()
                raise
    return process.returncode, list(last)


def _as_root() -> list[str] | None:
    """What stands before a command for root: nothing for root itself; None where there is no way."""
    if os.geteuid() == 0:
        return []
    sudo = os.environ.get("SUDO") or shutil.which("sudo")
    return sudo.split() if sudo else None

"""Third-party implementations are installed, with compilers of a few lines: completely or not at all, and once."""

from __future__ import annotations

import fcntl
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.third_party import install_and_report, print_list
from owlt.orchestrator.own_directories import third_party_directory
from owlt.orchestrator.profiles.installing import (
    RUST,
    BuildMachine,
    Installation,
    find_toolchain,
    install,
    version_numbers,
)
from owlt.orchestrator.profiles.third_party import Installable, home, is_installed, stamp

CARGO = """\
#!/bin/sh
[ "$1" = --version ] && echo "cargo VERSION (abc 2026-01-01)" && exit
echo "compiling $*"
while [ "$1" != --root ]; do shift; done
[ BROKEN = yes ] && echo "error: no such crate" && exit 101
mkdir -p "$2/bin" "$2/target/deep"
printf '#!/bin/sh\\necho mine 1.2.3\\n' >"$2/bin/mine"
chmod +x "$2/bin/mine"
"""
APT_GET = """\
#!/bin/sh
[ BROKEN = yes ] && echo "E: Unable to locate package mine" && exit 100
case "$*" in *install*) printf '#!/bin/sh\\n' >"PROGRAMS/mine"; chmod +x "PROGRAMS/mine";; esac
"""
PACKAGED = {"kind": "debian", "packages": ["mine"]}


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory of programs of a machine without compilers; its user's cache is empty."""
    directory = tmp_path / "programs"
    directory.mkdir()
    for name in ("mkdir", "chmod", "env"):
        (directory / name).symlink_to(f"/usr/bin/{name}")
    monkeypatch.setenv("PATH", str(directory))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SUDO", raising=False)
    return directory


def an_installable(**changes: object) -> Installable:
    recipe = {"kind": "cargo", "crate": "mine-cli", "version": "1.2.3", "minimum_rust": "1.85"}
    whole: dict[str, object] = {
        "name": "mine",
        "title": "my program",
        "licence": "MIT",
        "required": True,
        "programs": ["mine"],
        "recipe": recipe,
        "version_command": ["{bin}/mine"],
    }
    return Installable.model_validate(whole | changes)


def put(programs: Path, name: str, script: str, broken: bool = False) -> None:
    text = script.replace("BROKEN", "yes" if broken else "no").replace("PROGRAMS", str(programs))
    (programs / name).write_text(text.replace("VERSION", "1.90.0"))
    (programs / name).chmod(0o755)


def machine(is_root: bool = True) -> BuildMachine:
    """One whose only programs are those of `programs`."""
    return BuildMachine(os.environ["PATH"], [] if is_root else None)


def installed(*installables: Installable, is_root: bool = True) -> tuple[list[Installation], list[str]]:
    lines: list[str] = []
    return install(installables, lines.append, lambda line: None, machine(is_root)), lines


def test_a_crate_becomes_a_program_a_log_and_nothing_else(programs: Path) -> None:
    put(programs, "cargo", CARGO)

    [installation], _ = installed(an_installable())

    assert installation.installed
    assert sorted(path.name for path in home(an_installable()).iterdir()) == ["bin", "install.log", "stamp"]
    assert "--locked" in (home(an_installable()) / "install.log").read_text()


def test_an_installed_implementation_is_not_installed_again(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    installed(an_installable())
    (programs / "cargo").unlink()

    [installation], lines = installed(an_installable())

    assert installation.installed
    assert lines == ["mine: already installed"]


def test_another_version_replaces_the_first(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    installed(an_installable())
    newer = an_installable(recipe={"kind": "cargo", "crate": "mine-cli", "version": "1.3.0", "minimum_rust": "1.85"})

    assert not is_installed(newer)
    assert installed(newer)[0][0].installed
    assert is_installed(newer) and not is_installed(an_installable())


def test_a_changed_script_changes_the_stamp(tmp_path: Path) -> None:
    script = str(tmp_path / "make-mine")
    installable = an_installable(recipe={"kind": "script", "script": script, "version": "1"})
    (tmp_path / "make-mine").write_text("one")
    before = stamp(installable)
    (tmp_path / "make-mine").write_text("two")

    assert stamp(installable) != before


def test_a_failed_installation_keeps_its_log_and_the_earlier_version(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    installed(an_installable())
    put(programs, "cargo", CARGO, broken=True)
    newer = an_installable(recipe={"kind": "cargo", "crate": "mine-cli", "version": "1.3.0", "minimum_rust": "1.85"})

    [installation], _ = installed(newer)

    log = home(newer) / "install.log"
    assert installation.message == "cargo exited with status 101: error: no such crate"
    assert installation.next_step == f"see {log}; then owlt third-party install mine"
    assert "error: no such crate" in log.read_text()
    assert is_installed(an_installable())
    assert not list(third_party_directory().glob(".fresh-*"))


def test_a_missing_compiler_is_named_with_its_version_and_the_next_step() -> None:
    [installation], _ = installed(an_installable())

    assert installation.message == "compiling it needs Rust 1.85 or later; cargo is missing"
    assert installation.next_step.startswith("install Rust 1.85 or later, so that cargo is on PATH or in ")


def test_an_old_compiler_is_named_with_its_version(programs: Path) -> None:
    put(programs, "cargo", CARGO.replace("VERSION", "1.63.0"))

    [installation], _ = installed(an_installable())

    assert installation.message == f"compiling it needs Rust 1.85 or later; {programs / 'cargo'} is 1.63.0"


def test_versions_are_compared_as_numbers() -> None:
    assert version_numbers("1.100") > version_numbers("1.85.2") > version_numbers("1.85")


def test_the_newest_of_two_compilers_is_used(programs: Path, tmp_path: Path) -> None:
    put(programs, "cargo", CARGO.replace("VERSION", "1.63.0"))
    newer = tmp_path / "rustup"
    newer.mkdir()
    put(newer, "cargo", CARGO)
    rust = replace(RUST, directory=newer)

    assert find_toolchain(rust, "1.85", machine().path) == newer / "cargo"


def test_a_failed_installation_does_not_stop_the_others(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    too_new = an_installable(
        name="new", recipe=an_installable().recipe.model_copy(update={"minimum_rust": "9.0"}).model_dump()
    )

    installations, _ = installed(too_new, an_installable())

    assert [installation.installed for installation in installations] == [False, True]


def test_packages_are_installed_by_apt(programs: Path) -> None:
    put(programs, "apt-get", APT_GET)
    installable = an_installable(recipe=PACKAGED)

    [installation], lines = installed(installable)

    assert installation.installed and is_installed(installable)
    assert lines[:2] == ["updating the Debian package lists", "mine: installing Debian packages: mine"]


def test_an_unknown_package_is_reported_in_the_words_of_apt(programs: Path) -> None:
    put(programs, "apt-get", APT_GET, broken=True)

    [installation], _ = installed(an_installable(recipe=PACKAGED))

    assert installation.message == "apt-get exited with status 100: E: Unable to locate package mine"
    assert installation.next_step.endswith("; then as root, run: apt-get install --no-install-recommends mine")


def test_an_ordinary_user_is_shown_the_command_for_root(programs: Path) -> None:
    put(programs, "apt-get", APT_GET)

    [installation], _ = installed(an_installable(recipe=PACKAGED), is_root=False)

    assert installation.message == "Debian packages are missing and only root can install them: mine"
    assert installation.next_step == "as root, run: apt-get install --no-install-recommends mine"


def test_without_apt_the_package_manager_of_the_system_is_named() -> None:
    [installation], _ = installed(an_installable(recipe=PACKAGED))

    assert (installation.message, installation.next_step) == (
        "apt-get is missing",
        "install my program with the package manager of your system",
    )


def test_a_script_of_this_project_reports_its_reason_and_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "make-mine"
    put(tmp_path, "make-mine", """#!/bin/sh\nprintf '%s\\n' "no sources" "add some" >"$OWLT_REFUSAL"; exit 2\n""")
    installable = an_installable(recipe={"kind": "script", "script": str(script), "version": "1"})

    [installation], _ = installed(installable)

    assert (installation.message, installation.next_step) == ("no sources", "add some")


def test_an_installation_without_its_programs_is_a_failure(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    installable = an_installable(programs=["mine", "yours"])

    [installation], _ = installed(installable)

    assert installation.message == "the installation has not created its programs: yours"
    assert not is_installed(installable)


def test_two_installations_wait_for_each_other(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    third_party_directory().mkdir(parents=True)
    lines: list[str] = []
    first_line = threading.Event()

    def observe(line: str) -> None:
        lines.append(line)
        first_line.set()

    with (third_party_directory() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = threading.Thread(target=install, args=([an_installable()], observe, lines.append, machine()))
        other.start()
        assert first_line.wait(10)
        assert lines == ["waiting for another 'owlt third-party install' to finish"]
        assert not is_installed(an_installable())
    other.join(10)

    assert is_installed(an_installable())


def test_the_directory_of_a_killed_installation_is_removed(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    left = third_party_directory() / ".fresh-mine-killed"
    left.mkdir(parents=True)

    installed(an_installable())

    assert not left.exists()


def test_a_required_implementation_that_is_missing_is_status_1_and_printed_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not install_and_report(Printer(), [an_installable()], False, machine())

    output = capsys.readouterr().out
    assert "mine (required) is not installed: compiling it needs Rust 1.85 or later" in output
    assert output.splitlines()[-1].startswith("  next: install Rust 1.85 or later")


def test_an_optional_implementation_that_is_missing_is_status_0_unless_it_was_named() -> None:
    installables = [an_installable(required=False)]

    assert install_and_report(Printer(), installables, False, machine())
    assert not install_and_report(Printer(), installables, True, machine())


def test_the_list_shows_versions_and_how_to_install(programs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(programs, "cargo", CARGO)
    here, missing = an_installable(), an_installable(name="other", required=False)
    installed(here)

    print_list(Printer(), [here, missing])
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    assert rows == [
        "name version installed required licence",
        "mine mine 1.2.3 yes yes MIT",
        "other 1.2.3 no no MIT",
        "install one with: owlt third-party install NAME",
    ]

"""Installing builds, with compilers of a few lines: whole or not at all, once, and what is missing is said."""

from __future__ import annotations

import fcntl
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from orchestrator import builds_command
from orchestrator.builds import Build, Ending, builds_directory, home, install, is_installed, places, toolchains

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
    monkeypatch.setattr(places, "SYSTEM_PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(toolchains, "RUST", replace(toolchains.RUST, place=tmp_path / "none"))
    monkeypatch.delenv("SUDO", raising=False)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return directory


def a_build(**changes: object) -> Build:
    recipe = {"kind": "cargo", "crate": "mine-cli", "version": "1.2.3", "minimum_rust": "1.85"}
    whole: dict[str, object] = {
        "name": "mine",
        "title": "my build",
        "licence": "MIT",
        "required": True,
        "programs": ["mine"],
        "recipe": recipe,
        "version_command": ["{bin}/mine"],
    }
    return Build.model_validate(whole | changes)


def put(programs: Path, name: str, script: str, broken: bool = False) -> None:
    text = script.replace("BROKEN", "yes" if broken else "no").replace("PROGRAMS", str(programs))
    (programs / name).write_text(text.replace("VERSION", "1.90.0"))
    (programs / name).chmod(0o755)


def installed(*builds: Build) -> tuple[list[Ending], list[str]]:
    lines: list[str] = []
    return install(builds, lines.append, lambda line: None), lines


def test_a_crate_becomes_a_program_a_log_and_nothing_else(programs: Path) -> None:
    put(programs, "cargo", CARGO)

    [ending], _ = installed(a_build())

    assert ending.installed
    assert sorted(path.name for path in home(a_build()).iterdir()) == ["bin", "install.log", "stamp"]
    assert "--locked" in (home(a_build()) / "install.log").read_text()


def test_what_is_installed_is_not_installed_again(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    installed(a_build())
    (programs / "cargo").unlink()

    [ending], lines = installed(a_build())

    assert ending.installed
    assert lines == ["mine: is there already"]


def test_another_version_is_installed_in_the_place_of_the_first(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    installed(a_build())
    newer = a_build(recipe={"kind": "cargo", "crate": "mine-cli", "version": "1.3.0", "minimum_rust": "1.85"})

    assert not is_installed(newer)
    assert installed(newer)[0][0].installed
    assert is_installed(newer) and not is_installed(a_build())


def test_a_changed_script_makes_its_build_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "PROJECT", tmp_path)
    build = a_build(recipe={"kind": "script", "script": "make-mine", "version": "1"})
    (tmp_path / "make-mine").write_text("one")
    before = places.stamp(build)
    (tmp_path / "make-mine").write_text("two")

    assert places.stamp(build) != before


def test_a_build_that_fails_leaves_its_log_and_the_one_before(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    installed(a_build())
    put(programs, "cargo", CARGO, broken=True)
    newer = a_build(recipe={"kind": "cargo", "crate": "mine-cli", "version": "1.3.0", "minimum_rust": "1.85"})

    [ending], _ = installed(newer)

    log = home(newer) / "install.log"
    assert ending.told == "cargo ended with status 101: error: no such crate"
    assert ending.next_step == f"see {log}; then make builds BUILD=mine"
    assert "error: no such crate" in log.read_text()
    assert is_installed(a_build())
    assert not list(builds_directory().glob(".fresh-*"))


def test_a_compiler_that_is_missing_is_named_with_its_version_and_the_next_step() -> None:
    [ending], _ = installed(a_build())

    assert ending.told == "Rust 1.85 or later is needed to compile it; no cargo is here"
    assert ending.next_step.startswith("install Rust 1.85 or later, so that cargo is on the path or in ")


def test_a_compiler_that_is_too_old_is_named_with_what_it_is(programs: Path) -> None:
    put(programs, "cargo", CARGO.replace("VERSION", "1.63.0"))

    [ending], _ = installed(a_build())

    assert ending.told == f"Rust 1.85 or later is needed to compile it; {programs / 'cargo'} is 1.63.0"


def test_versions_are_compared_as_numbers() -> None:
    assert toolchains.numbers("1.100") > toolchains.numbers("1.85.2") > toolchains.numbers("1.85")


def test_the_newest_of_two_compilers_is_taken(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(programs, "cargo", CARGO.replace("VERSION", "1.63.0"))
    newer = tmp_path / "rustup"
    newer.mkdir()
    put(newer, "cargo", CARGO)
    monkeypatch.setattr(toolchains, "RUST", replace(toolchains.RUST, place=newer))

    assert toolchains.find(toolchains.RUST, "1.85") == newer / "cargo"


def test_the_others_go_on_where_one_cannot_be_installed(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    too_new = a_build(name="new", recipe=a_build().recipe.model_copy(update={"minimum_rust": "9.0"}).model_dump())

    endings, _ = installed(too_new, a_build())

    assert [ending.installed for ending in endings] == [False, True]


def test_packages_are_installed_by_apt(programs: Path) -> None:
    put(programs, "apt-get", APT_GET)
    build = a_build(recipe=PACKAGED)

    [ending], lines = installed(build)

    assert ending.installed and is_installed(build)
    assert lines[:2] == ["fetching the lists of Debian packages", "mine: installing Debian packages: mine"]


def test_a_package_that_apt_does_not_have_is_told_in_its_words(programs: Path) -> None:
    put(programs, "apt-get", APT_GET, broken=True)

    [ending], _ = installed(a_build(recipe=PACKAGED))

    assert ending.told == "apt-get ended with status 100: E: Unable to locate package mine"
    assert ending.next_step.endswith("; then as root: apt-get install --no-install-recommends mine")


def test_an_ordinary_user_is_told_what_root_would_do(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    put(programs, "apt-get", APT_GET)

    [ending], _ = installed(a_build(recipe=PACKAGED))

    assert ending.told == "these Debian packages are missing, and this is not root: mine"
    assert ending.next_step == "as root: apt-get install --no-install-recommends mine"


def test_a_machine_without_apt_is_told_to_do_it_its_own_way() -> None:
    [ending], _ = installed(a_build(recipe=PACKAGED))

    assert (ending.told, ending.next_step) == ("apt-get is not here", "install my build as your system does")


def test_a_script_of_ours_tells_its_reason_and_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "make-mine"
    put(tmp_path, "make-mine", '#!/bin/sh\necho "owlt: no sources" >&2; echo "owlt: next: add some" >&2; exit 2\n')
    build = a_build(recipe={"kind": "script", "script": str(script), "version": "1"})

    [ending], _ = installed(build)

    assert (ending.told, ending.next_step) == ("no sources", "add some")


def test_what_leaves_no_program_is_not_installed(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    build = a_build(programs=["mine", "yours"])

    [ending], _ = installed(build)

    assert ending.told == "it was installed without its programs yours"
    assert not is_installed(build)


def test_two_at_a_time_wait_for_each_other(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    builds_directory().mkdir(parents=True)
    said: list[str] = []
    heard = threading.Event()

    def observe(line: str) -> None:
        said.append(line)
        heard.set()

    with (builds_directory() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        other = threading.Thread(target=install, args=([a_build()], observe, said.append))
        other.start()
        assert heard.wait(10)
        assert said == ["another 'owlt builds install' is under way; waiting for it"]
        assert not is_installed(a_build())
    other.join(10)

    assert is_installed(a_build())


def test_what_one_that_was_killed_has_left_is_cleared_away(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    left = builds_directory() / ".fresh-mine-killed"
    left.mkdir(parents=True)

    installed(a_build())

    assert not left.exists()


def command(monkeypatch: pytest.MonkeyPatch, builds: list[Build], *arguments: str) -> Result:
    monkeypatch.setattr(
        builds_command, "find_builds", lambda names: [build for build in builds if not names or build.name in names]
    )
    monkeypatch.setattr(builds_command, "all_builds", lambda: builds)
    return CliRunner().invoke(builds_command.builds_app, arguments)


def test_a_required_build_that_is_missing_is_status_1_and_told_last(monkeypatch: pytest.MonkeyPatch) -> None:
    done = command(monkeypatch, [a_build()], "install")

    assert done.exit_code == 1
    assert "mine (required) is not installed: Rust 1.85 or later" in done.output
    assert done.output.splitlines()[-1].startswith("  next: install Rust 1.85 or later")


def test_a_build_that_can_be_done_without_is_status_0_unless_it_was_named(monkeypatch: pytest.MonkeyPatch) -> None:
    builds = [a_build(required=False)]

    assert command(monkeypatch, builds, "install").exit_code == 0
    assert command(monkeypatch, builds, "install", "mine").exit_code == 1


def test_the_list_tells_versions_and_how_to_install(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(programs, "cargo", CARGO)
    here, missing = a_build(), a_build(name="other", required=False)
    installed(here)

    rows = [" ".join(line.split()) for line in command(monkeypatch, [here, missing], "list").output.splitlines()]

    assert rows == [
        "name version here required licence",
        "mine mine 1.2.3 yes yes MIT",
        "other 1.2.3 make builds BUILD=other no MIT",
    ]

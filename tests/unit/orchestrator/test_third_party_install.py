"""Third-party implementations are installed, with compilers of a few lines and with pip: completely or not at all, and
once."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tarfile
import threading
import zipfile
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pytest

from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.setup import install_and_report, print_list
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.own_directories import third_party_directory
from owlt.orchestrator.profiles.installing import JAVA, RUST, BuildMachine, Installation, find_toolchain, install
from owlt.orchestrator.profiles.pins import Refused
from owlt.orchestrator.profiles.third_party import Installable, at_version, home, is_installed, stamp, version_numbers

CARGO = """\
#!/bin/sh
[ "$1" = --version ] && echo "cargo VERSION (abc 2026-01-01)" && exit
[ "$1" = info ] && [ BROKEN = silent ] && echo "error: no answer" >&2 && exit 101
[ "$1" = info ] && exit
[ "$1" = metadata ] && echo '{"packages": [{"dependencies": [{"source": "the registry"}]}]}' && exit
[ "$7" = --path ] && while read -r line; do echo "locked: $line"; done <"$8/Cargo.lock"
echo "compiling $*"
while [ "$1" != --root ]; do shift; done
[ BROKEN = yes ] && echo "error: no such crate" && exit 101
mkdir -p "$2/bin" "$2/target/deep"
printf '#!/bin/sh\\necho mine 1.2.3\\n' >"$2/bin/mine"
chmod +x "$2/bin/mine"
"""
CHECKSUM = 64 * "c"


def packed(name: str, content: bytes) -> bytes:
    """A tar archive with one file."""
    file = BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size = len(content)
        archive.addfile(entry, BytesIO(content))
    return file.getvalue()


CRATE_FILE = packed("mine-cli-1.2.3/Cargo.lock", b"pinned\n")
GO_SUM = f"h1:{43 * 'g'}="
GO = """\
#!/bin/sh
[ "$1" = version ] && echo "go version go1.90.0 linux/amd64" && exit
cache="${0%/*}/cache"
mkdir -p "$cache" "$GOBIN"
printf 'module example/mine\\n\\nrequire example/other v1.0.0\\n' >"$cache/go.mod"
echo "example/other v1.0.0 SUM" >"$cache/go.sum"
[ "$1" = mod ] && echo "{\\"Sum\\": \\"SUM\\", \\"GoModSum\\": \\"h1:mod\\", \\"Dir\\": \\"$cache\\"}" && exit
for file in "$3/go.mod" "$3/go.sum"; do while read -r line; do echo "$line"; done <"$file"; done
echo "flags: $GOFLAGS"
[ -f "$3/main.go" ] && echo "with a driver: $1 $4 $6"
printf '#!/bin/sh\\n' >"$GOBIN/mine"
chmod +x "$GOBIN/mine"
"""
JAVA_SCRIPT = """\
#!/bin/sh
[ "$1" = --version ] && echo "openjdk VERSION 2026-01-01"
"""
MVN = """\
#!/bin/sh
[ "$2" = --version ] && printf '\\033[1mApache Maven 3.9.9\\033[m\\n' && exit
while read -r line; do echo "$line"; done <"$5"
for option in "$@"; do directory="${option#-DoutputDirectory=}"; done
mkdir -p "$directory/org/mine/mine/1.2.3"
printf jar >"$directory/org/mine/mine/1.2.3/mine-1.2.3.jar"
[ BROKEN = yes ] || printf jar >"$directory/org/mine/mine/1.2.3/mine-1.2.3-linux.jar"
"""
JARS = {
    f"org/mine/mine/1.2.3/{name}": hashlib.sha256(b"jar").hexdigest()
    for name in ("mine-1.2.3.jar", "mine-1.2.3-linux.jar")
}
DPKG_QUERY = """\
#!/bin/sh
[ -e PROGRAMS/the-compiler ] && echo "ii "
"""
APT_GET = """\
#!/bin/sh
[ BROKEN = yes ] && echo "E: Unable to locate package mine" && exit 100
case "$*" in *install*) printf '#!/bin/sh\\n' >"PROGRAMS/mine"; chmod +x "PROGRAMS/mine";; esac
"""
CRATE = {
    "kind": "cargo",
    "crate": "mine-cli",
    "version": "1.2.3",
    "sha256": hashlib.sha256(CRATE_FILE).hexdigest(),
    "minimum_rust": "1.85",
}
MODULE = {
    "kind": "go",
    "module": "example/mine",
    "packages": ["example/mine/cmd/mine"],
    "version": "v1.2.3",
    "sum": GO_SUM,
    "minimum_go": "1.20",
}
LOCK = f"""\
[[package]]
name = "mine-driver"
version = "0.0.0"

[[package]]
name = "mine"
version = "1.2.3"
checksum = "{CHECKSUM}"
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
    monkeypatch.delenv("CARGO_HOME", raising=False)
    put_in_cargos_cache(CRATE_FILE)
    monkeypatch.delenv("SUDO", raising=False)
    return directory


def an_installable(**changes: object) -> Installable:
    whole: dict[str, object] = {
        "name": "mine",
        "title": "my program",
        "licence": "MIT",
        "required": True,
        "programs": ["mine"],
        "recipe": CRATE,
        "version_command": ["{bin}/mine"],
    }
    return Installable.model_validate(whole | changes)


def put(programs: Path, name: str, script: str, broken: bool = False) -> None:
    text = script.replace("BROKEN", "yes" if broken else "no").replace("PROGRAMS", str(programs))
    text = text.replace("CHECKSUM", CHECKSUM).replace("SUM", GO_SUM)
    (programs / name).write_text(text.replace("VERSION", "1.90.0"))
    (programs / name).chmod(0o755)


def a_driver(directory: Path, **changes: object) -> Installable:
    """One whose driver is in a directory."""
    directory.mkdir(exist_ok=True)
    (directory / "Cargo.toml").write_text("[package]")
    (directory / "crates.lock").write_text(LOCK)
    (directory / "main.rs").write_text("fn main() {}")
    recipe = {"kind": "driver", "driver": str(directory), "language": "rust", "version": "1.2.3"}
    return an_installable(recipe=recipe | {"minimum_compiler": "1.85"} | changes)


def a_java_program(directory: Path, jars: dict[str, str] = JARS) -> Installable:
    """One whose lock file is in a directory, for the machine whose programs are there."""
    put(directory, "java", JAVA_SCRIPT.replace("VERSION", "21"))
    lock = directory / "mine.lock"
    lock.write_text("".join(f"{digest}  {jar}\n" for jar, digest in jars.items()))
    recipe = {
        "kind": "maven",
        "lock": str(lock),
        "main_class": "org.mine.Main",
        "version": "1.2.3",
        "minimum_java": "17",
    }
    return an_installable(recipe=recipe)


def put_in_cargos_cache(file: bytes, registry: str = "registry") -> None:
    directory = Path.home() / ".cargo" / "registry" / "cache" / registry
    directory.mkdir(parents=True, exist_ok=True)
    for version in ("1.2.3", "1.3.0"):
        (directory / f"mine-cli-{version}.crate").write_bytes(file)


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


def test_a_driver_in_go_is_compiled_with_the_pinned_module(programs: Path) -> None:
    put(programs, "go", GO)
    driven = an_installable(
        recipe={key: value for key, value in MODULE.items() if key != "packages"} | {"driver": "quic-go"}
    )

    assert installed(driven)[0][0].installed
    log = (home(driven) / "install.log").read_text()
    assert "require example/mine v1.2.3" in log and "with a driver: build -o ." in log


def test_a_go_module_without_a_driver_has_none(programs: Path) -> None:
    put(programs, "go", GO)

    assert installed(an_installable(recipe=MODULE))[0][0].installed
    assert "with a driver" not in (home(an_installable()) / "install.log").read_text()


def test_another_version_replaces_the_first(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    installed(an_installable())
    newer = an_installable(recipe=CRATE | {"version": "1.3.0"})

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
    newer = an_installable(recipe=CRATE | {"version": "1.3.0"})

    [installation], _ = installed(newer)

    log = home(newer) / "install.log"
    assert installation.message == "cargo exited with status 101: error: no such crate"
    assert installation.next_step == f"see {log}; then owlt third-party install mine"
    assert "error: no such crate" in log.read_text()
    assert is_installed(an_installable())
    assert not list(third_party_directory().glob(".fresh-*"))


def test_a_missing_compiler_is_named_with_its_version_and_the_next_step() -> None:
    [installation], _ = installed(an_installable())

    assert installation.message == "installing it needs Rust 1.85 or later; cargo is missing"
    assert installation.next_step.startswith("install Rust 1.85 or later, so that cargo is on PATH or in ")


def test_an_old_compiler_is_named_with_its_version(programs: Path) -> None:
    put(programs, "cargo", CARGO.replace("VERSION", "1.63.0"))

    [installation], _ = installed(an_installable())

    assert installation.message == f"installing it needs Rust 1.85 or later; {programs / 'cargo'} is 1.63.0"


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
    too_new = an_installable(name="new", recipe=CRATE | {"minimum_rust": "9.0"})

    installations, _ = installed(too_new, an_installable())

    assert [installation.installed for installation in installations] == [False, True]


def test_a_crate_is_compiled_from_the_file_whose_hash_is_that_of_the_recipe(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    put_in_cargos_cache(b"of another registry", "other")

    installed(an_installable())

    assert "locked: pinned" in (home(an_installable()) / "install.log").read_text().splitlines()


def test_a_crate_with_another_hash_than_the_recipe_is_not_compiled(programs: Path) -> None:
    put(programs, "cargo", CARGO)
    put_in_cargos_cache(b"another file")
    installable = an_installable()

    [installation], _ = installed(installable)

    another = hashlib.sha256(b"another file").hexdigest()
    assert installation.message == f"crate mine-cli 1.2.3 has the hash {another}; expected {CRATE['sha256']}"
    assert installation.next_step.startswith("the release has been replaced, or the registry's copy is damaged")
    assert not is_installed(installable)


def test_a_registry_that_does_not_answer_is_reported_in_the_words_of_cargo(programs: Path) -> None:
    put(programs, "cargo", CARGO.replace("BROKEN = silent", "no = no"))

    [installation], _ = installed(an_installable())

    assert installation.message == "cargo info exited with status 101: error: no answer"
    assert installation.next_step == "see whether the package registry answers, and repeat the command"


def test_a_go_module_with_the_sum_of_the_recipe_is_compiled(programs: Path) -> None:
    put(programs, "go", GO)

    [installation], _ = installed(an_installable(recipe=MODULE))

    assert installation.installed


def test_what_a_go_module_requires_is_compared_with_the_sums_in_its_files(programs: Path) -> None:
    put(programs, "go", GO)
    installable = an_installable(recipe=MODULE)

    installed(installable)

    assert (home(installable) / "install.log").read_text().splitlines()[1:] == [
        *("module pinned", "", "require example/other v1.0.0", "", "require example/mine v1.2.3"),
        f"example/other v1.0.0 {GO_SUM}",
        f"example/mine v1.2.3 {GO_SUM}",
        "example/mine v1.2.3/go.mod h1:mod",
        "flags: -trimpath -mod=readonly",
    ]


def test_a_go_module_with_another_sum_than_the_recipe_is_not_compiled(programs: Path) -> None:
    put(programs, "go", GO)
    other = f"h1:{43 * 'o'}="

    [installation], _ = installed(an_installable(recipe=MODULE | {"sum": other}))

    assert installation.message == f"Go module example/mine v1.2.3 has the hash {GO_SUM}; expected {other}"


def test_a_java_program_is_a_command_and_the_jars_of_the_lock(programs: Path) -> None:
    put(programs, "mvn", MVN)
    installable = a_java_program(programs)

    [installation], _ = installed(installable)

    assert installation.installed
    assert sorted(path.name for path in (home(installable) / "lib").iterdir()) == [
        "mine-1.2.3-linux.jar",
        "mine-1.2.3.jar",
    ]
    command = (home(installable) / "bin" / "mine").read_text().splitlines()[-1]
    assert command == f"""exec {programs / "java"} -cp "${{0%/*}}/../lib/*" org.mine.Main "$@\""""


def test_maven_is_asked_for_each_jar_of_the_lock_and_for_nothing_that_it_depends_on(programs: Path) -> None:
    put(programs, "mvn", MVN)
    installable = a_java_program(programs)

    installed(installable)

    log = (home(installable) / "install.log").read_text()
    coordinates = "<groupId>org.mine</groupId><artifactId>mine</artifactId><version>1.2.3</version>"
    assert f"{coordinates}<classifier></classifier>" in log and f"{coordinates}<classifier>linux</classifier>" in log
    assert (
        log.count("<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>")
        == log.count("<dependency>")
        == 2
    )


def test_a_java_program_with_a_jar_of_another_hash_is_not_installed(programs: Path) -> None:
    put(programs, "mvn", MVN)
    installable = a_java_program(programs, JARS | {"org/mine/mine/1.2.3/mine-1.2.3.jar": CHECKSUM})

    [installation], _ = installed(installable)

    found = hashlib.sha256(b"jar").hexdigest()
    assert installation.message == f"mine-1.2.3.jar has the hash {found}; expected {CHECKSUM}"
    assert [path.name for path in home(installable).iterdir()] == ["install.log"]


def test_a_java_program_with_two_jars_of_one_name_is_not_installed(programs: Path) -> None:
    put(programs, "mvn", MVN)
    twice = JARS | {"org/other/mine/1.2.3/mine-1.2.3.jar": CHECKSUM}

    [installation], _ = installed(a_java_program(programs, twice))

    assert "are named mine-1.2.3.jar; one would overwrite the other" in installation.message


def test_a_java_program_with_a_missing_jar_is_not_installed(programs: Path) -> None:
    put(programs, "mvn", MVN, broken=True)

    [installation], _ = installed(a_java_program(programs))

    assert installation.message.startswith("mine-1.2.3-linux.jar has the hash of no file; expected ")


def test_a_java_program_is_installed_again_when_its_lock_has_changed(programs: Path) -> None:
    put(programs, "mvn", MVN)
    installed(a_java_program(programs))
    assert is_installed(a_java_program(programs))

    assert not is_installed(a_java_program(programs, JARS | {"org/mine/more/1/more-1.jar": CHECKSUM}))


@pytest.mark.parametrize("version", ["17", "17.0.15", "21"])
def test_java_is_new_enough_with_or_without_a_minor_version(programs: Path, version: str) -> None:
    put(programs, "java", JAVA_SCRIPT.replace("VERSION", version))

    assert find_toolchain(replace(JAVA, directory=programs), "17", machine().path) == programs / "java"


def test_an_old_java_is_refused(programs: Path, tmp_path: Path) -> None:
    put(programs, "java", JAVA_SCRIPT.replace("VERSION", "11.0.25"))

    with pytest.raises(Refused, match=r"needs Java 17 or later; .*java is 11.0.25"):
        find_toolchain(replace(JAVA, directory=tmp_path), "17", machine().path)


def test_a_driver_is_compiled_with_its_lock_file_to_which_cargo_adds_the_name_of_its_registry(
    programs: Path, tmp_path: Path
) -> None:
    put(programs, "cargo", CARGO)
    installable = a_driver(tmp_path / "driver")

    [installation], _ = installed(installable)

    assert installation.installed
    log = (home(installable) / "install.log").read_text()
    assert "--locked" in log
    assert [line.removeprefix("locked: ") for line in log.splitlines() if line.startswith("locked: ")] == [
        *LOCK.splitlines()[:-1],
        'source = "the registry"',
        f'checksum = "{CHECKSUM}"',
    ]


def test_of_a_driver_only_the_program_the_log_and_the_stamp_are_kept(programs: Path, tmp_path: Path) -> None:
    put(programs, "cargo", CARGO)

    installed(a_driver(tmp_path / "driver"))

    assert sorted(path.name for path in home(an_installable()).iterdir()) == ["bin", "install.log", "stamp"]


@pytest.mark.parametrize("name", ["main.rs", "crates.lock", "Cargo.toml"])
def test_a_driver_is_installed_again_when_its_source_or_its_lock_file_has_changed(
    programs: Path, tmp_path: Path, name: str
) -> None:
    put(programs, "cargo", CARGO)
    installable = a_driver(tmp_path / "driver")
    installed(installable)
    assert is_installed(installable)

    with (tmp_path / "driver" / name).open("a") as file:
        file.write("# changed")

    assert not is_installed(installable)


def test_packages_that_compiling_needs_are_installed_first(programs: Path, tmp_path: Path) -> None:
    put(programs, "cargo", CARGO)
    put(programs, "apt-get", APT_GET.replace("PROGRAMS/mine", "PROGRAMS/the-compiler"))
    put(programs, "dpkg-query", DPKG_QUERY)
    installable = a_driver(tmp_path / "driver", build_packages=["the-compiler"])

    [installation], lines = installed(installable)

    assert installation.installed
    assert lines[1] == "mine: installing Debian packages: the-compiler"


def test_packages_that_compiling_needs_are_not_installed_twice(programs: Path, tmp_path: Path) -> None:
    put(programs, "cargo", CARGO)
    put(programs, "dpkg-query", DPKG_QUERY)
    (programs / "the-compiler").touch()

    [installation], lines = installed(a_driver(tmp_path / "driver", build_packages=["the-compiler"]))

    assert installation.installed
    assert not any("Debian" in line for line in lines)


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


def wheel_of(version: str, directory: Path) -> Path:
    """A version of the package."""
    path, about = directory / f"mine-{version}-py3-none-any.whl", f"mine-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mine.py", f"def main():\n    print('mine {version}')\n")
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: mine\nVersion: {version}\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/entry_points.txt", "[console_scripts]\nmine = mine:main\n")
        archive.writestr(f"{about}/RECORD", "")
    return path


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Python package with a program, in a directory that is pip's only index."""
    (tmp_path / "index").mkdir()
    path = wheel_of("1.0", tmp_path / "index")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    return path


def locked(wheel: Path, digest: str = "", **changes: str) -> Installable:
    """The package of a wheel, as one to install; `digest` replaces the wheel's SHA-256 in the lock file."""
    lock = wheel.parent / "mine.lock"
    lock.write_text(f"mine==1.0 --hash=sha256:{digest or hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    programs = ["owlt-mine" if changes else "mine"]
    return an_installable(recipe={"kind": "pypi", "lock": str(lock), "version": "1.0", **changes}, programs=programs)


def printed(installable: Installable) -> str:
    """What the installed program prints."""
    program = home(installable) / "bin" / installable.programs[0]
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def test_a_python_package_gets_an_environment_of_its_own(wheel: Path) -> None:
    installable = locked(wheel)

    [installation], _ = installed(installable)

    assert installation.installed, installation.message
    assert printed(installable) == "mine 1.0\n"


def test_an_environment_that_is_seen_at_another_place_works_there(wheel: Path, tmp_path: Path) -> None:
    """Hosts see it at another path than the machine that installs it."""
    installed(locked(wheel))
    elsewhere = tmp_path / "a longer place, with spaces" / "mine"
    elsewhere.parent.mkdir()
    home(locked(wheel)).rename(elsewhere)

    done = subprocess.run([elsewhere / "bin" / "mine"], capture_output=True, text=True, check=True)

    assert done.stdout == "mine 1.0\n"


def test_a_driver_is_run_by_the_interpreter_of_the_environment(wheel: Path, tmp_path: Path) -> None:
    driver = tmp_path / "mine"
    driver.mkdir()
    (driver / "owlt-mine").write_text("import mine, sys\nprint(mine.__name__, sys.prefix)\n")
    installable = locked(wheel, driver=str(driver))

    installed(installable)

    assert printed(installable) == f"mine {home(installable)}\n"


def test_a_changed_driver_is_installed_again(wheel: Path, tmp_path: Path) -> None:
    driver = tmp_path / "mine"
    driver.mkdir()
    (driver / "owlt-mine").write_text("print(1)\n")
    installable = locked(wheel, driver=str(driver))
    installed(installable)
    (driver / "owlt-mine").write_text("print(2)\n")

    assert not is_installed(installable)
    installed(installable)
    assert printed(installable) == "2\n"


def test_a_wheel_with_another_hash_than_the_lock_is_refused(wheel: Path) -> None:
    installable = locked(wheel, digest="0" * 64)

    [installation], _ = installed(installable)

    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert not home(installable).joinpath("bin").exists()
    assert installation.message == (f"mine==1.0 has the hash {digest}; expected one of {wheel.parent / 'mine.lock'}")


def test_a_package_that_the_index_does_not_have_is_reported_in_the_words_of_pip(wheel: Path) -> None:
    installable = locked(wheel)
    wheel.unlink()

    [installation], _ = installed(installable)

    assert installation.message.endswith("ERROR: No matching distribution found for mine==1.0")


def test_the_pinned_version_is_the_pinned_installation(wheel: Path) -> None:
    assert at_version(locked(wheel), "1.0") == locked(wheel)


@pytest.mark.parametrize(("version", "message"), [("../x", "is not a version"), ("1.0 -r x", "is not a version")])
def test_a_text_that_is_not_a_version_is_refused(wheel: Path, version: str, message: str) -> None:
    with pytest.raises(OwltError, match=message):
        at_version(locked(wheel), version)


def test_other_versions_of_a_crate_are_refused() -> None:
    with pytest.raises(OwltError, match=r"only version 1\.2\.3 can be installed, since its kind is cargo"):
        at_version(an_installable(), "1.2.2")


def test_only_packages_of_the_lock_are_installed(wheel: Path) -> None:
    installable = locked(wheel)
    (wheel.parent / "mine.lock").write_text("mine==1.0\n")

    [installation], _ = installed(installable)

    assert not installation.installed
    assert "Hashes are required in --require-hashes mode" in (home(installable) / "install.log").read_text()


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
    assert "mine (required) is not installed: installing it needs Rust 1.85 or later" in output
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
        "name version pinned installed required licence",
        "mine mine 1.2.3 yes yes yes MIT",
        "other 1.2.3 yes no no MIT",
        "install one with: owlt third-party install NAME",
    ]


def test_no_module_in_the_present_directory_takes_the_place_of_pip(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip.py").write_text("raise SystemExit('not pip')\n")
    monkeypatch.chdir(tmp_path)

    [installation], _ = installed(locked(wheel))

    assert installation.installed, installation.message

"""How a guest is booted: what its command line says, and what it must not say."""

from __future__ import annotations

import resource
import subprocess
import sys
from importlib.util import cache_from_source
from pathlib import Path

from owlt.orchestrator.rigs.guest import (
    MEMORY_DIRECTORY,
    OWN_DIRECTORY,
    PACKAGES,
    PROJECT,
    Boot,
    allow_open_files,
    command_line,
    compile_ahead,
    compile_packages,
    in_huge_pages,
    init_script,
    needed_paths,
)
from tests.import_graph import PACKAGES as ALL_PACKAGES


def boot(**changes: object) -> Boot:
    settings: dict[str, object] = {
        "kernel": Path("/k/linux"),
        "clock": "exact",
        "cpu": 1,
        "memory_mb": 512,
        "seed": 9,
    }
    return Boot(**(settings | {"seccomp": True} | changes))  # type: ignore[arg-type]


def test_a_guest_may_open_more_files_than_a_shell_allows() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        most = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)[1]
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (256, most))

        allow_open_files(process.pid)

        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (min(most, 65_536), most)
        process.kill()


def test_a_guest_is_pinned_to_its_cpu() -> None:
    line = command_line(boot(cpu=3))

    assert line[line.index("taskset") : line.index("taskset") + 3] == ["taskset", "-c", "3"]


def test_a_guest_dies_with_whoever_started_it() -> None:
    assert command_line(boot())[:3] == ["setpriv", "--pdeathsig", "KILL"]


def test_the_machines_files_are_mounted_read_only() -> None:
    line = command_line(boot())

    assert "ro" in line
    assert "rw" not in line


def test_each_clock_has_its_own_boot_option() -> None:
    travel = {
        clock: [o for o in command_line(boot(clock=clock)) if o.startswith("time-travel")]
        for clock in ("exact", "skip", "real")
    }

    assert travel["exact"][0] == "time-travel=inf-cpu"
    assert travel["skip"][0] == "time-travel"
    assert travel["real"] == []


def test_the_seed_decides_the_guests_randomness_on_a_virtual_clock() -> None:
    assert "fixed-random=9" in command_line(boot())


def test_on_the_real_clock_randomness_is_the_machines() -> None:
    assert not any(option.startswith("fixed-random") for option in command_line(boot(clock="real")))


def test_the_memory_of_a_guest_is_kept_in_huge_pages() -> None:
    line = command_line(boot())
    taskset = line.index("taskset")

    assert line[3:taskset] == in_huge_pages([])


def test_a_kernel_below_the_directory_of_the_memory_stays_visible() -> None:
    line = command_line(boot(kernel=Path(MEMORY_DIRECTORY, "linux")))

    assert line[3] == "taskset"


def test_the_project_has_the_same_place_in_every_guest() -> None:
    script = init_script(["true"])

    assert f"none {PROJECT} hostfs ro,X-mount.mkdir,{Path(__file__).parents[3]} 0 0\n" in script


def test_a_guests_python_imports_the_project_from_its_place_in_the_guest() -> None:
    assert f"echo {PROJECT} >" in init_script(["true"])


def test_a_guest_that_mounts_its_task_itself_starts_elsewhere() -> None:
    assert OWN_DIRECTORY not in init_script(["true"], in_task_directory=False)


PROJECT_DIRECTORY = Path(__file__).parents[3]


def is_needed(path: Path) -> bool:
    return any(path.is_relative_to(each) for each in needed_paths())


def test_the_projects_packages_and_its_environment_are_needed() -> None:
    assert all(is_needed((PROJECT_DIRECTORY / "owlt" / package).resolve()) for package in PACKAGES)
    assert is_needed(Path(sys.executable).resolve())


def test_results_and_sweeps_of_the_project_are_not_needed() -> None:
    """They have the seeds of the files that implementations transfer."""
    assert not any(is_needed(PROJECT_DIRECTORY / name) for name in ("results", "profiles/sweeps"))


def test_every_package_is_compiled_before_a_guest_boots() -> None:
    assert sorted(PACKAGES) == sorted(ALL_PACKAGES)


def test_the_packages_own_modules_are_compiled_before_a_guest_boots() -> None:
    compile_ahead()

    own = [Path(cache_from_source(str(path))) for path in (PROJECT_DIRECTORY / "owlt").glob("*.py")]
    assert own
    assert [path for path in own if not path.exists()] == []


def test_installed_packages_of_which_nothing_is_compiled_are_compiled(tmp_path: Path) -> None:
    for name in ("bare", "compiled"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    (tmp_path / "compiled" / "__pycache__").mkdir()

    compile_packages(tmp_path)

    assert [path.name.split(".")[0] for path in tmp_path.glob("bare/__pycache__/*.pyc")] == ["__init__"]
    assert list(tmp_path.glob("compiled/__pycache__/*")) == []

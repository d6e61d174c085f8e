"""How a guest is booted: what its command line says, and what it must not say."""

from __future__ import annotations

from pathlib import Path

from orchestrator.rigs.guest import Boot, command_line, init_script, needed_paths


def boot(**changes: object) -> Boot:
    settings: dict[str, object] = {
        "kernel": Path("/k/linux"),
        "clock": "exact",
        "cpu": 1,
        "memory_mb": 512,
        "seed": 9,
    }
    return Boot(**(settings | {"seccomp": True} | changes))  # type: ignore[arg-type]


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


def test_what_a_masked_directory_hides_and_is_needed_is_mounted_again(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("orchestrator.rigs.guest.needed_paths", lambda: ["/tmp/clone", "/opt/env"])

    script = init_script(["true"])

    assert "mount -t hostfs -o ro none /tmp/clone -o /tmp/clone" in script
    assert "none /opt/env" not in script


def test_the_project_and_its_environment_are_needed() -> None:
    project = Path(__file__).parents[3]

    assert any(project.is_relative_to(path) for path in needed_paths())

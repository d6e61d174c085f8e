"""`owlt setup`: missing packages are named or installed, then eBPF programs and the kernel are made."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from owlt.emulator.kernel.bpf import compile
from owlt.installation import DEBIAN_PACKAGES
from owlt.orchestrator.commands import machine, setup
from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.errors import Missing


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was made, on a machine where nothing is missing."""
    made: list[str] = []
    monkeypatch.setattr(setup, "missing_packages", list)
    monkeypatch.setattr(compile, "compile_all", lambda: made.append("eBPF") or [Path("/cache/errors.bpf.o")])
    monkeypatch.setattr(machine, "build_kernel", lambda: made.append("kernel"))
    return made


def owlt_setup(*options: str) -> Result:
    return CliRunner().invoke(app, ["setup", *options])


def test_ebpf_programs_and_the_kernel_are_made(made: list[str]) -> None:
    assert owlt_setup().exit_code == 0
    assert made == ["eBPF", "kernel"]


def test_missing_packages_are_named_with_both_ways_to_install_them(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "missing_packages", lambda: ["tshark", "clang"])
    problem = owlt_setup().exception

    assert isinstance(problem, Missing)
    assert "tshark clang" in str(problem)
    assert "owlt setup --install, or as root: apt-get install --no-install-recommends tshark clang" in str(problem)
    assert made == []


def test_packages_are_installed_on_request_before_anything_is_made(
    made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[Any] = []

    def perform(command: list[Any], **options: Any) -> subprocess.CompletedProcess[str]:
        commands.append((command, options["env"]["SUDO"]))
        return subprocess.CompletedProcess(command, len(commands) - 1)

    monkeypatch.setattr(subprocess, "run", perform)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("SUDO", "doas")

    assert owlt_setup("--install").exit_code == 0
    assert commands == [(["bash", DEBIAN_PACKAGES], "doas")]
    assert made == ["eBPF", "kernel"]
    assert owlt_setup("--install").exit_code == 2
    assert made == ["eBPF", "kernel"]


def test_a_program_that_is_not_compiled_is_a_message(made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> list[Path]:
        raise compile.CompileError("errors.bpf.c: clang is not installed; next: make setup")

    monkeypatch.setattr(compile, "compile_all", refuse)

    assert "clang is not installed" in str(owlt_setup().exception)
    assert made == []

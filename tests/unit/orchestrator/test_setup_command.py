"""`owlt setup`: missing packages are named or installed, then eBPF programs and the kernel are made."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer

from owlt.emulator.kernel.bpf.compile import CompileError
from owlt.installation import DEBIAN_PACKAGES
from owlt.orchestrator.commands.setup import install_packages, make_the_rest
from owlt.orchestrator.errors import Missing


class Maker:
    """Notes what is made, in order."""

    def __init__(self) -> None:
        self.made: list[str] = []

    def compile_programs(self) -> list[Path]:
        self.made.append("eBPF")
        return [Path("/cache/errors.bpf.o")]

    def build_kernel(self) -> None:
        self.made.append("kernel")


def test_ebpf_programs_and_the_kernel_are_made() -> None:
    maker = Maker()

    make_the_rest([], maker.compile_programs, maker.build_kernel)

    assert maker.made == ["eBPF", "kernel"]


def test_missing_packages_are_named_with_both_ways_to_install_them() -> None:
    maker = Maker()

    with pytest.raises(Missing) as problem:
        make_the_rest(["tshark", "clang"], maker.compile_programs, maker.build_kernel)

    assert "owlt setup --install, or as root: apt-get install --no-install-recommends tshark clang" in str(
        problem.value
    )
    assert maker.made == []


def test_a_program_that_is_not_compiled_is_a_message() -> None:
    maker = Maker()

    def refuse() -> list[Path]:
        raise CompileError("errors.bpf.c: clang is not installed; next: make setup")

    with pytest.raises(Missing, match="clang is not installed"):
        make_the_rest([], refuse, maker.build_kernel)
    assert maker.made == []


def test_packages_are_installed_with_the_users_program_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Any] = []

    def perform(command: list[Any], **options: Any) -> subprocess.CompletedProcess[str]:
        commands.append((command, options["env"]["SUDO"]))
        return subprocess.CompletedProcess(command, len(commands) - 1)

    monkeypatch.setattr(subprocess, "run", perform)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("SUDO", "doas")

    install_packages()
    assert commands == [(["bash", DEBIAN_PACKAGES], "doas")]
    with pytest.raises(typer.Exit) as ended:
        install_packages()
    assert ended.value.exit_code == 2

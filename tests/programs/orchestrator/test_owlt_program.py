"""owlt as the program that a shell starts: what it imports, its exit status, completion."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.commands import OWLT

HEAVY = ("numpy", "scipy", "matplotlib", "paramiko", "scapy", "pydantic", "rich", "duckdb", "ruamel", "pyroute2")


def test_help_imports_no_heavy_module() -> None:
    assert set(HEAVY) & imported_by("--help") == set()


@pytest.mark.parametrize("words", [("channel",), ("run",)], ids=" ".join)
def test_the_help_page_of_a_command_imports_no_heavy_module_but_what_typer_checks_values_with(
    words: tuple[str, ...],
) -> None:
    assert set(HEAVY) & imported_by(*words, "--help") <= {"pydantic"}


def imported_by(*arguments: str) -> set[str]:
    """The packages that a program has imported after it printed a help page."""
    program = (
        "import sys; from owlt.orchestrator.commands.cli import app\n"
        f"app({list(arguments)!r}, standalone_mode=False)\n"
        "print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert "Usage: " in done.stdout
    return set(done.stderr.split())


def test_a_usage_error_ends_the_program_with_status_2() -> None:
    done = subprocess.run([*OWLT, "plam"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (2, "", "owlt: unknown command 'plam'; did you mean plan?\n")


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("run de", "demo"),
        ("plan de", "demo"),
        ("sweeps show de", "demo"),
        ("channel set ge", "geo"),
        ("channel certify ge", "geo"),
        ("implementations check lt", "ltp"),
        ("third-party install soc", "socat"),
        ("schema sw", "sweep"),
        ("rigs check vi", "virtual"),
    ],
)
def test_names_are_completed_in_a_shell(words: str, name: str) -> None:
    line = f"owlt {words}"
    settings = {"_OWLT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - 1)}
    program = "from owlt.orchestrator.commands.cli import app; app(prog_name='owlt')"
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | settings, capture_output=True, text=True, check=True
    )

    assert name in done.stdout.split()
    assert done.stderr == ""

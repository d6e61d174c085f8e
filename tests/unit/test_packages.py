"""Who may know whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]
MAY_KNOW = {
    "emulator": set(),
    "agents": set(),
    "captures": set(),
    "reports": {"captures"},
    "orchestrator": {"emulator", "agents", "captures", "reports"},
}


def imported_packages(package: str) -> set[str]:
    names: set[str] = set()
    for path in (PROJECT / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names.add(node.module.partition(".")[0])
    return names & set(MAY_KNOW) - {package}


@pytest.mark.parametrize("package", MAY_KNOW)
def test_a_package_knows_only_whom_it_may(package: str) -> None:
    assert imported_packages(package) <= MAY_KNOW[package]


def test_every_package_has_modules_to_look_at() -> None:
    assert all(len(list((PROJECT / package).rglob("*.py"))) > 2 for package in MAY_KNOW)


def test_only_the_report_commands_know_the_reports() -> None:
    knowing = {path.name for path in (PROJECT / "orchestrator").rglob("*.py") if "from reports" in path.read_text()}

    assert knowing == {"analyse_command.py", "campaign.py", "channel_command.py"}

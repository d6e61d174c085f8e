"""Unit tests pass values: none replaces a function or a constant of our modules while it runs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

UNIT = Path(__file__).parent
KNOWN = {
    "orchestrator/test_command_line.py": 1,
    "orchestrator/test_repetitions.py": 1,
    "reports/test_theory.py": 1,
    "results/test_plain_files.py": 1,
    "results/test_reads.py": 3,
}
"""Patches that are left, by file: the profiles that come with owlt, which no command takes as an option; a kernel
without openat2(2); and the functions whose calls are counted."""


def patches(text: str) -> int:
    """How many calls of setattr or setitem of monkeypatch concern one of our modules, or what one has defined."""
    tree = ast.parse(text)
    foreign = {"sys", "os", "platform", "time", "select", "signal", "socket", "subprocess"}
    calls = [
        node.args[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("setattr", "setitem", "delattr")
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "monkeypatch"
    ]
    names = [each.value if isinstance(each, ast.Constant) else ast.unparse(each) for each in calls]
    return sum(str(name).partition(".")[0] not in foreign for name in names)


def test_no_unit_test_patches_our_modules() -> None:
    found = {str(path.relative_to(UNIT)): patches(path.read_text()) for path in UNIT.rglob("*.py")}

    assert {path: count for path, count in found.items() if count} == KNOWN


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("monkeypatch.setattr(campaign, 'supervise', None)", 1),
        ("monkeypatch.setattr('owlt.orchestrator.rigs.guest.needed_paths', None)", 1),
        ("monkeypatch.setattr(os, 'geteuid', None)", 0),
        ("monkeypatch.setattr('sys.argv', [])", 0),
        ("monkeypatch.setenv('PATH', '')", 0),
    ],
)
def test_a_patch_of_our_modules_is_found(line: str, count: int) -> None:
    assert patches(line) == count

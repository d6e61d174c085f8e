"""Importing a module of owlt changes nothing in the program that imports it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.test_structure import MAY_IMPORT, PROJECT

PROGRAM = """
import importlib, json, os, signal, sys, types

task = json.load(sys.stdin)
sys.path[:0] = [task["path"]]
kept = []  # values, so that no other takes the address of one

def is_ours(name):
    return name.partition(".")[0] in task["packages"]

def state():
    values = {f"os.environ[{key!r}]": value for key, value in os.environ.items()}
    values |= {f"sys.path[{place}]": path for place, path in enumerate(sys.path)}
    values |= {f"signal {number}": repr(signal.getsignal(number)) for number in signal.valid_signals()}
    for name, module in list(sys.modules.items()):
        if is_ours(name):
            continue
        values[f"sys.modules[{name!r}]"] = None if module is None else id(module)
        for key, value in list(getattr(module, "__dict__", {}).items()):
            if isinstance(value, types.FunctionType | types.BuiltinFunctionType | type):
                values[f"{name}.{key}"] = id(value)
                kept.append(value)
            if isinstance(value, type) and value.__module__ == name:
                for attribute, member in list(vars(value).items()):
                    if isinstance(member, types.FunctionType | classmethod | staticmethod | property):
                        values[f"{name}.{key}.{attribute}"] = id(member)
                        kept.append(member)
    return values

for name in task["before"]:
    try:
        importlib.import_module(name)
    except ImportError:
        pass
before = state()
for name in task["modules"]:
    importlib.import_module(name)
after = state()
lazy = {name for name, module in sys.modules.items() if "__getattr__" in getattr(module, "__dict__", {})}
changed = sorted(
    key
    for key in before.keys() | after.keys()
    if before.get(key, 0) != after.get(key, 0) and not (key not in before and key.rpartition(".")[0] in lazy)
)
others = sorted(name for name, module in sys.modules.items() if module is not None and not is_ours(name))
blocked = sorted(f"sys.modules[{name!r}]" for name, module in sys.modules.items() if module is None)
print(json.dumps({"changed": changed, "others": others, "blocked": blocked}))
"""


def imported_with(modules: list[str], before: list[str], path: Path, packages: list[str]) -> dict[str, list[str]]:
    """What importing modules changes in a program that has imported others before, and which others they import."""
    task = {"path": str(path), "packages": packages, "modules": modules, "before": before}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        check=False,
        cwd=path,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


def changes(modules: list[str], path: Path, packages: list[str]) -> list[str]:
    """What importing modules changes, beside that it imports the modules of other packages.

    An attribute that a module of another package makes when it is first used, in its `__getattr__`, is no change.
    """
    alone = imported_with(modules, [], path, packages)
    return alone["blocked"] + imported_with(modules, alone["others"], path, packages)["changed"]


def modules_of(package: str) -> list[str]:
    paths = sorted((PROJECT / package).rglob("*.py"))
    names = [".".join(path.relative_to(PROJECT).with_suffix("").parts) for path in paths]
    return [name.removesuffix(".__init__") for name in names]


def test_importing_every_module_changes_nothing_elsewhere() -> None:
    modules = [name for package in MAY_IMPORT for name in modules_of(package)]

    assert changes(modules, PROJECT, list(MAY_IMPORT)) == []


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("import sys\nsys.modules.setdefault('planted', None)", "sys.modules['planted']"),
        ("import textwrap\ntextwrap.dedent = str", "textwrap.dedent"),
        ("import string\nstring.Template.safe_substitute = str", "string.Template.safe_substitute"),
        ("import os\nos.environ['OWLT_PLANTED'] = 'x'", "os.environ['OWLT_PLANTED']"),
    ],
)
def test_a_change_by_an_import_is_found(tmp_path: Path, text: str, changed: str) -> None:
    (tmp_path / "planting.py").write_text(text + "\n")

    assert changed in changes(["planting"], tmp_path, ["planting"])

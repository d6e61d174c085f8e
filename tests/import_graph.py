"""The import graph of the project, read from the source files without importing them. Names are without `owlt.`."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PACKAGES = ("orchestrator", "reports", "captures", "results", "emulator", "agents", "inputs")
"""Every package that ships, importers before the packages that they import."""
LINKED = frozenset(path.name for path in (PROJECT / "owlt").iterdir() if path.is_symlink())
"""Parts of `owlt` that are links to the top of the project."""


def place(package: str, root: Path = PROJECT) -> Path:
    """The directory of a package: at the top of the project, or a part of `owlt` alone."""
    return root / "owlt" / package if package not in LINKED and root == PROJECT else root / package


@cache
def imported(path: Path) -> frozenset[str]:
    """The names of the modules that a file imports; a name imported from a module is appended to it."""
    return frozenset(name.removeprefix("owlt.") for name in full_names(path))


@cache
def full_names(path: Path) -> frozenset[str]:
    """The names as the file has them."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def folder_of(name: str, package: str, root: Path = PROJECT) -> str:
    """The folder of a module within its package, "kernel.bpf" for "emulator.kernel.bpf.loading.X"."""
    parts = name.split(".")[1:]
    while parts and not any((place(package, root) / Path(*parts)).glob("*.py")):  # what is left of a folder is none
        parts = parts[:-1]
    return ".".join(parts)


def module_files(package: str, root: Path = PROJECT) -> list[Path]:
    """The source files of a package, without the `__main__` that nothing imports."""
    files = sorted(place(package, root).rglob("*.py"))
    return [path for path in files if path != place(package, root) / "__main__.py"]


@cache
def folder_imports(root: Path = PROJECT) -> dict[tuple[str, str], set[tuple[str, str]]]:
    """For each folder of the project, as (package, folder), the other folders that its modules import."""
    graph: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for package in PACKAGES:
        for path in module_files(package, root):
            folder = (package, ".".join(path.relative_to(place(package, root)).parts[:-1]))
            owners = {name: name.partition(".")[0] for name in imported(path)}
            targets = {(owner, folder_of(name, owner, root)) for name, owner in owners.items() if owner in PACKAGES}
            graph.setdefault(folder, set()).update(targets - {folder})
    return graph

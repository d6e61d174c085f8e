"""Which folder may import which: packages, and the folders within each, in one direction only."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from tests.import_graph import PROJECT, folder_of, full_names, imported, place

MAY_IMPORT: dict[str, set[str]] = {
    "inputs": set(),
    "results": {"inputs", "agents.contract", "emulator.certification.certificate"},
    "emulator": {"inputs"},
    "agents": {"inputs"},
    "captures": {"results"},
    "reports": {"agents.contract", "captures", "emulator.channel", "inputs", "results"},
    "orchestrator": {"inputs", "results", "emulator", "agents", "captures", "reports"},
}
"""The packages that each package imports, or the one folder of a package."""
ORDER = {
    "inputs": [
        "",
    ],
    "results": [
        "",
    ],
    "emulator": [
        "",
        "channel",
        "models",
        "kernel.bpf",
        "kernel",
        "certification",
        "service",
    ],
    "agents": [
        "",
        "contract",
        "probes",
        "endpoint",
        "blast",
        "cfdp",
        "librecube",
        "ltp",
        "bundle",
        "norm",
        "quic",
        "saratoga",
        "tcp",
    ],
    "captures": [
        "",
        "files",
        "frames",
        "matches",
        "accounting",
        "protocols",
        "inspection",
    ],
    "reports": [
        "",
        "results",
        "comparison",
        "answer",
        "drawing",
        "sessions",
        "page",
        "reproduction",
    ],
    "orchestrator": [
        "",
        "hosts",
        "planning",
        "profiles",
        "rigs",
        "rigs.lab",
        "kernel",
        "run",
        "checks",
        "sweep",
        "dashboard",
        "commands",
    ],
}
"""The folders of each package; a folder imports only those before it, and the package's own modules."""


def backward_imports(package: str, order: list[str], root: Path = PROJECT) -> list[str]:
    """The imports of a package from a folder into one that comes after it, as sentences."""
    backward = []
    for path in sorted(place(package, root).rglob("*.py")):
        folder = ".".join(path.relative_to(place(package, root)).parts[:-1])
        if path.name == "__main__.py" and not folder:
            continue  # the package's program: nothing imports it
        targets = {folder_of(name, package, root) for name in imported(path) if name.startswith(f"{package}.")}
        backward += [
            f"{path.relative_to(root)} imports {package}.{target}"
            for target in sorted(targets)
            if order.index(target) > order.index(folder)
        ]
    return backward


def module_folders() -> list[Path]:
    return sorted({path.parent for package in ORDER for path in place(package).rglob("*.py")})


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_the_packages_that_it_may(package: str) -> None:
    names = {name for path in place(package).rglob("*.py") for name in imported(path)}
    foreign = {name for name in names if name.partition(".")[0] in set(MAY_IMPORT) - {package}}

    assert {name for name in foreign if not name.startswith(tuple(f"{each}." for each in MAY_IMPORT[package]))} == set()


def test_modules_are_imported_as_parts_of_owlt() -> None:
    """In a clone another name works too, and makes a second module of the same file."""
    files = [path for package in MAY_IMPORT for path in place(package).rglob("*.py")]
    files += (PROJECT / "tests").rglob("*.py")
    wrong = {name for path in files for name in full_names(path) if name.partition(".")[0] in MAY_IMPORT}

    assert wrong == set()


@pytest.mark.parametrize("package", ORDER)
def test_folders_import_each_other_in_one_direction(package: str) -> None:
    assert backward_imports(package, ORDER[package]) == []


def test_an_import_in_the_other_direction_is_found(tmp_path: Path) -> None:
    for folder, text in (("values", "from pack.effects.write import write\n"), ("effects", "")):
        (tmp_path / "pack" / folder).mkdir(parents=True)
        (tmp_path / "pack" / folder / "write.py").write_text(text)

    found = backward_imports("pack", ["values", "effects"], tmp_path)

    assert found == ["pack/values/write.py imports pack.effects"]


@pytest.mark.parametrize("package", ORDER)
def test_the_order_names_exactly_the_folders_that_exist(package: str) -> None:
    folders = {
        ".".join(folder.relative_to(place(package)).parts)
        for folder in module_folders()
        if folder.is_relative_to(place(package))
    }

    assert folders == set(ORDER[package])


@pytest.mark.parametrize("folder", module_folders(), ids=lambda folder: str(folder.relative_to(PROJECT)))
def test_the_docstring_of_a_folder_says_what_belongs_there_and_what_does_not(folder: Path) -> None:
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))

    assert text is not None
    assert " belong" in text.partition("\n\n")[2], f"{folder.name}: name the folder that the rest belongs to"


def test_only_the_dashboard_and_the_report_commands_know_the_reports() -> None:
    knowing = {
        str(path.relative_to(PROJECT / "orchestrator"))
        for path in (PROJECT / "orchestrator").rglob("*.py")
        for name in imported(path)
        if name.startswith("reports.")
    }

    assert {name for name in knowing if not name.startswith("dashboard/")} == {
        "commands/captures.py",
        "commands/analyse.py",
        "commands/answer.py",
        "commands/bisect.py",
        "commands/compare.py",
        "commands/conform.py",
        "commands/figure.py",
        "commands/implementations.py",
        "commands/channel.py",
        "commands/prove.py",
        "commands/edges.py",
        "commands/reproduce.py",
        "commands/soak.py",
        "commands/why.py",
        "planning/repetitions.py",
        "sweep/report.py",
    }


def test_no_module_of_owlt_imports_scapy_which_is_gpl() -> None:
    """Function by function too: an import that runs later counts like any other."""
    importing = {
        str(path.relative_to(PROJECT))
        for package in MAY_IMPORT
        for path in place(package).rglob("*.py")
        for name in imported(path)
        if f"{name}.".startswith("scapy.")
    }

    assert importing == set()


OF_RESULTS = (
    *("owlt/results", "captures/accounting", "reports", "orchestrator/planning", "orchestrator/run/analysis.py"),
    "orchestrator/run/same_failures.py",
    *("orchestrator/sweep", "orchestrator/dashboard"),
)
"""What reads and writes results directories, which somebody else may have made."""
BY_NAME = {
    *("open", "read_bytes", "read_text", "write_bytes", "write_text", "iterdir", "glob", "rglob", "scandir", "listdir"),
    *("rename", "replace", "unlink", "rmdir", "rmtree", "copy", "copytree", "copyfile", "symlink_to", "hardlink_to"),
}
"""Functions that open, list or change what a path leads to, through links."""
IN_A_DRAFT = {
    *("reports/page/page.py", "reports/rendering.py", "reports/page/figure_files.py"),
    *("reports/drawing/output.py", "reports/sessions/run_page.py"),
    *("reports/comparison/derived_tables.py", "reports/results/rows.py"),
}
"""They read and write in a new directory that owlt has just made (`reports.replacing`)."""
OF_OWLT = {
    "owlt/results/plain_files.py": "it is the way itself",
    "owlt/results/foreign_zip.py": "a file in an archive, which has no path",
    "owlt/results/lock.py": "which files the process has open that a lock names",
    "captures/accounting/derived_files.py": "the modules of a package, for their digest",
    "orchestrator/sweep/machine.py": "the configuration of a kernel",
    "orchestrator/sweep/forecast.py": "the memory that this machine has",
    "orchestrator/sweep/cluster_service.py": "what a worker of this machine left in a temporary directory",
    "orchestrator/sweep/cluster_security.py": "certificates, in a directory that their user names",
    "orchestrator/sweep/combining.py": "whether the directory for the combined results is empty",
    "orchestrator/dashboard/control.py": "what `owlt retry` wrote, in a directory of the dashboard",
    "orchestrator/dashboard/child_processes.py": "analyses, in a directory of the dashboard",
    "reports/reproduction/archive.py": "the memory that this process has",
    "reports/reproduction/page.py": "the template of a reproduction, beside its claims",
}


def opened_by_name(path: Path) -> set[str]:
    """The functions of `BY_NAME` that a module calls; `replace` counts with one argument, as that of a path has."""
    return {
        call.func.attr
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in BY_NAME
        and not (call.func.attr == "replace" and (len(call.args) != 1 or call.keywords))
    }


def test_files_of_results_are_opened_in_one_way_which_follows_no_link() -> None:
    places = [PROJECT / name for name in OF_RESULTS]
    modules = {path for each in places for path in ([each] if each.is_file() else each.rglob("*.py"))}
    opening = {str(path.relative_to(PROJECT)): functions for path in modules if (functions := opened_by_name(path))}

    assert opening.keys() - IN_A_DRAFT - OF_OWLT.keys() == set()
    assert IN_A_DRAFT | OF_OWLT.keys() <= opening.keys()


def test_scapy_is_no_requirement_of_owlt() -> None:
    required = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["dependencies"]

    assert not [requirement for requirement in required if requirement.startswith("scapy")]

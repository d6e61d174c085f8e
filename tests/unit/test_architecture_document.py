"""docs/architecture.md against the code: its file names, its folders, and the diagram of the imports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.import_diagram import DIAGRAM, diagram, reduced
from tests.import_graph import PACKAGES, PROJECT, folder_imports

DOCUMENT = PROJECT / "docs" / "architecture.md"
PATHS = ("sweep", "packet", "channel")


def named_files(text: str) -> list[str]:
    """The file names in backquotes, as paths from the project's directory."""
    return re.findall(r"`([a-z_]+/[\w/.-]+\.(?:py|yaml|md))`", text)


def missing_files(text: str, root: Path = PROJECT) -> list[str]:
    return [name for name in named_files(text) if not (root / name).is_file()]


def section(heading: str) -> str:
    return DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_every_file_that_the_document_names_exists() -> None:
    assert missing_files(DOCUMENT.read_text()) == []


def test_a_file_that_does_not_exist_is_found() -> None:
    assert missing_files("see `captures/files/pcap.py` and `captures/files/gone.py`") == ["captures/files/gone.py"]


@pytest.mark.parametrize("name", PATHS)
def test_each_path_has_ten_steps_that_name_a_file(name: str) -> None:
    steps = re.split(r"^\d+\. ", section(f"The path of a {name}"), flags=re.MULTILINE)[1:]

    assert len(steps) == 10
    assert [step for step in steps if not named_files(step)] == []


def test_the_diagram_is_what_the_imports_give() -> None:
    assert DIAGRAM.read_text() == diagram(), "imports have changed: run python -m tests.import_diagram"


def test_an_import_that_a_longer_path_implies_is_not_drawn() -> None:
    assert reduced({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == {"a": {"b"}, "b": {"c"}, "c": set()}


def test_the_document_lists_every_folder_of_every_package() -> None:
    rows = dict(re.findall(r"^\| `(\w+)/` \| (.*·.*) \|$", section("Folders and imports"), re.MULTILINE))
    listed = {package: set(re.findall(r"`(\w+)`", rows.get(package, ""))) for package in PACKAGES}
    shared = {
        package: {folder for owner, folder in folder_imports() if owner == package and folder and "." not in folder}
        for package in PACKAGES
    }
    protocols = {folder for folder in shared["agents"] if (PROJECT / "agents" / folder / "__main__.py").exists()}

    assert listed == shared | {"agents": shared["agents"] - protocols}

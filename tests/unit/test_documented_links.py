"""Every document closes its code blocks, links to files and sections that exist, and is linked from the README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.import_graph import PROJECT

DOCUMENTS = [*sorted(PROJECT.glob("*.md")), *sorted((PROJECT / "docs").glob("*.md"))]


def prose(text: str) -> str:
    """The text outside of code blocks. Only a bare fence closes a block: one with a mark, such as "yaml", opens one.

    Raises ValueError for a block that is not closed before the next one opens or the text ends.
    """
    lines = []
    opened = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("```"):
            lines += [] if opened else [line]
        elif opened and line != "```":
            raise ValueError(f"line {number}: {line} is in the code block that line {opened} opens")
        else:
            opened = 0 if opened else number
    if opened:
        raise ValueError(f"line {opened}: the code block is not closed")
    return "\n".join(lines)


def anchors(text: str) -> set[str]:
    """The anchors of a document's headings, as GitHub derives them."""
    headings = re.findall(r"^#+ (.*)$", prose(text), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(path: Path) -> list[str]:
    """The links of a document to files or sections that do not exist."""
    text = path.read_text()
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(text)):
        if target.startswith(("http:", "https:")):
            continue
        name, _, anchor = target.partition("#")
        file = path.parent / name if name else path
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            broken.append(target)
    return broken


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_code_block_of_a_document_is_closed(path: Path) -> None:
    prose(path.read_text())


@pytest.mark.parametrize(
    ("text", "message"),
    [("```\na\n```\n```\n", "line 4: the code block is not closed"), ("```\n```yaml\n", "line 2: ```yaml is in")],
)
def test_a_code_block_that_is_not_closed_is_detected(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prose(text)


def test_a_heading_in_a_code_block_has_no_anchor() -> None:
    assert anchors("# One\n```sh\n# two\n```\n") == {"one"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_links_of_a_document_lead_to_files_and_sections_that_exist(path: Path) -> None:
    assert broken_links(path) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    document.write_text("# One\n[1](#one) [2](#two) [3](gone.md) [4](document.md#one) [5](document.md#three)\n")

    assert broken_links(document) == ["#two", "gone.md", "document.md#three"]


@pytest.mark.parametrize("path", sorted((PROJECT / "docs").glob("*.md")), ids=lambda path: path.name)
def test_the_readme_leads_to_every_document(path: Path) -> None:
    assert f"](docs/{path.name})" in (PROJECT / "README.md").read_text()

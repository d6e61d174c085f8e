"""Parts of a Markdown document, for the tests that compare documents with the code."""

from __future__ import annotations

import re
from pathlib import Path


def section(document: Path, heading: str) -> str:
    """The text below a heading, up to the next heading of any level."""
    return re.split(r"^#+ ", document.read_text().partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def tables(document: Path, heading: str) -> list[list[list[str]]]:
    """The tables of a section, each as its rows without the header; cells are without their outer backquotes."""
    blocks = re.findall(r"(?:^\|.*\n)+", section(document, heading), re.MULTILINE)
    return [
        [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in block.splitlines()[2:]]
        for block in blocks
    ]


def code_blocks(document: Path, mark: str) -> list[str]:
    """The code blocks whose opening line begins with a mark, such as "yaml" or "yaml sweep"."""
    pattern = rf"^```{re.escape(mark)}(?: [^\n]*)?\n(.*?)^```$"
    return re.findall(pattern, document.read_text(), re.MULTILINE | re.DOTALL)

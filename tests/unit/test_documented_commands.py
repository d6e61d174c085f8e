"""docs/commands.md against the code: its commands, its summaries, and the fields of JSON output."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from owlt.orchestrator.commands.cli import app

DOCUMENT = Path(__file__).parents[2] / "docs" / "commands.md"


def commands(group: Any, words: tuple[str, ...] = ("owlt",)) -> Iterator[tuple[str, Any]]:
    """Every command below a group by its words: "owlt channel show"."""
    for name, command in group.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


COMMANDS = dict(commands(typer.main.get_command(app)))


def rows(heading: str, columns: int) -> list[tuple[str, ...]]:
    """The rows of the last table of a section, without its header."""
    section = DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    cells = [
        tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in section.splitlines() if "|" in line
    ]
    return [row for row in cells if len(row) == columns and not row[0].startswith(("---", "Command"))]


def words_of(cell: str) -> str:
    """The words of a command in its table, without its arguments: "owlt channel show"."""
    return re.sub(r"( \[?[A-Z][A-Z=]+(\.\.\.)?\]?)+$", "", cell.strip("`"))


def fields_of(cell: str) -> set[str]:
    """The names in backquotes, but for those in parentheses."""
    return set(re.findall(r"`(\w+)`", re.sub(r"\([^()]*\)", "", cell)))


def printed(*words: str) -> Any:
    return json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)


def test_every_command_is_documented() -> None:
    assert [words_of(cell) for cell, _ in rows("Commands", 2)] == list(COMMANDS)


def test_the_table_has_the_arguments_of_each_command() -> None:
    documented = [cell.strip("`") for cell, _ in rows("Commands", 2)]
    given = []
    for words, command in COMMANDS.items():
        usage = (
            command.collect_usage_pieces(typer.Context(command, help_option_names=["-h", "--help"]))
            if words != "owlt emulator serve"
            else []
        )
        given.append(" ".join([words, *(piece for piece in usage if piece != "[OPTIONS]")]))

    assert [text.replace("DIRECTION KEY=VALUE...", "[DIRECTION] [KEY=VALUE...]") for text in documented] == given


JSON_FIELDS = {cell.strip("`"): fields_of(fields) for cell, _, fields in rows("JSON output", 3)}


@pytest.mark.parametrize(
    "words",
    [
        "owlt plan demo",
        "owlt doctor",
        "owlt sweeps list",
        "owlt sweeps check demo",
        "owlt implementations list",
        "owlt third-party list",
        "owlt channel list",
        "owlt channel show geo",
        "owlt channel check geo",
        "owlt rigs list",
    ],
)
def test_json_output_has_the_documented_fields(words: str) -> None:
    value = printed(*words.split()[1:])
    documented = (
        JSON_FIELDS.get(words.replace("geo", "CHANNEL")) or JSON_FIELDS[" ".join(words.split()[:-1])]
        if (words.endswith(("demo", "geo")))
        else JSON_FIELDS[words]
    )

    for each in value if isinstance(value, list) else [value]:
        assert set(each) == documented


@pytest.mark.parametrize(
    ("shown", "listed"),
    [("third-party show socat", "third-party list"), ("rigs show virtual", "rigs list")],
)
def test_what_is_shown_has_the_fields_of_the_list(shown: str, listed: str) -> None:
    assert printed(*shown.split()) in printed(*listed.split())


@pytest.mark.parametrize(
    ("shown", "document"), [("sweeps show demo", "sweeps.md"), ("implementations show ltp", "implementations.md")]
)
def test_the_keys_of_a_profile_that_is_shown_are_documented(shown: str, document: str) -> None:
    text = (DOCUMENT.parent / document).read_text()

    assert [key for key in printed(*shown.split()) if f"`{key}`" not in text and key != "missing"] == []


def test_the_profile_that_is_shown_has_what_its_pairs_agree_on() -> None:
    assert "pairing" in printed("implementations", "show", "ltp")


def named_commands(package: str) -> Iterator[tuple[str, str]]:
    """The commands of owlt that texts of a package tell to run, "kernel build", each with its module."""
    for path in sorted((DOCUMENT.parents[1] / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for words in re.findall(r"(?:^|run: |['`])owlt ([a-z][a-z -]*[a-z])", node.value):
                    yield words, path.name


@pytest.mark.parametrize("package", ["orchestrator", "reports", "captures"])
def test_every_command_that_a_text_names_exists(package: str) -> None:
    groups = {command.rpartition(" ")[0].removeprefix("owlt ") for command in COMMANDS}
    unknown = [
        (words, module)
        for words, module in named_commands(package)
        if words not in groups and not any(f"owlt {words} ".startswith(f"{command} ") for command in COMMANDS)
    ]

    assert unknown == []

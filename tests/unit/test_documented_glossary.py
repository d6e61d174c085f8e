"""docs/glossary.md has every column of a report, every YAML key and every measure, once and in alphabetical order.

Keys of a link may be in the tables of docs/channels.md instead, and with them their columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import pytest

from owlt.agents.probes.tcp_samples import SAMPLE_COLUMNS
from owlt.captures.accounting.measures import Measures
from owlt.orchestrator.checks.trials import Row
from owlt.orchestrator.profiles.schemas import SCHEMAS
from owlt.orchestrator.profiles.third_party import Installable
from owlt.reports.comparison.derived_tables import COMPARISONS_COLUMNS, STATISTICS_COLUMNS
from owlt.reports.comparison.metrics import FURTHER, MEASURES, METRICS
from owlt.reports.results.columns import COLUMNS
from tests.import_graph import PROJECT

GLOSSARY = PROJECT / "docs" / "glossary.md"
CHANNELS = PROJECT / "docs" / "channels.md"
DIRECTIONS = ("forward_", "reverse_", "receiver_")
"""Prefixes of columns; the glossary defines the prefix and the rest of the name."""


def entries(text: str) -> list[tuple[list[str], str]]:
    """The rows of the glossary: the terms of each, and their definition."""
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", text, re.MULTILINE)
    return [(row[0].split(", "), row[1]) for row in rows if row[0] not in ("Term", "---")]


def defined(text: str) -> set[str]:
    """The names in backquotes that the glossary defines."""
    return {term.strip("`") for terms, _ in entries(text) for term in terms if term.startswith("`")}


def missing(names: set[str], text: str) -> list[str]:
    """The names that the glossary does not define. A prefix of a direction may be defined on its own."""
    known = defined(text)
    prefixes = tuple(prefix for prefix in DIRECTIONS if prefix in known)
    return sorted(
        name
        for name in names
        if name not in known and not any(name.removeprefix(prefix) in known - {name} for prefix in prefixes)
    )


def with_keys_of_a_link() -> str:
    """The glossary, and the part of docs/channels.md that has the keys of a link."""
    _, _, keys = CHANNELS.read_text().partition("\n## A link's keys\n")
    return GLOSSARY.read_text() + keys.partition("\n## ")[0]


def keys_of(schema: Any) -> set[str]:
    """Every key that a JSON schema describes, at any depth."""
    if isinstance(schema, list):
        return set().union(*map(keys_of, schema))
    if not isinstance(schema, dict):
        return set()
    return set(schema.get("properties", ())) | set().union(*map(keys_of, schema.values()))


def report_columns() -> set[str]:
    """The columns of a report's tables."""
    return {column.name for column in (*COLUMNS, *STATISTICS_COLUMNS, *COMPARISONS_COLUMNS)}


def yaml_keys() -> Iterator[tuple[str, set[str]]]:
    for kind, schema in SCHEMAS.items():
        yield kind, keys_of(schema())
    yield "third-party implementation", keys_of(Installable.model_json_schema())


def measures() -> set[str]:
    return {metric.key for metric in (*METRICS, *FURTHER, *MEASURES)} | set(Measures.model_fields)


@pytest.mark.parametrize(("kind", "keys"), [*yaml_keys()], ids=lambda value: value if isinstance(value, str) else "")
def test_every_key_of_a_yaml_file_is_defined(kind: str, keys: set[str]) -> None:
    assert missing(keys, with_keys_of_a_link() if kind == "channel" else GLOSSARY.read_text()) == []


def test_every_column_of_a_report_is_defined() -> None:
    assert missing(report_columns(), with_keys_of_a_link()) == []


def test_the_keys_of_a_link_are_found_in_their_tables() -> None:
    text = with_keys_of_a_link().removeprefix(GLOSSARY.read_text())

    assert missing({"forward_delay", "reverse_mtu", "amount"}, text + "| `forward_`, `reverse_` | prefixes |") == []


def test_every_column_of_the_other_tables_is_defined() -> None:
    columns = {field.name for field in fields(Row)} | set(SAMPLE_COLUMNS)

    assert missing(columns, GLOSSARY.read_text()) == []


def test_every_measure_is_defined() -> None:
    assert missing(measures(), GLOSSARY.read_text()) == []


def test_a_name_without_an_entry_is_found() -> None:
    text = GLOSSARY.read_text().replace("| `goodput_bps`", "| `badput_bps`")

    assert missing(measures(), text) == ["goodput_bps"]


def test_each_term_is_defined_once() -> None:
    terms = [term for terms, _ in entries(GLOSSARY.read_text()) for term in terms]

    assert sorted({term for term in terms if terms.count(term) > 1}) == []


def test_the_terms_are_in_alphabetical_order() -> None:
    first = [
        terms[0].strip("`").lower().replace("_", " ").replace("-", " ") for terms, _ in entries(GLOSSARY.read_text())
    ]

    assert first == sorted(first)

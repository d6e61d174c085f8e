"""Each row of an impairment is what docs/channels.md, the schema and the link say of its key."""

from __future__ import annotations

import re

import pytest

from owlt.emulator.channel.link import LinkSpec, impairments, key_of
from tests.import_graph import PROJECT

ROWS = impairments()
NOT_IMPAIRMENTS = {"queue_bytes", "queue_ns", "queue_bdp", "seed"}
"""The kinds of a queue beside packets, whose key is that of `queue_packets`, and what determines random choices."""


def documented() -> dict[str, tuple[str, str]]:
    """The meaning and the example of each key in the table of docs/channels.md."""
    _, _, section = (PROJECT / "docs/channels.md").read_text().partition("\n## A link's keys\n")
    rows = re.findall(r"^\| `(\w+)` \| (.+) \| .+ \| `(.+)` \|$", section.partition("\n### ")[0], re.MULTILINE)
    return {key: (meaning, example) for key, meaning, example in rows}


def test_every_field_of_a_link_has_a_row() -> None:
    assert set(ROWS) == set(LinkSpec.model_fields) - NOT_IMPAIRMENTS


@pytest.mark.parametrize("name", ROWS)
def test_the_document_has_the_meaning_and_the_example_of_the_row(name: str) -> None:
    meaning, example = documented()[key_of(name)]

    assert re.sub(r"; \[.*", "", meaning) == ROWS[name].meaning
    assert example == ROWS[name].example


@pytest.mark.parametrize("name", sorted(set(ROWS) - {"queue_packets"}))
def test_the_schema_describes_the_key_by_the_row(name: str) -> None:
    described = LinkSpec.model_json_schema(by_alias=True)["properties"][key_of(name)]["description"]

    assert described.rstrip(".").lower() == ROWS[name].meaning.lower()

"""docs/sweeps.md against the code: its keys, its examples, its mistakes. And every YAML file and block has a schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from orchestrator.campaign import resolve
from orchestrator.catalogue import PROFILES, implementation_files
from orchestrator.channels import channel_files
from orchestrator.errors import ProfileError, ResultsConflict
from orchestrator.plan import write_plan
from orchestrator.schemas import SCHEMAS
from orchestrator.sweep import Sweep

PROJECT = PROFILES.parent
DOCUMENT = PROJECT / "docs" / "sweeps.md"
DOCUMENTS = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
FILES = [
    *(("sweep", path) for path in sorted((PROFILES / "sweeps").glob("*.yaml"))),
    *(("channel", path) for path in channel_files()),
    *(("implementation", path) for path in implementation_files()),
    *(("implementation", path) for path in sorted((PROJECT / "docs" / "examples").rglob("*.yaml"))),
]


def parsed(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def quoted(document: Path, language: str) -> list[str]:
    """The blocks of code whose mark begins so."""
    return re.findall(rf"^```{language}[^\n]*\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)


def kind_of(document: dict[str, Any]) -> str:
    """By the keys of it: blocks of documents need not be whole."""
    shared = {kind: len(document.keys() & SCHEMAS[kind]()["properties"].keys() - {"name", "title"}) for kind in SCHEMAS}
    return max(shared, key=lambda kind: shared[kind])


def mistakes(kind: str, document: Any, whole: bool = True) -> list[str]:
    schema = SCHEMAS[kind]()
    if not whole:
        schema.pop("required", None)
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(document)]


BLOCKS = [
    (path.name, at, document)
    for path in DOCUMENTS
    for at, text in enumerate(quoted(path, "yaml"))
    if (document := parsed(text)) is not None
]
SMALL = quoted(DOCUMENT, "yaml sweep")[0]


def table(heading: str) -> list[list[str]]:
    section = DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\|.*\|$", section, re.MULTILINE)[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def keys_of_the_document() -> dict[str, list[str]]:
    head = DOCUMENT.read_text().partition("\n## The keys\n")[2].partition("\n### ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in re.findall(r"^\| `.*\|$", head, re.M)]
    return {row[0].strip("`"): row[1:] for row in rows}


@pytest.mark.parametrize(("kind", "path"), FILES, ids=lambda value: value.stem if isinstance(value, Path) else value)
def test_a_file_that_comes_with_owlt_is_as_its_schema_says(kind: str, path: Path) -> None:
    assert mistakes(kind, parsed(path.read_text())) == []


@pytest.mark.parametrize(("name", "at", "document"), BLOCKS, ids=lambda value: "" if isinstance(value, dict) else None)
def test_a_block_of_the_documents_is_as_its_schema_says(name: str, at: int, document: dict[str, Any]) -> None:
    assert mistakes(kind_of(document), document, whole=False) == []


def test_the_documents_have_blocks_of_every_kind() -> None:
    assert {kind_of(document) for _, _, document in BLOCKS} == set(SCHEMAS)


@pytest.mark.parametrize(
    "change",
    [
        {"delay": 25},
        {"delay": "25 Ms"},
        {"file_size": ["100 kB", 5]},
        {"clock": "virtual"},
        {"told": {"cfdp": {"rtt": "1 s"}}},
        {"repititions": 2},
        {"parameters": {"cfdp": {"segment_bytes": {"a": 1}}}},
        {"packet_error_rate": [0, 0]},
    ],
    ids=str,
)
def test_what_the_sweeps_schema_refuses_owlt_refuses_too(change: dict[str, object]) -> None:
    wrong = parsed(SMALL) | change

    assert mistakes("sweep", wrong) != []
    with pytest.raises(ValueError, match=next(iter(change))):
        Sweep.model_validate(wrong)


@pytest.mark.parametrize(
    "change",
    [
        {"rate": "unlimited"},
        {"rate": ["unlimited", "8 kbit/s"]},
        {"delay": "1.5e3ms"},
        {"file_size": " 5 MB "},
        {"channel": "geo", "delay": "20 min"},
        {"told": {"cfdp": {"rate": {"1 Mbit/s": "900 kbit/s"}, "delay": "2 s"}}},
        {"parameters": {"cfdp": {"segment_bytes": [500, 1000], "closure": "on"}}},
        {"queue_packets": 50, "certify": False, "keep_captures": "none"},
    ],
    ids=str,
)
def test_what_the_sweeps_schema_accepts_owlt_accepts_too(change: dict[str, object]) -> None:
    right = parsed(SMALL) | change

    assert mistakes("sweep", right) == []
    assert Sweep.model_validate(right)


def test_an_editor_has_a_description_of_every_key_of_a_sweep() -> None:
    schema = SCHEMAS["sweep"]()
    keys = schema["properties"] | schema["$defs"]["Told"]["properties"]

    assert [key for key, about in keys.items() if not about.get("description")] == []


def test_every_key_of_a_sweep_is_explained_in_the_schemas_words() -> None:
    assert {key: row[-1] for key, row in keys_of_the_document().items()} == {
        key: field.description for key, field in Sweep.model_fields.items()
    }


def test_a_default_in_the_table_is_the_sweeps() -> None:
    told = {key: row[1] for key, row in keys_of_the_document().items()}
    required = {key for key, field in Sweep.model_fields.items() if field.is_required()}
    plain = {key: str(f.default) for key, f in Sweep.model_fields.items() if f.default and not f.is_required()}

    assert {key for key, default in told.items() if default == "required"} == required
    assert {key: told[key].strip("`") for key in plain} == {key: text.replace("T", "t") for key, text in plain.items()}


def test_the_small_example_is_as_many_runs_as_the_document_says(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)

    assert len(resolve(path).runs) == 24
    assert "24 runs" in DOCUMENT.read_text()


@pytest.mark.parametrize("at", range(len(quoted(DOCUMENT, "yaml sweep"))))
def test_an_example_can_be_planned(tmp_path: Path, at: int) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(quoted(DOCUMENT, "yaml sweep")[at])

    assert resolve(path).runs


def test_the_conflict_that_is_shown_is_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for repetitions in (2, 3):
        Path(f"{repetitions}.yaml").write_text(SMALL.replace("repetitions: 3", f"repetitions: {repetitions}"))
    write_plan(resolve(Path("2.yaml")), Path("results/small"))

    with pytest.raises(ResultsConflict) as refused:
        write_plan(resolve(Path("3.yaml")), Path("results/small"))

    assert quoted(DOCUMENT, "text conflict") == [f"{refused.value}\n"]


@pytest.mark.parametrize("row", table("Mistakes and what they say"), ids=lambda row: row[0])
def test_a_mistake_is_answered_as_the_document_says(tmp_path: Path, row: list[str]) -> None:
    written, said = (cell.strip("`") for cell in row)
    key = {"repititions": "repetitions"}.get(written.partition(":")[0], written.partition(":")[0])
    path = tmp_path / "small.yaml"
    path.write_text(re.sub(rf"^{key}:.*$", written, SMALL, flags=re.MULTILINE))

    with pytest.raises(ProfileError) as refused:
        resolve(path)

    assert re.sub(r"^.*?small\.yaml:\d+: ", "", str(refused.value)) == said


def test_the_document_links_to_sections_and_files_that_are_there() -> None:
    text = DOCUMENT.read_text()
    anchors = {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    }
    targets = re.findall(r"\]\(([^)]*)\)", text)

    assert [target for target in targets if target[0] == "#" and target[1:] not in anchors] == []
    files = [target.partition("#")[0] for target in targets if target[0] != "#"]
    assert [name for name in files if not (DOCUMENT.parent / name).exists()] == []


def test_the_readme_and_the_implementations_lead_here() -> None:
    assert "](docs/sweeps.md)" in (PROJECT / "README.md").read_text()
    assert "](sweeps.md)" in (PROJECT / "docs" / "implementations.md").read_text()


def test_the_schema_file_is_json_for_editors() -> None:
    Draft202012Validator.check_schema(json.loads((PROFILES / "schemas" / "sweep.json").read_text()))

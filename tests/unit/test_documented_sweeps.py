"""docs/sweeps.md compared with the code: keys, examples, error messages. And the schemas of all YAML files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from owlt.inputs.mistake import ResultsConflict
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.errors import ProfileError
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.profiles.catalogue import PROFILES, channel_files, implementation_files, resolve
from owlt.orchestrator.profiles.pairs import is_pair
from owlt.orchestrator.profiles.schemas import SCHEMAS
from tests.documents import code_blocks, tables

PROJECT = PROFILES.parent
DOCUMENT = PROJECT / "docs" / "sweeps.md"
DOCUMENTS = [PROJECT / "README.md", *sorted((PROJECT / "docs").glob("*.md"))]
FILES = [
    *(("sweep", path) for path in sorted((PROFILES / "sweeps").glob("*.yaml"))),
    *(("channel", path) for path in channel_files()),
    *(("implementation", path) for path in implementation_files()),
    *(("implementation", path) for path in sorted((PROJECT / "docs" / "examples").rglob("*.yaml"))),
]


MADE = {kind: make() for kind, make in SCHEMAS.items()}


def parsed(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def kind_of(document: dict[str, Any]) -> str:
    """By the keys of it: blocks of documents need not be whole."""
    if is_pair(document):
        return "pair"
    shared = {kind: len(document.keys() & made["properties"].keys() - {"name", "title"}) for kind, made in MADE.items()}
    return max(shared, key=lambda kind: shared[kind])


def mistakes(kind: str, document: Any, whole: bool = True) -> list[str]:
    schema = {key: each for key, each in MADE[kind].items() if whole or key != "required"}
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(document)]


BLOCKS = [
    (path.name, at, document)
    for path in DOCUMENTS
    for at, text in enumerate(code_blocks(path, "yaml"))
    if (document := parsed(text)) is not None
]
SMALL = code_blocks(DOCUMENT, "yaml sweep")[0]


def keys_of_the_document() -> dict[str, list[str]]:
    return {row[0]: row[1:] for row in tables(DOCUMENT, "The keys")[0]}


@pytest.mark.parametrize(("kind", "path"), FILES, ids=lambda value: value.stem if isinstance(value, Path) else value)
def test_a_file_that_comes_with_owlt_matches_its_schema(kind: str, path: Path) -> None:
    assert mistakes(kind, parsed(path.read_text())) == []


@pytest.mark.parametrize(("name", "at", "document"), BLOCKS, ids=lambda value: "" if isinstance(value, dict) else None)
def test_a_yaml_block_in_a_document_matches_its_schema(name: str, at: int, document: dict[str, Any]) -> None:
    assert mistakes(kind_of(document), document, whole=False) == []


def test_the_documents_have_blocks_of_every_kind() -> None:
    assert {kind_of(document) for _, _, document in BLOCKS} == set(MADE)


@pytest.mark.parametrize(
    "change",
    [
        {"delay": 25},
        {"delay": "25 Ms"},
        {"file_size": ["100 kB", 5]},
        {"clock": "virtual"},
        {"advertised": {"cfdp": {"rtt": "1 s"}}},
        {"repititions": 2},
        {"parameters": {"cfdp": {"segment_bytes": {"a": 1}}}},
        {"packet_error_rate": [0, 0]},
        {"delay": {"from": "1 ms", "to": "1 s"}},
        {"rate": {"from": "1 Mbit/s", "to": "2 Mbit/s", "step": 1}},
        {"exclude": {"delays": "1 s"}},
        {"together": {"delay": "1 s"}},
        {"baseline": {"delay": "1 s"}},
    ],
    ids=str,
)
def test_owlt_refuses_what_the_schema_of_sweeps_refuses(change: dict[str, object]) -> None:
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
        {"advertised": {"cfdp": {"rate": {"1 Mbit/s": "900 kbit/s"}, "delay": "2 s"}}},
        {"parameters": {"cfdp": {"segment_bytes": [500, 1000], "closure": "on"}}},
        {"queue_packets": 50, "certify": False, "keep_captures": "none"},
        {"delay": {"from": "1 ms", "to": "1 s", "points": 4, "scale": "log"}},
        {"file_size": ["5 kB", {"from": "10 kB", "to": "1 MB", "factor": 10}]},
        {"baseline": {"every": 5, "implementations": "cfdp", "rate": "1 Mbit/s", "packet_error_rate": 0}},
        {"include": {"delay": "5 s"}, "exclude": [{"rate": {"from": "2 Mbit/s"}, "implementations": "ltp"}]},
    ],
    ids=str,
)
def test_owlt_accepts_what_the_schema_of_sweeps_accepts(change: dict[str, object]) -> None:
    right = parsed(SMALL) | change

    assert mistakes("sweep", right) == []
    assert Sweep.model_validate(right)


def test_an_editor_has_a_description_of_every_key_of_a_sweep() -> None:
    schema = MADE["sweep"]
    keys = schema["properties"] | schema["$defs"]["Advertised"]["properties"]

    assert [key for key, about in keys.items() if not about.get("description")] == []


def test_the_meaning_of_every_key_of_a_sweep_is_that_in_the_schema() -> None:
    assert {key: row[-1] for key, row in keys_of_the_document().items()} == {
        key: field.description for key, field in Sweep.model_fields.items()
    }


def test_the_defaults_in_the_table_are_those_of_the_sweep() -> None:
    told = {key: row[1] for key, row in keys_of_the_document().items()}
    required = {key for key, field in Sweep.model_fields.items() if field.is_required()}
    plain = {key: str(f.default) for key, f in Sweep.model_fields.items() if f.default and not f.is_required()}

    assert {key for key, default in told.items() if default == "required"} == required
    assert {key: told[key].strip("`") for key in plain} == {key: text.replace("T", "t") for key, text in plain.items()}


def test_the_small_example_has_as_many_runs_as_the_document_states(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)

    assert len(resolve(path).runs) == 24
    assert "24 runs" in DOCUMENT.read_text()


@pytest.mark.parametrize("at", range(len(code_blocks(DOCUMENT, "yaml sweep"))))
def test_an_example_can_be_planned(tmp_path: Path, at: int) -> None:
    path = tmp_path / "example.yaml"
    path.write_text(code_blocks(DOCUMENT, "yaml sweep")[at])

    assert resolve(path).runs


def test_the_conflict_in_the_document_is_the_message_of_owlt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for repetitions in (2, 3):
        Path(f"{repetitions}.yaml").write_text(SMALL.replace("repetitions: 3", f"repetitions: {repetitions}"))
    three = resolve(Path("3.yaml"))
    write_plan(three, Path("results/small"))

    with pytest.raises(ResultsConflict) as refused:
        write_plan(resolve(Path("2.yaml")), Path("results/small"), {run.run_id for run in three.runs})

    assert code_blocks(DOCUMENT, "text conflict") == [f"{refused.value}\n"]


@pytest.mark.parametrize("row", tables(DOCUMENT, "Error messages")[0], ids=lambda row: row[0])
def test_a_mistake_gives_the_message_in_the_document(tmp_path: Path, row: list[str]) -> None:
    written, said = (cell.strip("`") for cell in row)
    key = {"repititions": "repetitions"}.get(written.partition(":")[0], written.partition(":")[0])
    path = tmp_path / "small.yaml"
    changed, count = re.subn(rf"^{key}:.*$", written, SMALL, flags=re.MULTILINE)
    path.write_text(changed if count else f"{SMALL}{written}\n")

    with pytest.raises(ProfileError) as refused:
        resolve(path)

    assert re.sub(r"^.*?small\.yaml:\d+: ", "", str(refused.value)) == said


def test_the_schema_file_is_json_for_editors() -> None:
    Draft202012Validator.check_schema(json.loads((PROFILES / "schemas" / "sweep.json").read_text()))

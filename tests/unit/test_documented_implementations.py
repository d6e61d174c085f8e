"""docs/implementations.md compared with the code and its example files. tests/system runs the examples."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from owlt.agents.contract.implementation import ContractError, Implementation, load_implementation
from owlt.agents.contract.limits import KnownLimit, Limits, Space, TimeLimit
from owlt.agents.contract.pairing import Pairing, Term
from owlt.agents.contract.placeholders import RUN_PLACEHOLDERS
from owlt.agents.contract.requirements import Binary, Need
from owlt.agents.contract.session_ports import SessionPorts
from owlt.agents.contract.side import Exchange, Ready, Side, Stop
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.checks.trials import check_plan
from owlt.orchestrator.planning.plan import advertised_values, plan_sweep
from owlt.orchestrator.profiles.catalogue import implementation_files, implementations_of
from tests.documents import code_blocks, tables

DOCUMENT = Path(__file__).parents[2] / "docs" / "implementations.md"
EXAMPLES = sorted((DOCUMENT.parent / "examples" / "implementations").glob("*.yaml"))

TABLES: list[tuple[str, int, type[BaseModel]]] = [
    ("With whom it can talk", 0, Pairing),
    ("With whom it can talk", 1, Term),
    ("The keys", 0, Implementation),
    ("A side", 0, Side),
    ("Ready", 0, Ready),
    ("Dialogue", 0, Exchange),
    ("Stop", 0, Stop),
    ("Programs and needs", 0, Binary),
    ("Programs and needs", 1, Need),
    ("Session", 0, SessionPorts),
    ("Limits", 0, Limits),
    ("Limits", 1, KnownLimit),
    ("Time limit", 0, TimeLimit),
    ("Run directory", 0, Space),
]
MISTAKES = [
    ("plain-socat", "title: socat", "titel: socat"),
    ("plain-socat", "CREATE:{received_file}", "CREATE:{recieved_file}"),
    ("plain-socat", "OPEN:{file}", "OPEN:${HOME}/test.bin"),
    ("plain-socat", '"{block_bytes}"', "8192"),
    ("plain-socat", "name: plain-socat", "name: socat"),
    ("plain-socat", 'ready: {tcp_port: "{port}"}', "ready: {line: listening, tcp_port: 5002}"),
    ("plain-socat", 'ready: {tcp_port: "{port}"}', "stop: {send: quit}"),
    ("plain-socat", "port: 5002", "seed: 5002"),
    ("plain-socat", "rtts: 1000, ", ""),
    ("plain-socat", '"{block_bytes}"', "{block_bytes}"),
    ("plain-socat", '"{block_bytes}"', '"8192"'),
    ("plain-socat", "block_bytes: 8192", "block_bytes: [8192, 65536]"),
    ("plain-socat", 'version_command: [sh, -c, "{socat} -V | sed -n 2p"]', "version_command: socat -V"),
    ("plain-socat", "starts_first: receiver", "clocks: virtual"),
    ("plain-socat", "extra_s: 60", "extra_s: 60 s"),
    ("plain-socat", "title: socat, out of the box", "title: socat: out of the box"),
    ("plain-socat", 'session: {tcp_ports: ["{port}"]}', 'session: {tcp_ports: ["{port}"]'),
    ("rsyncd", "signal: TERM", "signal: TREM"),
    ("rsyncd", "port = {{ port }}", "port = {{ ports }}"),
    ("rsyncd", "{% endif %}", ""),
    ("rsyncd", "why: the daemon closes", "why: ah, the daemon closes"),
]


@pytest.mark.parametrize(
    ("heading", "at", "model"), TABLES, ids=lambda value: value.__name__ if isinstance(value, type) else ""
)
def test_each_table_has_exactly_the_keys_of_its_model(heading: str, at: int, model: type[BaseModel]) -> None:
    keys = [name for name in model.model_fields if name != "pair"]  # which no file has

    assert [row[0] for row in tables(DOCUMENT, heading)[at]] == keys


def test_the_defaults_in_the_tables_are_the_contracts() -> None:
    documented = {
        (model, row[0]): row[2]
        for heading, at, model in TABLES
        for row in tables(DOCUMENT, heading)[at]
        if len(row) > 2 and not isinstance(model.model_fields[row[0]].default, (BaseModel, list, dict, type(None)))
    }
    contract = {(model, key): model.model_fields[key] for model, key in documented}

    assert {place: field.default for place, field in contract.items() if not field.is_required()} == {
        place: text == "true" if isinstance(contract[place].default, bool) else type(contract[place].default)(text)
        for place, text in documented.items()
        if text != "required"
    }
    assert {place for place, field in contract.items() if field.is_required()} == {
        place for place, text in documented.items() if text == "required"
    }


def test_the_meaning_of_every_placeholder_is_that_in_the_code() -> None:
    assert {row[0].strip("{}"): row[1] for row in tables(DOCUMENT, "Placeholders")[0]} == RUN_PLACEHOLDERS


def test_every_implementation_that_comes_with_owlt_is_listed() -> None:
    listed = {row[0]: row[1] for row in tables(DOCUMENT, "Implementations that come with owlt")[0]}

    assert listed == {path.stem: load_implementation(path).protocol for path in implementation_files()}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_in_the_document_equals_its_file(path: Path) -> None:
    assert code_blocks(DOCUMENT, f"yaml {path.name}") == [path.read_text()]


def test_there_are_three_examples() -> None:
    assert [path.stem for path in EXAMPLES] == ["courier", "plain-socat", "rsyncd"]


@pytest.mark.parametrize("path", [*implementation_files(), *EXAMPLES], ids=lambda path: path.stem)
def test_an_editor_finds_the_schema_of_every_file(path: Path) -> None:
    named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text())

    assert named
    assert (path.parent / named[1]).resolve() == DOCUMENT.parents[1] / "profiles" / "schemas" / "implementation.json"


@pytest.mark.parametrize(("example", "old", "new"), MISTAKES, ids=lambda text: text[:20])
def test_a_mistake_gives_the_message_in_the_document(tmp_path: Path, example: str, old: str, new: str) -> None:
    good = next(path for path in EXAMPLES if path.stem == example).read_text()
    assert old in good
    bad = tmp_path / f"{example}.yaml"
    bad.write_text(good.replace(old, new, 1))

    with pytest.raises(ContractError) as refused:
        load_implementation(bad)

    message = re.sub(rf"^{re.escape(str(bad))}:\d+: ", "", str(refused.value).splitlines()[-1])
    [shown] = [
        row[1] for row in tables(DOCUMENT, "Error messages")[0] if row[0] == (new or f"without `{old.strip(', ')}")
    ]
    assert message == shown or (shown.endswith(" …") and message.startswith(shown.removesuffix(" …")))


def sweeps() -> list[Any]:
    """The plans of the sweeps in the document."""
    shown = [
        Sweep.model_validate(YAML(typ="safe", pure=True).load(text)) for text in code_blocks(DOCUMENT, "yaml sweep")
    ]
    return [plan_sweep(sweep, implementations_of(sweep)) for sweep in shown]


def test_each_value_of_a_list_of_parameters_is_a_variant() -> None:
    plan = sweeps()[0]

    assert list(plan.implementations) == ["cfdp", "norm+parity_segments=0", "norm+parity_segments=8"]
    assert plan.implementations["cfdp"].parameters["segment_bytes"] == 1400


def test_a_sweep_advertises_its_own_values_and_otherwise_the_channels() -> None:
    plan = sweeps()[1]
    advertised = {
        (run.permutation.implementation, run.permutation.rate_bps, run.permutation.delay_ns): advertised_values(
            run, plan.sweep
        )
        for run in plan.runs
    }

    assert advertised["norm", 1_024_000, 25_000_000].rate_bps == 1_000_000
    assert advertised["norm", 10_000_000, 25_000_000].rate_bps == 10_000_000
    assert {(advertised[point].rate_bps, advertised[point].rtt_s) for point in advertised if point[0] == "cfdp"} == {
        (1_000_000, 0.5)
    }


def test_the_check_in_the_document_has_the_channels_of_a_check() -> None:
    [shown] = code_blocks(DOCUMENT, "text check")
    courier = load_implementation(next(path for path in EXAMPLES if path.stem == "courier"))

    assert all(row in shown for row in ("version ", "clean, 25 ms ", "PER 0.01, 250 ms ", "nothing arrives "))
    assert any(run.run_id in shown for run in check_plan(courier).runs)
    assert "its sender had to be killed\n" in shown
    assert re.search(r"version +ok  courier 1\.0 \(sha256 [0-9a-f]{12}\)\n", shown)
    assert shown.endswith("courier: fit for a sweep\n")

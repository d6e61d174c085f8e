"""docs/implementations.md against the code and the files that it is about. Its examples run in tests/system."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from ruamel.yaml import YAML

from agents.contract import Binary, Implementation, KnownLimit, Limits, Need, SessionPorts, Space, TimeLimit
from agents.load import ContractError, load_implementation
from agents.placeholders import RUN_PLACEHOLDERS
from agents.side import Exchange, Ready, Side, Stop
from orchestrator.catalogue import implementation_files, implementations_of
from orchestrator.plan import plan_sweep
from orchestrator.proving import check_plan
from orchestrator.sweep import Sweep
from orchestrator.told import told_values

DOCUMENT = Path(__file__).parents[2] / "docs" / "implementations.md"
EXAMPLES = sorted((DOCUMENT.parent / "examples" / "implementations").glob("*.yaml"))

TABLES: list[tuple[str, int, type[BaseModel]]] = [
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
    ("plain-socat", "title: socat, as it comes", "title: socat: as it comes"),
    ("plain-socat", 'session: {tcp_ports: ["{port}"]}', 'session: {tcp_ports: ["{port}"]'),
    ("rsyncd", "signal: TERM", "signal: TREM"),
    ("rsyncd", "port = {{ port }}", "port = {{ ports }}"),
    ("rsyncd", "{% endif %}", ""),
    ("rsyncd", "why: the daemon hangs up", "why: ah, the daemon hangs up"),
]


def section(heading: str) -> str:
    """The text below a heading, up to the next one of any level."""
    return re.split(r"^#+ ", DOCUMENT.read_text().partition(f"# {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def tables(heading: str) -> list[list[list[str]]]:
    """The tables of a section, each its rows without the head."""
    found = re.findall(r"(?:^\|.*\n)+", section(heading), re.MULTILINE)
    return [
        [[cell.strip().strip("`") for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]
        for table in found
    ]


def quoted(language: str) -> list[str]:
    """The blocks of code that are marked so."""
    return re.findall(rf"^```{re.escape(language)}\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(
    ("heading", "at", "model"), TABLES, ids=lambda value: value.__name__ if isinstance(value, type) else ""
)
def test_every_key_is_explained_and_no_other(heading: str, at: int, model: type[BaseModel]) -> None:
    assert [row[0] for row in tables(heading)[at]] == list(model.model_fields)


def test_a_default_that_is_a_number_or_a_word_is_the_contracts() -> None:
    told = {
        (model, row[0]): row[2]
        for heading, at, model in TABLES
        for row in tables(heading)[at]
        if len(row) > 2 and not isinstance(model.model_fields[row[0]].default, (BaseModel, list, dict, type(None)))
    }
    defaults = {(model, key): model.model_fields[key] for model, key in told}

    assert {place: field.default for place, field in defaults.items() if not field.is_required()} == {
        place: type(defaults[place].default)(value) for place, value in told.items() if value != "required"
    }
    assert {place for place, field in defaults.items() if field.is_required()} == {
        place for place, value in told.items() if value == "required"
    }


def test_every_placeholder_is_explained_in_the_codes_words() -> None:
    assert {row[0].strip("{}"): row[1] for row in tables("Placeholders")[0]} == RUN_PLACEHOLDERS


def test_every_implementation_that_comes_with_owlt_is_listed() -> None:
    listed = {row[0]: row[1] for row in tables("Implementations that come with owlt")[0]}

    assert listed == {path.stem: load_implementation(path).protocol for path in implementation_files()}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_quoted_as_its_file_is(path: Path) -> None:
    assert quoted(f"yaml {path.name}") == [path.read_text()]


def test_there_are_three_examples() -> None:
    assert [path.stem for path in EXAMPLES] == ["courier", "plain-socat", "rsyncd"]


@pytest.mark.parametrize("path", [*implementation_files(), *EXAMPLES], ids=lambda path: path.stem)
def test_an_editor_finds_the_schema_of_every_file(path: Path) -> None:
    named = re.match(r"# yaml-language-server: \$schema=(\S+)\n", path.read_text())

    assert named
    assert (path.parent / named[1]).resolve() == DOCUMENT.parents[1] / "profiles" / "schemas" / "implementation.json"


@pytest.mark.parametrize(("example", "old", "new"), MISTAKES, ids=lambda text: text[:20])
def test_a_mistake_is_answered_as_the_document_says(tmp_path: Path, example: str, old: str, new: str) -> None:
    good = next(path for path in EXAMPLES if path.stem == example).read_text()
    assert old in good
    bad = tmp_path / f"{example}.yaml"
    bad.write_text(good.replace(old, new, 1))

    with pytest.raises(ContractError) as refused:
        load_implementation(bad)

    said = re.sub(rf"^{re.escape(str(bad))}:\d+: ", "", str(refused.value).splitlines()[-1])
    [shown] = [
        row[1] for row in tables("Mistakes and what they say")[0] if row[0] == (new or f"without `{old.strip(', ')}")
    ]
    assert said == shown or (shown.endswith(" …") and said.startswith(shown.removesuffix(" …")))


def sweeps() -> list[Any]:
    """The sweeps that the document shows, planned."""
    shown = [Sweep.model_validate(YAML(typ="safe", pure=True).load(text)) for text in quoted("yaml sweep")]
    return [plan_sweep(sweep, implementations_of(sweep)) for sweep in shown]


def test_lists_of_parameters_are_builds_of_their_own() -> None:
    plan = sweeps()[0]

    assert list(plan.implementations) == ["cfdp", "norm+parity_segments=0", "norm+parity_segments=8"]
    assert plan.implementations["cfdp"].parameters["segment_bytes"] == 1400


def test_a_build_is_told_what_the_sweep_says_and_else_the_channels_values() -> None:
    plan = sweeps()[1]
    told = {
        (run.permutation.implementation, run.permutation.rate_bps, run.permutation.delay_ns): told_values(
            run, plan.sweep
        )
        for run in plan.runs
    }

    assert told["norm", 1_024_000, 25_000_000].rate_bps == 1_000_000
    assert told["norm", 10_000_000, 25_000_000].rate_bps == 10_000_000
    assert {(told[point].rate_bps, told[point].rtt_s) for point in told if point[0] == "cfdp"} == {(1_000_000, 0.5)}


def test_the_check_that_is_shown_looks_at_the_channels_of_a_check() -> None:
    [shown] = quoted("text check")
    courier = load_implementation(next(path for path in EXAMPLES if path.stem == "courier"))

    assert all(row in shown for row in ("version ", "clean, 25 ms ", "PER 0.01, 250 ms ", "nothing arrives "))
    assert any(run.run_id in shown for run in check_plan(courier).runs)
    assert "its sender had to be ended\n" in shown
    assert re.search(r"version +ok  courier 1\.0 \(sha256 [0-9a-f]{12}\)\n", shown)
    assert shown.endswith("courier: fit for a sweep\n")


def test_the_document_links_to_sections_and_files_that_are_there() -> None:
    text = DOCUMENT.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    targets = re.findall(r"\]\(([^)]*)\)", text)

    assert [target for target in targets if target.startswith("#") and target[1:] not in anchors] == []
    assert [target for target in targets if target[0] != "#" and not (DOCUMENT.parent / target).exists()] == []

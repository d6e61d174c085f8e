"""What docs/emulator-api.md says against what the service does: its examples are run, its tables compared."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from owlt.emulator import faults
from owlt.emulator.service.methods import CHANGING, LEASING, READING
from tests.conftest import require, require_command

DOCUMENT = Path(__file__).parents[2] / "docs" / "emulator-api.md"
SCRIPT = Path(__file__).with_name("guest_scripts") / "api_examples.py"


@pytest.fixture(scope="module")
def told() -> dict[str, Any]:
    return {}


@pytest.fixture
def ran(guest: Any, told: dict[str, Any]) -> list[dict[str, Any]]:
    """The examples as they ran in a guest, once for all tests."""
    for command in ("curl", "openssl", "perl"):
        require_command(command)
    perl = subprocess.run(["perl", "-MRPC::XML::Client", "-e1"], capture_output=True, check=False)
    require(perl.returncode == 0, "Perl's RPC::XML (Debian package librpc-xml-perl)")
    if not told:
        done = guest.run(SCRIPT, str(DOCUMENT), timeout_s=120)
        assert done.returncode == 0, done.stderr
        told.update(json.loads(done.stdout))
    return list(told["ran"])


def rows(heading: str) -> list[list[str]]:
    """The table of a section, without its head."""
    section = DOCUMENT.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_example_runs(ran: list[dict[str, Any]]) -> None:
    assert [example for example in ran if example["status"] != 0] == []


def test_every_example_prints_what_is_written_below_it(ran: list[dict[str, Any]]) -> None:
    expecting = [example for example in ran if "expected" in example]

    assert [example["out"] for example in expecting] == [example["expected"] for example in expecting]
    assert [example["out"] for example in ran if "expected" not in example] == ["", ""]


def test_there_are_examples_in_three_languages(ran: list[dict[str, Any]]) -> None:
    assert {example["language"] for example in ran} == {"python", "sh", "perl"}
    assert len(ran) >= 9


def test_every_method_is_documented_with_what_it_needs() -> None:
    needs = dict.fromkeys(READING, "") | dict.fromkeys(CHANGING, "token, lease") | dict.fromkeys(LEASING, "token")

    assert {row[0]: row[3] for row in rows("Methods")} == needs


def test_every_fault_is_documented() -> None:
    plain = (faults.NOT_WELL_FORMED, faults.UNKNOWN_METHOD, faults.INTERNAL_ERROR)
    names = dict.fromkeys(plain, "") | {code: error.__name__ for code, error in faults.CODES.items()}

    assert {int(row[0]): row[1] for row in rows("Faults")} == names

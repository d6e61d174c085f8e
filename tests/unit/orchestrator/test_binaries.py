"""Programs that are not ours, looked for on this machine."""

from __future__ import annotations

from pathlib import Path

from owlt.agents.contract.requirements import Binary
from owlt.orchestrator.hosts.binaries import find_here, why_not_here


def test_the_first_place_that_has_the_program_is_taken(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)

    assert find_here(Binary(search=["/nowhere/x", "{third_party}/bin/program", "sh"], fix="m"), str(tmp_path)) == str(
        program
    )


def test_a_program_that_is_nowhere_is_reported_with_where_it_was_searched() -> None:
    binary = Binary(search=["no-such-program", "{third_party}/x"], fix="m")

    assert find_here(binary, "/nowhere") is None
    assert why_not_here(binary, "/nowhere") == "searched: no-such-program, /nowhere/x"


def test_a_file_that_cannot_be_executed_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("#!/bin/sh\n")
    binary = Binary(search=["no-such-program", "{third_party}/x"], fix="m")

    assert find_here(binary, str(tmp_path)) is None
    assert why_not_here(binary, str(tmp_path)) == f"{tmp_path}/x is not executable"

"""Bisecting versions: what a version is, the first bad one is found with few runs, and packets are compared by what
programs send."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from owlt.agents.contract.requirements import Binary
from owlt.orchestrator.checks.bisecting import (
    binary_of_version,
    find_version,
    first_bad,
    first_divergence,
    versions_between,
)
from owlt.orchestrator.commands.bisect import Limit, _tried
from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.profiles.third_party import find_installables
from owlt.results.plain_files import make_directory
from owlt.results.record import Outcome, write_record
from owlt.results.recorded_runs import run_directory
from tests.unit.captures.making import RECEIVER, SENDER, Timed, later, timed, udp_frame, write_pcap
from tests.unit.orchestrator.making import record
from tests.unit.orchestrator.small_sweep import small_plan


def test_another_version_is_the_same_profile_with_the_program_of_that_version() -> None:
    pinned, other = find_implementation("pycfdp"), find_version("pycfdp@0.2.2")
    (program,) = other.binary.values()

    assert program.search == ["{third_party}/pycfdp@0.2.2/bin/owlt-pycfdp"]
    assert program.fix == "owlt third-party install pycfdp@0.2.2"
    assert other.title.endswith(", version 0.2.2, not pinned by owlt")
    assert other.model_copy(update={"binary": pinned.binary, "title": pinned.title}) == pinned


def test_a_program_of_another_version_is_not_looked_for_in_path() -> None:
    (installed,) = find_installables(["pycfdp@0.2.2"])
    binary = Binary(search=["owlt-pycfdp", "{third_party}/pycfdp/bin/owlt-pycfdp"], fix="install it")

    assert binary_of_version(binary, installed).search == ["{third_party}/pycfdp@0.2.2/bin/owlt-pycfdp"]


def test_the_pinned_version_is_the_profile_itself() -> None:
    assert find_version("pycfdp@0.2.3") == find_version("pycfdp") == find_implementation("pycfdp")


def test_an_implementation_without_a_third_party_program_has_no_versions() -> None:
    with pytest.raises(OwltError, match="ltp: has no other versions"):
        find_version("ltp@1.0")


def test_a_version_that_is_not_installed_is_named_with_how_to_install_it() -> None:
    with pytest.raises(OwltError, match=r"pycfdp@0\.1\.7: is not installed.*owlt third-party install pycfdp@0\.1\.7"):
        versions_between("pycfdp", "0.1.7", "0.2.3")


def found(count: int, is_bad: Callable[[int], bool]) -> tuple[int, list[int]]:
    """The version that is found, and those that were tried between the first and the last."""
    tried: list[int] = []

    def is_bad_of(number: int) -> bool:
        tried.append(number)
        return is_bad(number)

    return first_bad(count, is_bad_of), tried


@given(st.data(), st.integers(2, 300))
def test_the_first_bad_version_is_found(data: st.DataObject, count: int) -> None:
    bad = data.draw(st.integers(1, count - 1))

    version, tried = found(count, lambda number: number >= bad)

    assert version == bad
    assert len(tried) <= ceil(log2(count - 1)) if count > 2 else tried == []


FRAMES = [udp_frame(bytes([number]) * 50) for number in range(10)]


def divergence(tmp_path: Path, one: list[Timed], other: list[Timed]) -> str:
    for name, frames in (("one", one), ("other", other)):
        (tmp_path / name).mkdir()
        write_pcap(tmp_path / name / "sender.pcap", frames)
    return first_divergence(tmp_path / "one", tmp_path / "other")


def test_versions_that_send_the_same_do_not_diverge(tmp_path: Path) -> None:
    assert divergence(tmp_path, timed(FRAMES), timed(FRAMES)) == ""


def test_a_later_start_and_other_identification_fields_are_no_divergence(tmp_path: Path) -> None:
    again = [udp_frame(bytes([number]) * 50, identification=7 + number) for number in range(10)]

    assert divergence(tmp_path, timed(FRAMES), later(timed(again), 166_144)) == ""


@pytest.mark.parametrize(
    "frame", [udp_frame(b"x" * 50), udp_frame(b"\4" * 51), udp_frame(b"\4" * 50, RECEIVER, SENDER, 5223)]
)
def test_other_octets_another_length_and_other_ports_are_a_divergence(tmp_path: Path, frame: bytes) -> None:
    text = divergence(tmp_path, timed(FRAMES), timed([*FRAMES[:4], frame, *FRAMES[5:]]))

    assert text.startswith("packet with payload 5: 50 B from port 40000 to 5222 at 0.004000 s and ")


def test_a_packet_that_is_sent_later_is_a_divergence(tmp_path: Path) -> None:
    sent = timed(FRAMES)

    text = divergence(tmp_path, sent, [*sent[:6], *later(sent[6:], 1_500_000)])

    assert text.endswith(
        "payload 7: 50 B from port 40000 to 5222 at 0.006000 s and 50 B from port 40000 to 5222 at 0.007500 s"
    )


def test_a_packet_more_is_a_divergence(tmp_path: Path) -> None:
    assert (
        divergence(tmp_path, timed(FRAMES), timed(FRAMES[:-1]))
        == "packet with payload 10: only in one run, of 10 and 9 packets"
    )


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["cfdp"], "NAME: got cfdp, expected at least two different versions"),
        (["cfdp", "cfdp"], "NAME: got cfdp, cfdp, expected at least two different versions"),
        (["cfdp", "ltp", "--above", "1"], "--measure: is missing"),
        (["cfdp", "ltp", "--measure", "session_s"], "--above: is missing, or --below is given as well"),
        (["cfdp", "ltp", "--measure", "sesion_s", "--above", "1"], "did you mean session_s?"),
        (["cfdp", "ngtcp2"], "ngtcp2: does not send the same packets with the same faults"),
    ],
)
def test_what_cannot_be_searched_is_refused(words: list[str], problem: str) -> None:
    assert problem in str(CliRunner().invoke(app, ["bisect", *words]).exception)


def test_a_run_that_was_aborted_is_neither_good_nor_bad(tmp_path: Path) -> None:
    plan = small_plan("exact")
    run_id = plan.runs[0].run_id
    run = make_directory(run_directory(tmp_path, run_id))
    write_record(record(run_id=run_id, outcome=Outcome.ABORTED, reason="the guest was killed"), run)

    for limit in (None, Limit("session_s", 1.0, True)):
        with pytest.raises(OwltError, match="the guest was killed"):
            _tried(plan, tmp_path, None, limit)

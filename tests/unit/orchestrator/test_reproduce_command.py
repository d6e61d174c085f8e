"""`owlt reproduce`: the list, names, and the sweeps of both forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from owlt.orchestrator.commands import cli
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.reproduce import (
    claims_at_start,
    missing_for_sweep,
    optional_sweep_files,
    perform_all,
    reproduction_directory,
    reproductions,
    requested_sweep_files,
    sweep_files,
)
from owlt.orchestrator.errors import NotFound, OwltError
from owlt.orchestrator.profiles.catalogue import resolve
from owlt.reports.reproduction.claims import digests_of, load_claims
from owlt.reports.reproduction.page import make_page
from owlt.results.files import write_reproduced
from tests.missing_implementation import MISSING
from tests.unit.reports.conftest import few, write_results


def test_the_list_has_every_reproduction_with_its_claims_and_runs() -> None:
    listed = json.loads(CliRunner().invoke(cli.app, ["reproduce", "--list", "--json"]).stdout)

    assert [each["name"] for each in listed] == [path.name for path in reproductions()]
    assert all(each["claims"] > 0 and each["runs"] > each["quick_runs"] > 0 for each in listed)


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(NotFound, match=r"'acs-asymetric-2022': not found; did you mean acs-asymmetric-2022\?"):
        reproduction_directory("acs-asymetric-2022")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "NAME is missing; give a name"),
        (("tcp-deepspace-2002", "--list"), "--list: got tcp-deepspace-2002"),
    ],
)
def test_a_name_or_the_list_is_required(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(OwltError) as error:
        CliRunner().invoke(cli.app, ["reproduce", *words], catch_exceptions=False)

    assert message in str(error.value)


@pytest.mark.parametrize("directory", reproductions(), ids=lambda path: path.name)
def test_the_quick_form_is_a_part_of_the_grid(directory: Path) -> None:
    quick, whole = ([resolve(path) for _, path in sweep_files(directory, form)] for form in (True, False))
    cells = [{run.permutation for plan in plans for run in plan.runs} for plans in (quick, whole)]

    assert cells[0] < cells[1]
    assert [plan.sweep.name for plan in quick] == [f"{whole[0].sweep.name}-quick"]


@pytest.mark.parametrize("directory", reproductions(), ids=lambda path: path.name)
def test_the_results_of_further_sweeps_have_the_name_of_the_first_in_theirs(directory: Path) -> None:
    on_request = requested_sweep_files(directory, load_claims(directory).on_request)
    files = [*sweep_files(directory, False), *optional_sweep_files(directory), *on_request]
    names = [(ending, resolve(path).sweep.name) for ending, path in files]

    assert names == [(ending, f"{directory.name}{ending}") for ending, _ in names]


def test_the_sweeps_of_a_user_s_own_implementations_are_those_of_ion_and_hdtn() -> None:
    sweeps = [sweep for path in reproductions() for _, sweep in optional_sweep_files(path)]
    names = {name.partition("+")[0] for sweep in sweeps for name in resolve(sweep).implementations}

    assert names == {"ion-acs", "ion-ltp", "hdtn-ltp"}


SWEEP = """\
name: mine
title: Mine
seed: 1
implementations: {implementation}
file_size: 10 kB
channel: bypass
"""


def test_missing_programs_of_a_sweep_are_named(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MISSING)
    ours, mine = tmp_path / "ours-sweep.yaml", tmp_path / "mine-sweep.yaml"
    ours.write_text(SWEEP.format(implementation="tcp"))
    mine.write_text(SWEEP.format(implementation=tmp_path / "mine.yaml"))

    assert missing_for_sweep(ours, tmp_path / "results") == []
    (mistake,) = missing_for_sweep(mine, tmp_path / "results")
    assert "implementation 'mine' needs mine, which is missing" in str(mistake)
    assert "bring your own" in str(mistake)


@pytest.mark.parametrize(("ended_with", "places"), [(3, ["r", "r-mine"]), (1, ["r"])])
def test_an_optional_sweep_without_all_of_its_records_is_left_out(
    ended_with: int, places: list[str], tmp_path: Path
) -> None:
    text = (
        "{paper: {authors: A, title: T, year: 2024, published_in: J}, chosen: c, if_installed: [mine], claims: [CLAIM]}"
    )
    claim = "{id: one, kind: program, states: S, place: section 1, ours: SELECT 2, accept: {most: 3}}"
    (tmp_path / "claims.yaml").write_text(text.replace("CLAIM", claim))
    (tmp_path / "mine.yaml").write_text(SWEEP.format(implementation="tcp"))

    def perform(directory: Path, sweep: Path, results: Path | None, *_: object) -> tuple[int, Path]:
        return (ended_with if sweep.stem == "mine" else 0), results or tmp_path

    status, performed = perform_all(tmp_path, False, tmp_path / "r", None, Printer(), perform)

    assert (status, [path.name for path in performed]) == (ended_with if ended_with == 3 else 0, places)


def test_a_sweep_on_request_is_performed_only_with_its_name(tmp_path: Path) -> None:
    directory = reproduction_directory("grc-nack-2012")
    requested = requested_sweep_files(directory, ["as-published"])

    def perform(_directory: Path, sweep: Path, results: Path | None, *_: object) -> tuple[int, Path]:
        return 0, results or tmp_path / sweep.stem

    usual, further = (
        [path.name for path in perform_all(directory, False, tmp_path / "r", None, Printer(), perform, each)[1]]
        for each in ((), requested)
    )

    assert set(further) - set(usual) == {"r-as-published"}


@pytest.mark.parametrize(
    ("name", "words", "message"),
    [
        (
            "grc-nack-2012",
            ("as-publishd",),
            "--with: got as-publishd, expected one of as-published; did you mean as-pub",
        ),
        (
            "tcp-deepspace-2002",
            ("x",),
            "--with: got x, expected nothing, as tcp-deepspace-2002 has no sweep on request",
        ),
        ("grc-nack-2012", ("as-published", "--quick"), "--with: cannot be combined with --quick"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused(name: str, words: tuple[str, ...], message: str) -> None:
    with pytest.raises(OwltError) as error:
        CliRunner().invoke(cli.app, ["reproduce", name, "--with", *words], catch_exceptions=False)

    assert message in str(error.value)


def test_results_that_exist_are_judged_without_a_run(tmp_path: Path) -> None:
    results = write_results(tmp_path / "results", few())
    before = sorted(results.rglob("record.json"))
    done = CliRunner().invoke(cli.app, ["reproduce", "tcp-deepspace-2002", "--judge", str(results), "--json"])

    judged = json.loads(done.stdout)
    assert (done.exit_code, sorted(results.rglob("record.json"))) == (0, before)
    assert {each["id"]: each["verdict"] for each in judged["claims"]}["model"] == "confirmed"
    assert Path(judged["page"]) == results / "reproduction" / "tcp-deepspace-2002.md"


@pytest.mark.parametrize("words", [("--quick",), ("--with", "x"), ("--results", "x"), ("--guests", "1")])
def test_results_that_exist_are_judged_as_they_are(words: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(OwltError, match=rf"--judge: got {words[0]} as well.*leave out {words[0]}"):
        CliRunner().invoke(
            cli.app, ["reproduce", "tcp-deepspace-2002", "--judge", str(tmp_path), *words], catch_exceptions=False
        )


def test_a_directory_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OwltError, match=r"is not a results directory \(it has no plan\.json\)"):
        CliRunner().invoke(
            cli.app, ["reproduce", "tcp-deepspace-2002", "--judge", str(tmp_path)], catch_exceptions=False
        )


def test_the_claims_are_noted_when_there_is_no_run_yet(tmp_path: Path) -> None:
    directory, results = reproduction_directory("acs-asymmetric-2022"), tmp_path / "results"
    noted = claims_at_start(directory, results)
    write_reproduced(results, noted.model_copy(update={"claims": {"acs-data": "of another file"}}))

    assert noted.claims == digests_of(load_claims(directory))
    assert claims_at_start(directory, results) == noted


def test_the_claims_of_the_first_run_stay(tmp_path: Path) -> None:
    results = write_results(tmp_path / "results", few())
    directory = reproduction_directory("acs-asymmetric-2022")
    noted = claims_at_start(directory, results)
    write_reproduced(results, noted.model_copy(update={"claims": {"acs-data": "of another file"}}))

    assert noted.runs_before == len(list(results.rglob("record.json")))
    assert claims_at_start(directory, results).claims == {"acs-data": "of another file"}


def test_a_page_names_the_claims_that_were_changed_after_the_start(tmp_path: Path) -> None:
    directory, results = reproduction_directory("tcp-deepspace-2002"), write_results(tmp_path / "results", few())
    noted = claims_at_start(directory, results)
    write_reproduced(results, noted.model_copy(update={"claims": noted.claims | {"rtt-1ms": "of another bound"}}))

    page, _ = make_page(directory, [results], directory.name)
    words = " ".join(page.read_text().split())
    assert f"(recorded after {noted.runs_before} runs), the claims had the digest {noted.claims_sha256[:16]}; " in words
    assert "changed since then: rtt-1ms. " in words

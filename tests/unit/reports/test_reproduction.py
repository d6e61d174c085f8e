"""Claims of papers: files of them, queries over the table of runs, verdicts, and the page."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from owlt.orchestrator.commands.reproduce import reproductions
from owlt.reports.looks import Looks
from owlt.reports.reproduction.archive import short_version
from owlt.reports.reproduction.claims import (
    Accept,
    Claim,
    ClaimsError,
    FigureOf,
    Reproduction,
    TableOf,
    digests_of,
    load_claims,
)
from owlt.reports.reproduction.database import (
    NO_RUNS,
    BadQuery,
    database,
    database_of_files,
    judged,
    points,
    table,
    write_files,
)
from owlt.reports.reproduction.page import NO_POINTS, PLACES, TEMPLATE, accepted_text, draw, make_page, number_text
from owlt.reports.results.load import load_results
from owlt.results.files import ReportError
from owlt.results.record import ON_THE_RECEIVER
from tests.import_graph import PROJECT
from tests.unit.captures.making import SESSION
from tests.unit.captures.octets import CFDP_RUN
from tests.unit.reports.conftest import SUSPECT, change_record, few, write_captures, write_results

CLAIMS = """\
paper: {authors: A, title: T, year: 2002, published_in: J}
chosen: before the runs
claims:
  - {id: one, kind: arithmetic, states: S, place: section 1, ours: SELECT 2, accept: {most: 3}}
"""


def claim(**changes: object) -> Claim:
    return Claim.model_validate(
        {"id": "one", "kind": "arithmetic", "states": "S", "place": "section 1", "ours": "SELECT 2"}
        | {"accept": {"most": 3}}
        | changes
    )


def reproduction(*claims: Claim, **changes: object) -> Reproduction:
    paper = {"authors": "A", "title": "T", "year": 2002, "published_in": "J"}
    values = {"paper": paper, "chosen": "before the runs", "claims": list(claims) or [claim()]}
    return Reproduction.model_validate(values | changes)


def refusal(directory: Path, text: str) -> str:
    (directory / "claims.yaml").write_text(text)
    with pytest.raises(ClaimsError) as error:
        load_claims(directory)
    return str(error.value)


def test_a_query_counts_the_completed_runs_without_doubts(demo: Path) -> None:
    results = load_results(demo)
    good = sum(run.completed and not run.suspect for run in results.runs)

    with database([results], reproduction()) as connection:
        (counted,) = connection.execute("SELECT count(*) FROM good").fetchall()[0]
        suspect = points(connection, f"SELECT run_id, 1, 1 FROM good WHERE run_id = '{SUSPECT}'")
    assert counted == good
    assert suspect == []


def test_a_claim_is_judged_from_its_value_in_each_repetition(demo: Path) -> None:
    counted = claim(kind="measurement", ours="SELECT count(DISTINCT repetition) FROM good")
    with database([load_results(demo)], reproduction()) as connection:
        (verdict,) = judged(connection, reproduction(counted))
        (repetitions,) = connection.execute("SELECT count(DISTINCT repetition) FROM good").fetchall()[0]

    assert verdict.of is not None
    assert (verdict.of.n, verdict.of.value) == (repetitions, 1)
    assert repetitions > 1


def test_each_row_of_a_query_is_a_case(demo: Path) -> None:
    rows = claim(ours="SELECT x AS timer, x * 1.0 FROM (VALUES (1), (9)) AS t(x)", accept={"most": 3})
    with database([load_results(demo)], reproduction()) as connection:
        (verdict,) = judged(connection, reproduction(rows))

    assert verdict.of is not None
    assert (verdict.verdict, verdict.of.case) == ("not confirmed", "timer 9")


def test_a_claim_without_runs_is_undecidable(demo: Path) -> None:
    with database([load_results(demo)], reproduction()) as connection:
        (verdict,) = judged(connection, reproduction(claim(ours="SELECT avg(goodput_bps) FROM runs WHERE false")))

    assert (verdict.verdict, verdict.ours, verdict.reason) == ("undecidable", None, NO_RUNS)


def test_a_claim_that_nothing_decides_has_its_reason(demo: Path) -> None:
    other = claim(ours="", accept=None, undecidable="no such implementation")
    with database([load_results(demo)], reproduction()) as connection:
        (verdict,) = judged(connection, reproduction(other))

    assert (verdict.verdict, verdict.reason) == ("undecidable", "no such implementation")


def test_a_query_that_is_no_sql_is_named_after_its_claim(demo: Path) -> None:
    with (
        database([load_results(demo)], reproduction()) as connection,
        pytest.raises(BadQuery, match=r"claim one: .*goodputt"),
    ):
        judged(connection, reproduction(claim(ours="SELECT goodputt FROM runs")))


OUTSIDE = {
    "write": "SELECT 1; COPY (SELECT 'x') TO '{0}/written'",
    "write a database": "SELECT 1; ATTACH '{0}/written' AS other",
    "write all": "SELECT 1; EXPORT DATABASE '{0}/written'",
    "read": "SELECT count(*) FROM read_text('{0}/secret')",
    "read by name": "SELECT count(*) FROM '{0}/secret.csv'",
    "list": "SELECT count(*) FROM glob('{0}/*')",
    "undo": "SELECT 1; SET enable_external_access = true",
    "load code": "SELECT 1; INSTALL httpfs",
}


def test_a_query_reaches_no_file(demo: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with database([load_results(demo)], reproduction()) as connection:
        for sql in (query.format(tmp_path) for query in OUTSIDE.values()):
            with pytest.raises(BadQuery):
                judged(connection, reproduction(claim(ours=sql)))
            with pytest.raises(BadQuery):
                points(connection, sql)
            with pytest.raises(BadQuery):
                table(connection, TableOf(name="t", rows=sql))

    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"views": {"stolen": "SELECT 1; COPY (SELECT 'x') TO '{0}/written'"}},
        {"packets_of": "true); COPY (SELECT 'x') TO '{0}/written'; SELECT (1"},
        {"packets_of": "true); COPY (SELECT 'x') TO '{0}/written'; --"},
    ],
)
def test_what_comes_before_all_queries_reaches_no_file(demo: Path, tmp_path: Path, changes: dict[str, Any]) -> None:
    changes = json.loads(json.dumps(changes).replace("{0}", str(tmp_path)))

    with pytest.raises(BadQuery), database([load_results(demo)], reproduction(**changes)):
        pass

    assert not (tmp_path / "written").exists()


def test_views_are_there_for_all_queries(demo: Path) -> None:
    stated = reproduction(claim(ours="SELECT x FROM three"), views={"three": "SELECT 3 AS x"})
    with database([load_results(demo)], stated) as connection:
        (verdict,) = judged(connection, stated)

    assert verdict.ours == 3


def test_a_view_has_the_rows_of_the_repetition_that_is_judged_and_afterwards_those_of_all(demo: Path) -> None:
    views = {"seen": "SELECT repetition FROM good", "number": "SELECT count(DISTINCT repetition) AS n FROM seen"}
    stated = reproduction(claim(kind="measurement", ours="SELECT n FROM number"), views=views)
    with database([load_results(demo)], stated) as connection:
        (verdict,) = judged(connection, stated)
        (repetitions,) = connection.execute("SELECT n FROM number").fetchall()[0]

    assert verdict.of is not None
    assert (verdict.of.n, verdict.of.value) == (repetitions, 1)
    assert repetitions > 1


@pytest.mark.parametrize("directory", reproductions(), ids=lambda path: path.name)
def test_all_queries_of_a_reproduction_are_valid(directory: Path, demo: Path) -> None:
    """On results of another sweep, so that hardly any claim has a value."""
    loaded = load_claims(directory)

    with database([load_results(demo)], loaded) as connection:
        assert len(judged(connection, loaded)) == len(loaded.claims)
        for figure in loaded.figures:
            for panel in figure.panels:
                points(connection, panel.points)
        for each in loaded.tables:
            table(connection, each)


@pytest.mark.parametrize("directory", reproductions(), ids=lambda path: path.name)
def test_every_sweep_beside_the_claims_is_performed(directory: Path) -> None:
    loaded = load_claims(directory)

    named = {*loaded.also, *loaded.if_installed, *loaded.on_request, Path(loaded.sweep).stem, "quick", "claims"}
    assert {path.stem for path in directory.glob("*.yaml")} <= named


@pytest.mark.parametrize("directory", reproductions(), ids=lambda path: path.name)
def test_the_page_of_a_reproduction_has_every_claim_with_its_verdict(directory: Path) -> None:
    page = (PROJECT / "docs" / "reproductions" / f"{directory.name}.md").read_text()
    with (PROJECT / "docs" / "reproductions" / f"{directory.name}-claims.csv").open() as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}

    claims = load_claims(directory).claims
    assert list(rows) == [each.id for each in claims]
    for each in claims:
        assert f"| {' '.join(each.states.split())} | {each.place} |" in page
        assert f"**{rows[each.id]['verdict']}**" in page


@pytest.mark.parametrize("directory", reproductions(), ids=lambda path: path.name)
def test_the_page_of_a_reproduction_has_its_figures(directory: Path) -> None:
    page = (directory / TEMPLATE).read_text()

    for figure in load_claims(directory).figures:
        assert f"({directory.name}-{figure.name}.svg)" in page
        assert (PROJECT / "docs" / "reproductions" / f"{directory.name}-{figure.name}.svg").exists()


@pytest.mark.parametrize("directory", reproductions(), ids=lambda path: path.name)
def test_the_page_of_a_reproduction_has_its_tables(directory: Path) -> None:
    page = (directory / TEMPLATE).read_text()

    for each in load_claims(directory).tables:
        name = f"{directory.name}-{each.name}.csv"
        assert f"{{table {each.name}}}" in page or f"({name})" in page
        assert (PROJECT / "docs" / "reproductions" / name).exists()


@pytest.mark.parametrize("path", sorted((PROJECT / "docs" / "reproductions").glob("*.csv")), ids=lambda path: path.stem)
def test_each_column_of_a_table_has_a_name_of_its_own(path: Path) -> None:
    with path.open() as file:
        names = [name.strip() for name in next(csv.reader(file))]

    assert len(set(names)) == len(names)


def test_results_of_several_sweeps_are_put_together(demo: Path, reported: Path) -> None:
    both = [load_results(demo), load_results(reported)]
    with database(both, reproduction()) as connection:
        ((counted,),) = connection.execute("SELECT count(*) FROM runs").fetchall()

    assert counted == sum(len(each.runs) + len(each.unrecorded) for each in both)


def test_the_queries_of_an_archive_have_a_time_limit_together(demo: Path, tmp_path: Path) -> None:
    with database([load_results(demo)], reproduction()) as connection:
        write_files(connection, tmp_path)
    endless = TableOf(name="endless", rows="SELECT count(*) FROM range(1000000000000) AS numbers(n) WHERE n % 7 = 3")

    with (
        database_of_files(tmp_path, reproduction(), most_s=2.0) as connection,
        pytest.raises(BadQuery, match="table endless: interrupted, because the queries of an archive have a time"),
    ):
        table(connection, endless)


def test_an_archive_has_only_the_rows_that_the_claims_keep(demo: Path, tmp_path: Path) -> None:
    with database([load_results(demo)], reproduction()) as connection:
        with pytest.raises(BadQuery, match=r"archived, packets: .*nothing"):
            write_files(connection, tmp_path, {"packets": "nothing > 1"})
        write_files(connection, tmp_path, {"all_runs": '"order" = 1'})
    with database_of_files(tmp_path, reproduction()) as connection:
        kept = connection.execute('SELECT "order" FROM all_runs').fetchall()

    assert len(load_results(demo).runs) > 1
    assert kept == [(1,)]


def test_which_sweeps_are_controls_is_a_part_of_what_every_verdict_follows_from() -> None:
    with_controls, without = reproduction(also=["long"], controls=["long"]), reproduction(also=["long"])

    assert not {*digests_of(with_controls).items()} & {*digests_of(without).items()}


def test_runs_of_controls_are_in_a_table_of_their_own(demo: Path) -> None:
    with database([load_results(demo)], reproduction(also=["long"], controls=["long"])) as connection:
        connection.execute("UPDATE all_runs SET sweep = 'demo-long' WHERE repetition = 1")
        sweeps = [connection.execute(f"SELECT DISTINCT sweep FROM {name}").fetchall() for name in ("runs", "controls")]

    assert sweeps == [[("demo",)], [("demo-long",)]]


RUN = "cfdp_1MB_10Mbps_25ms_per0_r1"
PACKETS_OF_RUN = reproduction(packets_of=f"run_id = '{RUN}'")


def test_packets_are_those_of_the_capture_at_each_port(tmp_path: Path) -> None:
    """The receiver answers sooner at its own port than at the sender's: by a round trip of 50 ms."""
    results = write_results(tmp_path / "results", few())
    write_captures(results / "runs" / RUN)
    change_record(results, RUN, session=SESSION.model_dump(mode="json"))

    with database([load_results(results)], PACKETS_OF_RUN) as connection:
        answers = [
            connection.execute(
                f"SELECT count(*), min(at_s) FILTER (NOT from_sender) - min(at_s) FILTER (from_sender) FROM {name}"
            ).fetchall()[0]
            for name in ("packets", "packets_at_receiver")
        ]
    (at_sender, first_s), (at_receiver, sooner_s) = answers
    assert at_sender == at_receiver == len(CFDP_RUN)
    assert first_s - sooner_s == pytest.approx(0.05)


@pytest.mark.parametrize("contents", [b"", b"no capture of packets", None])
def test_a_damaged_capture_is_named_with_what_to_do(tmp_path: Path, contents: bytes | None) -> None:
    results = write_results(tmp_path / "results", few())
    capture = results / "runs" / RUN / "sender.pcap"
    capture.unlink()
    if contents is not None:
        capture.write_bytes(contents)

    with (
        pytest.raises(ReportError, match=rf"sender.pcap: cannot be read: .*owlt retry {results} --run {RUN}"),
        database([load_results(results)], PACKETS_OF_RUN),
    ):
        pass


POINTS = [(name, x, y, "") for name in ("CFDP", "LTP") for x in (0.0, 1e-5, 0.1) for y in (1.0, 2.0, 4.0)]


def figure_of(*kinds: str, **changes: object) -> FigureOf:
    panel = {"title": "Goodput", "x": {"label": "PER"}, "y": {"label": "Mbit/s"}, "points": "SELECT 1"}
    return FigureOf.model_validate({"name": "one", "panels": [panel | {"kind": kind} for kind in kinds]} | changes)


@pytest.mark.parametrize("kind", ["line", "points", "box", "bar"])
def test_a_figure_has_its_series_and_the_same_bytes_every_time(kind: str, tmp_path: Path) -> None:
    for name in ("a", "b"):
        draw(figure_of(kind), [POINTS], tmp_path / f"{name}.svg")

    text = (tmp_path / "a.svg").read_text()
    assert text == (tmp_path / "b.svg").read_text()
    assert all(f">{word}<" in text for word in ("Goodput", "PER", "Mbit/s", "CFDP", "LTP"))


def test_values_of_x_are_categories_below_boxes(tmp_path: Path) -> None:
    draw(figure_of("box"), [POINTS], tmp_path / "a.svg")

    assert all(f">{x}<" in (tmp_path / "a.svg").read_text() for x in ("0", "1e-5", "0.1"))


@pytest.mark.parametrize("x", [0.001, 0.0001, 0.00123])
def test_small_values_of_x_are_written_in_full(x: float, tmp_path: Path) -> None:
    draw(figure_of("box"), [[("LTP", x, 1.0, "")]], tmp_path / "a.svg")

    assert f">{x}<" in (tmp_path / "a.svg").read_text()


def test_each_facet_is_a_panel(tmp_path: Path) -> None:
    facets = [(*point[:3], facet) for point in POINTS for facet in ("10 kB", "1 MB")]
    draw(figure_of("bar"), [facets], tmp_path / "a.svg")

    text = (tmp_path / "a.svg").read_text()
    assert (text.count(">Goodput, 10 kB<"), text.count(">Goodput, 1 MB<")) == (1, 1)


def test_a_series_has_the_same_looks_in_each_figure(tmp_path: Path) -> None:
    draw(figure_of("box"), [[point for point in POINTS if point[0] == "LTP"]], tmp_path / "a.svg", ("CFDP", "LTP"))

    text = (tmp_path / "a.svg").read_text()
    assert (Looks(1).colour in text, Looks(0).colour in text) == (True, False)


def test_a_figure_without_runs_says_so(tmp_path: Path) -> None:
    draw(figure_of("box", "line"), [[], []], tmp_path / "a.svg")

    assert (tmp_path / "a.svg").read_text().count(NO_POINTS) == 2


def test_a_table_of_a_query_is_in_the_page_and_a_file(tmp_path: Path, demo: Path) -> None:
    source, results = tmp_path / "source", tmp_path / "results"
    source.mkdir()
    (source / "claims.yaml").write_text(
        f"{CLAIMS}tables:\n  - {{name: t, rows: \"SELECT 'a' AS kind, 0.123456789 AS x, 12345 AS n\"}}\n"
    )
    (source / TEMPLATE).write_text("{table t}")
    shutil.copytree(demo, results)

    page, _ = make_page(source, [results], "mine")
    assert page.read_text() == "| kind | x | n |\n| --- | ---: | ---: |\n| a | 0.1235 | 12,345 |"
    assert (page.parent / "mine-t.csv").read_text() == "kind,x,n\na,0.123457,12345\n"


def test_a_page_has_the_verdicts_and_numbers_in_their_places(tmp_path: Path, demo: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "claims.yaml").write_text(CLAIMS)
    (source / TEMPLATE).write_text("\n".join(PLACES))
    results = tmp_path / "results"
    shutil.copytree(demo, results)

    page, verdicts = make_page(source, [results], "mine")
    text = page.read_text()
    assert "| S | section 1 |  | 2 | at most 3 | **confirmed** |" in text
    assert "0 measurements (0 confirmed, 0 not confirmed" in text
    assert "claims of other kinds, counted separately: 1" in text
    assert "before the runs" in text
    assert "| demo | clock | exact |" in text
    assert "come from the complete grid, performed" in text
    assert f"{sum(run.completed for run in load_results(demo).runs)} completed" in text
    assert [each.verdict for each in verdicts] == ["confirmed"]
    assert (page.parent / "mine-claims.csv").read_text().splitlines()[1].startswith("one,arithmetic,section 1,,2,2,2,")


def test_a_page_of_a_part_of_the_runs_says_how_many(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "claims.yaml").write_text(CLAIMS)
    (source / TEMPLATE).write_text("{form}")
    results = write_results(tmp_path / "results", few(), skip=lambda run: run.run_id.endswith("per0_r3"))

    page, _ = make_page(source, [results], "mine")
    assert (
        "come from 10 of the 12 runs of the complete grid: its 4 cells were performed 2 to 3 times" in page.read_text()
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("accept: {most: 3}", "accept: {}"), "claims.yaml:4: claims[0].accept: got {}, expected within, or least and"),
        ((", accept: {most: 3}", ""), "expected ours and accept, or undecidable with the reason"),
        (("accept: {most: 3}", "accept: {within: 0.1}"), "expected the paper's value, from which accept.within counts"),
        (("place: section 1, ", ""), "claims.yaml:4: claims[0].place: is missing"),
        (("id: one", "id: One!"), "claims.yaml:4: claims[0].id: got 'One!'"),
        (("year: 2002", "yeer: 2002"), "claims.yaml:1: paper.yeer: is not a known key; did you mean year?"),
    ],
)
def test_a_mistake_in_claims_is_named_with_its_line(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert message in refusal(tmp_path, CLAIMS.replace(*change))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(10.8, "MB", "10.8 MB"), (116_961.4, "B/s", "116,961 B/s"), (0.00036871, "", "0.0003687"), (None, "s", "")],
)
def test_a_number_has_four_significant_digits(value: float | None, unit: str, text: str) -> None:
    assert number_text(value, unit) == text


@pytest.mark.parametrize(
    ("accept", "text"),
    [
        (Accept(within=0.1), "9 to 11 MB"),
        (Accept(least=1), "at least 1 MB"),
        (Accept(most=2), "at most 2 MB"),
        (Accept(least=1, most=2), "1 to 2 MB"),
    ],
)
def test_the_accepted_values_are_written_as_a_range(accept: Accept, text: str, demo: Path) -> None:
    with database([load_results(demo)], reproduction()) as connection:
        (verdict,) = judged(connection, reproduction(claim(paper=10.0, unit="MB", accept=accept.model_dump())))

    assert accepted_text(verdict) == text


def test_of_a_version_in_several_lines_the_page_has_the_first_and_the_digests_of_each_host() -> None:
    of_host = "iperf 3.12 (cJSON 1.7.15)\nLinux {} 6.1\nOptional features: none (sha256 {})".format
    alike, unlike = (of_host("sender", "12") + ON_THE_RECEIVER + of_host("receiver", digest) for digest in ("12", "34"))

    assert short_version(alike) == "iperf 3.12 (cJSON 1.7.15) (sha256 12)"
    assert (
        short_version(unlike)
        == f"iperf 3.12 (cJSON 1.7.15) (sha256 12){ON_THE_RECEIVER}iperf 3.12 (cJSON 1.7.15) (sha256 34)"
    )
    assert short_version("owlt 0.2.0 (sha256 12)") == "owlt 0.2.0 (sha256 12)"

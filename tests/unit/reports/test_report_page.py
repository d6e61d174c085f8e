"""The page as its reader and their browser have it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from owlt.emulator.certification.certificate import Check
from owlt.reports.answer.regions import dimensions_of
from owlt.reports.comparison.cells import cells_of
from owlt.reports.page.provenance import digest_of_profile
from owlt.reports.page.tables import Passes, PassTimes, passes_of
from owlt.reports.rendering import page_script
from owlt.reports.results.load import load_results
from owlt.results.operator import write_note
from tests.unit.reports.conftest import (
    FAILED,
    FAILURE,
    SUSPECT,
    SUSPICION,
    UNSUMMARISED,
    change_record,
    few,
    named,
    page_text,
    write_certificates,
    write_results,
)

ADDRESSES = {"href", "src", "xlink:href", "srcset", "action", "data", "poster"}


class Page(HTMLParser):
    """A page taken apart: addresses it names, ids, and its visible text by table row and otherwise."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.rows: list[list[str]] = []
        self.row_ids: list[str | None] = []
        self.text = ""
        self.style = ""
        self._in_style = self._in_cell = False
        self.feed(text)
        self.rows = [[" ".join(cell.split()) for cell in row] for row in self.rows]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.addresses += [value or "" for name, value in attrs if name in ADDRESSES]
        self.ids += [found["id"] or ""] if "id" in found else []
        self._in_style = tag == "style"
        if tag == "tr":
            self.rows.append([])
            self.row_ids.append(found.get("id"))
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False
        if tag in ("td", "th"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.style += data
            return
        self.text += data
        if self._in_cell:
            self.rows[-1][-1] += data

    def row(self, run_id: str) -> list[str]:
        """The row of a run in the table of runs."""
        return self.rows[self.row_ids.index(f"run-{run_id}")]

    def outside(self) -> list[str]:
        """What a browser would have to fetch from elsewhere."""
        named = [address for address in self.addresses if re.match(r"[a-z][a-z0-9+.-]*:|//", address)]
        styled = re.findall(r"@import[^;]*|url\((?!#)[^)]*\)", self.style)
        return [address for address in (*named, *styled) if address != "data:,"]


@pytest.fixture(scope="module")
def page(reported: Path) -> Page:
    return Page((reported / "report" / "index.html").read_text())


def test_the_page_has_one_script_which_a_server_can_allow_by_its_digest(reported: Path) -> None:
    text = (reported / "report" / "index.html").read_text()

    assert re.findall(r"<script[^>]*>.*?</script>", text, re.DOTALL) == [f"<script>{page_script()}</script>"]


def test_the_page_needs_nothing_from_elsewhere(page: Page) -> None:
    assert page.outside() == []


@pytest.mark.parametrize(
    "needy",
    [
        '<img src="https://example.org/a.png">',
        '<script src="//example.org/a.js"></script>',
        "<style>@import 'a.css';</style>",
        '<svg><image xlink:href="http://example.org/a.png"/></svg>',
    ],
)
def test_a_page_that_needs_something_would_be_noticed(needy: str) -> None:
    assert len(Page(needy).outside()) == 1


def test_every_link_leads_to_a_file_that_exists(page: Page, reported: Path) -> None:
    files = {address for address in page.addresses if not address.startswith(("#", "data:"))}

    assert len(files) > 12 * 8
    assert [address for address in files if not (reported / "report" / unquote(address)).is_file()] == []


def test_every_link_within_the_page_has_its_goal(page: Page) -> None:
    goals = {address[1:] for address in page.addresses if address.startswith("#")}

    assert goals - set(page.ids) == set()


def test_no_id_is_given_twice(page: Page) -> None:
    assert len(page.ids) == len(set(page.ids))


def test_every_run_has_a_row(page: Page) -> None:
    assert len([row_id for row_id in page.row_ids if row_id and row_id.startswith("run-")]) == 12


def test_every_run_links_its_record_logs_and_captures(page: Page) -> None:
    names = ["record.json", "sender.out", "sender.err", "receiver.out", "receiver.err", "sender.pcap", "receiver.pcap"]

    assert {f"../runs/{FAILED}/{name}" for name in names} <= set(page.addresses)


def test_a_summary_that_is_missing_is_not_linked(page: Page) -> None:
    assert f"../runs/{UNSUMMARISED}/summary.json" not in page.addresses


def test_a_failed_run_is_listed_with_its_reason(page: Page) -> None:
    assert [FAILED, "failed", FAILURE] in page.rows


def test_a_suspect_run_is_listed_with_its_reason(page: Page) -> None:
    assert [SUSPECT, SUSPICION] in page.rows


def test_a_suspect_run_is_marked_in_its_row(page: Page) -> None:
    assert "completed, suspect" in page.row(SUSPECT)


def test_a_run_without_numbers_is_named_as_such(page: Page) -> None:
    assert UNSUMMARISED in page.text.partition("Completed runs without numbers")[2].partition("How to read")[0]


def test_the_outcomes_of_each_implementation_are_counted(page: Page) -> None:
    rows = page.rows[page.rows.index(["implementation", "planned", "completed", "failed", "suspect", "no numbers"]) :]

    assert rows[1:3] == [["NORM", "6", "6", "–", "–", "1"], ["CFDP", "6", "5", "1", "1", "–"]]


def test_a_permutation_with_a_failed_run_says_how_many_are_left(page: Page) -> None:
    statistics = page.rows[page.rows.index(["PER", "implementation", "n", "min", "Q1", "median", "Q3", "max"]) :]
    rows = [row for row in statistics if row[:2] == ["0.01", "CFDP"]]  # one in each metric's table

    assert [row[2] for row in rows] == ["2/3"] * 4


def test_inline_drawings_have_only_colours_of_the_page(page: Page, reported: Path) -> None:
    text = (reported / "report" / "index.html").read_text()

    assert re.findall(r"(?:fill|stroke): #[0-9a-f]+", text) == []
    given_where_used = {"--colour", "--inches", "--ticks"}
    named = set(re.findall(r"(--[a-z0-9-]+):", page.style)) | given_where_used
    assert set(re.findall(r"var\((--[a-z0-9-]+)\)", text)) <= named


def test_a_point_says_its_run_and_its_numbers(reported: Path) -> None:
    text = (reported / "report" / "index.html").read_text()
    (title,) = set(re.findall(rf'<a href="#run-{SUSPECT}"><title>(.*?)</title>', text, re.DOTALL))

    assert re.match(rf"{SUSPECT}\nGoodput: \d\.\d+ Mbit/s\n(.|\n)*suspect: {re.escape(SUSPICION)}", title)


def test_the_page_says_whose_quartiles_these_are(page: Page) -> None:
    assert "type 7" in page.text
    assert "1.5 interquartile ranges" in page.text


def test_each_implementation_has_one_column_for_each_metric_in_the_table_of_medians(tmp_path: Path) -> None:
    page = Page(page_text(write_results(tmp_path, few(implementations=["ltp", "tcp"], repetitions=1))))
    heads = next(place for place, row in enumerate(page.rows) if row[-2:] == ["STR (packets)", "RTS (packets)"])

    assert page.rows[heads + 1] == ["LTP", "TCP"] * 4


def test_an_implementation_has_one_name_and_its_title_stands_only_where_implementations_are_listed(
    tmp_path: Path,
) -> None:
    page = Page(page_text(write_results(tmp_path, few(implementations=["ltp", "tcp"]))))

    assert page.text.count("TCP (Linux)") == 1
    assert [row[0] for row in page.rows if row[1:2] and row[1].startswith("TCP (Linux)")] == ["TCP"]


def test_few_runs_are_cautioned_about(page: Page) -> None:
    assert "Each box has at most 3 runs, too few" in page.text
    assert page.text.count("Few runs") == 1


def test_many_runs_are_not(tmp_path: Path) -> None:
    asked = few(repetitions=6, implementations="cfdp", packet_error_rate=0)

    assert "Few runs" not in page_text(write_results(tmp_path, asked))


def test_text_of_an_implementation_is_never_markup(tmp_path: Path) -> None:
    asked = few(repetitions=1, implementations="cfdp", packet_error_rate=0)
    directory = write_results(tmp_path, asked)
    hostile = "<script>alert(1)</script>"
    change_record(
        directory,
        "cfdp_1MB_10Mbps_25ms_per0_r1",
        title=hostile,
        reason=hostile,
        outcome="failed",
        versions={"cfdp": hostile},
    )

    assert "alert(1)" in page_text(directory)
    assert hostile not in page_text(directory)


def test_the_top_of_the_page_says_which_implementations_are_owlts_own(page: Page, reported: Path) -> None:
    top = (reported / "report" / "index.html").read_text().partition("</header>")[0]

    assert "Endpoints of owlt around an engine of others" in top
    assert top.count("<dt>Third-party programs</dt>") == 0
    assert sum("owlt, engine of others" in row for row in page.rows) == 2


def test_the_top_of_the_page_has_the_dates_of_the_runs_and_of_the_report(tmp_path: Path) -> None:
    directory = write_results(tmp_path, few(repetitions=1))
    lines = [{"at_s": 1_790_000_000.2, "kind": "started"}, {"at_s": 1_790_003_600.0, "kind": "ended"}]
    (directory / "journal.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    top = page_text(directory).partition("</header>")[0]

    assert "2026-09-21 14:13:20 to 2026-09-21 15:13:20 UTC" in top
    assert "of the results as of 2026-09-21 15:13:20 UTC" in top


FAILING = Check("forward", "rate, bit/s", "failed", 1e7, 9.1e6, 9.09e6, 9.11e6, 50, "too slow")
UNMEASURED = Check("reverse", "depth of the queue", "not measured", reason="too many packets are lost")


def built(directory: Path, *checks: Check) -> Page:
    """The page of a sweep over named channels with certificates of these checks, if any."""
    write_results(directory, named(implementations="cfdp"))
    if checks:
        write_certificates(directory, named(implementations="cfdp"), *checks)
    return Page(page_text(directory))


def test_each_channel_has_a_row_with_its_specification_both_ways(tmp_path: Path) -> None:
    rows = {row[0]: row[1:] for row in built(tmp_path).rows if len(row) == 4}

    forward = "delay 25 ms, 10 Mbit/s, queue 1000 packets, no errors, no losses"
    assert rows["terrestrial"][:2] == [forward, "same as forward"]
    assert "8 kbit/s" in rows["deep-space"][1]
    assert rows["deep-space"][2] == "not certified: its certificate is missing"


def test_every_check_of_a_certificate_is_in_the_page(tmp_path: Path) -> None:
    page = built(tmp_path, FAILING, UNMEASURED)
    interval = "9.09 to 9.11 Mbit/s"

    assert page.rows.count(["forward", "rate", "10 Mbit/s", "9.1 Mbit/s", interval, "50", "–", "failed: too slow"]) == 2
    reason = "not measured: too many packets are lost"
    assert page.rows.count(["reverse", "depth of the queue", "–", "–", "–", "–", "–", reason]) == 2


def test_a_certificate_is_linked(tmp_path: Path) -> None:
    page = built(tmp_path, FAILING)
    linked = {unquote(address) for address in page.addresses if address.startswith("../certificates/")}

    assert {(tmp_path / "report" / address).resolve() for address in linked} == {
        path.resolve() for path in (tmp_path / "certificates").iterdir()
    }


def test_a_failed_certificate_is_at_the_top(tmp_path: Path) -> None:
    top = " ".join(built(tmp_path, FAILING).text.partition("Medians")[0].split())

    assert "2 of 2 channels failed certification" in top
    assert "terrestrial: forward rate (specified 10 Mbit/s, measured 9.1 Mbit/s)" in top


def test_a_certificate_that_is_incomplete_is_no_alarm(tmp_path: Path) -> None:
    assert "not as specified" not in built(tmp_path, UNMEASURED).text.partition("Medians")[0]


def test_no_id_is_given_twice_in_a_page_of_named_channels(tmp_path: Path) -> None:
    page = built(tmp_path, FAILING)
    goals = {address[1:] for address in page.addresses if address.startswith("#")}

    assert len(page.ids) == len(set(page.ids))
    assert goals - set(page.ids) == set()


def test_a_named_channel_replaces_its_rate_and_delay(tmp_path: Path) -> None:
    top = " ".join(built(tmp_path).text.rpartition("Experiment")[2].split())

    assert re.search("Channels ?terrestrial, deep-space", top)
    assert "One-way delay" not in top


def test_tables_of_a_sweep_over_named_channels_name_them(tmp_path: Path) -> None:
    page = built(tmp_path)

    assert "terrestrial" in page.row("cfdp_100kB_terrestrial_10Mbps_25ms_r1")


def test_a_queue_that_the_sweep_does_not_give_is_the_channels_own(page: Page) -> None:
    assert re.search(r"Queue\s*as each channel specifies", page.text)


def test_a_queue_that_the_sweep_gives_is_in_the_headline(tmp_path: Path) -> None:
    asked = few(repetitions=1, implementations="cfdp", packet_error_rate=0, queue_packets=64)

    assert "64 packets each way" in page_text(write_results(tmp_path, asked))


def test_the_page_has_the_provenance_of_its_runs(tmp_path: Path) -> None:
    directory = write_results(tmp_path / "results", few())
    first, second = (f"cfdp_1MB_10Mbps_25ms_per0_r{number}" for number in (1, 2))
    change_record(directory, first, provenance={"kernel": "27083b2dd15f5c49", "implementation": "c32d12bd44043e23"})
    change_record(directory, second, machine="lab-2")
    (directory / "machines").mkdir()
    (directory / "machines" / "0123.json").write_text("{}")

    section = page_text(directory).partition('id="provenance"')[2].partition("</details>")[0]

    for text in ("0.1.0", "6.12.48, 1000 Hz", "2012", "27083b2dd15f5c49", "c32d12bd44043e23", "lab-2", "0123.json"):
        assert text in section
    profiles = load_results(directory).profiles
    assert all(digest_of_profile(profile) in section for profile in profiles.values())


def test_a_profile_with_another_parameter_has_another_digest(tmp_path: Path) -> None:
    one = write_results(tmp_path / "one", few(implementations="cfdp"))
    other = write_results(tmp_path / "other", few(implementations="cfdp", parameters={"cfdp": {"segment_bytes": 500}}))

    digests = {digest_of_profile(load_results(directory).profiles["cfdp"]) for directory in (one, other)}
    assert len(digests) == 2


def test_a_median_of_runs_at_few_levels_is_marked(tmp_path: Path) -> None:
    directory = write_results(tmp_path, few(repetitions=6, packet_error_rate=0, implementations="ltp"))
    marks = page_text(directory).count("‡</sup>")
    for path in (directory / "runs").iterdir():
        if int(path.name[-1]) % 2:
            values = json.loads((path / "summary.json").read_text())
            changed = values | {"goodput_bps": values["goodput_bps"] * 4}
            (path / "summary.json").write_text(json.dumps(changed))

    assert page_text(directory).count("‡</sup>") > marks


def test_the_files_that_fit_into_a_pass_are_stated_with_an_interval() -> None:
    passes = Passes(("ltp",), (), length_s=2.0)

    assert passes.text(PassTimes((1.0, 2.0, 2.1), 4)) == "2 of 4 (15 to 85 %)"
    assert passes.text(PassTimes((1.5, 1.5), 2, is_determined=True)) == "2 of 2 (always)"
    assert passes.text(PassTimes()) == "–"


def test_the_pass_to_show_first_is_as_long_as_the_median_transfer(tmp_path: Path) -> None:
    cells = cells_of(load_results(write_results(tmp_path, few(repetitions=2))).rows)
    passes = passes_of(cells, dimensions_of([cell.point for cell in cells]))

    assert passes is not None
    times_s = sorted(time_s for row in passes.rows for each in row.samples for time_s in each.times_s)
    assert times_s[len(times_s) // 2 - 1] <= passes.length_s <= times_s[-1]


def test_an_operators_note_is_among_the_conditions_as_text(tmp_path: Path) -> None:
    directory = write_results(tmp_path / "few", few(repetitions=1))
    without = page_text(directory)
    write_note(directory, "rain <b>since</b> 14:00\nantenna moved")

    assert "<dt>Note</dt>" not in without
    assert '<dt>Note</dt><dd class="as-typed">rain &lt;b&gt;since&lt;/b&gt; 14:00\nantenna moved</dd>' in page_text(
        directory
    )

"""The page as its reader and their browser have it."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from reports.build import build_report
from tests.unit.reports.conftest import (
    FAILED,
    FAILURE,
    SUSPECT,
    SUSPICION,
    UNSUMMARISED,
    change_record,
    few,
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
    # asked, completed, corrupt, unsupported, failed, timed out, aborted, not yet run, suspect, no numbers
    assert ["cfdp", "6", "5", "–", "–", "1", "–", "–", "–", "1", "–"] in page.rows


def test_a_permutation_with_a_failed_run_says_how_many_are_left(page: Page) -> None:
    rows = [row for row in page.rows if row[:2] == ["0.01", "cfdp"]]  # one in each metric's table

    assert [row[2] for row in rows] == ["2/3"] * 4


def test_inline_drawings_have_only_colours_of_the_page(page: Page, reported: Path) -> None:
    text = (reported / "report" / "index.html").read_text()

    assert re.findall(r"(?:fill|stroke): #[0-9a-f]+", text) == []
    assert set(re.findall(r"var\((--[a-z0-9-]+)\)", text)) <= set(re.findall(r"(--[a-z0-9-]+):", page.style)) | {
        "--colour"
    }


def test_a_point_says_its_run_and_its_numbers(reported: Path) -> None:
    text = (reported / "report" / "index.html").read_text()
    (title,) = set(re.findall(rf'<a href="#run-{SUSPECT}"><title>(.*?)</title>', text, re.DOTALL))

    assert re.match(rf"{SUSPECT}\nGoodput: \d\.\d+ Mbit/s\n(.|\n)*suspect: {re.escape(SUSPICION)}", title)


def test_the_page_says_whose_quartiles_these_are(page: Page) -> None:
    assert "type 7" in page.text
    assert "1.5 interquartile ranges" in page.text


def test_few_runs_are_cautioned_about(page: Page) -> None:
    assert "at most 3 runs in a box" in page.text


def test_many_runs_are_not(tmp_path: Path) -> None:
    asked = few(repetitions=6, implementations="cfdp", packet_error_rate=0)

    assert "Few runs" not in build_report(write_results(tmp_path, asked)).read_text()


def test_text_of_a_build_is_never_markup(tmp_path: Path) -> None:
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

    assert "<script" not in build_report(directory).read_text()


def test_runs_of_two_versions_in_one_box_are_cautioned_about(tmp_path: Path) -> None:
    asked = few(repetitions=2, implementations="cfdp", packet_error_rate=0)
    directory = write_results(tmp_path, asked)
    change_record(directory, "cfdp_1MB_10Mbps_25ms_per0_r1", versions={"cfdp": "cfdp-py 0.6.0"})

    assert "Mixed versions" in build_report(directory).read_text()

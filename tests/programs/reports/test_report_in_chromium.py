"""A report in chromium, opened from its folder: what is loaded when it comes into view, and nothing on the console."""

from __future__ import annotations

import base64
import re
from dataclasses import replace

import pytest

from owlt.reports import rendering
from owlt.reports.answer.change_outcome import compare_nights, compare_two
from owlt.reports.answer.changes import load_sources
from owlt.reports.comparison.cells import CRITERIA, GOODPUT
from owlt.reports.page import figure_files
from owlt.reports.page import page as report_page
from owlt.reports.page.changes import changes_page
from owlt.reports.page.page import build_report
from owlt.reports.results.rows import Row
from tests.chromium import DESKTOP, PHONE, Page
from tests.unit.reports.conftest import few, sweep, write_results

LAST_RUN = "cfdp_1MB_10Mbps_25ms_per0.01_r3"
ASSERTIONS = [{"measure": "delivered", "at_least": 1}, {"measure": "goodput", "at_least": 0.5, "of": "capacity"}]
PRINT_ALL = """
window.print = () => { window.printed = true };
document.getElementById('with-appendix').click();
document.getElementById('print').click()
"""
LOOKS = [(DESKTOP, False), (DESKTOP, True), (PHONE, False)]
"""Sizes of the screen, and whether the theme is dark."""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report whose limits are so low that all that can be is loaded later."""
    directory = write_results(tmp_path_factory.mktemp("results"), few(assertions=ASSERTIONS))
    with pytest.MonkeyPatch.context() as limits:
        limits.setattr(figure_files, "MOST_INLINE_BYTES", 0)
        limits.setattr(rendering, "LATER_LETTERS", 0)
        limits.setattr(report_page, "MANY_RUNS", 0)
        limits.setattr(report_page, "RUNS_AT_ONCE", 4)
        return build_report(directory).as_uri()


@pytest.fixture(scope="module")
def whole_report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a report of many conditions."""
    return build_report(write_results(tmp_path_factory.mktemp("whole") / "demo", sweep(repetitions=1))).as_uri()


@pytest.fixture
def tab(page: Page) -> Page:
    page.look(DESKTOP)
    return page


def test_a_figure_that_comes_into_view_gets_points_that_lead_to_their_runs(report: str, tab: Page) -> None:
    tab.open(report)
    assert tab.evaluate("document.querySelectorAll('figure a[href^=\"#run-\"]').length") == 0

    tab.evaluate("document.querySelector('#compared figure').scrollIntoView()")

    tab.wait_for("document.querySelector('#compared figure svg a[href^=\"#run-\"]')")
    assert tab.messages == []


def test_a_table_that_comes_into_view_is_loaded(report: str, tab: Page) -> None:
    tab.open(report)

    tab.evaluate("document.getElementById('statistics').open = true")
    tab.evaluate("document.getElementById('statistics').scrollIntoView()")

    tab.wait_for("document.querySelector('#statistics table')")
    assert tab.messages == []


def test_a_link_to_a_run_leads_to_its_row_though_it_was_not_loaded(report: str, tab: Page) -> None:
    tab.open(f"{report}#run-{LAST_RUN}")

    tab.wait_for(f"document.getElementById('run-{LAST_RUN}')?.classList.contains('target')")
    top = f"document.getElementById('run-{LAST_RUN}').getBoundingClientRect().top"
    tab.wait_for(f"0 <= {top} && {top} <= {DESKTOP[1]}")
    assert tab.messages == []


def test_everything_is_there_before_the_appendix_is_printed(report: str, tab: Page) -> None:
    tab.open(report)
    tab.evaluate(PRINT_ALL)

    tab.wait_for("window.printed")
    assert tab.evaluate("document.querySelectorAll('details:not([open]), .later').length") == 0
    assert tab.evaluate("document.querySelectorAll('#runs tbody tr').length") == 12
    assert tab.messages == []


def test_on_a_phone_a_wide_table_says_that_it_scrolls_and_takes_the_focus(report: str, tab: Page) -> None:
    tab.look(PHONE)
    tab.open(report)

    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    assert tab.evaluate("document.querySelectorAll('.wide[role=region][tabindex]').length") > 0


SHOWN = """
[...document.querySelectorAll('.plot')].map((plot) => [...plot.querySelectorAll('.link:not([hidden])')].map((link) =>
  [...JSON.parse(link.dataset.places), ...[...link.querySelectorAll('tbody:not([hidden])')].map((panel) =>
    panel.dataset.value)]))
"""
"""For each criterion the links that are shown: their places, then the values of their panels."""


def test_a_link_is_chosen_for_all_criteria(whole_report: str, tab: Page) -> None:
    tab.open(whole_report)
    assert tab.evaluate(SHOWN) == [[["1250 ms", "", "1 MB", "0", "0.001", "0.01"]]] * len(CRITERIA)

    tab.evaluate(
        "[['delay', '25 ms'], ['PER', '0.01']].forEach(([name, value]) => {"
        "  const labels = [...document.querySelectorAll('.choices label')];"
        "  const label = labels.find((each) => each.textContent.includes(name));"
        "  label.querySelector('select').value = value;"
        "  label.querySelector('select').dispatchEvent(new Event('change')); })"
    )
    lines = tab.evaluate(
        "[...document.querySelectorAll('.lines-of-cells')].map((table) =>"
        " [...table.querySelectorAll('tbody tr:not([hidden])')].map((row) =>"
        " [...row.cells].slice(0, 3).map((cell) => cell.textContent)))"
    )

    assert tab.evaluate(SHOWN) == [[["25 ms", "", "1 MB", "0.01"]]] * len(CRITERIA)
    assert lines == [[["25 ms", "0.01", "1 MB"]]] * len(CRITERIA)
    assert tab.evaluate("document.querySelector('.find output').textContent") == "1 of 12 lines"
    assert tab.messages == []


def test_another_length_of_a_pass_counts_the_files_again_as_the_report_does(report: str, tab: Page) -> None:
    tab.open(report)
    texts = "[...document.querySelectorAll('.passes td')].map((cell) => cell.textContent)"
    before = tab.evaluate(texts)
    fill = """(length) => {
      const input = document.querySelector('.pass-length input');
      input.value = length ?? input.defaultValue;
      input.dispatchEvent(new Event('input'));
    }"""

    tab.evaluate(f"({fill})('0')")
    none = tab.evaluate(texts)
    tab.evaluate(f"({fill})()")

    assert all(text.startswith("0 of ") for text in none)
    assert any(not text.startswith("0 of ") for text in before)
    assert tab.evaluate(texts) == before


def test_a_cell_of_the_map_shows_its_link_which_is_loaded_first(report: str, tab: Page) -> None:
    tab.open(report)
    tab.evaluate("document.querySelector('.map .cell').focus()")
    tab.press("Enter")

    tab.wait_for("document.querySelector('.cell').getAttribute('aria-pressed') === 'true'")
    assert tab.evaluate(SHOWN) == [[["", "0"]]] * len(CRITERIA)
    assert tab.messages == []


def test_an_explanation_opens_with_the_keyboard_and_has_no_violation(report: str, tab: Page) -> None:
    tab.open(report)
    tab.evaluate("document.querySelector('.why').focus()")
    tab.press("Enter")

    tab.wait_for("document.querySelector('.detail:popover-open')")
    for size, dark in LOOKS:
        tab.look(size, dark)
        assert tab.violations() == []
    assert tab.messages == []


@pytest.mark.parametrize("size", [(1400, 900, 1), PHONE])
def test_the_first_screen_has_the_headline_how_sure_and_box_plots(
    whole_report: str, tab: Page, size: tuple[int, int, int]
) -> None:
    tab.look(size)
    tab.open(whole_report)
    bottoms = tab.evaluate(
        "['.headline', '.sure', '.boxes tbody tr:last-child .drawn svg'].map((name) =>"
        " document.querySelector(name).getBoundingClientRect().bottom)"
    )

    assert bottoms == sorted(bottoms)
    assert bottoms[-1] <= size[1]
    assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_the_summary_has_two_pages_and_the_appendix_more(whole_report: str, tab: Page) -> None:
    pages = {}
    for address in (whole_report, f"{whole_report}?print=all"):
        tab.open(address)
        tab.wait_until_drawn()
        pdf = base64.b64decode(tab.call("Page.printToPDF", preferCSSPageSize=True)["data"])
        pages[address] = len(re.findall(rb"/Type\s*/Page\b", pdf))

    assert pages[whole_report] <= 2
    assert pages[f"{whole_report}?print=all"] > 10


def test_on_a_phone_the_heading_stays_while_a_table_scrolls(whole_report: str, tab: Page) -> None:
    tab.look(PHONE)
    tab.open(whole_report)
    top = "document.querySelector('#glance .wide thead').getBoundingClientRect().top"
    tab.evaluate("document.querySelector('#glance .wide').scrollIntoView()")
    tab.evaluate("document.querySelector('#glance .wide').style.maxHeight = '150px'")
    tab.evaluate("document.querySelector('#glance .wide').scrollTop = 100")

    assert tab.evaluate("document.querySelector('#glance .wide').scrollTop") == 100
    assert tab.evaluate(f"{top} - document.querySelector('#glance .wide').getBoundingClientRect().top") == 0


def test_axe_finds_no_violation_in_a_report_with_everything_loaded_and_unfolded(report: str, tab: Page) -> None:
    tab.open(report)
    tab.evaluate(PRINT_ALL)
    tab.wait_for("window.printed")

    for size, dark in LOOKS:
        tab.look(size, dark)
        assert tab.violations() == []
    assert tab.messages == []


def test_axe_finds_a_violation_where_there_is_one(report: str, tab: Page) -> None:
    tab.open(report)
    tab.evaluate("document.querySelector('h1').style.color = '#cccccc'")

    assert [each.partition(":")[0] for each in tab.violations()] == ["color-contrast"]


@pytest.fixture(scope="module")
def changes(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The addresses of pages of comparisons: of two directories, and of three."""
    here = tmp_path_factory.mktemp("compared")
    for number in range(3):
        write_results(here / f"night-{number}", few(seed=number, repetitions=4))
    sources = load_sources(sorted(here.iterdir()))
    slower = replace(sources[2], rows=tuple(_slower(row) for row in sources[2].rows))
    pages = {
        "two.html": changes_page(compare_two(sources[0], slower, GOODPUT, 0.01)),
        "nights.html": changes_page(compare_nights([*sources[:2], slower, slower], GOODPUT, 0.01)),
    }
    for name, text in pages.items():
        (here / name).write_text(text)
    return [(here / name).as_uri() for name in pages]


def _slower(row: Row) -> Row:
    return row | {"goodput_bps": row["goodput_bps"] and 0.5 * row["goodput_bps"]}


def test_axe_finds_no_violation_in_pages_of_comparisons(changes: list[str], tab: Page) -> None:
    for address in changes:
        tab.open(address)
        assert tab.evaluate("document.querySelectorAll('figure svg').length") == 1
        for size, dark in LOOKS:
            tab.look(size, dark)
            assert tab.evaluate("document.documentElement.scrollWidth") <= size[0]
            assert tab.violations() == []
    assert tab.messages == []

"""`owlt dashboard` in chromium: pages that follow a sweep, keyboard, phone, and nothing on the console."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from flask import Flask, request
from werkzeug.serving import make_server

from owlt.orchestrator.dashboard.app import Background, new_app
from owlt.orchestrator.dashboard.child_processes import AnalysisProcesses, PacketViews
from owlt.orchestrator.dashboard.emulator_page import EmulatorWatch
from owlt.orchestrator.dashboard.index import Directories
from owlt.orchestrator.dashboard.protection import Token
from owlt.orchestrator.dashboard.sweep_pages import TAG
from owlt.orchestrator.run.events import RunStarted, SweepStarted
from owlt.orchestrator.sweep.journal import open_journal
from owlt.reports.page.page import build_report
from owlt.results.lock import locked
from tests.chromium import DESKTOP, PHONE, Page
from tests.memory.emulator import MemoryEmulator, memory_client
from tests.unit.orchestrator.dashboard.conftest import COMPLETED, SMALL
from tests.unit.orchestrator.dashboard.test_missing_packets import DATA, lossy_run
from tests.unit.reports.conftest import few, plan_of, write_results, write_run

PAGES = ("", "sweeps/small/", "sweeps/small/conditions/1MB_10Mbps_25ms_per0", f"sweeps/small/runs/{COMPLETED}/")
LOSSY = "sweeps/lossy/"
ANALYSED = f"sweeps/small/runs/{COMPLETED.replace('per0', 'per0.01')}/"
"""The run that is analysed, which no other test looks at."""
SLOW_S = 0.3
"""How long a slow script takes: much longer than htmx takes to start."""
OWLT = Path(sys.executable).with_name("owlt")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A sweep whose first repetitions are recorded."""
    return write_results(tmp_path / "small", SMALL, skip=lambda run: run.repetition > 1)


@pytest.fixture
def app(results: Path, tmp_path: Path) -> Flask:
    """A dashboard of these results in this process, whose pages ask for changes often."""
    app = new_app(Directories([results]), Background.of(PacketViews(tmp_path)))
    app.jinja_env.globals["poll_s"] = 0.1
    return app


@pytest.fixture
def changing(app: Flask) -> Iterator[str]:
    """The address of the dashboard of results that the test changes."""
    with served(app) as url:
        yield url


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Two addresses of the program, which shows results that stay as they are; the second has the token.

    "small" is a sweep whose first repetitions are recorded; in "lossy" the captures of a run have a dropped packet.
    """
    directory = tmp_path_factory.mktemp("shown")
    for name in ("small", "lossy"):
        write_results(directory / name, SMALL, skip=lambda run: run.repetition > 1)
    lossy_run(directory / "lossy", dropped=(DATA,))
    command = [str(OWLT), "dashboard", str(directory / "small"), str(directory / "lossy"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        matches = [re.search(r"http://\S+", program.stdout.readline()) for _ in range(2)]
        assert matches[0] and matches[1]
        yield matches[0][0], matches[1][0]
        program.terminate()


@pytest.fixture
def url(addresses: tuple[str, str]) -> str:
    """The address of the program."""
    return addresses[0]


def record(results: Path, repetition: int) -> None:
    """Publish one more run of a cell, by a rename as a sweep does."""
    run = next(run for run in plan_of(SMALL).runs if run.run_id == COMPLETED.replace("_r1", f"_r{repetition}"))
    write_run(results / "draft", run, SMALL)
    (results / "draft").rename(results / "runs" / run.run_id)


def test_the_matrix_follows_the_sweep_without_being_loaded_again(page: Page, changing: str, results: Path) -> None:
    page.open(f"{changing}sweeps/small/")
    page.evaluate("window.loadedOnce = true")
    record(results, 2)

    page.wait_for("document.querySelector('#c0').textContent.includes('2/3')")

    assert "5 of 12 runs recorded" in page.evaluate("document.querySelector('#live').textContent")
    assert page.evaluate("window.loadedOnce")
    assert page.messages == []


def test_a_box_plot_fills_as_runs_end(page: Page, changing: str, results: Path) -> None:
    page.open(f"{changing}{PAGES[2]}")
    dots = "document.querySelectorAll('svg .dot').length"
    before = page.evaluate(dots)
    record(results, 2)
    record(results, 3)

    page.wait_for(f"{dots} === {before + 2}")

    assert page.evaluate("document.querySelectorAll('svg .box').length") == 1
    assert page.messages == []


def test_a_phones_page_keeps_its_width_while_runs_begin_and_end(page: Page, app: Flask, results: Path) -> None:
    many = SMALL.model_copy(update={"implementations": ["cfdp", "norm", "ltp", "tcp"]})
    shutil.rmtree(results)
    write_results(results, many, skip=lambda run: run.repetition > 1)
    page.look(PHONE)
    with served(app) as url, locked(results), open_journal(results, lambda entry: None) as journal:
        page.open(f"{url}sweeps/small/")
        page.evaluate(WATCH_WIDTH)
        journal.note(None, SweepStarted(host=socket.gethostname(), pid=os.getpid()))
        for number, run in enumerate(plan_of(many).runs):
            journal.note(number, RunStarted(run_id=run.run_id))
        record(results, 2)
        page.wait_for("document.querySelectorAll('.matrix .running').length === 8")
        page.wait_for("document.querySelector('#c0').textContent.includes('2/3')")

        assert page.evaluate("[...window.widths]") == [PHONE[0]]
        assert page.evaluate("(each => each.scrollWidth > each.clientWidth)(document.querySelector('.matrix-frame'))")


WATCH_WIDTH = """
window.widths = new Set();
const note = () => window.widths.add(document.documentElement.scrollWidth);
note();
new MutationObserver(note).observe(document.body, {subtree: true, childList: true, attributes: true});
null
"""


def test_the_certificates_stay_open_while_the_page_changes(page: Page, changing: str, results: Path) -> None:
    page.open(f"{changing}sweeps/small/")
    page.evaluate("document.querySelector('#certificates').open = true")
    record(results, 2)

    page.wait_for("document.querySelector('#c0').textContent.includes('2/3')")

    assert page.evaluate("document.querySelector('#certificates').open")


def test_a_cell_that_has_the_focus_keeps_it_when_it_changes(page: Page, changing: str, results: Path) -> None:
    page.open(f"{changing}sweeps/small/")
    page.evaluate("document.querySelector('#c0 a').focus()")
    record(results, 2)

    page.wait_for("document.querySelector('#c0').textContent.includes('2/3')")

    assert page.evaluate("document.activeElement.closest('td').id") == "c0"


def test_the_keyboard_reaches_the_content_at_once_and_opens_a_cell(page: Page, url: str) -> None:
    page.open(f"{url}sweeps/small/")
    page.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.press("Enter")
    page.evaluate("document.querySelector('.matrix-frame').focus()")
    page.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"

    page.press("Enter")

    page.wait_for("location.pathname.includes('/conditions/')")


def test_the_captures_of_a_run_are_analysed_from_its_page(page: Page, addresses: tuple[str, str]) -> None:
    """These captures are empty, and the analysis says why it cannot use them."""
    url, with_token = addresses
    page.call("Page.navigate", url=with_token)
    page.wait_for("location.search === '' && document.readyState === 'complete'")
    page.open(f"{url}{ANALYSED}")
    page.evaluate("document.querySelector('#packets button').click()")

    page.wait_for("document.querySelector('#packets .caution')", deadline_s=60)

    assert "cannot be analysed" in page.evaluate("document.querySelector('#packets .caution').textContent")
    assert page.messages == []


def test_the_dropped_packet_of_a_run_is_on_its_page_for_those_without_the_token(page: Page, url: str) -> None:
    page.open(f"{url}{LOSSY}runs/{COMPLETED}/")

    page.wait_for("document.querySelector('#missing tbody tr')")

    cells = "[...document.querySelectorAll('#missing tbody td')].map(each => each.textContent)"
    assert page.evaluate(cells)[1:4] == ["forward", "3", "data bytes 1000-1999"]
    assert page.messages == []


def test_a_list_of_packets_that_takes_too_long_ends_with_the_reason(tmp_path: Path) -> None:
    processes = AnalysisProcesses(lambda run, out: [sys.executable, "-c", "import time; time.sleep(600)"], 0.1)

    assert processes(tmp_path, tmp_path / "out") == "it took more than 0.1 s"


def test_repetitions_can_be_added_on_the_page_of_a_sweep_with_the_token_only(
    page: Page, addresses: tuple[str, str]
) -> None:
    url, with_token = addresses
    page.open(f"{url}sweeps/small/")
    buttons = "[...document.querySelectorAll('button')].map(each => each.textContent)"
    assert "Add five repetitions" not in page.evaluate(buttons)
    page.call("Page.navigate", url=with_token)
    page.wait_for("location.search === '' && document.readyState === 'complete'")
    page.open(f"{url}sweeps/small/")

    assert "Add five repetitions" in page.evaluate(buttons)
    assert page.messages == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_pages_fit_the_screen_and_the_console_stays_empty(
    page: Page, url: str, size: tuple[int, int, int], dark: bool
) -> None:
    page.look(size, dark)
    widths = []
    for path in PAGES:
        page.open(f"{url}{path}")
        widths.append(page.evaluate("document.documentElement.scrollWidth"))

    assert max(widths) <= size[0]
    assert page.messages == []


def test_a_matrix_that_grows_while_a_sweep_runs_does_not_widen_the_page(page: Page, url: str) -> None:
    page.look(PHONE)
    page.open(f"{url}sweeps/small/")
    page.evaluate(
        "document.querySelector('.matrix').style.minWidth = '1200px';"
        "const last = [...document.querySelectorAll('.matrix td')].pop();"
        "last.innerHTML += '<span class=\"vh\">running</span>'"
    )

    assert page.evaluate("document.querySelector('.matrix-frame').scrollWidth") >= 1200
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_no_violation_in_the_dashboard(page: Page, url: str, size: tuple[int, int, int], dark: bool) -> None:
    page.look(size, dark)
    found = {}
    for path in PAGES:
        page.open(f"{url}{path}")
        found[path] = page.violations()

    assert {path: each for path, each in found.items() if each} == {}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_axe_finds_no_violation_in_the_pages_of_those_with_the_token(
    page: Page, addresses: tuple[str, str], size: tuple[int, int, int], dark: bool
) -> None:
    url, with_token = addresses
    page.look(size, dark)
    page.call("Page.navigate", url=with_token)
    page.wait_for("location.search === '' && document.readyState === 'complete'")
    found = {}
    for path, element in ((LOSSY, "#extend button"), (f"{LOSSY}runs/{COMPLETED}/", "#missing tbody tr")):
        page.open(f"{url}{path}")
        page.wait_for(f"document.querySelector({element!r})")
        found[path] = page.violations()

    assert {path: each for path, each in found.items() if each} == {}


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("query", ["", "?token=t"], ids=["read-only", "token"])
def test_axe_finds_no_violation_in_the_panel(
    page: Page, panel: str, emulator: MemoryEmulator, size: tuple[int, int, int], dark: bool, query: str
) -> None:
    emulator.count("forward", "pipe", packets=500)
    page.look(size, dark)
    page.call("Page.navigate", url=f"{panel}{query}")
    page.wait_for("location.search === '' && document.querySelectorAll('.chart canvas').length === 3")
    page.wait_for("document.querySelector('#emulator').textContent.includes('500')")

    assert page.evaluate("document.querySelector('form') !== null") == bool(query)
    assert page.violations() == []


def test_a_table_that_fits_the_page_does_not_say_that_it_scrolls(page: Page, url: str) -> None:
    page.look(DESKTOP)
    page.open(f"{url}{PAGES[3]}")

    hints = page.evaluate(
        "[...document.querySelectorAll('.wide')].filter(each => each.scrollWidth <= each.clientWidth)"
        ".map(each => getComputedStyle(each, '::before').content)"
    )

    assert set(hints) == {"none"}


@pytest.fixture(scope="module")
def report_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a report in a dashboard; somebody has added scripts to its page and to its directory."""
    directory = tmp_path_factory.mktemp("reported")
    results = write_results(directory / "small", few(repetitions=1))
    page = build_report(results)
    (page.parent / "figures" / "foreign.js").write_text("document.title = 'foreign file'")
    foreign = '<script>document.title = "foreign"</script><script src="figures/foreign.js"></script>'
    page.write_text(page.read_text().replace("</main>", f'{foreign}<img src="x" onerror="document.title = 1"></main>'))
    with served(new_app(Directories([results]), Background.of(PacketViews(directory)))) as url:
        yield f"{url}sweeps/small/report/index.html"


def test_a_report_in_the_dashboard_loads_its_figures(page: Page, report_url: str) -> None:
    page.open(report_url)
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
    missing = "document.querySelector('img[data-script]')"

    page.wait_for(f"({missing}?.scrollIntoView(), {missing} === null)")

    assert page.evaluate("document.querySelectorAll('main svg').length") > 0
    assert page.evaluate("document.querySelector('#print').hidden") is False


def test_scripts_that_somebody_added_to_a_report_do_not_run_in_the_dashboard(page: Page, report_url: str) -> None:
    page.open(report_url)
    page.wait_for("document.querySelector('#print').hidden === false")

    assert "foreign" not in page.evaluate("document.title")
    assert sum("violates the following Content Security Policy" in message for message in page.messages) == 2


@pytest.fixture
def emulator() -> MemoryEmulator:
    emulator = MemoryEmulator()
    emulator.configure({"both": {"delay": "25 ms", "rate": "10 Mbit/s"}})
    return emulator


@contextmanager
def served(app: Flask) -> Iterator[str]:
    """The address of an application, on a port of its own."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_first_request_for_changes_has_the_page_s_tag_even_if_a_script_is_slow(
    page: Page, app: Flask, results: Path
) -> None:
    tags: list[str | None] = []

    @app.before_request
    def note() -> None:
        if request.path.endswith("/hx-ptag.min.js"):
            time.sleep(SLOW_S)
        if request.path.endswith("/changes"):
            tags.append(request.headers.get(TAG))

    with served(app) as url:
        page.open(f"{url}sweeps/small/")
        page.evaluate("window.loadedOnce = true")
        record(results, 2)
        page.wait_for("document.querySelector('#c0').textContent.includes('2/3')")

        assert None not in tags
        assert page.evaluate("window.loadedOnce")


@pytest.fixture
def panel(emulator: MemoryEmulator, tmp_path: Path) -> Iterator[str]:
    """The address of the panel of an emulator in memory, with the token."""
    watch = EmulatorWatch(memory_client(emulator))
    app = new_app(Directories([], tmp_path), Background.of(PacketViews(tmp_path)), (), watch, Token("t"))
    with served(app) as url:
        yield f"{url}emulator/"


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_the_panel_draws_what_the_emulator_counts(
    page: Page, panel: str, emulator: MemoryEmulator, size: tuple[int, int, int]
) -> None:
    page.look(size)
    page.open(panel)
    emulator.count("forward", "pipe", packets=500)

    page.wait_for("document.querySelectorAll('.chart canvas').length === 3")
    page.wait_for("document.querySelector('#emulator').textContent.includes('500')")

    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.messages == []


def test_the_channel_is_changed_on_the_panel_with_the_token(page: Page, panel: str) -> None:
    page.call("Page.navigate", url=f"{panel}?token=t")
    page.wait_for("document.querySelector('form')")
    page.evaluate("document.querySelector('[name=delay]').value = '300 ms'")
    page.evaluate("document.querySelector('form button').click()")

    page.wait_for("document.querySelector('#emulator')?.textContent.includes('delay 300 ms')")

    assert page.evaluate("location.search") == ""
    assert page.messages == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_server_which_leaves_no_temporary_files(
    results: Path, tmp_path: Path, number: signal.Signals
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = ["env", "--default-signal=HUP", str(OWLT), "dashboard", str(results), "--port", "0"]
    environment = os.environ | {"TMPDIR": str(temporary)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as program:
        assert program.stdout is not None
        program.stdout.readline()
        assert [path.name[:15] for path in temporary.iterdir()] == ["owlt-dashboard-"]
        program.send_signal(number)

        try:
            assert program.wait(timeout=60) == 0
        finally:
            program.kill()
    assert list(temporary.iterdir()) == []


def test_an_analysis_ends_with_the_dashboard(tmp_path: Path) -> None:
    program = "import pathlib, sys, time\npathlib.Path(sys.argv[1]).mkdir()\ntime.sleep(600)"
    processes = AnalysisProcesses(lambda run, out: [sys.executable, "-c", program, str(out)])
    view = PacketViews(tmp_path, processes).request(tmp_path)
    end_s = time.monotonic() + 60
    while not view.directory.exists():
        assert time.monotonic() < end_s
        time.sleep(0.01)

    processes.close()

    assert view.ending.result(60) == "exit status -9"
    assert processes(tmp_path, tmp_path) == "the dashboard has ended"

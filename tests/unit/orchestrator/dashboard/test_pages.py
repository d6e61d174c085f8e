"""The pages of the dashboard: what they show, what they send again, and what they refuse."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from owlt.captures.accounting.derived_files import keep
from owlt.captures.accounting.summary import load_summary
from owlt.emulator.certification.certificate import Check
from owlt.orchestrator.dashboard import app
from owlt.orchestrator.dashboard.app import Background, new_app
from owlt.orchestrator.dashboard.child_processes import PacketViews
from owlt.orchestrator.dashboard.index import LOOK_EVERY_S, Directories
from owlt.orchestrator.dashboard.sweep_content import THIS_MACHINE
from owlt.orchestrator.errors import OwltError
from owlt.reports.rendering import TEMPLATES, page_script, script
from owlt.results.files import JOURNAL_NAME
from owlt.results.lock import locked
from owlt.results.record import SUMMARY
from tests.unit.orchestrator.dashboard.conftest import COMPLETED, SMALL, TOKEN, Clock, Shown
from tests.unit.orchestrator.dashboard.test_missing_packets import DATA, lossy_run
from tests.unit.reports.conftest import (
    FAILED,
    FAILURE,
    change_record,
    plan_of,
    write_certificates,
    write_results,
    write_run,
)

SWEEP = "/sweeps/small/"
CONDITION = f"{SWEEP}conditions/1MB_10Mbps_25ms_per0"
RUN = f"{SWEEP}runs/{COMPLETED}/"
HERE = {"Origin": "http://localhost"}
STATIC = Path(app.__file__).with_name("static")


class Elements(HTMLParser):
    """The elements of a page: names, attributes, and the text within scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs)))


@pytest.fixture
def client(results: Path, shown: Shown) -> FlaskClient:
    return shown(results)


def tag_of(client: FlaskClient) -> str:
    match = re.search(r'hx-ptag="([^"]+)"', client.get(SWEEP).text)
    assert match
    return match[1]


def test_the_first_page_lists_the_sweeps_with_their_state(client: FlaskClient) -> None:
    page = client.get("/").text

    assert f'href="{SWEEP}"' in page
    assert "4 of 12 runs recorded" in page


def test_results_that_cannot_be_read_are_listed_with_the_reason(tmp_path: Path, shown: Shown) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "plan.json").write_text("{")

    assert "broken/plan.json: damaged" in shown(tmp_path / "broken").get("/").text


def test_a_damaged_record_is_named_on_the_page_of_its_run(results: Path, client: FlaskClient) -> None:
    (record, *_) = sorted(results.glob("runs/*/record.json"))
    record.write_text("{")
    page = client.get(f"{SWEEP}runs/{record.parent.name}/")

    assert page.status_code == 409
    assert "record.json: damaged" in page.text


def test_a_directory_that_holds_results_shows_all_of_them(tmp_path: Path, results: Path, shown: Shown) -> None:
    write_results(tmp_path / "other", SMALL, skip=lambda run: True)

    page = shown(tmp_path).get("/").text

    assert [name for name in ("small", "other") if f"/sweeps/{name}/" in page] == ["small", "other"]


def test_two_directories_of_one_name_have_different_addresses(tmp_path: Path, results: Path, shown: Shown) -> None:
    other = write_results(tmp_path / "other" / "small", SMALL, skip=lambda run: True)

    page = shown(results, other).get("/").text

    assert ('href="/sweeps/small/"' in page, 'href="/sweeps/small-2/"' in page) == (True, True)


def test_a_directory_that_is_missing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OwltError, match="nowhere: is missing"):
        Directories([tmp_path / "nowhere"])


def test_sweeps_appear_while_the_dashboard_runs(tmp_path: Path) -> None:
    directories = Directories([], tmp_path)
    before = list(directories.indexes())
    write_results(tmp_path / "later", SMALL, skip=lambda run: True)

    assert (before, list(directories.indexes())) == ([], ["later"])


def test_the_matrix_has_a_link_for_each_cell_and_real_headers(client: FlaskClient) -> None:
    elements = Elements(client.get(SWEEP).text).all

    cells = [
        attributes["href"] for tag, attributes in elements if tag == "a" and "cell" in (attributes.get("class") or "")
    ]
    headers = [attributes.get("scope") for tag, attributes in elements if tag == "th"]
    assert len(cells) == 4
    assert f"{CONDITION}#cfdp" in cells
    assert set(headers) == {"row", "col"}


def test_an_implementation_of_which_no_run_has_completed_is_a_warning(tmp_path: Path, shown: Shown) -> None:
    write_results(tmp_path / "small", SMALL, skip=lambda run: run.run_id != FAILED)
    warning = '<p class="caution">cfdp: none of its runs has completed: 1 failed (the sender exited'
    assert warning in shown(tmp_path / "small").get(SWEEP).text

    write_results(tmp_path / "other" / "small", SMALL)
    assert "none of its runs" not in shown(tmp_path / "other" / "small").get(SWEEP).text


def test_filters_of_the_address_select_cells(client: FlaskClient) -> None:
    page = client.get(f"{SWEEP}?implementation=norm&per=0.01").text

    assert len(re.findall(r'<td id="c\d+">', page)) == 1
    assert "<option selected>norm</option>" in page


def test_filters_that_match_nothing_offer_all_cells(client: FlaskClient) -> None:
    assert "No cell matches" in client.get(f"{SWEEP}?file=3+MB").text


def test_a_page_that_is_up_to_date_is_sent_nothing(client: FlaskClient) -> None:
    first = client.get(f"{SWEEP}changes", headers={"HX-Request": "true", "HX-PTag": tag_of(client)})

    again = client.get(f"{SWEEP}changes", headers={"HX-Request": "true", "HX-PTag": first.headers["HX-PTag"]})

    assert (first.status_code, again.status_code, again.data) == (200, 304, b"")


def test_a_page_is_sent_only_the_cells_that_have_changed(results: Path, clock: Clock, shown: Shown) -> None:
    client = shown(results)
    tag = tag_of(client)
    run = next(run for run in plan_of(SMALL).runs if run.run_id == COMPLETED.replace("_r1", "_r2"))
    write_run(results / "runs" / run.run_id, run, SMALL)
    clock.now_s += 100 * LOOK_EVERY_S

    answer = client.get(f"{SWEEP}changes", headers={"HX-PTag": tag}).text

    assert "5 of 12 runs recorded" in answer
    assert re.findall(r"hx-target=\"(#c\d+)\"", answer) == ["#c0"]
    assert "<i>2/3</i>" in answer


@pytest.mark.parametrize("tag", ["", "none", "0000.1.1.0", "a.b"])
def test_a_page_of_another_server_or_plan_is_loaded_again(client: FlaskClient, tag: str) -> None:
    answer = client.get(f"{SWEEP}changes", headers={"HX-PTag": tag})

    assert answer.headers["HX-Refresh"] == "true"


def test_a_condition_has_a_box_plot_and_a_link_to_every_run(client: FlaskClient) -> None:
    page = client.get(CONDITION).text

    runs = [f"{name}_1MB_10Mbps_25ms_per0_r{number}" for name in ("cfdp", "norm") for number in (1, 2, 3)]
    assert page.count('<circle class="dot') == 1  # the other recorded run has no summary
    assert [run for run in runs if f"/runs/{run}/" not in page] == []


def test_a_condition_that_has_not_changed_is_sent_nothing(client: FlaskClient) -> None:
    first = client.get(CONDITION, headers={"HX-Request": "true"})

    again = client.get(CONDITION, headers={"HX-Request": "true", "HX-PTag": first.headers["HX-PTag"]})

    assert again.status_code == 304


def test_the_measure_of_a_condition_is_in_its_address(client: FlaskClient) -> None:
    assert "<h2>STR (packets)</h2>" in client.get(f"{CONDITION}?metric=str").text


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("/sweeps/none/", "there are no results of this name"),
        (f"{SWEEP}conditions/none", "the sweep has no condition of this name"),
        (f"{CONDITION}?metric=speed", "expected goodput"),
        (f"{SWEEP}runs/none/", "the sweep has no run of this name"),
        (f"{RUN}files/none.txt", "there is no such file"),
        (f"{RUN}packets/packets.csv", "this run is not analysed"),
    ],
)
def test_an_address_that_names_nothing_says_what_is_missing(client: FlaskClient, address: str, problem: str) -> None:
    answer = client.get(address)

    assert (answer.status_code, problem in answer.text) == (404, True)


def test_the_page_of_a_sweep_names_its_machines_and_what_they_do(results: Path, shown: Shown) -> None:
    change_record(results, COMPLETED, machine="lab1")
    run_id = COMPLETED.replace("_r1", "_r2")
    events: list[dict[str, object]] = [
        {"event": "boot", "slot": 0, "machine": "lab2"},
        {"event": "run", "run_id": run_id},
    ]
    journal = "".join(json.dumps({"at_s": 1.0, "batch": 0, **event}) + "\n" for event in events)
    (results / JOURNAL_NAME).write_text(journal)

    with locked(results):
        page = shown(results).get(SWEEP).text

    assert "(on lab2)" in page
    rows = re.findall(r'<th scope="row">([^<]+)</th><td class="number">(\d)</td><td class="number">(\d)</td>', page)
    assert rows == [(THIS_MACHINE, "3", "0"), ("lab1", "1", "0"), ("lab2", "0", "1")]


def test_the_page_of_a_run_has_its_record_measures_and_ledger(client: FlaskClient) -> None:
    page = client.get(RUN).text

    for text in (
        "CFDP class 2 (cfdp-py)",
        "Goodput to delivery",
        "What happened to the packets",
        "session end",
        "sender.pcap",
    ):
        assert text in page


def test_the_page_of_a_failed_run_says_why_and_opens_its_logs(tmp_path: Path, shown: Shown) -> None:
    results = write_results(tmp_path / "small", SMALL)
    (results / "runs" / FAILED / "sender.err").write_text("NAK limit <b>reached</b>\n")

    page = shown(results).get(f"{SWEEP}runs/{FAILED}/").text

    assert FAILURE.replace("'", "&#39;").replace("<", "&lt;").replace(">", "&gt;") in page
    assert "NAK limit &lt;b&gt;reached&lt;/b&gt;" in page
    assert "<details open>" in page


def test_the_page_of_a_run_without_a_record_says_so(client: FlaskClient) -> None:
    assert "has no record yet" in client.get(RUN.replace("_r1", "_r2")).text


def test_the_certificate_of_the_channel_is_on_the_page_of_a_run(results: Path, shown: Shown) -> None:
    write_certificates(results, SMALL, Check("forward", "delay, ns", "ok", 25e6, 25e6, 24e6, 26e6, 900))

    assert "Certificate of the channel" in shown(results).get(RUN).text


def test_files_are_text_or_downloads_in_which_no_script_runs(client: FlaskClient, results: Path) -> None:
    (results / "runs" / COMPLETED / "sender.out").write_text("<script>alert(1)</script>")

    text, capture = client.get(f"{RUN}files/sender.out"), client.get(f"{RUN}files/sender.pcap")

    assert text.mimetype == "text/plain"
    assert "attachment" in capture.headers["Content-Disposition"]
    assert all("sandbox" in answer.headers["Content-Security-Policy"] for answer in (text, capture))


@pytest.mark.parametrize("name", ["..%2F..%2Fplan.json", "..%2f..%2f..%2fsecret", "link", "%2Fetc%2Fpasswd"])
def test_files_outside_of_a_run_are_refused(client: FlaskClient, results: Path, name: str) -> None:
    (results.parent / "secret").write_text("secret")
    (results / "runs" / COMPLETED / "link").symlink_to(results.parent / "secret")

    answer = client.get(f"{RUN}files/{name}")

    assert (answer.status_code, "secret" in answer.text and "small" not in answer.text) == (404, False)


LINKED = {
    "report": ("report/secret", "report/index.html", "report/x.js"),
    "certificates": ("certificates/secret",),
    f"runs/{COMPLETED}": (f"runs/{COMPLETED}/files/secret", f"runs/{COMPLETED}/packets/secret"),
    f"runs/{COMPLETED}/analysis": (f"runs/{COMPLETED}/packets/secret", f"runs/{COMPLETED}/packets/index.html"),
    "runs": (f"runs/{COMPLETED}/files/secret",),
}


@pytest.mark.parametrize("name", LINKED)
def test_a_directory_of_results_that_is_a_link_serves_nothing(
    tmp_path: Path, results: Path, shown: Shown, name: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for file in ("secret", "index.html", "x.js", "record.json"):
        (elsewhere / file).write_text("secret")
    shutil.rmtree(results / name, ignore_errors=True)
    (results / name).symlink_to(elsewhere)
    client = shown(results)

    for address in LINKED[name]:
        answer = client.get(f"/sweeps/small/{address}")
        assert (answer.status_code, "<pre>secret" in answer.text) == (404, False)
    page = client.get(RUN)
    assert page.status_code in (200, 404) or "is a link" in page.text


def test_pipes_do_not_stop_the_dashboard(results: Path, shown: Shown) -> None:
    directory = results / "runs" / COMPLETED
    for path in (directory / "sender.out", directory / "extra.log", directory / "summary.json", results / "lock"):
        path.unlink(missing_ok=True)
        os.mkfifo(path)
    client = shown(results)

    for _ in range(10):
        assert client.get(RUN).status_code == 200
        assert client.get(f"{RUN}files/sender.out").status_code == 404


@pytest.mark.parametrize(
    "address", [f"{RUN}files/%00", f"{RUN}files/a%00b", "/sweeps/small/report/%00", "/sweeps/small/report/a%0Ab%1B"]
)
def test_an_address_with_control_characters_names_no_file(client: FlaskClient, address: str) -> None:
    assert client.get(address).status_code == 404


def test_a_file_that_has_not_changed_is_not_sent_again_and_a_part_can_be_asked_for(
    client: FlaskClient, results: Path
) -> None:
    (results / "runs" / COMPLETED / "sender.out").write_text("0123456789")
    address = f"{RUN}files/sender.out"
    first = client.get(address)

    assert (first.text, first.content_length) == ("0123456789", 10)
    assert client.get(address, headers={"If-None-Match": first.headers["ETag"]}).status_code == 304
    part = client.get(address, headers={"Range": "bytes=2-4"})
    assert (part.status_code, part.text) == (206, "234")


def test_the_report_is_linked_once_it_is_made(client: FlaskClient, results: Path) -> None:
    before = client.get(SWEEP).text
    (results / "report").mkdir()
    (results / "report" / "index.html").write_text("<h1>Report</h1>")

    assert (">report</a>" in before, ">report</a>" in client.get(SWEEP).text) == (False, True)
    assert client.get(f"{SWEEP}report/index.html").text == "<h1>Report</h1>"


def reported(results: Path, name: str, text: str) -> None:
    """A file of a report."""
    path = results / "report" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_of_the_scripts_in_the_page_of_a_report_only_that_of_owlt_is_allowed(
    client: FlaskClient, results: Path
) -> None:
    reported(results, "index.html", "<script>alert(1)</script>")

    policy = client.get(f"{SWEEP}report/index.html").headers["Content-Security-Policy"]

    digest = base64.b64encode(hashlib.sha256(page_script().encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{digest}';" in policy
    assert "form-action 'none'" in policy


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (script("drawing", "goodput", '<svg aria-label="a \\ \u2028 b"></svg>'), 200),
        (script("part", "runs", "<p></p>") + "alert(1)\n", 404),
        ('owlt.part("runs", alert(1))\n', 404),
        ('owlt.part("runs", "a", alert(1))\n', 404),
        ("alert(1)", 404),
        ("", 404),
    ],
)
def test_a_script_of_a_report_is_served_if_it_can_only_add_a_part(
    client: FlaskClient, results: Path, text: str, status: int
) -> None:
    reported(results, "figures/goodput.js", text)

    answer = client.get(f"{SWEEP}report/figures/goodput.js")

    assert (answer.status_code, answer.mimetype == "text/javascript") == (status, status == 200)


def test_the_links_of_a_report_to_files_of_runs_and_to_certificates_are_served(
    client: FlaskClient, results: Path
) -> None:
    (results / "certificates").mkdir()
    (results / "certificates" / "key.json").write_text("{}")

    addresses = [f"{SWEEP}runs/{COMPLETED}/record.json", f"{SWEEP}certificates/key.json"]

    assert [client.get(address).status_code for address in addresses] == [200, 200]
    assert all("sandbox" in client.get(each).headers["Content-Security-Policy"] for each in addresses)


def test_the_packets_of_a_run_are_analysed_on_request(client: FlaskClient) -> None:
    client.get(f"/?token={TOKEN}")
    before = client.get(f"{RUN}packets").text

    client.post(f"{RUN}packets", headers=HERE)

    for _ in range(1000):
        after = client.get(f"{RUN}packets").text
        if "Analysing" not in after:
            break
    assert "Analyse the captures" in before
    assert "The complete analysis" in after
    assert "packets.csv" in after


def listed(client: FlaskClient) -> str:
    """The part of a run's page with its packets, as a page asks for it until they are there."""
    end_s = time.monotonic() + 60
    while "Reading the captures" in (text := client.get(f"{RUN}missing", headers={"HX-Request": "true"}).text):
        assert time.monotonic() < end_s
        time.sleep(0.01)
    return text


def test_the_dropped_packet_of_a_run_is_named_for_those_without_the_token(results: Path, shown: Shown) -> None:
    lossy_run(results, dropped=(DATA,))
    client = shown(results)
    before = client.get(RUN).text

    text = listed(client)

    assert "data bytes 1000-1999" not in before
    row = re.search(r"<tbody><tr>(.*?)</tr>", text)
    assert row
    assert re.findall(r"<td[^>]*>([^<]*)</td>", row[1]) == [
        "0.200000",
        "forward",
        "3",
        "data bytes 1000-1999",
        "1056",
        "lost by the channel",
    ]
    assert "data bytes 1000-1999" in client.get(RUN).text


def test_an_address_alone_does_not_start_the_reading_of_captures(results: Path, shown: Shown, tmp_path: Path) -> None:
    lossy_run(results, dropped=(DATA,))
    client = shown(results)

    texts = [client.get(address).text for address in (RUN, f"{RUN}missing", f"{RUN}missing")]

    assert all("Reading the captures" in text for text in texts)
    assert list((tmp_path / "kept" / "missing").iterdir()) == []


def test_of_a_run_whose_packets_all_arrived_the_captures_are_not_read(client: FlaskClient, tmp_path: Path) -> None:
    assert "All packets arrived as they were sent." in listed(client)
    assert list((tmp_path / "kept" / "missing").iterdir()) == []


def test_packets_that_were_corrupted_behind_the_captured_bytes_are_counted_and_not_listed(
    results: Path, client: FlaskClient
) -> None:
    summary = load_summary(results / "runs" / COMPLETED)
    assert summary is not None
    sent = summary.ledger_forward.sent
    ledger = summary.ledger_forward.model_copy(
        update={"delivered": sent - 2, "corrupted": 2, "corrupted_unseen": 2, "lost": 0}
    )
    keep(results / "runs" / COMPLETED / SUMMARY, summary.model_copy(update={"ledger_forward": ledger}))

    text = listed(client)

    assert "2 packets were corrupted behind the captured bytes; the captures do not show which." in text
    assert "All others arrived as they were sent." in text


def test_an_analysis_that_a_user_made_is_shown_without_the_token(client: FlaskClient, results: Path) -> None:
    before = client.get(RUN).text
    analysis = results / "runs" / COMPLETED / "analysis"
    analysis.mkdir()
    (analysis / "index.html").write_text("<p>made before</p>")

    page = client.get(RUN).text

    assert ("The complete analysis" in before, "The complete analysis" in page) == (False, True)
    assert client.get(f"{RUN}packets/index.html").text == "<p>made before</p>"


def test_a_run_has_the_logs_of_its_captures_and_of_a_worker_that_was_lost(client: FlaskClient, results: Path) -> None:
    run = results / "runs" / COMPLETED
    (run / "capture-sender.err").write_text("118 packets captured\n")
    (run / "console.log").write_text("Kernel panic\n")

    page = client.get(RUN).text

    assert re.findall(r"<summary>([a-z.-]+\.(?:err|log))", page) == ["capture-sender.err", "console.log"]
    assert "118 packets captured" in page
    assert "Kernel panic" in page


@pytest.mark.parametrize(("machine", "kernel"), [("lab2", "6.12.2"), ("lab3", "6.12.1"), ("", "6.12.1")])
def test_the_certificate_is_that_of_the_machine_that_performed_the_run_if_it_is_kept(
    results: Path, shown: Shown, machine: str, kernel: str
) -> None:
    change_record(results, COMPLETED, machine=machine)
    check = Check("forward", "delay, ns", "ok", 25e6, 25e6, 24e6, 26e6, 900)
    write_certificates(results, SMALL, check)
    (results / "machines" / "lab2").mkdir(parents=True)
    write_certificates(results / "machines" / "lab2", SMALL, check)
    for directory, version in ((results, "6.12.1"), (results / "machines" / "lab2", "6.12.2")):
        for path in (directory / "certificates").iterdir():
            path.write_text(path.read_text().replace("6.12.48", version))

    assert f"measured on kernel {kernel}." in shown(results).get(RUN).text


def test_the_phases_of_the_rig_are_beside_those_of_the_session(client: FlaskClient, results: Path) -> None:
    events: list[dict[str, object]] = [
        {"at_s": 1.0, "event": "run"},
        {"at_s": 1.0, "event": "phase", "phase": "stage"},
        {"at_s": 1.25, "event": "phase", "phase": "transfer"},
    ]
    lines = [json.dumps({"batch": 0, "run_id": COMPLETED, **event}) for event in events]
    (results / JOURNAL_NAME).write_text("\n".join(lines) + "\n")

    page = client.get(RUN).text

    assert "Phases of the session" in page
    assert '<th scope="row">stage</th><td>0.25 s</td>' in page


def test_the_packets_of_a_run_without_captures_cannot_be_shown(client: FlaskClient, results: Path) -> None:
    (results / "runs" / COMPLETED / "sender.pcap").unlink()

    assert "The captures of this run were not kept" in client.get(RUN).text


@pytest.mark.parametrize(
    "headers",
    [{}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {**HERE, "Sec-Fetch-Site": "same-site"}],
)
def test_another_site_cannot_start_an_analysis(client: FlaskClient, headers: dict[str, str]) -> None:
    client.get(f"/?token={TOKEN}")

    assert client.post(f"{RUN}packets", headers=headers).status_code == 403


def test_no_address_takes_a_request_that_changes_something_without_the_token(client: FlaskClient) -> None:
    values = {"name": "small", "run_id": COMPLETED, "key": "any", "file": "any"}
    rules = [rule for rule in client.application.url_map.iter_rules() if "POST" in (rule.methods or ())]
    addresses = [rule.build({name: values[name] for name in rule.arguments}) for rule in rules]

    statuses = [client.post(address[1], headers=HERE).status_code for address in addresses if address]

    assert len(statuses) == len(rules) >= 2
    assert set(statuses) == {403}


def test_without_the_token_there_is_no_button_that_starts_an_analysis(client: FlaskClient) -> None:
    page = client.get(f"{RUN}packets").text

    assert "<form" not in page
    assert "open the address with the token" in page


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8780", "localhost.evil.example", ""])
def test_a_request_to_another_name_is_refused(client: FlaskClient, host: str) -> None:
    assert client.get("/", headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost:8780", "127.0.0.1:8780", "[::1]:8780", "lab.example:80", "LAB.example"])
def test_requests_to_its_addresses_and_names_are_answered(results: Path, tmp_path: Path, host: str) -> None:
    client = new_app(Directories([results]), Background.of(PacketViews(tmp_path)), ["lab.example"]).test_client()

    assert client.get("/", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("address", ["/", SWEEP, CONDITION, RUN, "/none", "/static/dashboard.css"])
def test_every_answer_confines_scripts_and_styles_to_the_server(client: FlaskClient, address: str) -> None:
    headers = client.get(address).headers

    policy = headers["Content-Security-Policy"]
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("address", ["/", SWEEP, CONDITION, RUN])
def test_no_page_has_inline_scripts_or_styles_or_asks_another_server(client: FlaskClient, address: str) -> None:
    page = client.get(address).text

    for tag, attributes in Elements(page).all:
        assert tag != "style"
        assert "style" not in attributes
        assert not [name for name in attributes if name.startswith("on")]
        assert not (attributes.get("src") or attributes.get("href") or "").startswith(("http:", "https:", "//"))
    assert re.findall(r"<script[^>]*>(?!</script>)", page) == []


@pytest.mark.parametrize("address", ["/", SWEEP, CONDITION, RUN])
def test_no_page_has_two_elements_of_one_id(client: FlaskClient, address: str) -> None:
    ids = [attributes["id"] for _, attributes in Elements(client.get(address).text).all if "id" in attributes]

    assert len(ids) == len(set(ids))


def test_everything_that_a_page_loads_is_served(client: FlaskClient) -> None:
    loaded = [
        attributes.get("src") or attributes.get("href")
        for tag, attributes in Elements(client.get(SWEEP).text).all
        if tag in ("script", "link") and attributes.get("rel") != "icon"
    ]

    assert [client.get(str(address)).status_code for address in loaded] == [200] * 4


def theme(text: str, dark: bool) -> dict[str, str]:
    """The colours of a style sheet by name, in one of its themes."""
    blocks = re.findall(r":root \{(.*?)\}", text, re.DOTALL)
    pairs = [pair for block in blocks[: 1 + dark] for pair in re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)]
    return dict(pairs)


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG 2.1 defines it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


PLAIN_TEXT = ("ink", "muted", "link", "alarm", "failed", "suspect", "running")
TEXT_ON_GROUND = [
    *(("on-cell", f"g{level}") for level in range(8)),
    *((text, ground) for text in PLAIN_TEXT for ground in ("paper", "shade")),
    ("ink", "caution"),
    ("paper", "link"),
]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXT_ON_GROUND)
def test_text_has_a_contrast_of_4_5_in_both_themes(text: str, ground: str, dark: bool) -> None:
    sheets = ((TEMPLATES / "report.css").read_text(), (STATIC / "dashboard.css").read_text())
    colours = {name: colour for sheet in sheets for name, colour in theme(sheet, dark).items()}

    assert contrast(colours[text], colours[ground]) >= 4.5


@pytest.mark.parametrize(("name", "licence"), [("htmx", "Zero-Clause BSD"), ("uPlot", "The MIT License")])
def test_the_licences_of_served_scripts_are_beside_them(name: str, licence: str) -> None:
    assert licence in (STATIC / "vendor" / f"{name}.LICENSE").read_text()

"""Pause, resume, stop and note on the page of a sweep; the answer so far, certificates and load that it shows."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from owlt.emulator.certification.certificate import Check
from owlt.inputs.sweep import Adaptive
from owlt.orchestrator.dashboard.app import Background, new_app
from owlt.orchestrator.dashboard.child_processes import EVERY_S, Answers, PacketViews, SoFar
from owlt.orchestrator.dashboard.control import RESUMED, Retries, owlt_resume
from owlt.orchestrator.dashboard.index import Directories, SweepIndex
from owlt.orchestrator.dashboard.protection import Token
from owlt.orchestrator.dashboard.sweep_content import LOAD_EVERY_S, MachineLoad, channels_of
from owlt.results.lock import locked
from owlt.results.operator import (
    MOST_NOTE_CHARACTERS,
    OPTIONS_NAME,
    keep_options,
    kept_options,
    paused_since_s,
    read_note,
)
from tests.unit.orchestrator.dashboard.conftest import SMALL, TOKEN, Client, Clock, Shown
from tests.unit.reports.conftest import change_record, sweep, write_certificates, write_results

SWEEP = "/sweeps/small/"
HERE = {"Origin": "http://localhost"}
ANSWER = {"headline": "Take cfdp.", "certainty": "Sure.", "sureness": "3 runs of each.", "criterion": "goodput"}


@pytest.fixture
def client(results: Path, shown: Shown) -> FlaskClient:
    """The dashboard for somebody with the token."""
    client = shown(results)
    client.get(f"/?token={TOKEN}")
    return client


@pytest.fixture
def interrupts() -> Iterator[list[int]]:
    """The interrupts of this process, which holds the lock of some tests."""
    taken: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: taken.append(number))
    yield taken
    signal.signal(signal.SIGINT, before)


def buttons(client: FlaskClient, page: str = SWEEP) -> list[str]:
    text = client.get(page).text
    return [name for name in ("Pause", "Stop", "Resume", "Keep the note") if f"<button>{name}</button>" in text]


def test_a_running_sweep_is_paused_and_resumed_with_the_token(client: FlaskClient, results: Path) -> None:
    with locked(results):
        before = buttons(client)
        assert client.post(f"{SWEEP}pause", headers=HERE).status_code == 303
        assert paused_since_s(results) is not None
        paused, page = buttons(client), client.get(SWEEP).text
        client.post(f"{SWEEP}resume", headers=HERE)

    assert before == ["Pause", "Stop", "Keep the note"]
    assert paused == ["Stop", "Resume", "Keep the note"]
    assert '<span class="process paused">paused</span>' in page
    assert "no run is started until it is resumed" in page
    assert paused_since_s(results) is None


def test_without_the_token_there_is_no_control(results: Path, shown: Shown) -> None:
    client = shown(results)
    with locked(results):
        assert buttons(client) == buttons(client, f"{SWEEP}control") == []


def test_a_sweep_is_interrupted_once_however_often_stop_is_asked_for(
    client: FlaskClient, results: Path, interrupts: list[int]
) -> None:
    with locked(results):
        statuses = [client.post(f"{SWEEP}stop", headers=HERE).status_code for _ in range(2)]

        assert "is being stopped" in client.get(SWEEP).text
    assert (statuses, interrupts) == ([303, 303], [signal.SIGINT])


def test_there_is_nothing_to_stop_where_no_sweep_runs(client: FlaskClient) -> None:
    answer = client.post(f"{SWEEP}stop", headers=HERE)

    assert (answer.status_code, "no &#39;owlt run&#39; is running there" in answer.text) == (409, True)


@pytest.mark.parametrize(
    ("changes", "expected"), [({}, [3]), ({"rig": "lab", "clock": "real"}, [])], ids=["virtual", "lab"]
)
def test_a_sweep_that_was_stopped_is_resumed_with_its_repetitions(
    tmp_path: Path, changes: dict[str, Any], expected: list[int]
) -> None:
    asked = SMALL.model_copy(update=changes)
    results = write_results(tmp_path / "small", asked, skip=lambda run: run.repetition > 1)
    started = []

    def missing(directory: Path, repetitions: int) -> list[str]:
        started.append(repetitions)
        return ["true"]

    retries = Retries(tmp_path, missing=missing)
    app = new_app(Directories([results]), Background.of(PacketViews(tmp_path), retries=retries), token=Token(TOKEN))
    client = app.test_client()
    client.get(f"/?token={TOKEN}")
    shown = buttons(client)
    client.post(f"{SWEEP}resume", headers=HERE)
    if latest := retries.latest(results, RESUMED):
        latest.process.wait(60)

    assert ("Resume" in shown, started) == (bool(expected), expected)


def stopped(tmp_path: Path, **changes: Any) -> Path:
    return write_results(tmp_path / "small", SMALL.model_copy(update=changes), skip=lambda run: run.repetition > 1)


def test_a_stopped_sweep_with_adaptive_repetitions_can_be_resumed(tmp_path: Path, shown: Shown) -> None:
    rule = Adaptive(at_least=2, at_most=9, until="decided")
    client = shown(stopped(tmp_path, repetitions=rule))
    client.get(f"/?token={TOKEN}")

    assert buttons(client) == ["Resume", "Keep the note"]


def test_a_sweep_is_resumed_with_the_selection_of_its_latest_start(tmp_path: Path) -> None:
    results = stopped(tmp_path)
    keep_options(results, ["--only", "implementation=cfdp", "--guests", "1"])

    assert owlt_resume(results, 3)[2:] == [
        *("extend", str(results), "--to", "3"),
        *("--only", "implementation=cfdp", "--guests", "1"),
    ]


def test_the_page_names_the_selection_that_is_resumed(tmp_path: Path, shown: Shown) -> None:
    results = stopped(tmp_path)
    keep_options(results, ["--only", "implementation=cfdp"])
    client = shown(results)
    client.get(f"/?token={TOKEN}")

    assert "<code>--only implementation=cfdp</code>" in client.get(SWEEP).text


def test_nothing_is_resumed_if_all_selected_runs_are_recorded(tmp_path: Path, shown: Shown) -> None:
    results = stopped(tmp_path)
    run_id = next(each.name for each in (results / "runs").iterdir() if each.name.endswith("_r1"))
    keep_options(results, ["--only", run_id])
    client = shown(results)
    client.get(f"/?token={TOKEN}")

    assert buttons(client) == ["Keep the note"]


def test_a_stopped_sweep_on_a_lab_rig_shows_the_command_that_resumes_it(tmp_path: Path, shown: Shown) -> None:
    results = stopped(tmp_path, rig="lab", clock="real")
    keep_options(results, ["--shard", "1/2"])
    client = shown(results)
    client.get(f"/?token={TOKEN}")

    assert f"owlt extend {results} --to 3 --shard 1/2 --rig INVENTORY" in client.get(SWEEP).text


@pytest.mark.parametrize(
    "written",
    [
        *('["--on-end", "touch x"]', '["--only"]', '["--only", "--on-end=x"]', '{"--only": 1}', "[1, 2]", "["),
        *('"--only x"', r'["--guests", "\ud800"]', r'["--only", "a\u0000b"]'),
    ],
)
def test_options_that_owlt_does_not_keep_are_not_read(tmp_path: Path, written: str) -> None:
    (tmp_path / OPTIONS_NAME).write_text(written)

    assert kept_options(tmp_path) == []


def test_a_start_of_the_whole_sweep_keeps_no_options(tmp_path: Path) -> None:
    keep_options(tmp_path, ["--shard", "1/2"])
    keep_options(tmp_path, [])

    assert kept_options(tmp_path) == []


def test_a_sweep_that_is_complete_cannot_be_resumed(tmp_path: Path, shown: Shown) -> None:
    client = shown(write_results(tmp_path / "small", SMALL))
    client.get(f"/?token={TOKEN}")

    assert buttons(client) == ["Keep the note"]


def test_a_note_is_kept_and_shown_as_text_to_everybody(client: FlaskClient, results: Path, shown: Shown) -> None:
    client.post(f"{SWEEP}note", headers=HERE, data={"note": "rain <b>since</b> 14:00"})

    assert read_note(results) == "rain <b>since</b> 14:00"
    assert "<b>Note:</b> rain &lt;b&gt;since&lt;/b&gt; 14:00" in shown(results).get(SWEEP).text


def test_a_note_that_is_too_long_is_refused(client: FlaskClient, results: Path) -> None:
    answer = client.post(f"{SWEEP}note", headers=HERE, data={"note": "x" * (MOST_NOTE_CHARACTERS + 1)})

    assert (answer.status_code, read_note(results)) == (400, "")
    assert f"at most {MOST_NOTE_CHARACTERS}" in answer.text


# The answer so far


def wait_for(condition: Callable[[], object]) -> None:
    end_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)


@pytest.fixture
def commands() -> list[Path]:
    """The results directories whose answer was computed."""
    return []


@pytest.fixture
def answers(commands: list[Path], clock: Clock) -> Iterator[Answers]:
    def command(results: Path) -> list[str]:
        commands.append(results)
        return ["echo", json.dumps(ANSWER)]

    answers = Answers(command, clock)
    yield answers
    answers.close()


def test_the_answer_is_on_the_page_with_the_runs_that_it_is_from(
    results: Path, tmp_path: Path, answers: Answers
) -> None:
    app = new_app(Directories([results]), Background.of(PacketViews(tmp_path), answers=answers))
    app.test_client_class = Client
    client = app.test_client()
    wait_for(lambda: "Take cfdp." in client.get(SWEEP).text)

    page = client.get(SWEEP).text

    assert "Sure. 3 runs of each." in page
    assert "By goodput, from 4 recorded runs." in page


def test_an_answer_is_computed_again_after_a_minute_and_only_if_runs_were_recorded(
    results: Path, answers: Answers, commands: list[Path], clock: Clock
) -> None:
    index = SweepIndex(results, clock)

    def look(after_s: float) -> int:
        clock.now_s += after_s
        answers.of(results, index.snapshot())
        wait_for(lambda: answers.of(results, index.snapshot()) is not None)
        time.sleep(0.05)
        return len(commands)

    first, unchanged = look(0), look(2 * EVERY_S)
    change_record(results, next((results / "runs").iterdir()).name, outcome="failed", reason="x", reason_code="exited")
    changed = look(EVERY_S)
    change_record(results, next((results / "runs").iterdir()).name, outcome="completed", reason="", reason_code=None)

    assert (first, unchanged, changed, look(EVERY_S / 2), look(EVERY_S / 2)) == (1, 1, 2, 2, 3)


def test_answers_that_take_long_are_computed_less_often(results: Path, commands: list[Path], clock: Clock) -> None:
    def slow(directory: Path) -> list[str]:
        commands.append(directory)
        clock.now_s += 10.0
        return ["echo", json.dumps(ANSWER)]

    answers = Answers(slow, clock)
    snapshot = SweepIndex(results, clock).snapshot()
    answers.of(results, snapshot)
    wait_for(lambda: answers.of(results, snapshot) is not None)
    other = replace(snapshot, plan_version=2)
    clock.now_s += 499.0
    answers.of(results, other)
    time.sleep(0.1)
    before = len(commands)
    clock.now_s += 2.0
    answers.of(results, other)
    wait_for(lambda: len(commands) > before)
    answers.close()

    assert before == 1


def test_an_answer_that_is_refused_is_none(results: Path, clock: Clock) -> None:
    answers = Answers(lambda directory: ["false"], clock)
    snapshot = SweepIndex(results, clock).snapshot()
    wait_for(lambda: answers.of(results, snapshot))
    answers.close()

    assert answers.of(results, snapshot) == SoFar("", "", "", "", 4)


# Certificates, load and time


def test_channels_have_their_verdicts_the_failed_ones_first(results: Path) -> None:
    write_certificates(results, SMALL, Check("forward", "rate, bit/s", "ok", 1.0, 1.0))
    first, last = sorted((results / "certificates").iterdir())
    value = json.loads(last.read_text())
    value["checks"][0]["verdict"] = "failed"
    last.write_text(json.dumps(value))

    verdicts = channels_of(results, SweepIndex(results).snapshot())

    assert [(each.verdict, each.file) for each in verdicts] == [("failed", last.name), ("ok", first.name)]
    assert verdicts[0].words == "failed: 1 of 1 quantities"


def test_a_channel_without_a_certificate_is_not_measured_yet(results: Path, client: FlaskClient) -> None:
    assert {each.words for each in channels_of(results, SweepIndex(results).snapshot())} == {"not measured yet"}
    assert "of 2 channels: 2 without" in client.get(SWEEP).text


def test_the_load_of_the_machine_is_on_the_page_of_a_running_sweep_only(
    client: FlaskClient, results: Path, clock: Clock
) -> None:
    stopped = client.get(SWEEP).text
    with locked(results):
        clock.now_s += 2.0
        running = client.get(SWEEP).text

    assert "Machine of this dashboard" not in stopped
    assert f"on {len(os.sched_getaffinity(0))} cores" in running


def test_the_load_is_looked_up_seldom(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (clock.now_s, 0.0, 0.0))
    load = MachineLoad(clock)
    texts = [load.text()]
    for _ in range(2):
        clock.now_s += LOAD_EVERY_S / 2
        texts.append(load.text())

    assert [text.split()[2] for text in texts] == ["1000.0", "1000.0", "1015.0"]


def test_a_condition_has_the_time_to_delivery_of_its_runs(tmp_path: Path, shown: Shown) -> None:
    results = write_results(tmp_path / "small", sweep(file_size="1 MB", delay="25 ms", packet_error_rate=0))
    page = shown(results).get(f"{SWEEP}conditions/1MB_10Mbps_25ms_per0?metric=time-to-delivery").text
    cell = SweepIndex(results).snapshot().cells[0]

    assert "<h2>Time to delivery (s)</h2>" in page
    assert cell.delivery_s == pytest.approx(0.8769, abs=0.001)
    assert ">0.8769 s</i>" in shown(results).get(SWEEP).text

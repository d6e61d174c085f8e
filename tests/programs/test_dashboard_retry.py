"""Runs that are performed again from their page, with programs in the place of `owlt retry`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from owlt.orchestrator.commands.cli import USER_ERROR_STATUS
from owlt.orchestrator.commands.performing import ASSERTION_STATUS, SOME_FAILED_STATUS
from owlt.orchestrator.dashboard.app import Background, new_app
from owlt.orchestrator.dashboard.child_processes import PacketViews
from owlt.orchestrator.dashboard.control import Retries, owlt_extend, owlt_retry
from owlt.orchestrator.dashboard.index import Directories
from owlt.orchestrator.dashboard.protection import Token
from owlt.results.lock import locked
from tests.unit.orchestrator.dashboard.conftest import COMPLETED, SMALL, Client
from tests.unit.reports.conftest import write_results

RUN = f"/sweeps/small/runs/{COMPLETED}/"
HERE = {"Origin": "http://localhost"}
TOKEN = "a-token-of-this-dashboard"
WAITING = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)"
REFUSING = "import sys; print('owlt: no kernel; run: owlt kernel build', file=sys.stderr); sys.exit(2)"
Started = list[tuple[Path, str, bool]]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return write_results(tmp_path / "small", SMALL, skip=lambda run: run.repetition > 1)


@pytest.fixture
def started() -> Started:
    """What was performed again: results, run, and whether with another seed."""
    return []


@pytest.fixture
def shown(results: Path, tmp_path: Path, started: Started) -> Callable[[str], FlaskClient]:
    """The dashboard with the token; a retry runs this program, whose argument is a file that ends it."""

    def client(program: str) -> FlaskClient:
        def command(directory: Path, run_id: str, new_seed: bool) -> list[str]:
            started.append((directory, run_id, new_seed))
            return [sys.executable, "-c", program, str(tmp_path / "end")]

        retries = Retries(tmp_path, command)
        app = new_app(Directories([results]), Background.of(PacketViews(tmp_path), retries=retries), token=Token(TOKEN))
        app.test_client_class = Client
        client = app.test_client()
        client.get(f"/?token={TOKEN}")
        return client

    return client


def ended(client: FlaskClient, deadline_s: float = 60.0) -> str:
    """The page's part about the retry, once that has ended."""
    end_s = time.monotonic() + deadline_s
    while "is being performed again" in (text := client.get(f"{RUN}again").text):
        assert time.monotonic() < end_s
        time.sleep(0.01)
    return text


def test_a_run_is_performed_again_while_its_page_says_so(
    shown: Callable[[str], FlaskClient], started: Started, results: Path, tmp_path: Path
) -> None:
    client = shown(WAITING)
    answer = client.post(f"{RUN}again", headers=HERE)
    during = client.get(RUN).text
    (tmp_path / "end").touch()

    assert (answer.status_code, started) == (303, [(results, COMPLETED, False)])
    assert "is being performed again" in during
    assert "has been performed again" in ended(client)


def test_another_seed_is_asked_for(shown: Callable[[str], FlaskClient], started: Started) -> None:
    client = shown("")
    client.post(f"{RUN}again", headers=HERE, data={"new_seed": "on"})

    assert [new_seed for _, _, new_seed in started] == [True]
    ended(client)


def test_the_problem_of_a_refused_retry_is_on_the_page(shown: Callable[[str], FlaskClient]) -> None:
    client = shown(REFUSING)
    client.post(f"{RUN}again", headers=HERE)

    assert "no kernel; run: owlt kernel build" in ended(client)


@pytest.mark.parametrize(
    ("status", "is_result"),
    [(0, True), (1, True), (SOME_FAILED_STATUS, True), (ASSERTION_STATUS, True), (USER_ERROR_STATUS, False)],
)
def test_a_retry_that_ends_with_a_result_is_no_problem_whether_or_not_the_sweep_meets_its_assertions(
    shown: Callable[[str], FlaskClient], status: int, is_result: bool
) -> None:
    client = shown(f"import sys; sys.exit({status})")
    client.post(f"{RUN}again", headers=HERE)

    text = ended(client)

    assert ("has been performed again" in text, f"status {status}" in text) == (is_result, not is_result)


@pytest.fixture
def lab_results(tmp_path: Path) -> Path:
    """A sweep on a lab rig."""
    sweep = SMALL.model_copy(update={"rig": "lab", "clock": "real"})
    return write_results(tmp_path / "rack", sweep, skip=lambda run: run.repetition > 1)


def test_the_pages_of_a_sweep_on_a_lab_rig_name_the_commands_and_have_no_button(
    lab_results: Path, tmp_path: Path
) -> None:
    client = new_app(Directories([lab_results]), Background.of(PacketViews(tmp_path)), token=Token(TOKEN)).test_client()
    before = client.get("/sweeps/rack/").text
    client.get(f"/?token={TOKEN}")
    sweep, run = client.get("/sweeps/rack/").text, client.get(f"/sweeps/rack/runs/{COMPLETED}/").text

    assert f"owlt extend {lab_results} --rig INVENTORY" in sweep
    assert f"owlt retry {lab_results} --run {COMPLETED} --rig INVENTORY" in run
    assert [words in sweep + run for words in ("Run again", "Add five repetitions", ">Add")] == [False] * 3
    assert "owlt extend" not in before


@pytest.mark.parametrize("path", ["extend", f"runs/{COMPLETED}/again"])
def test_a_request_for_runs_on_a_lab_rig_is_refused_and_starts_nothing(
    lab_results: Path, tmp_path: Path, path: str
) -> None:
    def refuse(*_: object) -> list[str]:
        raise AssertionError("a process was started")

    app = new_app(
        Directories([lab_results]),
        Background.of(PacketViews(tmp_path), retries=Retries(tmp_path, refuse, refuse)),
        token=Token(TOKEN),
    )
    client = app.test_client()
    client.get(f"/?token={TOKEN}")

    answer = client.post(f"/sweeps/rack/{path}", headers=HERE)

    assert (answer.status_code, "--rig INVENTORY" in answer.text) == (409, True)


def test_a_second_retry_waits_for_the_first(shown: Callable[[str], FlaskClient], tmp_path: Path) -> None:
    client = shown(WAITING)
    client.post(f"{RUN}again", headers=HERE)

    second = client.post(f"{RUN.replace('_r1', '_r2')}again", headers=HERE)

    (tmp_path / "end").touch()
    ended(client)
    assert (second.status_code, COMPLETED in second.text) == (409, True)


def test_nothing_can_be_performed_again_while_a_sweep_works_there(
    shown: Callable[[str], FlaskClient], results: Path
) -> None:
    with locked(results):
        page = shown("").get(RUN).text

    assert "A sweep works in this results directory" in page
    assert "Run again" not in page


def test_without_the_token_there_is_no_button_and_a_request_is_refused(
    results: Path, tmp_path: Path, started: Started
) -> None:
    client = new_app(Directories([results]), Background.of(PacketViews(tmp_path))).test_client()

    assert "Run again" not in client.get(RUN).text
    assert client.post(f"{RUN}again", headers=HERE).status_code == 403


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://evil.example"}])
def test_another_site_performs_nothing_even_with_the_cookie(
    shown: Callable[[str], FlaskClient], started: Started, headers: dict[str, str]
) -> None:
    answer = shown("").post(f"{RUN}again", headers=headers)

    assert (answer.status_code, started) == (403, [])


def test_the_command_is_what_a_user_would_type() -> None:
    command = owlt_retry(Path("/data/demo"), COMPLETED, True)

    assert command[1:] == ["-q", "retry", "/data/demo", "--run", COMPLETED, "--new-seed"]


@pytest.fixture
def extending(results: Path, tmp_path: Path) -> Callable[[str], FlaskClient]:
    """The dashboard; adding repetitions runs this program, whose argument is a file that ends it."""

    def client(program: str) -> FlaskClient:
        def command(_: Path) -> list[str]:
            return [sys.executable, "-c", program, str(tmp_path / "end")]

        retries = Retries(tmp_path, more=command)
        app = new_app(Directories([results]), Background.of(PacketViews(tmp_path), retries=retries), token=Token(TOKEN))
        app.test_client_class = Client
        return app.test_client()

    return client


def extended(client: FlaskClient, deadline_s: float = 60.0) -> str:
    """The part of the sweep's page about repetitions, once they are added."""
    end_s = time.monotonic() + deadline_s
    while "are being added" in (text := client.get("/sweeps/small/extend").text):
        assert time.monotonic() < end_s
        time.sleep(0.01)
    return text


def test_repetitions_are_added_from_the_page_of_a_sweep_while_it_says_so(
    extending: Callable[[str], FlaskClient], tmp_path: Path
) -> None:
    client = extending(WAITING)
    client.get(f"/?token={TOKEN}")
    before = client.get("/sweeps/small/").text
    answer = client.post("/sweeps/small/extend", headers=HERE)
    during = client.get("/sweeps/small/").text
    (tmp_path / "end").touch()

    assert "Add five repetitions" in before
    assert answer.status_code == 303
    assert "Repetitions are being added." in during
    assert "Five repetitions have been added." in extended(client)


def test_repetitions_are_added_with_the_token_and_from_the_dashboard_only(
    extending: Callable[[str], FlaskClient],
) -> None:
    client = extending(REFUSING)
    without_token = client.post("/sweeps/small/extend", headers=HERE).status_code
    page = client.get("/sweeps/small/").text
    client.get(f"/?token={TOKEN}")
    elsewhere = client.post("/sweeps/small/extend", headers={"Origin": "http://elsewhere"}).status_code

    assert (without_token, elsewhere) == (403, 403)
    assert "Add five repetitions" not in page


def test_neither_a_run_nor_more_repetitions_are_performed_while_repetitions_are_added(
    extending: Callable[[str], FlaskClient], tmp_path: Path
) -> None:
    client = extending(WAITING)
    client.get(f"/?token={TOKEN}")
    client.post("/sweeps/small/extend", headers=HERE)
    answers = [client.post(path, headers=HERE) for path in ("/sweeps/small/extend", f"{RUN}again")]
    (tmp_path / "end").touch()

    assert [answer.status_code for answer in answers] == [409, 409]
    assert all("repetitions are being added to the sweep" in answer.text for answer in answers)
    extended(client)


def test_the_reason_why_repetitions_were_not_added_is_shown(extending: Callable[[str], FlaskClient]) -> None:
    client = extending(REFUSING)
    client.get(f"/?token={TOKEN}")
    client.post("/sweeps/small/extend", headers=HERE)

    assert "no kernel; run: owlt kernel build" in extended(client)


def test_repetitions_are_added_with_the_command_that_a_user_would_type(tmp_path: Path) -> None:
    assert owlt_extend(tmp_path)[1:] == ["-q", "extend", str(tmp_path)]

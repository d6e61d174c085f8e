"""The emulator's panel: what it shows, how often it asks, and who may change the channel."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.service.client import EmulatorClient
from owlt.orchestrator.dashboard.app import Background, new_app
from owlt.orchestrator.dashboard.child_processes import PacketViews
from owlt.orchestrator.dashboard.emulator_page import ASK_EVERY_S, EmulatorWatch
from owlt.orchestrator.dashboard.index import Directories
from owlt.orchestrator.dashboard.protection import Token
from tests.memory.emulator import MemoryEmulator, MemoryTransport, memory_client
from tests.unit.orchestrator.dashboard.conftest import Client, Clock

CHANNEL = ChannelSpec.from_wire({"both": {"delay": "25 ms", "rate": "10 Mbit/s", "packet_error_rate": 0.01}})
HERE = {"Origin": "http://localhost"}
TOKEN = "a-token-of-this-dashboard"


@pytest.fixture
def emulator() -> MemoryEmulator:
    emulator = MemoryEmulator()
    emulator.configure(CHANNEL.to_wire())
    return emulator


@pytest.fixture
def seconds() -> Clock:
    return Clock()


@pytest.fixture
def client(emulator: MemoryEmulator, seconds: Clock, tmp_path: Path) -> FlaskClient:
    watch = EmulatorWatch(memory_client(emulator), seconds)
    app = new_app(Directories([], tmp_path), Background.of(PacketViews(tmp_path)), (), watch, Token(TOKEN))
    app.test_client_class = Client
    return app.test_client()


def with_token(client: FlaskClient) -> FlaskClient:
    client.get(f"/emulator/?token={TOKEN}")
    return client


def test_the_channel_is_shown_as_the_kernel_has_it(client: FlaskClient) -> None:
    page = client.get("/emulator/").text

    assert "delay 25 ms, 10 Mbit/s" in page


def test_counters_of_both_directions_are_shown(client: FlaskClient, emulator: MemoryEmulator) -> None:
    emulator.count("forward", "bottleneck", dropped_packets=123)

    page = client.get("/emulator/").text

    assert '<th scope="row">bottleneck: dropped packets</th><td class="number">123</td>' in page


def test_charts_have_rates_between_samples_and_the_queue(
    client: FlaskClient, emulator: MemoryEmulator, seconds: Clock
) -> None:
    client.get("/emulator/samples")
    emulator.count("forward", "pipe", packets=100, dropped_packets=4)
    emulator.count("forward", "bottleneck", waiting_packets=7, dropped_packets=6)
    seconds.now_s += 2 * ASK_EVERY_S

    series = client.get("/emulator/samples").json

    assert series is not None
    assert (series["forward_packets_per_s"], series["forward_dropped_per_s"], series["forward_waiting"]) == (
        [50.0],
        [5.0],
        [7],
    )
    assert series["reverse_packets_per_s"] == [0.0]


def test_a_new_channel_whose_counters_begin_again_leaves_a_gap(
    client: FlaskClient, emulator: MemoryEmulator, seconds: Clock
) -> None:
    emulator.count("forward", "pipe", packets=100)
    client.get("/emulator/samples")
    emulator.configure(CHANNEL.to_wire())
    seconds.now_s += 2 * ASK_EVERY_S

    series = client.get("/emulator/samples").json

    assert series is not None
    assert series["forward_packets_per_s"] == [None]


def test_the_emulator_is_asked_once_a_second_for_all_pages(
    client: FlaskClient, emulator: MemoryEmulator, seconds: Clock
) -> None:
    client.get("/emulator/")
    emulator.bypass()

    soon = client.get("/emulator/").text
    seconds.now_s += ASK_EVERY_S

    assert ("transparent bridge" in soon, "transparent bridge" in client.get("/emulator/").text) == (False, True)


def test_an_emulator_that_does_not_answer_is_a_problem_on_the_page(tmp_path: Path, emulator: MemoryEmulator) -> None:
    transport = MemoryTransport(emulator)
    transport.lost = ConnectionRefusedError("refused")
    watch = EmulatorWatch(EmulatorClient("http://memory", transport=transport))
    client = new_app(Directories([], tmp_path), Background.of(PacketViews(tmp_path)), (), watch).test_client()

    page = client.get("/emulator/")

    assert (page.status_code, "no answer to snapshot" in page.text) == (200, True)


def test_a_page_without_the_token_has_no_form(client: FlaskClient) -> None:
    assert "<form" not in client.get("/emulator/").text


def test_the_token_leaves_the_address_for_a_cookie_that_no_script_and_no_other_site_has(client: FlaskClient) -> None:
    answer = client.get(f"/emulator/?token={TOKEN}")

    assert (answer.status_code, answer.headers["Location"]) == (303, "/emulator/")
    assert {"HttpOnly", "SameSite=Strict"} <= set(answer.headers["Set-Cookie"].split("; "))
    assert "<form" in client.get("/emulator/").text


def test_a_wrong_token_is_refused(client: FlaskClient) -> None:
    assert client.get("/emulator/?token=guess").status_code == 403


def test_values_are_changed_with_the_token_and_others_stay(client: FlaskClient, emulator: MemoryEmulator) -> None:
    values = {"direction": "reverse", "delay": "300 ms", "rate": "", "packet_error_rate": ""}

    answer = with_token(client).post("/emulator/change", data=values, headers=HERE)

    channel = memory_client(emulator).describe()
    assert answer.status_code == 303
    assert (channel.reverse.delay_ns, channel.forward.delay_ns) == (300_000_000, 25_000_000)
    assert channel.reverse.rate_bps == channel.forward.rate_bps
    assert "delay 300 ms" in client.get("/emulator/").text


def test_nothing_changes_without_the_token(client: FlaskClient, emulator: MemoryEmulator) -> None:
    answer = client.post("/emulator/change", data={"direction": "both", "delay": "1 s"}, headers=HERE)

    assert answer.status_code == 403
    assert memory_client(emulator).describe().forward.delay_ns == 25_000_000


@pytest.mark.parametrize("headers", [{}, {"Origin": "http://evil.example"}])
def test_another_site_changes_nothing_even_with_the_cookie(
    client: FlaskClient, emulator: MemoryEmulator, headers: dict[str, str]
) -> None:
    answer = with_token(client).post("/emulator/change", data={"direction": "both", "delay": "1 s"}, headers=headers)

    assert answer.status_code == 403
    assert memory_client(emulator).describe().forward.delay_ns == 25_000_000


@pytest.mark.parametrize(
    ("values", "status", "problem"),
    [
        ({"direction": "up", "delay": "1 s"}, 400, "expected forward, reverse or both"),
        ({"direction": "both"}, 400, "at least one of"),
        ({"direction": "both", "packet_error_rate": "much"}, 400, "expected a number"),
        ({"direction": "both", "delay": "soon"}, 409, "the channel is unchanged"),
    ],
)
def test_a_value_that_is_none_is_refused_with_what_is_expected(
    client: FlaskClient, values: dict[str, str], status: int, problem: str
) -> None:
    answer = with_token(client).post("/emulator/change", data=values, headers=HERE)

    assert (answer.status_code, problem in answer.text) == (status, True)


def test_a_change_is_refused_while_a_run_holds_the_emulator(emulator: MemoryEmulator, tmp_path: Path) -> None:
    transport = MemoryTransport(emulator)
    EmulatorClient("http://memory", transport=transport).lease("owlt, sweep demo", 60)
    watch = EmulatorWatch(EmulatorClient("http://memory", transport=transport))
    app = new_app(Directories([], tmp_path), Background.of(PacketViews(tmp_path)), (), watch, Token(TOKEN))
    client = with_token(app.test_client())

    answer = client.post("/emulator/change", data={"direction": "both", "delay": "1 s"}, headers=HERE)

    assert (answer.status_code, "owlt, sweep demo" in answer.text) == (409, True)
    assert "Held by owlt, sweep demo" in client.get("/emulator/").text


def test_a_dashboard_without_an_emulator_has_no_panel(tmp_path: Path) -> None:
    client = new_app(Directories([], tmp_path), Background.of(PacketViews(tmp_path))).test_client()

    assert client.get("/emulator/").status_code == 404
    assert re.findall("/emulator/", client.get("/").text) == []

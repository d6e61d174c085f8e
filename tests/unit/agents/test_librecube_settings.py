"""What can be chosen about a transfer with LibreCube's engine, and the profile that chooses it."""

import math
from pathlib import Path

import pytest

from owlt.agents.contract.implementation import load_implementation
from owlt.agents.contract.placeholders import RunValues
from owlt.agents.librecube.__main__ import _parser
from owlt.agents.librecube.entity import Entity, OneFile
from owlt.agents.librecube.settings import LARGEST_FILE_BYTES, Settings

REPOSITORY = Path(__file__).parents[3]

PROFILE = REPOSITORY / "profiles" / "implementations" / "cfdp-librecube.yaml"


def test_the_endpoint_understands_the_commands_of_its_profile(run_values: RunValues) -> None:
    filled = load_implementation(PROFILE).rendered(run_values.as_text(), {})

    for side in (filled.sender, filled.receiver):
        options = vars(_parser().parse_args(side.command[3:]))
        chosen = {name: value for name, value in options.items() if name not in ("side", "path", "local", "peer")}
        assert Settings(**chosen) == Settings(rate_bps=run_values.rate_bps or 0, rtt_s=run_values.rtt_s)


def test_the_profile_knows_the_largest_file() -> None:
    assert load_implementation(PROFILE).limits.largest_file_bytes == LARGEST_FILE_BYTES


def test_a_timer_covers_the_light_the_channel_and_the_margin() -> None:
    settings = Settings(rate_bps=9600, rtt_s=2.5)

    assert settings.ack_interval_s == pytest.approx(2.5 + 2 * 8 * (1000 + 11 + 42) / 9600 + 0.1, abs=0.001)


@pytest.fixture
def sender(tmp_path: Path) -> Entity:
    """An entity that has just been told to send 3 kB, at 100 s."""
    (tmp_path / "file").write_bytes(bytes(3000))
    timing = Settings(rate_bps=0, rtt_s=1, ack_timer_s=5, ack_limit=2, idle_limit_s=60)
    sent: list[bytes] = []
    entity = Entity(101, OneFile(tmp_path / "file"), timing, sent.append)
    entity.now_s = 100.0
    entity.send_file("file", 102, 1000)
    return entity


def test_an_entity_has_no_thread_and_no_timer_that_runs_before_its_eof(sender: Entity) -> None:
    sender.close()

    assert not sender._event_thread.is_alive()
    assert not sender._message_thread.is_alive()
    assert sender.due_s == math.inf


def test_a_timer_is_due_when_the_librarys_thread_would_wake(sender: Entity) -> None:
    sender.now_s = 107.0
    while sender.can_send:
        sender.send_next()

    assert sender.due_s == 107 + 5
    sender.close()
    assert sender.due_s == math.inf


def test_the_ack_limit_ends_a_transaction_without_answers(sender: Entity) -> None:
    while sender.can_send:
        sender.send_next()
    wakings = []
    while sender.outcome is None:
        sender.now_s = sender.due_s
        wakings.append(sender.now_s)
        sender.fire_timers()

    assert wakings[0] == 105.0
    assert sender.outcome == "ABANDONED"
    assert wakings[-1] <= 100 + 60

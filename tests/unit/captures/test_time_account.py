"""The time account of a run: sums of its critical path, kept while captures and case stay the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from owlt.captures.accounting.summary import read_both
from owlt.captures.inspection.critical_path import KINDS
from owlt.captures.inspection.inspection import Case, inspect
from owlt.captures.inspection.time_account import TIME, NoTime, load_account, load_or_account
from owlt.captures.matches.matching import match_captures
from owlt.captures.protocols.messages import Message
from owlt.captures.protocols.view import read_exchange, read_sent
from tests.unit.captures.making import RECEIVER_MAC, SESSION, Timed, later, timed, write_pcap
from tests.unit.captures.octets import CFDP, CFDP_RUN

CASE = Case(session=SESSION, dissector=CFDP, file_size_bytes=2500)
MS = 1_000_000


def run_of(directory: Path, frames: list[Timed], delay_ns: int = 5 * MS) -> Path:
    """The captures of a run, in which each packet needs the delay."""
    directory.mkdir()
    of_receiver = [frame for frame in frames if frame[1][6:12].hex(":") == RECEIVER_MAC]
    of_sender = [frame for frame in frames if frame not in of_receiver]
    write_pcap(directory / "sender.pcap", sorted([*of_sender, *later(of_receiver, delay_ns)]))
    write_pcap(directory / "receiver.pcap", sorted([*later(of_sender, delay_ns), *of_receiver]))
    return directory


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_of(tmp_path / "run", timed(CFDP_RUN, step_ns=20 * MS))


def test_the_times_sum_to_the_session(run: Path) -> None:
    account = load_or_account(run, CASE)

    assert sum(each.total_ns for each in account.spent) == account.session_ns == 9 * 20 * MS


def test_the_times_are_those_of_the_critical_path_that_the_run_s_page_draws(run: Path) -> None:
    path = inspect(*read_both(run / "sender.pcap", run / "receiver.pcap"), CASE).path
    assert path is not None
    account = load_or_account(run, CASE)

    for kind in KINDS:
        assert account.total_ns([kind]) == sum(part.length_ns for part in path.parts if part.kind == kind)
    assert account.total_ns(["waiting"], host="receiver") >= 15 * MS


def test_the_messages_of_a_host_at_its_port_do_not_need_those_that_arrive_there(run: Path) -> None:
    crossing = match_captures(*read_both(run / "sender.pcap", run / "receiver.pcap"), SESSION)
    exchange = read_exchange(crossing, SESSION, CFDP)

    def needed(found: list[Message]) -> list[Message]:
        return [replace(message, acknowledged_bytes=None) for message in found]

    sent, answered = read_sent(crossing, SESSION, CFDP)

    assert needed(sent) == needed(exchange.of_sender)
    assert needed(answered) == needed(exchange.of_receiver)


def test_an_account_is_kept_while_captures_and_case_stay_the_same(run: Path) -> None:
    made = load_or_account(run, CASE)
    written = (run / TIME).read_bytes()

    assert load_or_account(run, CASE) == made
    assert (run / TIME).read_bytes() == written
    assert load_account(run) == made


def test_an_account_is_made_again_when_the_case_changes(run: Path) -> None:
    first = load_or_account(run, CASE)
    delivered_ns = timed(CFDP_RUN, step_ns=20 * MS)[7][0] + 5 * MS

    again = load_or_account(run, replace(CASE, file_delivered_at_ns=delivered_ns))

    assert (first.delivered_ns, again.delivered_ns) == (3 * 20 * MS + 5 * MS, 7 * 20 * MS + 5 * MS)


def test_a_damaged_account_is_none(run: Path) -> None:
    load_or_account(run, CASE)
    (run / TIME).write_text("{}")

    assert load_account(run) is None


@pytest.mark.parametrize("change", [{"session_ns": 0, "spent": []}, {"spent": []}, {"session_ns": 1}])
def test_an_account_whose_parts_are_not_the_session_is_none(run: Path, change: dict[str, object]) -> None:
    load_or_account(run, CASE)
    values = json.loads((run / TIME).read_text())
    (run / TIME).write_text(json.dumps(values | change))

    assert load_account(run) is None


def test_a_single_packet_has_no_time(tmp_path: Path) -> None:
    run = run_of(tmp_path / "run", timed(CFDP_RUN[:1]))

    with pytest.raises(NoTime):
        load_or_account(run, CASE)

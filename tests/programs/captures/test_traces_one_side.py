"""The traces of one capture: the same offsets as from both, and nothing of the port that was not seen."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP
from scapy.packet import Raw

from owlt.captures.frames.columns import Columns, read_columns
from owlt.captures.frames.session import Host
from owlt.captures.inspection.packet_tables import trace_rows
from owlt.captures.inspection.traces import Traces, throughput, trace_one_side, trace_run
from owlt.captures.matches.matching import match_captures
from owlt.captures.protocols.messages import messages
from tests.unit.captures.making import RECEIVER, SENDER, SESSION, START_NS, Timed, ethernet, write_pcap

OWD_NS, STEP_NS = 25_000_000, 1_000_000
HOSTS: list[Host] = ["sender", "receiver"]


def segment(first: int, count: int = 1000) -> bytes:
    """Of the file, sent over TCP."""
    header = ethernet() / IP(src=SENDER, dst=RECEIVER) / TCP(sport=40000, dport=5223, seq=first, ack=1, flags="PA")
    return bytes(header / Raw(bytes([first // 1000 % 256]) * count))


def answer(number: int) -> bytes:
    header = IP(src=RECEIVER, dst=SENDER) / TCP(sport=5223, dport=40000, seq=1, ack=number, flags="A")
    return bytes(ethernet() / header)


def flipped(frame: bytes, at: int) -> bytes:
    return frame[:at] + bytes([frame[at] ^ 1]) + frame[at + 1 :]


FIRSTS = (0, 1000, 2000, 1000, 3000)
FORWARD = [segment(first) for first in FIRSTS]
ANSWERS = [answer(first + 1000) for first in (0, 1000, 2000, 2000, 3000)]


def captured(folder: Path, forward: list[bytes] = FORWARD) -> tuple[Columns, Columns]:
    """Both captures; each packet is answered when it comes. `forward` are the frames as they came."""
    sent = [(START_NS + n * STEP_NS, frame) for n, frame in enumerate(FORWARD)]
    came = [(time_ns + OWD_NS, frame) for (time_ns, _), frame in zip(sent, forward, strict=True)]
    answered: list[Timed] = [(time_ns + 1000, frame) for (time_ns, _), frame in zip(came, ANSWERS, strict=True)]
    returned = [(time_ns + OWD_NS, frame) for time_ns, frame in answered]
    at_sender = write_pcap(folder / "sender.pcap", sorted([*sent, *returned]))
    at_receiver = write_pcap(folder / "receiver.pcap", sorted([*came, *answered]))
    return read_columns(at_sender), read_columns(at_receiver)


def one_sided(folder: Path, seen_at: Host, forward: list[bytes] = FORWARD) -> Traces:
    capture = captured(folder, forward)[HOSTS.index(seen_at)]
    return trace_one_side(capture, SESSION, seen_at, messages(capture, SESSION, ()))


def test_at_the_sender_offsets_and_acknowledgements_are_those_of_both_captures(tmp_path: Path) -> None:
    both = captured(tmp_path)
    traces = trace_run(match_captures(*both, SESSION))
    alone = trace_one_side(both[0], SESSION, "sender")

    for known, same in ((traces.data, alone.data), (traces.acknowledgements, alone.acknowledgements)):
        assert known is not None
        assert same is not None
        for name, values in asdict(known).items():
            assert np.array_equal(values, getattr(same, name)), name
    assert traces.data is not None
    assert traces.data.again.tolist() == [False, False, False, True, False]


def test_at_the_receiver_times_are_those_of_arrivals_and_of_answers_as_they_leave(tmp_path: Path) -> None:
    traces = one_sided(tmp_path, "receiver")

    assert traces.data is not None
    assert traces.acknowledgements is not None
    assert traces.data.sent_ns.tolist() == [n * STEP_NS for n in range(5)]
    assert traces.acknowledgements.arrived_ns.tolist() == [n * STEP_NS + 1000 for n in range(5)]
    assert traces.acknowledgements.acknowledged_bytes.tolist() == [1000, 2000, 3000, 3000, 4000]


@pytest.mark.parametrize(
    ("seen_at", "seen"),
    [("sender", ("forward_sent", "reverse_delivered")), ("receiver", ("forward_delivered", "reverse_sent"))],
)
def test_what_was_not_seen_is_no_column(tmp_path: Path, seen_at: Host, seen: tuple[str, str]) -> None:
    tables = trace_rows(one_sided(tmp_path, seen_at))

    ways = {name.removesuffix("_bytes") for name in tables["throughput"] if name.startswith(("forward", "reverse"))}
    assert {name for name in ways if not name.endswith("_bps")} == set(seen)
    assert set(tables) == {"throughput", "data", "acknowledgements"}


@pytest.mark.parametrize("seen_at", HOSTS)
def test_the_intervals_hold_every_byte_that_was_seen(tmp_path: Path, seen_at: Host) -> None:
    counted = throughput(one_sided(tmp_path, seen_at), STEP_NS)

    forward = counted.forward_sent_bytes if seen_at == "sender" else counted.forward_delivered_bytes
    reverse = counted.reverse_delivered_bytes if seen_at == "sender" else counted.reverse_sent_bytes
    assert forward is not None
    assert reverse is not None
    assert (forward.sum(), reverse.sum()) == (sum(map(len, FORWARD)), sum(map(len, ANSWERS)))


def test_a_segment_that_came_damaged_places_no_data(tmp_path: Path) -> None:
    sequence_at = 14 + 20 + 5
    traces = one_sided(tmp_path, "receiver", [*FORWARD[:2], flipped(FORWARD[2], sequence_at), *FORWARD[3:]])

    assert traces.data is not None
    assert traces.data.first_byte.tolist() == [first for n, first in enumerate(FIRSTS) if n != 2]
    assert len(traces.forward.delivered_ns) == 5


def test_a_capture_without_the_session_has_empty_traces(tmp_path: Path) -> None:
    capture = read_columns(write_pcap(tmp_path / "none.pcap", []))
    traces = trace_one_side(capture, SESSION, "sender")

    assert (traces.length_ns, traces.data, traces.acknowledgements) == (0, None, None)

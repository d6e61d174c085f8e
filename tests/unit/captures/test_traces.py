"""Traces: every byte in its interval, every offset as tshark has it, the queue as a simulated bottleneck had it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from owlt.captures.frames.columns import Columns
from owlt.captures.frames.session import Host
from owlt.captures.inspection.packet_tables import trace_rows
from owlt.captures.inspection.traces import Traces, choose_interval_ns, throughput, trace_run
from owlt.captures.matches.bottleneck import Link, Queue
from owlt.captures.matches.delivery import INTACT, Crossing, Delivery
from owlt.captures.protocols.messages import Message
from tests.unit.captures.making import START_NS

MS, S = 10**6, 10**9
OWD_NS = 25 * MS
SYN, RST, ACK, PUSH = 0x02, 0x04, 0x10, 0x08


def message(frame: int, time_ns: int, host: Host, wire_bytes: int = 1000, **says: Any) -> Message:
    """A message of which only matters what it says of the file."""
    return Message(frame, time_ns, host, wire_bytes, wire_bytes - 42, "message", **says)


@dataclass(frozen=True)
class Sent:
    """A packet of one host: when it was sent, and when it arrived, None if it did not."""

    at_ns: int
    arrived_ns: int | None
    wire_bytes: int = 1000
    damaged: bool = False
    payload_bytes: int = 0
    sequence: int = 0
    acknowledgment: int = 0
    flags: int = ACK
    port: int = 40000


def columns(rows: list[tuple[int, Sent]], forward: set[int], *, tcp: bool) -> Columns:
    """A capture of these packets; `forward` are the places of those from the sender."""

    class Capture:
        time_ns = START_NS + np.array([time for time, _ in rows], np.int64)
        wire_bytes = np.array([sent.wire_bytes for _, sent in rows], np.uint32)
        is_cut = np.zeros(len(rows), np.bool_)
        protocol = np.full(len(rows), 6 if tcp else 17, np.uint8)
        payload_bytes = np.array([sent.payload_bytes for _, sent in rows], np.uint32)
        sequence = np.array([sent.sequence % 2**32 for _, sent in rows], np.uint32)
        acknowledgment = np.array([sent.acknowledgment % 2**32 for _, sent in rows], np.uint32)
        tcp_flags = np.array([sent.flags for _, sent in rows], np.uint16)
        source_port = np.array([sent.port if n in forward else 5223 for n, (_, sent) in enumerate(rows)], np.uint16)
        destination_port = np.array(
            [5223 if n in forward else sent.port for n, (_, sent) in enumerate(rows)], np.uint16
        )

        def __len__(self) -> int:
            return len(rows)

    return cast(Columns, Capture())


def traced(
    from_sender: list[Sent],
    from_receiver: list[Sent] = [],  # noqa: B006
    messages: list[Message] = [],  # noqa: B006
    link: Link | None = None,
    *,
    tcp: bool = False,
) -> Traces:
    """The traces of a run with these packets, each known in both captures."""
    sender_rows = sorted(
        [(sent.at_ns, 0, n) for n, sent in enumerate(from_sender)]
        + [(sent.arrived_ns, 1, n) for n, sent in enumerate(from_receiver) if sent.arrived_ns is not None]
    )
    receiver_rows = sorted(
        [(sent.arrived_ns, 0, n) for n, sent in enumerate(from_sender) if sent.arrived_ns is not None]
        + [(sent.at_ns, 1, n) for n, sent in enumerate(from_receiver)]
    )
    hosts = (from_sender, from_receiver)
    captures = [
        columns(
            [(time, hosts[way][n]) for time, way, n in rows],
            {place for place, (_, way, _) in enumerate(rows) if way == 0},
            tcp=tcp,
        )
        for rows in (sender_rows, receiver_rows)
    ]

    def delivery(way: int) -> Delivery:
        near_rows, far_rows = (sender_rows, receiver_rows)[:: 1 - 2 * way]
        near = {n: place for place, (_, its_way, n) in enumerate(near_rows) if its_way == way}
        far = {n: place for place, (_, its_way, n) in enumerate(far_rows) if its_way == way}
        pairs = np.array([(near[n], place) for n, place in far.items()], np.int64).reshape(-1, 2)
        times = (captures[way].time_ns, captures[1 - way].time_ns)
        bits = np.array([5 if hosts[way][n].damaged else INTACT for n in far], np.int64)
        return Delivery(
            np.array(list(near.values()), np.int64),
            np.array(list(far.values()), np.int64),
            pairs[:, 0],
            pairs[:, 1],
            bits,
            times[1][pairs[:, 1]] - times[0][pairs[:, 0]],
        )

    return trace_run(Crossing(captures[0], captures[1], delivery(0), delivery(1)), messages, link, link)


def paced(count: int, step_ns: int = MS, wire_bytes: int = 1000, start_ns: int = 0) -> list[Sent]:
    return [Sent(start_ns + n * step_ns, start_ns + n * step_ns + OWD_NS, wire_bytes) for n in range(count)]


packets = st.lists(
    st.tuples(st.integers(0, 10**9), st.none() | st.integers(0, 10**8), st.integers(60, 1514)), min_size=1, max_size=60
).map(lambda drawn: [Sent(at, None if delay is None else at + delay, size) for at, delay, size in drawn])


@settings(max_examples=60, deadline=None)
@given(packets, packets, st.none() | st.integers(2_000, 10**10))
def test_the_intervals_hold_every_byte_that_was_sent_and_delivered(
    from_sender: list[Sent], from_receiver: list[Sent], interval_ns: int | None
) -> None:
    counted = throughput(traced(from_sender, from_receiver), interval_ns)

    for sent, near, far in (
        (from_sender, counted.forward_sent_bytes, counted.forward_delivered_bytes),
        (from_receiver, counted.reverse_sent_bytes, counted.reverse_delivered_bytes),
    ):
        assert near.sum() == sum(packet.wire_bytes for packet in sent)
        assert far.sum() == sum(packet.wire_bytes for packet in sent if packet.arrived_ns is not None)
        assert (counted.bps(near) * counted.interval_ns / 8e9).sum() == pytest.approx(near.sum())


def test_the_first_interval_begins_with_the_first_packet_and_has_what_comes_before_its_end() -> None:
    late = 123_456_789
    counted = throughput(traced([Sent(late + at, None, 100 + n) for n, at in enumerate((0, MS - 1, MS))]), MS)

    assert counted.forward_sent_bytes.tolist() == [201, 102]
    assert counted.start_ns.tolist() == [0, MS]
    assert counted.bps(counted.forward_sent_bytes)[0] == 8 * 201 * 1000


def test_a_receiver_that_speaks_first_sends_the_first_packet() -> None:
    traces = traced([Sent(OWD_NS, 2 * OWD_NS)], [Sent(0, OWD_NS)])

    assert (traces.first_packet_ns, traces.length_ns) == (START_NS, 2 * OWD_NS)
    assert traces.forward.sent_ns.tolist() == [OWD_NS]


@settings(max_examples=200, deadline=None)
@given(st.integers(1_000, 10**17))
def test_80_to_200_round_intervals_make_a_session(length_ns: int) -> None:
    interval_ns = choose_interval_ns(length_ns)

    assert 79 <= length_ns / interval_ns <= 200
    assert str(interval_ns).rstrip("0") in {"1", "2", "5"}


def test_an_interval_has_room_for_ten_paced_packets() -> None:
    traces = traced(paced(40, step_ns=872_000))

    assert throughput(traces).interval_ns == 10 * MS
    assert throughput(traces).forward_sent_bytes[:3].tolist() == [12_000, 11_000, 12_000]


def test_an_interval_has_room_for_four_packets_of_a_slower_direction_with_a_pace() -> None:
    assert throughput(traced(paced(1000), paced(60, step_ns=85 * MS))).interval_ns == 500 * MS
    assert throughput(traced(paced(1000), paced(10, step_ns=85 * MS))).interval_ns == 10 * MS


@pytest.mark.parametrize("interval_ns", [0, -5, 9])
def test_intervals_that_are_none_or_too_many_are_refused(interval_ns: int) -> None:
    with pytest.raises(ValueError, match=r"^interval: expected at least 11 ns .*, got -?[059] ns$"):
        throughput(traced([Sent(0, 10_000_000)]), interval_ns)


def test_a_run_without_a_packet_of_the_session_has_empty_traces() -> None:
    traces = traced([], [], link=Link(OWD_NS, 1e6))

    assert (traces.length_ns, len(traces.forward.sent_ns), traces.data) == (0, 0, None)
    assert throughput(traces).forward_sent_bytes.tolist() == [0]
    assert set(trace_rows(traces)) == {"throughput"} | {
        f"{name}_{way}" for name in ("delays", "queue", "losses") for way in ("forward", "reverse")
    }


def segments(isn: int, *parts: tuple[int, int]) -> list[Sent]:
    """A SYN, then these parts (first byte, count) of its stream, a millisecond apart."""
    return [Sent(0, OWD_NS, flags=SYN, sequence=isn)] + [
        Sent((n + 1) * MS, (n + 1) * MS + OWD_NS, payload_bytes=count, sequence=isn + 1 + first)
        for n, (first, count) in enumerate(parts)
    ]


@pytest.mark.parametrize("isn", [0, 1000, 2**32 - 1500, 2**32 - 1])
def test_tcp_offsets_count_from_the_syn_across_the_end_of_the_numbers(isn: int) -> None:
    data = traced(segments(isn, (0, 1000), (1000, 1000), (2000, 500)), tcp=True).data

    assert data is not None
    assert data.first_byte.tolist() == [0, 1000, 2000]
    assert data.end_byte.tolist() == [1000, 2000, 2500]
    assert data.sent_ns.tolist() == [MS, 2 * MS, 3 * MS]


def test_a_stream_longer_than_its_numbers_goes_on() -> None:
    step = 2**30
    data = traced(segments(7, *((n * step, 1000) for n in range(9))), tcp=True).data

    assert data is not None
    assert data.first_byte.tolist() == [n * step for n in range(9)]


def test_of_a_stream_without_its_syn_the_first_byte_seen_is_the_first() -> None:
    data = traced(segments(99, (500, 100), (400, 100), (600, 100))[1:], tcp=True).data

    assert data is not None
    assert data.first_byte.tolist() == [100, 0, 200]


def test_octets_of_resets_and_keep_alives_are_no_data() -> None:
    sent = segments(5000, (0, 1000), (1000, 1000))
    before, between = (
        Sent(at_ns, at_ns + OWD_NS, payload_bytes=1, sequence=sequence) for at_ns, sequence in ((1, 5000), (S, 7000))
    )
    reset = Sent(2 * S, 2 * S + OWD_NS, payload_bytes=22, sequence=7001, flags=RST | ACK)
    data = traced([sent[0], before, *sent[1:], between, reset], tcp=True).data

    assert data is not None
    assert (data.first_byte.tolist(), data.new_bytes.tolist()) == ([0, 1000], [1000, 1000])


def test_a_reset_alone_is_no_stream() -> None:
    reset = Sent(0, OWD_NS, payload_bytes=22, sequence=7001, flags=RST)

    assert traced([reset], tcp=True).data is None


def test_what_was_sent_before_is_sent_again_and_the_rest_of_a_segment_is_new() -> None:
    data = traced(segments(0, (0, 1000), (2000, 1000), (0, 1000), (500, 1000)), tcp=True).data

    assert data is not None
    assert data.new_bytes.tolist() == [1000, 1000, 0, 500]
    assert data.again.tolist() == [False, False, True, False]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), min_size=1, max_size=40))
def test_new_bytes_are_those_of_no_part_before(parts: list[tuple[int, int]]) -> None:
    messages = [
        message(n + 1, START_NS + n, "sender", 100, first_byte=first, byte_count=count)
        for n, (first, count) in enumerate(parts)
    ]
    data = traced([Sent(0, OWD_NS)], messages=messages).data
    seen: set[int] = set()
    new = []
    for first, count in parts:
        part = set(range(first, first + count))
        new.append(len(part - seen))
        seen |= part

    assert data is not None
    assert data.new_bytes.tolist() == new


def test_a_connection_with_less_data_is_left_out() -> None:
    control = [Sent(10 * MS + n, None, payload_bytes=9, sequence=n, port=40001) for n in range(3)]
    data = traced(segments(0, (0, 1000)) + control, tcp=True).data

    assert data is not None
    assert data.byte_count.tolist() == [1000]


def attempts(*attempts_of: tuple[int, int]) -> list[Sent]:
    """Connections of the same ports, a second apart: initial sequence number and packets of 1,000 bytes of each."""
    return [
        replace(sent, at_ns=sent.at_ns + number * S)
        for number, (isn, count) in enumerate(attempts_of)
        for sent in segments(isn, *((1000 * n, 1000) for n in range(count)))
    ]


@pytest.mark.parametrize("other_isn", [5_000_000, 0x4FFF_FFFF, 0x9000_0000, 2**32 - 1])
@pytest.mark.parametrize("order", [1, -1])
def test_of_ports_that_were_used_again_the_connection_with_most_data_counts_alone(other_isn: int, order: int) -> None:
    data = traced(attempts(*[(7, 5), (other_isn, 10)][::order]), tcp=True).data

    assert data is not None
    assert data.first_byte.tolist() == [1000 * n for n in range(10)]


def test_a_refused_attempt_before_it_has_no_part_in_the_offsets() -> None:
    refusal = answers(0x1000_0000, 0)
    of_the_file = [
        replace(each, at_ns=each.at_ns + S, arrived_ns=each.at_ns + S) for each in answers(0xD000_0000, 1000, 3000)
    ]
    traces = traced(attempts((0x1000_0000, 0), (0xD000_0000, 3)), refusal + of_the_file, tcp=True)

    assert traces.data is not None and traces.acknowledgements is not None
    assert traces.data.first_byte.tolist() == [0, 1000, 2000]
    assert traces.acknowledgements.acknowledged_bytes.tolist() == [1000, 3000]


def test_a_syn_that_is_sent_again_begins_no_other_connection() -> None:
    again = [Sent(S, S + OWD_NS, flags=SYN, sequence=7)]
    after = [replace(each, at_ns=each.at_ns + 2 * S) for each in segments(7, (0, 9))[1:]]
    data = traced(segments(7)[:1] + again + after, tcp=True).data

    assert data is not None
    assert data.first_byte.tolist() == [0]


def answers(isn: int, *acknowledged: int, damaged: int = -1) -> list[Sent]:
    return [
        Sent(n * MS + 50 * MS, n * MS + 50 * MS + OWD_NS, 54, n == damaged, acknowledgment=isn + 1 + byte)
        for n, byte in enumerate(acknowledged)
    ]


@pytest.mark.parametrize("isn", [5, 2**32 - 700])
def test_acknowledgements_count_when_they_arrive_and_no_further_than_the_data(isn: int) -> None:
    behind_the_fin = 2001
    traces = traced(segments(isn, (0, 1000), (1000, 1000)), answers(isn, 1000, 2000, behind_the_fin), tcp=True)

    assert traces.acknowledgements is not None
    assert traces.acknowledgements.acknowledged_bytes.tolist() == [1000, 2000, 2000]
    assert traces.acknowledgements.arrived_ns.tolist() == [75 * MS, 76 * MS, 77 * MS]


def test_a_damaged_acknowledgement_says_nothing() -> None:
    traces = traced(segments(5, (0, 1000), (1000, 1000)), answers(5, 1000, 2000, damaged=0), tcp=True)

    assert traces.acknowledgements is not None
    assert traces.acknowledgements.acknowledged_bytes.tolist() == [2000]


def test_messages_give_the_offsets_of_what_is_no_tcp() -> None:
    messages = [
        message(3, START_NS + 3 * MS, "receiver", 60, acknowledged_bytes=900),
        message(2, START_NS + 2 * MS, "sender", first_byte=0, byte_count=900),
        message(1, START_NS + MS, "sender", first_byte=0, byte_count=900),
        message(4, START_NS + 4 * MS, "sender", 70),
        message(5, START_NS + 5 * MS, "receiver", 80),
    ]
    traces = traced(paced(6), messages=messages)

    assert traces.data is not None
    assert traces.acknowledgements is not None
    assert (traces.data.frame.tolist(), traces.data.new_bytes.tolist()) == ([1, 2], [900, 0])
    assert traces.acknowledgements.acknowledged_bytes.tolist() == [900]
    assert traces.acknowledgements.arrived_ns.tolist() == [3 * MS]


def test_a_frame_with_several_parts_counts_once_and_is_new_if_any_is() -> None:
    parts = [(1, 0), (2, 0), (2, 500), (3, 500), (3, 0), (4, 1000), (4, 0)]
    messages = [
        message(frame, START_NS + frame * MS, "sender", 1100, first_byte=first, byte_count=500)
        for frame, first in parts
    ]
    counted = throughput(traced(paced(6), messages=messages), S)

    assert counted.new_bytes is not None
    assert counted.again_bytes is not None
    assert (counted.new_bytes.tolist(), counted.again_bytes.tolist()) == ([3300], [1100])


def test_data_of_which_the_place_is_unknown_is_counted_apart() -> None:
    messages = [
        message(1, START_NS, "sender", first_byte=0, byte_count=500),
        message(2, START_NS + MS, "sender", byte_count=500, unplaced=True),
    ]
    data = traced(paced(2), messages=messages).data

    assert data is not None
    assert (data.frame.tolist(), data.unplaced_frames) == ([1], 1)


def test_where_no_packet_tells_there_are_no_offsets() -> None:
    traces = traced(paced(3), messages=[message(1, START_NS, "sender")])

    assert (traces.data, traces.acknowledgements) == (None, None)
    assert throughput(traces).new_bytes is None


def test_packets_wait_for_what_propagation_and_their_own_bits_do_not_explain() -> None:
    link = Link(OWD_NS, 8e6)
    traces = traced([Sent(0, OWD_NS + MS), Sent(0, OWD_NS + 2 * MS), Sent(5 * MS, 6 * MS + OWD_NS)], link=link)

    assert traces.forward.delays.waiting_ns is not None
    assert traces.forward.delays.waiting_ns.tolist() == [0, MS, 0]
    assert traces.forward.delays.delay_ns.tolist() == [OWD_NS + MS, OWD_NS + 2 * MS, OWD_NS + MS]


def test_overhead_takes_its_time_of_the_rate() -> None:
    assert Link(0, 8e6, overhead_bytes=24).serialization_ns(np.array([1000])).tolist() == [1_024_000]


def test_without_a_known_rate_nothing_is_said_of_waiting() -> None:
    traces = traced(paced(3))

    assert (traces.forward.delays.waiting_ns, traces.forward.queue) == (None, None)
    assert traces.forward.delays.delay_ns.tolist() == [OWD_NS] * 3


@pytest.mark.parametrize("wrong", [{"rate_bps": 0}, {"rate_bps": float("nan")}, {"delay_ns": -1}])
def test_a_link_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected a rate above 0"):
        Link(**({"delay_ns": 0, "rate_bps": 1e6} | wrong))  # type: ignore[arg-type]


def bottleneck(
    arrivals: list[tuple[int, int]], link: Link, limit: int, lost_behind: set[int]
) -> tuple[list[Sent], list[tuple[int, int]]]:
    """Packets (when, bytes) through a queue of `limit` places, some lost behind it; and (in, out) of those it took."""
    sent, inside, free_ns = [], [], 0
    for number, (at_ns, wire_bytes) in enumerate(arrivals):
        if sum(out > at_ns for _, out in inside) >= limit:
            sent.append(Sent(at_ns, None, wire_bytes))
            continue
        free_ns = max(free_ns, at_ns) + int(link.serialization_ns(np.array([wire_bytes]))[0])
        inside.append((at_ns, free_ns))
        sent.append(Sent(at_ns, None if number in lost_behind else free_ns + link.delay_ns, wire_bytes))
    return sent, inside


def held(queue: Queue, times_ns: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many packets the queue had at each of the times."""
    place = np.searchsorted(queue.time_ns, times_ns, "right") - 1
    return np.where(place < 0, 0, queue.packets[np.maximum(place, 0)])


bursts = st.lists(st.tuples(st.integers(0, 3 * MS), st.integers(100, 1500)), min_size=1, max_size=60)


@settings(max_examples=80, deadline=None)
@given(bursts, st.integers(1, 12))
def test_the_queue_is_the_bottlenecks_where_it_alone_drops(steps: list[tuple[int, int]], limit: int) -> None:
    link = Link(OWD_NS, 8e6)
    times = np.cumsum([step for step, _ in steps]).tolist()
    sent, inside = bottleneck(list(zip(times, (size for _, size in steps), strict=True)), link, limit, set())
    queue = traced(sent, link=link).forward.queue
    middles = np.unique([(a + b) // 2 - times[0] for a, b in inside])

    assert queue is not None
    truth = [sum(a - times[0] <= at < b - times[0] - 1000 for a, b in inside) for at in middles]
    assert held(queue, middles).tolist() == truth
    assert queue.packets.max() <= limit
    assert (queue.packets.min(), queue.packets[-1], queue.wire_bytes[-1]) == (0, 0, 0)


@settings(max_examples=80, deadline=None)
@given(bursts, st.sets(st.integers(0, 59)), st.integers(1, 12))
@example([(0, 100)] * 5 + [(100_000, 100)] * 2, {5}, 2)
def test_the_queue_is_never_more_than_the_bottlenecks_whatever_is_lost_where(
    steps: list[tuple[int, int]], lost: set[int], limit: int
) -> None:
    link = Link(OWD_NS, 8e6)
    times = np.cumsum([step for step, _ in steps]).tolist()
    sent, _ = bottleneck(list(zip(times, (size for _, size in steps), strict=True)), link, limit, lost)
    queue = traced(sent, link=link).forward.queue

    assert queue is not None
    assert queue.packets.max(initial=0) <= limit
    assert queue.packets.min(initial=0) >= 0


def test_a_packet_that_takes_the_place_of_another_is_not_counted_with_it() -> None:
    seen_late_ns = 400
    leaves_ns = MS + OWD_NS
    sent = [Sent(0, leaves_ns + seen_late_ns), Sent(0, leaves_ns + MS + seen_late_ns), Sent(MS, leaves_ns + 2 * MS)]
    queue = traced(sent, link=Link(OWD_NS, 8e6)).forward.queue

    assert queue is not None
    assert queue.packets.max() == 2


def test_packets_lost_behind_the_bottleneck_are_counted_while_others_wait_for_them() -> None:
    link = Link(OWD_NS, 8e6)
    behind, _ = bottleneck([(0, 1000)] * 5, link, 100, lost_behind={1, 2})
    before, _ = bottleneck([(0, 1000)] * 3, link, 100, lost_behind=set())
    before[1:1] = [Sent(0, None), Sent(0, None)]

    for sent, most in ((behind, 5), (before, 3)):
        queue = traced(sent, link=link).forward.queue
        assert queue is not None
        assert queue.packets.max() == most


def test_lost_and_damaged_packets_are_marked_when_they_were_sent() -> None:
    traces = traced([Sent(0, OWD_NS), Sent(MS, None), Sent(2 * MS, 2 * MS + OWD_NS, damaged=True)])

    assert (traces.forward.lost_ns.tolist(), traces.forward.damaged_ns.tolist()) == ([MS], [2 * MS])
    table = trace_rows(traces)["losses_forward"]
    assert (table["time_s"].tolist(), table["what"].tolist()) == ([0.001, 0.002], ["lost", "damaged"])


def test_the_traces_are_tables_with_seconds_since_the_first_packet() -> None:
    traces = traced(segments(5, (0, 1000), (1000, 1000)), answers(5, 1000), link=Link(OWD_NS, 1e6), tcp=True)
    tables = trace_rows(traces, MS)
    second = {name: column[1] for name, column in tables["data"].items()}

    assert second == {"time_s": 0.002, "frame": 3, "first_byte": 1000, "byte_count": 1000, "new_bytes": 1000}
    assert tables["acknowledgements"]["acknowledged_bytes"][0] == 1000
    assert tables["throughput"]["forward_sent_bytes"].sum() == 3000
    assert tables["throughput"]["forward_sent_bps"][1] == 8_000_000
    assert {"waiting_ns", "delay_ns"} <= set(tables["delays_forward"])

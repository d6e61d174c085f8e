"""The sampler of TCP sockets, as it runs on a host: on connections over this machine's loopback."""

from __future__ import annotations

import csv
import io
import json
import socket
import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from owlt.agents.probes import tcp_samples
from owlt.agents.probes.tcp_samples import (
    INFO,
    MOST_ROWS,
    SAMPLE_COLUMNS,
    TOTALS,
    Diagnostics,
    Ours,
    Samples,
    SocketState,
    read_counters,
    read_info,
    read_ports,
)
from tests.programs.agents.conftest import Start

LOOPBACK = "127.0.0.1"
HERE = socket.inet_aton(LOOPBACK)
CONTENT = bytes(300_000)

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server((LOOPBACK, 0)) as listening:
        yield listening


def connect(listener: socket.socket) -> Pair:
    client = socket.create_connection(listener.getsockname())
    return client, listener.accept()[0]


class Sampler:
    """One that runs, for a listener's port."""

    def __init__(self, start: Start, listener: socket.socket, period_s: float = 0.01, peer: str = LOOPBACK) -> None:
        port = listener.getsockname()[1]
        self.process = start("owlt.agents.probes.tcp_samples", LOOPBACK, peer, port, period_s)
        assert self.process.stderr is not None
        assert self.process.stderr.readline() == "sampling\n"

    def end(self) -> tuple[dict[str, Any], list[dict[str, str]]]:
        """What it tells: the counts, and the samples."""
        self.process.terminate()
        told, problems = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, problems
        counts, _, samples = told.partition("\n")
        return json.loads(counts), list(csv.DictReader(io.StringIO(samples)))


def transfer(pair: Pair, content: bytes = CONTENT) -> None:
    """Send all of it, and read all of it."""
    client, server = pair
    came = 0
    for place in range(0, len(content), 10_000):
        client.sendall(content[place : place + 10_000])
        while came < min(place + 10_000, len(content)):
            came += len(server.recv(1 << 16))


def test_a_socket_that_is_closed_leaves_its_last_numbers(start: Start, listener: socket.socket) -> None:
    sampler = Sampler(start, listener)
    client, server = pair = connect(listener)
    transfer(pair)
    port = client.getsockname()[1]
    client.close()
    server.close()
    counts, _ = sampler.end()

    (sender,) = [each for each in counts["sockets"] if each["port"] == port]
    assert sender["is_final"]
    assert (sender["bytes_sent"], sender["bytes_acked"]) == (len(CONTENT), len(CONTENT) + 2)  # SYN and FIN


def test_a_socket_that_stays_is_looked_at_once_more_at_the_end(start: Start, listener: socket.socket) -> None:
    sampler = Sampler(start, listener, period_s=0)
    client, server = connect(listener)
    with client, server:
        client.sendall(b"x" * 1000)
        counts, samples = sampler.end()
        port = client.getsockname()[1]

    (sender,) = [each for each in counts["sockets"] if each["port"] == port]
    assert (sender["is_final"], sender["bytes_sent"]) == (False, 1000)
    assert {row["state"] for row in samples} == {"established"}


def test_its_numbers_are_those_that_the_program_itself_is_reported(start: Start, listener: socket.socket) -> None:
    sampler = Sampler(start, listener, period_s=0)
    client, server = pair = connect(listener)
    with client, server:
        transfer(pair)
        own = read_info(client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256))
        counts, _ = sampler.end()
        port = client.getsockname()[1]

    (sender,) = [each for each in counts["sockets"] if each["port"] == port]
    assert {name: sender[name] for name in ("segs_out", "data_segs_out", "bytes_acked", "total_retrans")} == {
        name: own[name] for name in ("segs_out", "data_segs_out", "bytes_acked", "total_retrans")
    }


def test_samples_have_all_their_columns_in_order_of_time(start: Start, listener: socket.socket) -> None:
    sampler = Sampler(start, listener, period_s=0.001)
    client, server = pair = connect(listener)
    with client, server:
        for _ in range(20):
            transfer(pair)
        _, samples = sampler.end()

    assert len(samples) >= 2
    assert tuple(samples[0]) == SAMPLE_COLUMNS
    assert [int(row["time_ns"]) for row in samples] == sorted(int(row["time_ns"]) for row in samples)


def test_every_total_has_its_place(start: Start, listener: socket.socket) -> None:
    sampler = Sampler(start, listener)
    client, server = connect(listener)
    with client, server:
        counts, _ = sampler.end()

    assert all(set(each) == set(TOTALS) for each in counts["sockets"])


def test_sockets_between_other_addresses_are_not_of_the_run(start: Start, listener: socket.socket) -> None:
    sampler = Sampler(start, listener, peer="127.0.0.2")
    client, server = connect(listener)
    client.close()
    server.close()
    counts, samples = sampler.end()

    assert counts["sockets"] == samples == []


def test_a_socket_that_was_there_before_is_not_of_the_run(start: Start, listener: socket.socket) -> None:
    client, server = pair = connect(listener)
    with client, server:
        sampler = Sampler(start, listener)
        transfer(pair)
        counts, _ = sampler.end()

    assert counts["sockets"] == []


def test_an_ipv4_connection_to_a_socket_of_ipv6_is_of_the_run(start: Start) -> None:
    with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as listener:
        port = listener.getsockname()[1]
        sampler = Sampler(start, listener)
        client = socket.create_connection((LOOPBACK, port))
        server, _ = listener.accept()
        transfer((client, server))
        with client, server:
            counts, _ = sampler.end()

    assert {each["port"] == port for each in counts["sockets"]} == {True, False}


def test_the_fields_are_those_that_pyroute2_reads(listener: socket.socket) -> None:
    from pyroute2.netlink.diag import inet_diag_msg

    client, server = pair = connect(listener)
    with client, server:
        transfer(pair)
        raw = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    decoded = inet_diag_msg.tcp_info(data=len(raw + b"1234").to_bytes(2, "little") + b"\x02\x00" + raw)
    decoded.decode()
    names = {
        "mss_bytes": "tcpi_snd_mss",
        "unacked_segments": "tcpi_unacked",
        "sacked_segments": "tcpi_sacked",
        "lost_segments": "tcpi_lost",
        "retransmitted_segments": "tcpi_retrans",
        "srtt_us": "tcpi_rtt",
        "cwnd_segments": "tcpi_snd_cwnd",
        "rto_us": "tcpi_rto",
        "rttvar_us": "tcpi_rttvar",
        "min_rtt_us": "tcpi_min_rtt",
        "delivery_rate_bytes_per_s": "tcpi_delivery_rate",
        "send_window_bytes": "tcpi_snd_wnd",
    }
    same = ("backoff", "options", "total_retrans", "bytes_acked", "bytes_received", "segs_out", "segs_in")
    names |= {name: f"tcpi_{name}" for name in same}
    names |= {name: f"tcpi_{name}" for name in ("data_segs_in", "data_segs_out", "delivered", "bytes_sent")}
    names |= {name: f"tcpi_{name}" for name in ("delivered_ce", "bytes_retrans", "dsack_dups", "reord_seen")}
    names["rcv_ooopack"] = "tcpi_rcv_ooopack"

    found = read_info(raw)

    assert {name: found[name] for name in names} == {name: decoded[theirs] for name, theirs in names.items()}


def test_what_an_old_kernel_does_not_have_is_none() -> None:
    found = read_info(bytes(104))

    assert found["total_retrans"] == 0
    assert found["total_rto"] is found["bytes_acked"] is None


@given(st.binary(min_size=104, max_size=260))
@settings(deadline=None)
def test_any_struct_is_read(tcp_info: bytes) -> None:
    assert set(read_info(tcp_info)) == set(INFO)


def test_the_diagnostics_have_every_socket_that_is_open(listener: socket.socket) -> None:
    client, server = connect(listener)
    with client, server, Diagnostics() as diagnostics:
        ports = {(seen.port, seen.peer_port) for seen in diagnostics.sockets()}
        there = client.getsockname()[1], server.getsockname()[1]

    assert {there, there[::-1]} <= ports


def seen(cookie: int = 1, port: int = 5001, total_retrans: int = 0) -> SocketState:
    info = read_info(bytes(100) + total_retrans.to_bytes(4, "little"))
    return SocketState(cookie, HERE, 40000, HERE, port, info, "cubic")


def made_samples() -> Samples:
    return Samples(Ours(HERE, HERE, read_ports("5001")), 10)


@given(st.integers(1, 4000), st.integers(1, 3))
@settings(max_examples=20, deadline=None)
def test_no_more_samples_are_kept_than_wanted_and_those_are_evenly_apart(looks: int, sockets: int) -> None:
    samples = made_samples()
    now_ns = 0
    for _ in range(looks):
        samples.look([seen(cookie) for cookie in range(sockets)], now_ns)
        now_ns += samples.period_ns

    times = sorted({row[0] for row in samples.rows})
    assert len(samples.rows) <= MOST_ROWS
    assert {later - earlier for earlier, later in pairwise(times)} <= {samples.period_ns}
    assert looks < 5 or len(times) > 1


def test_looks_at_nothing_are_not_kept_for_ever() -> None:
    samples = made_samples()
    for now_ns in range(10 * MOST_ROWS):
        samples.look([], now_ns)

    assert samples.period_ns > 10
    assert samples.rows == []


def test_what_others_sent_again_is_counted_from_the_beginning_on() -> None:
    samples = made_samples()
    samples.begin([seen(1, port=22, total_retrans=5)])
    samples.look([seen(1, port=22, total_retrans=7), seen(2, total_retrans=3)], 0)
    samples.end([seen(1, port=22, total_retrans=9), seen(3, port=22, total_retrans=1)], 0)

    assert samples.others_retransmitted == 5
    assert [each["total_retrans"] for each in samples.sockets] == [3]


def test_counters_have_nstats_names() -> None:
    table = "Tcp: RtoAlgorithm MaxConn RetransSegs\nTcp: 1 -1 467\nUdp: InDatagrams\nUdp: 3\n"

    assert read_counters(table) == {"TcpRtoAlgorithm": 1, "TcpMaxConn": -1, "TcpRetransSegs": 467, "UdpInDatagrams": 3}


def test_it_refuses_what_is_no_address() -> None:
    with pytest.raises(ValueError, match="does not appear to be an IPv4 or IPv6 address"):
        tcp_samples.main("nobody", LOOPBACK, "5001", "1")


def test_it_ends_at_once_when_asked_before_anything_happens(start: Start, listener: socket.socket) -> None:
    sampler = Sampler(start, listener, period_s=3600)
    counts, samples = sampler.end()

    assert counts["sockets"] == samples == []
    assert counts["period_ns"] == 3600 * 10**9


@pytest.mark.parametrize(("min_rtt_us", "srtt_us"), [(2**29 - 1, 7), (2**29, None), (2**32 - 1, 7)])
def test_a_smoothed_round_trip_that_the_kernel_cannot_hold_has_no_value(min_rtt_us: int, srtt_us: int | None) -> None:
    raw = bytearray(256)
    struct.pack_into("I", raw, INFO["srtt_us"][0], 7)
    struct.pack_into("I", raw, INFO["min_rtt_us"][0], min_rtt_us)

    info = read_info(bytes(raw))

    assert (info["srtt_us"], info["rttvar_us"]) == (srtt_us, None if srtt_us is None else 0)

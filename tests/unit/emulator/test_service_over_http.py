"""Server and client over a real connection, and what strangers send. The kernel's part is remembered, not done:
tests/system does it.
"""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from threading import Thread
from typing import Any
from xmlrpc.client import Fault, ServerProxy, dumps

import pytest

from emulator.channel import ChannelSpec, LinkSpec
from emulator.client import EmulatorClient
from emulator.faults import (
    INTERNAL_ERROR,
    INVALID_PARAMETERS,
    NOT_WELL_FORMED,
    UNKNOWN_METHOD,
    ChannelRefused,
    EmulatorError,
    EmulatorUnreachable,
    InvalidChannel,
    PortRefused,
)
from emulator.server import LARGEST_REQUEST_BYTES, METHODS, EmulatorServer
from emulator.service import Emulator

CHANNEL = ChannelSpec(forward=LinkSpec(delay_ns=1_342_000_000_000, rate_bps=10e6, packet_error_rate=0.01))
BILLION_LAUGHS = """<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>
<methodCall><methodName>&b;</methodName></methodCall>"""


class RememberingEmulator(Emulator):
    """Takes every valid channel but one with errors (refused) or with a queue of 13 (an error of its own)."""

    def __init__(self) -> None:
        self.channel = ChannelSpec()

    def configure(self, channel: object) -> Any:
        asked = ChannelSpec.from_wire(channel)
        if asked.reverse.packet_error_rate:
            raise ChannelRefused('the kernel says: <no> & "never"')
        if asked.reverse.rate_bps:
            raise PortRefused("port to-sender: has the address 192.0.2.1")
        if asked.reverse.queue_packets == 13:
            raise ZeroDivisionError("unlucky")
        self.channel = asked
        return asked.to_wire()

    def describe(self) -> Any:
        return self.channel.to_wire()

    def clear(self) -> bool:
        self.channel = ChannelSpec()
        return True

    def statistics(self) -> Any:
        return {"forward": {"pipe": {"bytes": 2.0**40, "packets": 3.0}}}

    def capabilities(self) -> Any:
        return {"kernel": "7.3", "netem": {"available": True, "reason": ""}}


@pytest.fixture
def emulator() -> RememberingEmulator:
    emulator = RememberingEmulator()
    emulator.channel = CHANNEL
    return emulator


@pytest.fixture
def address(emulator: RememberingEmulator) -> Iterator[str]:
    server = EmulatorServer(emulator, "127.0.0.1", 0)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.address
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def client(address: str) -> EmulatorClient:
    return EmulatorClient(f"http://{address}", timeout_s=5)


def post(address: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    """Post a body as it is, and return HTTP status and answer."""
    connection = http.client.HTTPConnection(address, timeout=5)
    connection.request("POST", "/RPC2", body, {"Content-Type": "text/xml"} | headers)
    answer = connection.getresponse()
    status, content = answer.status, answer.read()
    connection.close()
    return status, content


def test_a_channel_comes_back_as_it_was_sent(client: EmulatorClient) -> None:
    channel = ChannelSpec(forward=LinkSpec(delay_ns=86_400 * 10**9, rate_bps=1e11, seed=2**53 - 1))

    assert client.configure(channel) == channel
    assert client.describe() == channel


def test_a_channel_is_cleared(client: EmulatorClient) -> None:
    client.clear()

    assert client.describe().unimpaired


def test_counters_past_31_bits_arrive_whole(client: EmulatorClient) -> None:
    assert client.statistics() == {"forward": {"pipe": {"bytes": 2**40, "packets": 3}}}


def test_capabilities_and_versions_arrive(client: EmulatorClient) -> None:
    assert client.capabilities()["netem"]["available"] is True
    assert set(client.version()) == {"owlt", "api", "kernel"}


def test_a_refusal_by_the_kernel_is_raised_with_its_words(client: EmulatorClient) -> None:
    with pytest.raises(ChannelRefused, match='<no> & "never"') as refusal:
        client.configure(ChannelSpec(reverse=LinkSpec(packet_error_rate=0.5)))
    assert type(refusal.value) is ChannelRefused


def test_a_refused_port_is_raised_as_such(client: EmulatorClient) -> None:
    with pytest.raises(PortRefused, match=r"192\.0\.2\.1"):
        client.configure(ChannelSpec(reverse=LinkSpec(rate_bps=1e6)))


def test_an_error_within_is_told_and_the_service_goes_on(client: EmulatorClient) -> None:
    with pytest.raises(EmulatorError, match="ZeroDivisionError: unlucky"):
        client.configure(ChannelSpec(reverse=LinkSpec(queue_packets=13)))
    assert client.describe() == CHANNEL


def test_the_service_tells_its_methods_and_explains_them(address: str) -> None:
    with ServerProxy(f"http://{address}") as proxy:
        methods = proxy.system.listMethods()
        assert set(METHODS) <= set(methods)  # type: ignore[arg-type]
        assert all(proxy.system.methodHelp(method) for method in METHODS)


@pytest.mark.parametrize(
    ("method", "parameters", "code"),
    [
        ("destroy", (), UNKNOWN_METHOD),
        ("_apply", (), UNKNOWN_METHOD),
        ("stop", (), UNKNOWN_METHOD),
        ("configure.__class__", (), UNKNOWN_METHOD),
        ("system.multicall", ([],), UNKNOWN_METHOD),
        ("configure", (), INVALID_PARAMETERS),
        ("configure", ({}, {}), INVALID_PARAMETERS),
        ("describe", (1,), INVALID_PARAMETERS),
        ("configure", ("25 ms",), INVALID_PARAMETERS),
        ("configure", ({"forward": {"delay": 1}},), INVALID_PARAMETERS),
        ("configure", ({"forward": {"delay_ns": "25 ms"}},), INVALID_PARAMETERS),
        ("configure", ({"forward": {"delay_ns": True}},), INVALID_PARAMETERS),
        ("configure", ({"forward": {"delay_ns": b"x"}},), INVALID_PARAMETERS),
        ("configure", ({"reverse": {"queue_packets": 13}},), INTERNAL_ERROR),
    ],
)
def test_a_wrong_call_is_a_fault_with_a_stable_code_and_changes_nothing(
    address: str, emulator: RememberingEmulator, method: str, parameters: tuple[Any, ...], code: int
) -> None:
    with ServerProxy(f"http://{address}") as proxy, pytest.raises(Fault) as fault:
        getattr(proxy, method)(*parameters)
    assert fault.value.faultCode == code
    assert emulator.channel == CHANNEL


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00\xff",
        b"<methodCall>",
        b"<html></html>",
        b"<methodResponse><params></params></methodResponse>",
        b"<methodCall><methodName>configure</methodName><params><param><value><int>"
        + b"9" * 9000
        + b"</int></value></param></params></methodCall>",
        BILLION_LAUGHS.encode(),
    ],
    ids=["empty", "bytes", "cut", "html", "answer", "long-integer", "entities"],
)
def test_what_is_no_call_is_a_fault_and_changes_nothing(
    address: str, emulator: RememberingEmulator, body: bytes
) -> None:
    status, answer = post(address, body)

    assert status == 200
    assert f"<int>{NOT_WELL_FORMED}</int>".encode() in answer
    assert emulator.channel == CHANNEL


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Length": str(LARGEST_REQUEST_BYTES + 1)}, 413),
        ({"Content-Length": "9" * 100}, 413),
        ({"Content-Length": "-1"}, 411),
        ({"Content-Length": "many"}, 411),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/json"}, 415),
    ],
)
def test_what_is_no_xml_rpc_over_http_is_an_http_error(
    address: str, emulator: RememberingEmulator, headers: dict[str, str], status: int
) -> None:
    assert post(address, dumps((), "clear").encode(), **headers)[0] == status
    assert emulator.channel == CHANNEL


def test_a_body_of_unknown_length_is_an_http_error(address: str) -> None:
    connection = http.client.HTTPConnection(address, timeout=5)
    connection.request("POST", "/RPC2", iter([b"<methodCall/>"]), {"Content-Type": "text/xml"}, encode_chunked=True)

    assert connection.getresponse().status == 411
    connection.close()


def test_a_request_as_large_as_may_be_is_answered(address: str) -> None:
    call = dumps((), "describe").encode()

    assert post(address, call + b" " * (LARGEST_REQUEST_BYTES - len(call)))[0] == 200


def test_a_browsers_get_is_an_http_error(address: str) -> None:
    connection = http.client.HTTPConnection(address, timeout=5)
    connection.request("GET", "/")

    assert connection.getresponse().status == 501
    connection.close()


def test_one_who_says_nothing_keeps_nobody_waiting(address: str, client: EmulatorClient) -> None:
    host, port = address.split(":")
    with socket.create_connection((host, int(port))) as silent:
        silent.sendall(b"POST /RPC2 HTTP/1.1\r\n")

        assert client.describe() == CHANNEL


def test_a_client_without_a_service_says_where_it_looked() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening: nobody else can answer
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"

        with pytest.raises(EmulatorUnreachable, match=f"emulator at {url}: no answer to describe"):
            EmulatorClient(url).describe()


def test_a_client_does_not_wait_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = EmulatorClient(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=0.1)

        with pytest.raises(EmulatorUnreachable, match="timed out"):
            client.describe()


def test_waiting_for_a_service_ends_at_the_deadline() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        client = EmulatorClient(f"http://127.0.0.1:{taken.getsockname()[1]}")

        with pytest.raises(EmulatorUnreachable, match=r"waited 0\.1 s: "):
            client.wait_until_ready(0.1)


def test_waiting_for_a_service_that_is_there_ends_at_once(client: EmulatorClient) -> None:
    client.wait_until_ready(0)


def test_an_answer_that_is_no_xml_rpc_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=_answer_once, args=(server, b"HTTP/1.0 200 OK\r\nContent-Type: text/xml\r\n\r\n<html/>")).start()
        client = EmulatorClient(f"http://127.0.0.1:{server.getsockname()[1]}")

        with pytest.raises(EmulatorError, match="got no XML-RPC answer to describe"):
            client.describe()


def _answer_once(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(answer)


def test_a_channel_from_a_stranger_service_is_checked(
    client: EmulatorClient, emulator: RememberingEmulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChannelSpec, "to_wire", lambda self: {"forward": {"wormhole": 1}})

    with pytest.raises(InvalidChannel, match=r"forward\.wormhole"):
        client.describe()

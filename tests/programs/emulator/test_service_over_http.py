"""Server and client over a real connection, and what strangers send. The kernel's part is remembered, not done:
tests/system does it.
"""

from __future__ import annotations

import gzip
import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from threading import Thread
from typing import Any
from xmlrpc.client import Fault, ServerProxy, dumps

import pytest

from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.emulator.faults import (
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
from owlt.emulator.service.client import EmulatorClient
from owlt.emulator.service.methods import CHANGING, LEASING, MOST_CALLS, READING
from owlt.emulator.service.server import Limits
from tests.memory.emulator import MemoryEmulator
from tests.unit.emulator.served import CHANGES, CHANNEL, RememberingEmulator, post, served

TOKEN = "correct-horse-battery"
BILLION_LAUGHS = """<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]>
<methodCall><methodName>&b;</methodName></methodCall>"""
VALUE_ANSWER = (
    b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><methodResponse><params><param>'
    b"<value><string>%s</string></value></param></params></methodResponse>"
)
EXTERNAL_ANSWER = (
    b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY b SYSTEM "file:///etc/hostname">]><methodResponse><params><param>'
    b"<value><string>&b;</string></value></param></params></methodResponse>"
)


@pytest.fixture
def emulator() -> RememberingEmulator:
    return RememberingEmulator()


@pytest.fixture
def address(emulator: RememberingEmulator) -> Iterator[str]:
    with served(emulator) as address:
        yield address


def connected(address: str) -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=60)


@pytest.fixture
def client(address: str) -> EmulatorClient:
    return EmulatorClient(f"http://{address}", timeout_s=5)


def test_a_channel_comes_back_as_it_was_sent(client: EmulatorClient) -> None:
    channel = ChannelSpec(forward=LinkSpec(delay_ns=86_400 * 10**9, rate_bps=1e11, seed=2**53 - 1))

    assert client.configure(channel) == channel
    assert client.describe() == channel


def test_a_channel_is_cleared(client: EmulatorClient) -> None:
    client.clear()

    assert client.describe().unimpaired


def test_counters_past_31_bits_arrive_complete(client: EmulatorClient) -> None:
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


def test_an_error_within_is_reported_and_the_service_goes_on(client: EmulatorClient) -> None:
    with pytest.raises(EmulatorError, match="ZeroDivisionError: unlucky"):
        client.configure(ChannelSpec(reverse=LinkSpec(queue_packets=13)))
    assert client.describe() == CHANNEL


def test_the_service_tells_its_methods_and_explains_them(address: str) -> None:
    with ServerProxy(f"http://{address}") as proxy:
        methods = proxy.system.listMethods()
        assert {*READING, *CHANGING, *LEASING} <= set(methods)  # type: ignore[arg-type]
        assert all(proxy.system.methodHelp(method) for method in methods)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("method", "parameters", "code"),
    [
        ("destroy", (), UNKNOWN_METHOD),
        ("_apply", (), UNKNOWN_METHOD),
        ("stop", (), UNKNOWN_METHOD),
        ("configure.__class__", (), UNKNOWN_METHOD),
        ("system.multicall", ("describe",), INVALID_PARAMETERS),
        ("system.multicall", ([],) * 2, INVALID_PARAMETERS),
        ("system.multicall", ([{}] * (MOST_CALLS + 1),), INVALID_PARAMETERS),
        ("system.methodHelp", ("destroy",), UNKNOWN_METHOD),
        ("system.methodSignature", (["describe"],), UNKNOWN_METHOD),
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
        ({"Content-Length": str(Limits().request_bytes + 1)}, 413),
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
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("POST", "/RPC2", iter([b"<methodCall/>"]), {"Content-Type": "text/xml"}, encode_chunked=True)

    assert connection.getresponse().status == 411
    connection.close()


def test_a_request_as_large_as_may_be_is_answered(address: str) -> None:
    call = dumps((), "describe").encode()

    assert post(address, call + b" " * (Limits().request_bytes - len(call)))[0] == 200


def test_a_browsers_get_is_an_http_error(address: str) -> None:
    connection = http.client.HTTPConnection(address, timeout=60)
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


def test_waiting_for_a_service_that_is_there_ends_without_an_error(client: EmulatorClient) -> None:
    client.wait_until_ready(300)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html/>", ""),
        (VALUE_ANSWER % b"&b;", "DTDForbidden"),
        (VALUE_ANSWER % b"harmless", "DTDForbidden"),
        (EXTERNAL_ANSWER, "DTDForbidden"),
    ],
    ids=["HTML", "entities within entities", "a DTD", "an external entity"],
)
def test_an_answer_that_is_no_xml_rpc_is_an_error(body: bytes, reason: str) -> None:
    expected = f"the answer to describe is not XML-RPC.*{reason}"
    with answering_once(body) as url, pytest.raises(EmulatorError, match=expected):
        EmulatorClient(url).describe()


def test_a_compressed_answer_is_refused_and_not_unpacked() -> None:
    body = gzip.compress(dumps(({},), methodresponse=True).encode())
    with (
        answering_once(body, b"Content-Encoding: gzip\r\n") as url,
        pytest.raises(EmulatorError, match="expected an uncompressed answer, got Content-Encoding: gzip"),
    ):
        EmulatorClient(url).describe()


@contextmanager
def answering_once(body: bytes, headers: bytes = b"") -> Iterator[str]:
    """A service that answers one request with these bytes; yields its URL."""
    answer = b"HTTP/1.0 200 OK\r\nContent-Type: text/xml\r\n" + headers + b"\r\n" + body
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = Thread(target=_answer_once, args=(server, answer))
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def _answer_once(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        request = b""
        while not request.endswith(b"</methodCall>\n"):  # closed with some of it unread, the answer would be lost
            request += connection.recv(65536)
        connection.sendall(answer)


def test_a_channel_from_a_stranger_service_is_checked(client: EmulatorClient, emulator: RememberingEmulator) -> None:
    emulator.described = {"forward": {"wormhole": 1}}

    with pytest.raises(InvalidChannel, match=r"forward\.wormhole"):
        client.describe()


def test_several_calls_in_one_are_answered_each(address: str, emulator: RememberingEmulator) -> None:
    calls = [("describe",), ("destroy",), ("configure", {"forward": {"wormhole": 1}}), ("clear",)]
    with ServerProxy(f"http://{address}") as proxy:
        answers: Any = proxy.system.multicall([{"methodName": name, "params": list(given)} for name, *given in calls])

    assert answers[0] == [CHANNEL.to_wire()]
    assert [answer["faultCode"] for answer in answers[1:3]] == [UNKNOWN_METHOD, INVALID_PARAMETERS]
    assert answers[3] == [True]
    assert emulator.made == ["clear"]


@pytest.mark.parametrize(
    "call",
    [
        {"methodName": "system.multicall", "params": [[]]},
        {"methodName": "clear", "params": {}},
        {"methodName": 1},
        {},
        "clear",
    ],
    ids=["nested", "params", "name", "empty", "text"],
)
def test_a_wrong_call_among_several_is_a_fault_of_its_own(
    address: str, emulator: RememberingEmulator, call: object
) -> None:
    with ServerProxy(f"http://{address}") as proxy:
        answers: Any = proxy.system.multicall([call, {"methodName": "describe"}])

    assert answers[0]["faultCode"] == INVALID_PARAMETERS
    assert answers[1] == [CHANNEL.to_wire()]
    assert emulator.made == []


@pytest.mark.parametrize(
    ("method", "signatures"),
    [
        ("configure", [["struct", "struct"]]),
        ("change", [["struct", "string", "struct"]]),
        ("clear", [["boolean"]]),
        ("lease", [["struct", "string", "double"]]),
        ("system.listMethods", [["array"]]),
        ("system.multicall", [["array", "array"]]),
    ],
)
def test_the_service_tells_the_types_of_a_method(method: str, signatures: list[list[str]]) -> None:
    with served(MemoryEmulator()) as address, ServerProxy(f"http://{address}") as proxy:
        assert proxy.system.methodSignature(method) == signatures


@pytest.mark.parametrize(
    "value",
    [
        "<double>nan</double>",
        "<double>1e999</double>",
        f"<int>{'9' * 4000}</int>",
        "<i8>-1</i8>",
        "<base64>AAAA</base64>",
        "<dateTime.iso8601>20260101T00:00:00</dateTime.iso8601>",
        "<nil/>",
        "<bigdecimal>1e999999</bigdecimal>",
        "<array><data><value><array><data></data></array></value></data></array>",
        "<struct><member><name>delay</name><value>1 s</value></member></struct>",
    ],
)
@pytest.mark.parametrize("method", ["configure", "lease"])
def test_a_value_of_a_wrong_kind_is_a_fault(
    address: str, emulator: RememberingEmulator, method: str, value: str
) -> None:
    key = f"<struct><member><name>forward</name><value>{value}</value></member></struct>"
    given = {"configure": [key], "lease": ["night", value]}[method]
    parameters = "".join(f"<param><value>{each}</value></param>" for each in given)
    body = f"<methodCall><methodName>{method}</methodName><params>{parameters}</params></methodCall>"
    if method == "configure" and value.startswith("<struct>"):
        assert b"<fault>" not in post(address, body.encode())[1], "the control"
        return

    status, answer = post(address, body.encode())

    assert status == 200
    assert b"<fault>" in answer
    assert emulator.made == []


def test_values_within_values_without_end_are_a_fault(address: str) -> None:
    depth = 10_000
    body = "<methodCall><methodName>configure</methodName><params><param>"
    body += "<value><array><data>" * depth + "</data></array></value>" * depth + "</param></params></methodCall>"

    assert f"<int>{NOT_WELL_FORMED}</int>".encode() in post(address, body.encode())[1]


def test_what_xml_cannot_carry_is_not_sent_back(address: str) -> None:
    with ServerProxy(f"http://{address}") as proxy, pytest.raises(Fault, match="expected a name"):
        proxy.lease("\u2028\ufdd0\x85", 10)


def test_a_connection_serves_many_requests(address: str) -> None:
    connection = http.client.HTTPConnection(address, timeout=60)
    answers = []
    for body in (dumps((), "describe"), "<html/>", dumps((), "describe")):
        connection.request("POST", "/", body, {"Content-Type": "text/xml"})
        sent_from = connection.sock.getsockname()
        answers.append((sent_from, connection.getresponse().read()))
    connection.close()

    assert answers[0] == answers[2]
    assert b"<fault>" in answers[1][1]


def test_requests_beyond_the_rate_are_asked_to_come_again(emulator: RememberingEmulator) -> None:
    with served(emulator, limits=Limits(requests_per_s=0.5, burst=2)) as address:
        call = dumps((), "describe").encode()
        assert [post(address, call)[0] for _ in range(2)] == [200, 200]
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request("POST", "/", call, {"Content-Type": "text/xml"})
        answer = connection.getresponse()

        assert (answer.status, answer.headers["Retry-After"]) == (429, "2")
        connection.close()


def test_a_client_asked_to_come_again_does(emulator: RememberingEmulator) -> None:
    with served(emulator, limits=Limits(requests_per_s=1, burst=1)) as address:
        client = EmulatorClient(f"http://{address}", timeout_s=5)

        assert [client.describe() for _ in range(2)] == [CHANNEL] * 2


def test_a_request_that_finds_no_place_is_asked_to_come_again(emulator: RememberingEmulator) -> None:
    emulator.certified.clear()
    with served(emulator, limits=Limits(at_a_time=1, request_s=0.2)) as address:
        certifying = Thread(target=post, args=(address, dumps(CHANGES["certify"], "certify").encode()))
        certifying.start()
        emulator.certifying.wait(60)

        assert post(address, dumps((), "version").encode())[0] == 503
        emulator.certified.set()
        certifying.join()
        assert post(address, dumps((), "version").encode())[0] == 200


@pytest.mark.parametrize("piece", [b"P", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n<"], ids=["head", "body"])
def test_one_who_sends_too_slowly_is_cut_off(emulator: RememberingEmulator, piece: bytes) -> None:
    with served(emulator, limits=Limits(request_s=0.3)) as address:
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), timeout=60) as slow:
            slow.sendall(piece)
            for _ in range(600):
                time.sleep(0.1)
                try:
                    slow.sendall(b"x")
                except OSError:  # cut off
                    return
    pytest.fail("a request of one octet each 0.1 s was still read after a minute")


def test_connections_beyond_the_limit_are_turned_away_if_all_others_are_answered(
    emulator: RememberingEmulator,
) -> None:
    emulator.certified.clear()
    with served(emulator, limits=Limits(connections=1)) as address:
        certifying = Thread(target=post, args=(address, dumps(CHANGES["certify"], "certify").encode()))
        certifying.start()
        emulator.certifying.wait(60)
        with connected(address) as second:
            assert second.recv(100) == b""
        emulator.certified.set()
        certifying.join()


@pytest.mark.parametrize("start", [b"", b"POST / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n<"])
def test_many_slow_clients_do_not_block_others(address: str, client: EmulatorClient, start: bytes) -> None:
    with ExitStack() as stack:
        slow = [stack.enter_context(connected(address)) for _ in range(520)]
        for connection in slow:
            with suppress(OSError):  # it has given way
                connection.sendall(start)

        assert client.describe() == CHANNEL
        assert slow[0].recv(100) == b"", "it gave way"


def test_a_client_with_the_token_does_not_give_way_to_slow_ones(emulator: RememberingEmulator) -> None:
    call = dumps((), "describe").encode()
    header = f"Authorization: Bearer {TOKEN}\r\nContent-Type: text/xml\r\nConnection: close\r\n"
    with ExitStack() as stack:
        address = stack.enter_context(served(emulator, token=TOKEN, limits=Limits(connections=2)))
        mine = stack.enter_context(connected(address))
        mine.sendall(f"POST / HTTP/1.1\r\n{header}Expect: 100-continue\r\nContent-Length: {len(call)}\r\n\r\n".encode())
        assert b"100 Continue" in mine.recv(100)
        for _ in range(5):
            stack.enter_context(connected(address))
        EmulatorClient(f"http://{address}", timeout_s=60).describe()  # the slow ones were accepted before it
        mine.sendall(call)

        assert mine.makefile("rb").readline() == b"HTTP/1.1 200 OK\r\n"


def test_a_long_request_without_the_token_is_refused_before_it_is_read(emulator: RememberingEmulator) -> None:
    body = dumps(CHANGES["configure"], "configure").encode().ljust(Limits().request_bytes_without_token + 1)
    with served(emulator, token=TOKEN) as address:
        assert post(address, body, Authorization=f"Bearer {TOKEN}")[0] == 200
        assert emulator.made == ["configure"]
        for wrong in ({}, {"Authorization": "Bearer wrong"}):
            with connected(address) as connection:
                headers = "".join(f"{name}: {value}\r\n" for name, value in wrong.items())
                connection.sendall(f"POST / HTTP/1.1\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode())
                answer = connection.makefile("rb").read()
            assert b"<int>4</int>" in answer
            assert b"in the HTTP header of a request of more than 65,536 bytes" in answer
    assert emulator.made == ["configure"]


def test_a_header_without_end_is_cut_off(address: str) -> None:
    with connected(address) as connection:
        with suppress(OSError):
            connection.sendall(
                b"POST / HTTP/1.1\r\n" + b"".join(b"X-%d: %s\r\n" % (i, b"x" * 60_000) for i in range(9))
            )
        with suppress(ConnectionResetError):
            assert connection.recv(100) == b""


@pytest.mark.parametrize("second", ["0", "5", "LENGTH"])
def test_a_second_content_length_is_an_http_error(address: str, emulator: RememberingEmulator, second: str) -> None:
    body = dumps((), "clear").encode()
    lengths = f"Content-Length: {len(body)}\r\nContent-Length: {second.replace('LENGTH', str(len(body)))}\r\n"
    with connected(address) as connection:
        connection.sendall(f"POST / HTTP/1.1\r\nContent-Type: text/xml\r\n{lengths}\r\n".encode() + body)

        assert connection.makefile("rb").readline() == b"HTTP/1.1 400 Bad Request\r\n"
    assert emulator.channel == CHANNEL


def test_a_wrong_path_is_an_http_error(address: str) -> None:
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("POST", "/elsewhere", dumps((), "clear"), {"Content-Type": "text/xml"})

    assert connection.getresponse().status == 404
    connection.close()


@pytest.mark.parametrize("url", ["ftp://127.0.0.1", "127.0.0.1:8765", "unix:/run/emulator"])
def test_a_url_of_another_kind_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"expected http://\.\.\. or https://"):
        EmulatorClient(url)

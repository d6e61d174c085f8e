"""Sends the service ten thousand requests that are wrong in as many ways as a fixed seed gives, with a channel applied;
tells how each kind was answered, and what became of the channel.

Those that cannot be anything but wrong carry the token. Those that may come out as a proper call that changes
something (a flipped bit can be a comment's) do not.
"""

import http.client
import json
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGTERM
from typing import Any
from xmlrpc.client import dumps

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.service.client import EmulatorClient
from tests.system.guest_scripts import three_hosts

TOKEN = "a-token-of-this-test"
HOST = three_hosts.URL.removeprefix("http://")
CHANNEL = ChannelSpec.from_wire(
    {
        "forward": {"delay": "25 ms", "rate": "10 Mbit/s", "packet_error_rate": 0.01, "seed": 1},
        "reverse": {"delay": "1 s"},
    }
)
CALLS = [
    dumps((CHANNEL.to_wire(),), "configure"),
    dumps(("forward", {"delay": "50 ms"}), "change"),
    dumps((), "bypass"),
    dumps((), "clear"),
    dumps((), "describe"),
    dumps(("night", 60.0), "lease"),
    dumps(([{"methodName": "clear", "params": []}] * 3,), "system.multicall"),
]
WRONG_VALUES = [
    *("<int></int>", "<int>1.5</int>", "<int>0x10</int>", "<i4>many</i4>", "<boolean>2</boolean>", "<boolean/>"),
    *("<double>nan</double>", "<double>inf</double>", "<double>-1e999</double>", "<double/>"),
    *("<base64>AAAA</base64>", "<base64>*</base64>", "<base64>\u00e9</base64>"),
    *("<dateTime.iso8601>20261301T99:00:00</dateTime.iso8601>", "<dateTime.iso8601>now</dateTime.iso8601>"),
    *("<string>25</string>", "<string>-1 ms</string>", "<string>1e99 s</string>", "<string>&#x10FFFF; ms</string>"),
    *("<array/>", "<array><data/></array>", "<array><data><value>1 s</value></data></array>"),
    *("<struct><member><name>delay</name></member></struct>", "<struct><member><value>1</value></member></struct>"),
    *("<bigdecimal>NaN</bigdecimal>", "<wormhole>1</wormhole>", "<int>1<int>2</int></int>"),
]
LINK_KEYS = [
    *("delay", "rate", "queue", "packet_error_rate", "seed", "jitter", "loss", "pattern", "mtu"),
    "",
    "__class__",
]
Hostile = tuple[str, dict[str, str], bytes]

drawn = random.Random(20261121)


def call(method: str, *values: str) -> str:
    parameters = "".join(f"<param><value>{value}</value></param>" for value in values)
    return f"<methodCall><methodName>{method}</methodName><params>{parameters}</params></methodCall>"


def of_link(key: str, value: str, direction: str = "forward") -> str:
    """A call of a method that changes the channel, with one wrong value in one link."""
    link = f"<struct><member><name>{key}</name><value>{value}</value></member></struct>"
    if drawn.random() < 0.3:
        return call("change", f"<string>{direction}</string>", link)
    return call("configure", f"<struct><member><name>{direction}</name><value>{link}</value></member></struct>")


def truncated() -> tuple[str, bool]:
    whole = drawn.choice(CALLS).rstrip()
    return whole[: drawn.randrange(len(whole) - 1)], True


def flipped() -> tuple[bytes, bool]:
    bits = bytearray(drawn.choice(CALLS).encode())
    for _ in range(drawn.randint(1, 8)):
        bits[drawn.randrange(len(bits))] ^= 1 << drawn.randrange(8)
    return bytes(bits), False


def entities() -> tuple[str, bool]:
    inner, outer = drawn.choice(["&a;" * 10, "&a;" * 10_000]), drawn.choice(["&b;", "&b;" * 1000])
    declared = drawn.choice(
        [
            f'<!ENTITY a "clear"><!ENTITY b "{inner}">',
            '<!ENTITY b SYSTEM "file:///etc/hostname">',
            '<!ENTITY % b SYSTEM "http://10.78.0.254/b.dtd">%b;',
            '<!ENTITY b "&b;">',
        ]
    )
    return f"<?xml version='1.0'?><!DOCTYPE methodCall [{declared}]>" + call("clear", outer), True


def wrong_types() -> tuple[str, bool]:
    value = drawn.choice(WRONG_VALUES)
    number = drawn.choice([value for value in WRONG_VALUES if "<int>" not in value])
    return drawn.choice(
        [
            of_link(drawn.choice(LINK_KEYS), value, drawn.choice(["forward", "reverse", "sideways"])),
            call("configure", value),
            call("change", value, "<struct/>"),
            call("lease", "night", number),
            call("renew", value, "<double>60</double>"),
            call("release", value),
            call("clear", value),
            call("configure", "<nil/>"),
            call("change", "forward", "<ex:nil/>"),
            call("system.multicall", value),
            call("certify", value, "<struct/>"),
        ]
    ), True


def nested() -> tuple[str, bool]:
    depth = drawn.choice([34, 100, 1000, 10_000])
    opening, closing = drawn.choice(
        [
            ("<value><array><data>", "</data></array></value>"),
            ("<value><struct><member><name>forward</name>", "</member></struct></value>"),
            ("<methodCall>", "</methodCall>"),
        ]
    )
    closed = depth if drawn.random() < 0.7 else 0
    return call("configure", opening * depth + closing * closed), True


def huge_numbers() -> tuple[str, bool]:
    digits = drawn.choice([17, 100, 4000, 5000, 100_000])
    kind = drawn.choice(["int", "i4", "i8", "double", "biginteger", "bigdecimal", "string"])
    sign = drawn.choice(["", "-"])
    number = f"<{kind}>{sign}{'9' * digits}{drawn.choice(['', ' ms', 'e99']) if kind == 'string' else ''}</{kind}>"
    return drawn.choice([of_link(drawn.choice(["delay", "seed", "mtu"]), number), call("lease", "night", number)]), True


def wrong_methods() -> tuple[str, bool]:
    letters = [chr(drawn.choice([drawn.randint(33, 126), drawn.randint(160, 0xD7FF)])) for _ in range(9)]
    name = drawn.choice(
        [
            *(
                "stop",
                "_clear",
                "__init__",
                "clear.__call__",
                "system",
                "system.",
                "system.shutdown",
                "Clear",
                " clear ",
            ),
            *("", "x" * 100_000, "../clear", "clear\n", "".join(letters)),
        ]
    )
    return call(name.replace("&", "&amp;").replace("<", "&lt;")), True


def nul_bytes() -> tuple[bytes, bool]:
    body = bytearray(drawn.choice(CALLS).encode())
    for _ in range(drawn.randint(1, 5)):
        body.insert(drawn.randrange(len(body.rstrip())), 0)
    return bytes(body), True


def wrong_encodings() -> tuple[bytes, bool]:
    declared, used = (drawn.choice(["utf-8", "utf-16", "utf-32", "latin-1", "utf-7", "cp037"]) for _ in range(2))
    named = drawn.choice([declared, "none", "\u00fc", "x" * 1000])
    return f"<?xml version='1.0' encoding='{named}'?>{drawn.choice(CALLS)[22:]}\u00e9".encode(used, "replace"), False


def noise() -> tuple[bytes, bool]:
    return drawn.randbytes(drawn.choice([0, 1, 10, 1000, 50_000])), True


def many_in_one() -> tuple[str, bool]:
    inner: Any = drawn.choice(
        [
            {"methodName": "system.multicall", "params": [[{"methodName": "clear"}]]},
            {"methodName": "configure", "params": [{"forward": {"wormhole": 1}}]},
            {"methodName": "clear", "params": [1, 2]},
            {"methodName": "clear", "params": "clear"},
            {"methodName": ["clear"]},
            {"name": "clear"},
            "clear",
        ]
    )
    return dumps(([inner] * drawn.choice([1, 100, 101, 2000]),), "system.multicall"), True


KINDS: list[Callable[[], tuple[str | bytes, bool]]] = [
    *(truncated, flipped, entities, wrong_types, nested, huge_numbers, wrong_methods, nul_bytes, wrong_encodings),
    *(noise, many_in_one),
]
WRONG_HEADERS = [
    {"Content-Type": "text/plain"},
    {"Content-Type": "application/x-www-form-urlencoded"},
    {"Content-Type": "\x01"},
    {"Content-Encoding": "gzip"},
    {"Content-Encoding": "br"},
    {"Content-Length": "1099511627776"},
    {"Content-Length": "-1"},
    {"Content-Length": "0x10"},
    {"Transfer-Encoding": "chunked"},
    {"X-Owlt-Lease": "0123456789abcdef"},
    {"X-Owlt-Lease": "\xff" * 1000},
]


def hostile(count: int) -> Iterator[Hostile]:
    """Yield the kind, the headers and the body of each request."""
    for _ in range(count):
        if drawn.random() < 0.1:
            headers = {"Content-Type": "text/xml", "Authorization": f"Bearer {TOKEN}"} | drawn.choice(WRONG_HEADERS)
            yield "wrong_headers", headers, CALLS[3].encode()
            continue
        kind = drawn.choice(KINDS)
        body, with_token = kind()
        headers = {"Content-Type": "text/xml"} | ({"Authorization": f"Bearer {TOKEN}"} if with_token else {})
        yield kind.__name__, headers, body.encode() if isinstance(body, str) else body


def answer_to(connection: http.client.HTTPConnection, headers: dict[str, str], body: bytes) -> str:
    """How one request was answered: the fault's code, "answer", the HTTP status, or what broke."""
    while True:
        try:
            connection.request("POST", "/RPC2", body, headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            return type(error).__name__
        if answer.status == 429:
            time.sleep(int(answer.headers["Retry-After"]))
            continue
        if answer.status != 200:
            return str(answer.status)
        return "fault" if b"<fault>" in content else "answer"


def cut_short() -> str:
    """Send less of a body than was announced, and no more."""
    host, port = HOST.split(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(
            b"POST / HTTP/1.1\r\nContent-Type: text/xml\r\nContent-Length: 1000\r\n"
            + f"Authorization: Bearer {TOKEN}\r\n\r\n<methodCall>".encode()
        )
        if drawn.random() < 0.5:
            connection.shutdown(socket.SHUT_WR)
        return connection.recv(1000).partition(b"\r\n")[0].decode()


three_hosts.make()
token_file = Path("/run/emulator-token")
token_file.touch(mode=0o600)
token_file.write_text(TOKEN)
command = [*three_hosts.SERVICE[:-1], "--token-file", str(token_file), *three_hosts.PORTS]
answers: Counter[str] = Counter()
with three_hosts.process(three_hosts.on("emulator", command), "listening", "stdout", SIGTERM) as program:
    client = EmulatorClient(three_hosts.URL, token=TOKEN)
    applied = client.configure(CHANNEL)
    before = three_hosts.shaped()
    connection = http.client.HTTPConnection(HOST, timeout=60)
    for kind, headers, body in hostile(int(sys.argv[1])):
        answers[f"{kind} {answer_to(connection, headers, body)}"] += 1
    connection.close()
    cut = [cut_short() for _ in range(20)]
    seen = {
        "answers": answers,
        "cut": cut,
        "described_as_applied": client.describe() == applied,
        "shaped_as_before": three_hosts.shaped() == before,
        "before": before,
        "lease": client.lease_status(),
        "alive": program.poll() is None,
        "threads": len(list(Path(f"/proc/{program.pid}/task").iterdir())),
    }
    client.clear()
    seen["shaped_in_the_end"] = three_hosts.shaped()
print(json.dumps(seen | {"status": program.returncode}))

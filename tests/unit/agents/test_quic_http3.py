"""Transfers over HTTP/3 between aioquic's two parties on a simulated link."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

from owlt.agents.endpoint.exit import Failed
from owlt.agents.quic.connection import Logs, client_configuration, identity, server_configuration
from owlt.agents.quic.http3 import Fetching, Serving
from owlt.agents.quic.settings import Settings
from tests.unit.agents.simulated_link import Link, Loses, at_random, nothing

CHOSEN = Settings(rate_bps=10e6, rtt_s=0.05, application="http3", wanted="file")


@dataclass
class Pair:
    """A server with a file, a client that wants it, and their link."""

    server: Serving
    client: Fetching
    link: Link
    file: Path
    output: Path

    def run(self, until_s: float = float("inf")) -> None:
        self.link.run({"receiver": self.client, "sender": self.server}, until_s=until_s)


Make = Callable[..., Pair]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as closing:

        def make(size_bytes: int = 100_000, loses: Loses = nothing) -> Pair:
            file, output = tmp_path / "file", tmp_path / "output"
            file.write_bytes(random.Random(1).randbytes(size_bytes))
            link = Link(0.025, loses)
            source, store = (
                closing.enter_context(file.open("rb")),
                closing.enter_context((tmp_path / "part").open("wb")),
            )
            server = Serving(source, CHOSEN, server_configuration(CHOSEN, Logs()), link.now_s)
            client = Fetching(output, store, CHOSEN, client_configuration(CHOSEN, Logs()), link.now_s)
            return Pair(server, client, link, file, output)

        yield make


@pytest.mark.parametrize("size_bytes", [0, 1, 100_000, (2 << 20) + 1])
def test_the_file_that_is_fetched_is_the_one_that_is_served(pair: Make, size_bytes: int) -> None:
    both = pair(size_bytes)
    both.run()

    assert both.output.read_bytes() == both.file.read_bytes()


def test_the_client_begins_and_the_server_sends_the_data(pair: Make) -> None:
    both = pair()
    both.run()

    first, *_ = both.link.sent
    sizes = {
        side: sum(len(datagram) for of, _, datagram in both.link.sent if of == side) for side in ("sender", "receiver")
    }
    assert first[0] == "receiver"
    assert sizes["sender"] > 100_000 > 10 * sizes["receiver"]


@pytest.mark.parametrize("seed", range(3))
def test_one_datagram_in_ten_lost_both_ways_stops_no_transfer(pair: Make, seed: int) -> None:
    both = pair(loses=at_random(0.1, seed))
    both.run()

    assert both.output.read_bytes() == both.file.read_bytes()


def test_a_client_without_an_answer_fails_and_leaves_no_file(pair: Make) -> None:
    both = pair(loses=lambda _side, _datagram: True)
    with pytest.raises(Failed, match=r"before the file was complete|no connection"):
        both.run()

    assert not both.output.exists()


def test_over_http3_the_certificate_has_a_key_that_boringssl_offers() -> None:
    assert isinstance(identity(1, "http3")[0].public_key(), EllipticCurvePublicKey)
    assert not isinstance(identity(1)[0].public_key(), EllipticCurvePublicKey)

"""Waiting for a socket and receiving what waits there, each in one system call."""

import os
import socket
import time
from collections.abc import Iterator

import pytest

from owlt.agents.endpoint.system_calls import ReceiveWaiting, Wait

ADDRESS = ("127.0.0.1", 25030)


@pytest.fixture
def receiver() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(ADDRESS)
        yield bound


@pytest.fixture
def sender() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unbound:
        yield unbound


@pytest.mark.parametrize("timeout_s", [0.0, 0.0007, 0.03])
def test_without_a_datagram_it_waits_no_shorter_than_the_time(receiver: socket.socket, timeout_s: float) -> None:
    wait = Wait(receiver.fileno())
    begin_s = time.monotonic()

    assert not wait(timeout_s)
    assert time.monotonic() - begin_s >= timeout_s


def test_a_datagram_ends_a_wait_without_limit(receiver: socket.socket, sender: socket.socket) -> None:
    sender.sendto(b"wake up", ADDRESS)

    assert Wait(receiver.fileno())(None)


def test_space_to_send_ends_a_wait_if_asked_and_is_no_datagram(receiver: socket.socket) -> None:
    wait = Wait(receiver.fileno())
    begin_s = time.monotonic()

    assert not wait(600.0, until_writable=True)
    assert time.monotonic() - begin_s < 60


def test_a_datagram_is_readable_whether_or_not_there_is_space_to_send(
    receiver: socket.socket, sender: socket.socket
) -> None:
    sender.sendto(b"wake up", ADDRESS)

    assert Wait(receiver.fileno())(600.0, until_writable=True)


def test_a_file_that_was_closed_is_an_error(receiver: socket.socket) -> None:
    receive = ReceiveWaiting(receiver, 1, 100)
    receiver.close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        receive()


def test_what_waits_is_received_in_order_and_no_more_than_allowed(
    receiver: socket.socket, sender: socket.socket
) -> None:
    for number in range(6):
        sender.sendto(bytes([number]) * (number + 1), ADDRESS)
    receive = ReceiveWaiting(receiver, 4, 100)

    first, second, third = ([payload for _, payload in receive()] for _ in range(3))

    assert first == [bytes([number]) * (number + 1) for number in range(4)]
    assert second == [bytes([number]) * (number + 1) for number in range(4, 6)]
    assert third == []


def test_the_longest_datagram_is_received_whole(receiver: socket.socket, sender: socket.socket) -> None:
    content = os.urandom(65507)
    sender.sendto(content, ADDRESS)

    assert ReceiveWaiting(receiver, 2, 65507)() == [(bytes([127, 0, 0, 1]), content)]


def test_each_datagram_comes_with_the_address_of_its_host(receiver: socket.socket) -> None:
    for host in ("127.0.0.2", "127.0.0.3"):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
            bound.bind((host, 0))
            bound.sendto(host.encode(), ADDRESS)

    received = ReceiveWaiting(receiver, 4, 100)()

    assert received == [(socket.inet_aton(host), host.encode()) for host in ("127.0.0.2", "127.0.0.3")]

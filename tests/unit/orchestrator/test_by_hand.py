"""The console of a guest as a line that many connections share."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from owlt.orchestrator.commands.cli import app
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.rigs.by_hand import EMULATOR, Line


class Ends:
    """Both ends of a line; what is connected at the far end adds its target's name to what it hears."""

    def __init__(self, down: ExitStack) -> None:
        near, far = (down.enter_context(end) for end in socket.socketpair())
        self._down = down
        self.dialled: list[str] = []
        self.line = Line(near.fileno())
        for end in (self.line, Line(far.fileno(), self._dial)):
            threading.Thread(target=end.serve, daemon=True).start()
        down.callback(near.shutdown, socket.SHUT_RDWR)

    def _dial(self, target: str) -> socket.socket:
        if target == "receiver":
            raise OSError("nobody is there")
        self.dialled.append(target)
        ours, theirs = socket.socketpair()

        def echo() -> None:
            with theirs:
                while data := theirs.recv(100_000):
                    theirs.sendall(target.encode() + b":" + data if data == b"who?" else data)

        threading.Thread(target=echo, daemon=True).start()
        return ours

    def connect(self, target: str) -> socket.socket:
        ours, theirs = (self._down.enter_context(end) for end in socket.socketpair())
        ours.settimeout(10)
        self.line.begin(theirs, target)
        return ours


@pytest.fixture
def ends() -> Iterator[Ends]:
    with ExitStack() as down:
        yield Ends(down)


def test_each_connection_hears_its_own_target(ends: Ends) -> None:
    connections = {target: ends.connect(target) for target in ("sender", EMULATOR)}
    for connection in connections.values():
        connection.sendall(b"who?")

    assert {target: each.recv(100) for target, each in connections.items()} == {
        "sender": b"sender:who?",
        EMULATOR: b"service:who?",
    }


def test_every_byte_crosses_in_order(ends: Ends) -> None:
    sent = os.urandom(1_000_000)
    connection = ends.connect("sender")
    threading.Thread(target=connection.sendall, args=(sent,), daemon=True).start()
    heard = b""
    while len(heard) < len(sent):
        heard += connection.recv(100_000)

    assert heard == sent


def test_a_target_that_does_not_answer_ends_the_connection(ends: Ends) -> None:
    assert ends.connect("receiver").recv(1) == b""
    assert ends.dialled == []


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        (["rigs", "up", "--rig", "nowhere"], "rig 'nowhere': not found"),
        (["channel", "certify", "--rig", "virtual"], "--rig virtual: CHANNEL is missing"),
        (["channel", "certify", "geo", "--rig", "virtual", "--budget", "3 s"], "leave out --tolerance and --budget"),
    ],
)
def test_what_cannot_be_is_refused_before_a_guest_is_booted(arguments: list[str], mistake: str) -> None:
    from typer.testing import CliRunner

    with pytest.raises(OwltError, match=mistake):
        CliRunner().invoke(app, arguments, catch_exceptions=False, standalone_mode=False)

"""A CFDP transfer between two programs, over a relay that loses, repeats or damages chosen PDUs: for tests."""

import random
import re
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.programs.agents.conftest import Start
from tests.programs.agents.relay import Relay, Rule

LIBRECUBE, CFDP_PY = "owlt.agents.librecube", "owlt.agents.cfdp"


class Ending(NamedTuple):
    """How both programs ended, and whether the file is the same."""

    sender_status: int
    receiver_status: int
    sender_said: str
    receiver_said: str
    same: bool
    relay: Relay

    def fact(self, name: str) -> float:
        """A number from the sender's last line."""
        found = re.search(rf"{name}=([0-9.]+)", self.sender_said)
        assert found, self.sender_said
        return float(found[1])


Transfer = Callable[..., Ending]
Orders = dict[tuple[str, int], list[tuple[str, signal.Signals, float]]]
"""When the relay has got this PDU of a kind: which side gets what signal, after how many seconds."""


def everything(_kind: str, _number: int, pdu: bytes) -> list[bytes]:
    return [pdu]


def transfers(start: Start, directory: Path, engine: str) -> Transfer:
    """Performs transfers in a directory, with this program on each side that is not given another one."""

    def run(
        rule: Rule = everything,
        *options: object,
        size_bytes: int = 30_000,
        sender: str = engine,
        receiver: str = engine,
        sender_options: tuple[object, ...] = (),
        receiver_options: tuple[object, ...] = (),
        orders: Orders | None = None,
    ) -> Ending:
        def with_orders(kind: str, number: int, pdu: bytes) -> list[bytes]:
            for side, which, after_s in (orders or {}).get((kind, number), []):
                threading.Timer(after_s, programs[side].send_signal, [which]).start()
            return rule(kind, number, pdu)

        programs: dict[str, subprocess.Popen[str]] = {}
        file, output = directory / "file", directory / "output"
        file.write_bytes(random.Random(1).randbytes(size_bytes))
        common = ["--rate-bps", 20e6, "--rtt-s", 0.01, "--timer-margin-s", 0.09, *options]
        with Relay(with_orders) as relay:
            ports = _ports(relay)
            programs["receiver"] = takes = start(
                receiver, "receive", "--output", output, *ports["receive"], *common, *receiver_options
            )
            assert takes.stdout is not None
            assert takes.stdout.readline().startswith("listening")
            programs["sender"] = gives = start(sender, "send", "--file", file, *ports["send"], *common, *sender_options)
            sender_said, receiver_said = ("".join(side.communicate(timeout=120)) for side in (gives, takes))
        same = output.exists() and output.read_bytes() == file.read_bytes()
        return Ending(gives.returncode, takes.returncode, sender_said, receiver_said, same, relay)

    return run


def _ports(relay: Relay) -> dict[str, list[str]]:
    def address(pair: tuple[str, int]) -> str:
        return f"{pair[0]}:{pair[1]}"

    own = {"send": relay.sender_address, "receive": relay.receiver_address}
    peer = {"send": relay.to_sender.getsockname(), "receive": relay.to_receiver.getsockname()}
    return {side: ["--local", address(own[side]), "--peer", address(peer[side])] for side in own}


def assert_complete(ending: Ending) -> None:
    assert (ending.sender_status, ending.receiver_status) == (0, 0), ending
    assert ending.same

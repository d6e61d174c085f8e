"""A service over a real connection whose emulator remembers what the kernel would be told."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import ChannelRefused, PortRefused
from owlt.emulator.service.emulator import NO_FAULTS_STATUS, Emulator
from owlt.emulator.service.server import EmulatorServer

CHANNEL = ChannelSpec.from_wire({"forward": {"delay": "1342 s", "rate": "10 Mbit/s", "packet_error_rate": 0.01}})
OTHER_CHANNEL = ChannelSpec.from_wire({"forward": {"delay": "25 ms"}})
STATUS = {"running": False, "elapsed_s": 0.0, "steps_applied": 0, "late_ns": [], "failure": ""}
CHANGES: dict[str, tuple[Any, ...]] = {
    "configure": (OTHER_CHANNEL.to_wire(),),
    "change": ("forward", {"delay": "25 ms"}),
    "bypass": (),
    "clear": (),
    "timeline_start": (),
    "timeline_stop": (),
    "faults_start": (),
    "faults_replace": ([],),
    "certify": (OTHER_CHANNEL.to_wire(), {}),
}
"""A valid call of each method that changes something."""


class RememberingEmulator(Emulator):
    """Takes every valid channel but one with errors on the way back (refused), with a rate there (a port refused) or
    with a queue of 13 (an error of its own). `made` are the calls that would have changed something.
    """

    def __init__(self) -> None:
        self.channel = CHANNEL
        self.described: dict[str, Any] = {}
        """The channel that `describe` returns instead of the real one, if any."""
        self.made: list[str] = []
        self.cleared = Event()
        self.certifying = Event()
        self.certified = Event()
        self.certified.set()

    def configure(self, channel: object) -> Any:
        asked = ChannelSpec.from_wire(channel)
        if asked.reverse.packet_error_rate:
            raise ChannelRefused('the kernel says: <no> & "never"')
        if asked.reverse.rate_bps:
            raise PortRefused("port to-sender: has the address 192.0.2.1")
        if asked.reverse.queue_packets == 13:
            raise ZeroDivisionError("unlucky")
        self.made.append("configure")
        self.channel = asked
        return asked.to_wire()

    def change(self, direction: str, changes: Any) -> Any:
        self.made.append("change")
        return self.channel.to_wire()

    def bypass(self) -> Any:
        self.made.append("bypass")
        return self.channel.to_wire()

    def describe(self) -> Any:
        return self.described or self.channel.to_wire()

    def snapshot(self) -> Any:
        return {"channel": self.describe(), "statistics": self.statistics()}

    def clear(self) -> bool:
        self.made.append("clear")
        self.channel = ChannelSpec()
        self.cleared.set()
        return True

    def timeline_start(self) -> Any:
        self.made.append("timeline_start")
        return STATUS

    def faults_start(self) -> Any:
        self.made.append("faults_start")
        return NO_FAULTS_STATUS

    def faults_replace(self, faults: Any) -> Any:
        self.made.append("faults_replace")
        return self.channel.to_wire()

    def faults_status(self) -> Any:
        return NO_FAULTS_STATUS

    def timeline_stop(self) -> Any:
        self.made.append("timeline_stop")
        return STATUS

    def timeline_status(self) -> Any:
        return STATUS

    def certify(self, channel: object, options: Any) -> dict[str, Any]:
        """Applies the channel, and is done when `certified` is set."""
        self.made.append("certify")
        self.certifying.set()
        self.certified.wait(10)
        self.channel = ChannelSpec.from_wire(channel)
        return {"passed": True}

    def statistics(self) -> Any:
        return {"forward": {"pipe": {"bytes": 2.0**40, "packets": 3.0}}}

    def capabilities(self) -> Any:
        return {"kernel": "7.3", "netem": {"available": True, "reason": ""}}


@contextmanager
def served(emulator: Emulator, **options: Any) -> Iterator[str]:
    """Serve an emulator, and yield the address."""
    server = EmulatorServer(emulator, "127.0.0.1", 0, **options)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server.address
    server.shutdown()
    thread.join()
    server.server_close()


def post(address: str, body: bytes, **headers: str) -> tuple[int, bytes]:
    """Post a body as it is, and return HTTP status and answer."""
    connection = http.client.HTTPConnection(address, timeout=5)
    connection.request("POST", "/RPC2", body, {"Content-Type": "text/xml"} | headers)
    answer = connection.getresponse()
    status, content = answer.status, answer.read()
    connection.close()
    return status, content

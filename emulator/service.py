"""The emulator as an object: the channel between two ports, configured as a whole or not at all.

What a channel becomes in the kernel is left to `stages` and `qdiscs`; speaking XML-RPC, to `server`.
"""

import logging
import platform
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

from emulator import qdiscs
from emulator.capabilities import probe
from emulator.channel import ChannelSpec, LinkSpec
from emulator.faults import ChannelRefused, PortRefused, ServiceStopped
from emulator.ports import checked_port, find_port, residents
from emulator.qdiscs import Direction
from emulator.quantities import format_delay, format_rate
from emulator.rtnetlink import IPRoute, open_rtnetlink
from emulator.stages import Stages, differences, link_of, stages_of
from emulator.survey import Survey, survey

API = 1
"""Counts up when a method changes in a way that an older client cannot bear."""

log = logging.getLogger(__name__)


class Emulator:
    """The channel between two ports of a bridge that somebody else made.

    One call at a time touches the kernel. Public methods are the service's, with values that XML-RPC carries.
    """

    def __init__(self, sender_port: str, receiver_port: str) -> None:
        """Take over two ports by name, and clear what an emulator that was killed left on them.

        Raises PortRefused if one is not there or not ours to shape.
        """
        if sender_port == receiver_port:
            raise PortRefused(f"both ports: got {sender_port}, wanted two, towards the sender and the receiver")
        self._port_names = (sender_port, receiver_port)
        self._asked = ChannelSpec()
        self._stopped = False
        self._lock = Lock()
        with self._lock, open_rtnetlink() as netlink:
            found = survey(netlink)
            self._directions(found, residents(netlink))
            self._clear(netlink, found)

    def configure(self, channel: object) -> dict[str, dict[str, int | float]]:
        """Apply a channel in place of the one before and return what the kernel has, read back.

        A rate is rounded to whole bytes a second and an error rate to 32 bits. All that is in flight is
        lost. If the kernel refuses any of it, nothing is left of either channel (fault 1); if the channel
        makes no sense (fault -32602) or a port is not ours to shape (fault 2), nothing has changed.
        """
        asked = ChannelSpec.from_wire(channel)
        with self._lock, open_rtnetlink() as netlink:
            if self._stopped:
                raise ServiceStopped("the emulator is ending: start it again")
            found = survey(netlink)
            directions = self._directions(found, residents(netlink))
            self._clear(netlink, found)
            try:
                return self._applied(netlink, directions, asked).to_wire()
            except BaseException:
                self._clear(netlink, survey(netlink))
                raise

    def describe(self) -> dict[str, dict[str, int | float]]:
        """Return the channel that the kernel has at this moment, as `configure` does."""
        with self._lock, open_rtnetlink() as netlink:
            found = survey(netlink)
            directions = self._directions(found, residents(netlink))
            stages = {name: qdiscs.read_back(netlink, found, way) for name, way in directions.items()}
            return _channel_of(stages, self._asked).to_wire()

    def clear(self) -> bool:
        """Take the channel away: packets pass unimpaired, all in flight are lost. Return true."""
        with self._lock, open_rtnetlink() as netlink:
            self._clear(netlink, survey(netlink))
        return True

    def statistics(self) -> dict[str, dict[str, dict[str, float]]]:
        """Return the counters of each direction and stage since the channel was applied, as doubles.

        `bottleneck` (there if a rate was asked for): `dropped_packets` are those that found the queue full.
        `pipe` (there if a delay or errors were): `corrupted_packets` only if the kernel counts them.
        `packets` and `bytes` have left the stage, `waiting_packets` and `waiting_bytes` are in it.
        """
        with self._lock, open_rtnetlink() as netlink:
            found = survey(netlink)
            return {
                name: {
                    stage: {counter: float(value) for counter, value in counters.items()}
                    for stage, counters in qdiscs.count(netlink, found, direction).items()
                }
                for name, direction in self._directions(found).items()
            }

    def capabilities(self) -> dict[str, Any]:
        """Return what this kernel can do, each with `available` and the `reason` if not, and its release."""
        with self._lock, open_rtnetlink() as netlink:
            return probe(netlink)

    def version(self) -> dict[str, Any]:
        """Return the version of owlt, of this interface (`api`) and of the kernel."""
        from importlib.metadata import PackageNotFoundError, version  # a start need not wait for it

        try:
            release = version("owlt")
        except PackageNotFoundError:
            release = "not installed"
        return {"owlt": release, "api": API, "kernel": platform.release()}

    def stop(self) -> None:
        """Clear, and take no more channels."""
        self._stopped = True
        self.clear()

    def _directions(self, found: Survey, lived_on: Mapping[int, Sequence[str]] | None = None) -> dict[str, Direction]:
        sender, receiver = (checked_port(found, lived_on or {}, name) for name in self._port_names)
        return {"forward": Direction(sender, receiver), "reverse": Direction(receiver, sender)}

    def _applied(self, netlink: IPRoute, directions: dict[str, Direction], asked: ChannelSpec) -> ChannelSpec:
        """Give the kernel every stage and return what it has; ChannelRefused if that is not what it was given."""
        wanted = {name: stages_of(getattr(asked, name)) for name in directions}
        for name, direction in directions.items():
            with qdiscs.refused(name):
                qdiscs.apply(netlink, direction, wanted[name])
        found = survey(netlink)
        stages = {name: qdiscs.read_back(netlink, found, way) for name, way in directions.items()}
        for name in directions:
            wrong = differences(wanted[name], stages[name])
            if wrong:
                raise ChannelRefused(f"{name}: the kernel did not take it as given: {'; '.join(wrong)}")
            log.info("%s: %s", name, _in_words(getattr(asked, name)))
        self._asked = asked
        return _channel_of(stages, asked)

    def _clear(self, netlink: IPRoute, found: Survey) -> None:
        """Take away all that is ours, whether or not the ports are still there and still fit to be shaped."""
        self._asked = ChannelSpec()
        with qdiscs.refused("clearing"):
            for name in self._port_names:
                port = find_port(found, name)
                if port is not None:
                    qdiscs.clear(netlink, found, port)
            qdiscs.clear_orphans(netlink, found)


def _channel_of(stages: dict[str, Stages], asked: ChannelSpec) -> ChannelSpec:
    return ChannelSpec(**{name: link_of(found, getattr(asked, name)) for name, found in stages.items()})


def _in_words(link: LinkSpec) -> str:
    if link.unimpaired:
        return "unimpaired"
    rate = "no rate limit" if link.rate_bps is None else f"{format_rate(link.rate_bps)}, queue {link.queue_packets}"
    return f"{format_delay(link.delay_ns)}, {rate}, packet error rate {link.packet_error_rate:g}"

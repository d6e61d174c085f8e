"""The emulator as an object: the channel between two ports, configured as a whole or not at all.

What a channel becomes in the kernel is left to `stages` and `qdiscs`; speaking XML-RPC, to `server`.
"""

import logging
import platform
from threading import Lock
from typing import Any

from emulator import qdiscs
from emulator.capabilities import probe
from emulator.channel import ChannelSpec, LinkSpec
from emulator.faults import ChannelRefused, PortRefused, ServiceStopped
from emulator.ports import checked_port, find_port
from emulator.qdiscs import Direction
from emulator.quantities import format_delay, format_rate
from emulator.rtnetlink import IPRoute, open_rtnetlink
from emulator.stages import differences, link_of, stages_of

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
            self._checked_directions(netlink)
            self._clear(netlink)

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
            directions = self._checked_directions(netlink)
            self._clear(netlink)
            try:
                self._apply(netlink, directions, asked)
            except BaseException:
                self._clear(netlink)
                raise
            self._asked = asked
            return self._found(netlink, directions).to_wire()

    def describe(self) -> dict[str, dict[str, int | float]]:
        """Return the channel that the kernel has at this moment, as `configure` does."""
        with self._lock, open_rtnetlink() as netlink:
            return self._found(netlink, self._checked_directions(netlink)).to_wire()

    def clear(self) -> bool:
        """Take the channel away: packets pass unimpaired, all in flight are lost. Return true."""
        with self._lock, open_rtnetlink() as netlink:
            self._clear(netlink)
        return True

    def statistics(self) -> dict[str, dict[str, dict[str, float]]]:
        """Return the counters of each direction and stage since the channel was applied, as doubles.

        `bottleneck` (there if a rate was asked for): `dropped_packets` are those that found the queue full.
        `pipe` (there if a delay or errors were): `corrupted_packets` only if the kernel counts them.
        `packets` and `bytes` have left the stage, `waiting_packets` and `waiting_bytes` are in it.
        """
        with self._lock, open_rtnetlink() as netlink:
            return {
                name: {
                    stage: {counter: float(value) for counter, value in counters.items()}
                    for stage, counters in qdiscs.count(netlink, direction).items()
                }
                for name, direction in self._checked_directions(netlink).items()
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

    def _checked_directions(self, netlink: IPRoute) -> dict[str, Direction]:
        sender, receiver = (checked_port(netlink, name) for name in self._port_names)
        return {"forward": Direction(sender, receiver), "reverse": Direction(receiver, sender)}

    def _apply(self, netlink: IPRoute, directions: dict[str, Direction], channel: ChannelSpec) -> None:
        for name, direction in directions.items():
            link: LinkSpec = getattr(channel, name)
            wanted = stages_of(link)
            with qdiscs.refused(name):
                qdiscs.apply(netlink, direction, wanted)
            wrong = differences(wanted, qdiscs.read_back(netlink, direction))
            if wrong:
                raise ChannelRefused(f"{name}: the kernel did not take it as given: {'; '.join(wrong)}")
            log.info("%s: %s", name, _in_words(link))

    def _clear(self, netlink: IPRoute) -> None:
        """Take away all that is ours, whether or not the ports are still there and still fit to be shaped."""
        self._asked = ChannelSpec()
        with qdiscs.refused("clearing"):
            for name in self._port_names:
                port = find_port(netlink, name)
                if port is not None:
                    qdiscs.clear(netlink, port)
            qdiscs.clear_orphans(netlink)

    def _found(self, netlink: IPRoute, directions: dict[str, Direction]) -> ChannelSpec:
        return ChannelSpec(
            **{
                name: link_of(qdiscs.read_back(netlink, direction), getattr(self._asked, name))
                for name, direction in directions.items()
            }
        )


def _in_words(link: LinkSpec) -> str:
    if link.unimpaired:
        return "unimpaired"
    rate = "no rate limit" if link.rate_bps is None else f"{format_rate(link.rate_bps)}, queue {link.queue_packets}"
    return f"{format_delay(link.delay_ns)}, {rate}, packet error rate {link.packet_error_rate:g}"

"""The emulator as an object: the channel between two ports, configured as a whole or not at all.

What a channel becomes in the kernel is left to `stages` and `qdiscs`; speaking XML-RPC, to `server`.
"""

import hashlib
import logging
import platform
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from types import MappingProxyType
from typing import Any

from emulator.certification.injection import clear_injection
from emulator.channel import DIRECTIONS, ChannelSpec
from emulator.faults import ChannelRefused, InvalidChannel, NotCapable, PortRefused, ServiceStopped, TimelineError
from emulator.kernel import qdiscs
from emulator.kernel.capabilities import lacking, probe
from emulator.kernel.direction import Direction, InKernel, Spare
from emulator.kernel.ports import checked_port, find_port, residents
from emulator.kernel.rtnetlink import IPRoute, open_rtnetlink
from emulator.kernel.stages import Stages, differences, kept, link_of, stages_of
from emulator.kernel.survey import NOTHING, Survey, survey
from emulator.link import LinkSpec
from emulator.service.ownership import take
from emulator.service.player import Moment, Player, Position
from emulator.written import LARGEST_SEED

API = 2
"""Counts up when a method changes in a way that an older client cannot bear."""

_NO_TIMELINE: dict[str, Any] = {
    "running": False,
    "elapsed_s": 0.0,
    "steps_applied": 0,
    "late_ns": [],
    "latest_ns": 0.0,
    "failure": "",
}

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Remembered:
    """All that makes a channel what it is at a moment. Without `described` there was none in the kernel."""

    described: dict[str, Any] | None
    asked: ChannelSpec
    links: dict[str, LinkSpec]
    drawn_seeds: dict[str, int]
    position: Position | None


class Emulator:
    """The channel between two ports of a bridge that somebody else made.

    One call at a time touches the kernel. Public methods are the service's, with values that XML-RPC carries.
    """

    def __init__(self, sender_port: str, receiver_port: str) -> None:
        """Take over two ports by name, and clear what an emulator that was killed left on them.

        Raises PortRefused if one is not there, not ours to shape, or served by another emulator.
        """
        if sender_port == receiver_port:
            raise PortRefused(f"both ports: got {sender_port}, wanted two, towards the sender and the receiver")
        self._port_names = (sender_port, receiver_port)
        self._asked = ChannelSpec()
        self._links = self._asked.states[0]
        self._drawn_seeds: dict[str, int] = {}
        self._in_kernel: dict[str, InKernel] = {}
        self._spare = Spare()
        self._capabilities: dict[str, Any] = {}
        self._player: Player | None = None
        self._last_moment: Moment | None = None
        """The last step of the player's timeline that was applied."""
        self._configurations = 0
        """Counts up with whatever changes or clears the channel."""
        self._stopped = False
        self._lock = Lock()
        with self._lock, open_rtnetlink() as netlink:
            found = survey(netlink)
            directions = self._directions(found, residents(netlink))
            self._ownership = take((directions["forward"].entrance, directions["forward"].exit))
            self._clear(netlink, found)

    def configure(self, channel: object) -> dict[str, Any]:
        """Apply a channel in place of the one before and return what the kernel has, read back.

        A rate is rounded to whole bytes a second and a packet error rate to 32 bits. All that is in flight is
        lost. If the channel makes no sense (fault -32602), the kernel lacks what it needs (fault 7) or a port
        is not ours to shape (fault 2), nothing has changed; if the kernel refuses any of it all the same, nothing
        is left of either channel (fault 1).
        A timeline is not begun: `timeline_start` does that.
        """
        asked = ChannelSpec.from_wire(channel)
        asked.refuse_to_begin_held()
        with self._lock, open_rtnetlink() as netlink:
            found, directions = self._ready_for(netlink, asked)
            return self._replace(netlink, found, directions, asked)

    def change(self, direction: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change some fields of one link ("forward" or "reverse"), or the same fields of "both", and nothing else.

        Returns what the kernel has.

        Fields are written as in a channel; "none" takes one away. Packets in flight keep their times; whether those
        that come now may overtake them is the link's `keeps_order`. An outage that holds needs an end: a timeline's.
        If the channel would make no sense (fault -32602), the kernel lacks what it needs (fault 7) or a timeline is
        running (fault 8), nothing has changed; if the kernel refuses all the same, nothing is left of it (fault 1).
        """
        if direction not in (*DIRECTIONS, "both") or not isinstance(changes, Mapping):
            raise InvalidChannel(
                f"change: got {direction!r:.50}, {changes!r:.50}; wanted forward, reverse or both, and fields"
            )
        with self._lock, open_rtnetlink() as netlink:
            self._refuse_if_stopped()
            if self._player is not None and self._player.status()["running"]:
                raise TimelineError("change: a timeline is running; next: timeline_stop, then change")
            wanted = ChannelSpec.from_wire(
                {
                    name: {**link.to_wire(), **(changes if direction in (name, "both") else {})}
                    for name, link in self._links.items()
                }
            )
            wanted.refuse_to_begin_held()
            found = survey(netlink)
            directions = self._directions(found, residents(netlink))
            self._refuse_what_lacks(netlink, wanted)
            if not self._in_kernel:
                self._make(directions)
            self._asked = self._asked.model_copy(update={"bypass": False})
            return self._become(netlink, found, wanted.states[0])

    def bypass(self) -> dict[str, Any]:
        """Take the channel away and be a plain bridge, in name too: the papers' unrestricted baseline."""
        return self.configure(ChannelSpec(bypass=True).to_wire())

    def describe(self) -> dict[str, Any]:
        """Return the channel that the kernel has at this moment, as it would be asked for; empty: unimpaired."""
        with self._lock, open_rtnetlink() as netlink:
            return self._described(netlink)

    def clear(self) -> bool:
        """Take the channel away: packets pass unimpaired, all in flight are lost. Return true."""
        with self._lock, open_rtnetlink() as netlink:
            self._clear(netlink, survey(netlink))
        log.info("cleared")
        return True

    def certify(self, channel: object, options: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        """Apply a channel, measure with probes whether it is as asked, and return what was found.

        Afterwards the channel from before is there again as `describe` returned it, whether it was configured, changed
        or left by a step of its timeline. A timeline that was running resumes where it was: the measurement takes none
        of its time. What was in flight is lost, and counters begin anew. If what the kernel then has is not what it had
        before (fault 1), nothing is left of the channel.

        No other traffic may pass meanwhile, and nothing be changed (fault 1). `options`: `alpha` (0.001: how often a
        channel that is as asked may fail), `budget_s` (600: how long the channel may take to send the probes of one
        measurement), `packets` (as many probes for each share instead of enough to catch a share that is wrong by a
        factor of 1.5), `tolerance_ns` (of delays: 200,000, what a machine that is not too busy keeps to; 1000 on a
        clock that stands still while it computes).
        Returns `verdict` ("ok", "failed", "incomplete") and `checks`, each with `direction`, `quantity`, `verdict`,
        `asked`, `measured`, the interval `low` to `high`, `count` and `reason`, and what it would have caught
        with `detection_probability`: a value of `detectable_low` or less, or of `detectable_high` or more; as far as
        there are any.
        """
        from emulator.certification.certify import certify  # numpy: only who asks for a certificate waits for it

        wanted = _certify_options(options)
        asked = ChannelSpec.from_wire(channel)
        asked.refuse_to_begin_held()
        with self._lock, open_rtnetlink() as netlink:
            found, directions = self._ready_for(netlink, asked)
            before = self._remembered(netlink)
            try:
                self._replace(netlink, found, directions, asked)
            except BaseException:
                self._restore(netlink, before)
                raise
            measured = self._configurations
        try:
            certificate = certify(asked, self._port_names, **wanted)
        finally:
            with self._lock, open_rtnetlink() as netlink:
                if self._configurations != measured:
                    raise ChannelRefused(
                        "certify: the channel was changed or cleared meanwhile; next: certify again, alone"
                    )
                self._restore(netlink, before)
        log.info("certified: %s", certificate.verdict)
        return certificate.to_wire()

    def timeline_start(self) -> dict[str, Any]:
        """Begin the channel's timeline at this moment, from its beginning, whether or not it has been going on."""
        with self._lock, open_rtnetlink() as netlink:
            self._refuse_if_stopped()
            if self._asked.timeline is None:
                raise TimelineError("timeline: the channel has none; next: configure one that has")
            self._forget_player()
            self._become(netlink, survey(netlink, whose=False), self._asked.states[0])
            self._player = player = Player(self._asked, self._step)
        return player.status()

    def timeline_stop(self) -> dict[str, Any]:
        """Stop the timeline where it is; the links stay as its last step left them, an outage that holds held."""
        with self._lock:
            status = _NO_TIMELINE if self._player is None else self._player.status()
            self._forget_player()
        return {**status, "running": False}

    def timeline_status(self) -> dict[str, Any]:
        """Return `running`, `elapsed_s`, `steps_applied`, how late the last were (`late_ns`) and the latest of all
        (`latest_ns`), and `failure`, "" if there is none.
        """
        player = self._player
        return _NO_TIMELINE if player is None else player.status()

    def statistics(self) -> dict[str, dict[str, dict[str, float]]]:
        """Return the counters of each direction and stage since the channel was applied, as doubles.

        `gate`: frames that were too long, or found a queue full that is not counted in packets. `bottleneck`:
        `dropped_packets` found the queue full. `errors`: frames and bits that were hit. `pipe`: `dropped_packets`
        are losses; `lost_packets`, `corrupted_packets` and `duplicated_packets` only if the kernel counts them.
        `packets` and `bytes` have left a netem or come to a program; `waiting_packets`, `waiting_bytes` are in it.
        """
        with self._lock, open_rtnetlink() as netlink:
            found = survey(netlink)
            self._directions(found)
            return {
                name: {
                    stage: {counter: float(value) for counter, value in counters.items()}
                    for stage, counters in in_kernel.count(netlink, found).items()
                }
                for name, in_kernel in self._in_kernel.items()
            } or {name: {} for name in DIRECTIONS}

    def capabilities(self) -> dict[str, Any]:
        """Return what this kernel can do, each with `available` and the `reason` if not, and its release."""
        with self._lock, open_rtnetlink() as netlink:
            return self._probed(netlink)

    def version(self) -> dict[str, Any]:
        """Return the version of owlt, of this interface (`api`) and of the kernel."""
        from importlib.metadata import PackageNotFoundError, version  # a start need not wait for it

        try:
            release = version("owlt")
        except PackageNotFoundError:
            release = "not installed"
        return {"owlt": release, "api": API, "kernel": platform.release()}

    def stop(self) -> None:
        """Clear, take no more channels, and leave the ports to whoever wants to serve them."""
        self._stopped = True
        try:
            self.clear()
        finally:
            for held in self._ownership:
                held.close()

    def _probed(self, netlink: IPRoute) -> dict[str, Any]:
        """What the kernel can do does not change; finding out takes a while."""
        self._capabilities = self._capabilities or probe(netlink)
        return self._capabilities

    def _refuse_what_lacks(self, netlink: IPRoute, asked: ChannelSpec) -> None:
        if lacks := lacking(asked, self._probed(netlink)):
            raise NotCapable(f"this kernel lacks what the channel needs: {'; '.join(lacks)}")

    def _ready_for(self, netlink: IPRoute, asked: ChannelSpec) -> tuple[Survey, dict[str, Direction]]:
        """Return what is at the ports and the directions between them, or raise why the channel cannot be applied."""
        self._refuse_if_stopped()
        found = survey(netlink)
        directions = self._directions(found, residents(netlink))
        self._refuse_what_lacks(netlink, asked)
        return found, directions

    def _replace(
        self, netlink: IPRoute, found: Survey, directions: Mapping[str, Direction], asked: ChannelSpec
    ) -> dict[str, Any]:
        """Apply a channel in place of the one before; return the one that the kernel has."""
        self._clear(netlink, found)
        self._make(directions)
        self._asked = asked
        return self._become(netlink, NOTHING, asked.states[0])

    def _remembered(self, netlink: IPRoute) -> _Remembered:
        return _Remembered(
            self._described(netlink) if self._in_kernel else None,
            self._asked,
            self._links,
            self._drawn_seeds,
            self._player.position(self._last_moment) if self._player is not None else None,
        )

    def _restore(self, netlink: IPRoute, before: _Remembered) -> None:
        """Make the channel what it was. Raises ChannelRefused, with nothing left of it, if that does not succeed."""
        found = survey(netlink)
        self._clear(netlink, found)
        if before.described is None:
            return
        self._make(self._directions(found))
        self._drawn_seeds = before.drawn_seeds
        self._asked = before.asked
        last = before.position.last if before.position else None
        elapsed_ns = before.position.elapsed_ns if before.position else 0
        holds = {} if last is None else _outage_ends(last, before.links, time.monotonic_ns() - elapsed_ns)
        has = self._become(netlink, NOTHING, before.links, holds)
        if has != before.described:
            self._clear(netlink, survey(netlink))
            raise ChannelRefused(
                f"certify: the channel from before was not restored: got {has}, wanted {before.described}; the channel "
                "was cleared; next: configure it again"
            )
        if before.position is not None:
            self._last_moment = last
            self._player = Player(before.asked, self._step, before.position)

    def _make(self, directions: Mapping[str, Direction]) -> None:
        self._in_kernel = {name: InKernel(direction, self._spare) for name, direction in directions.items()}
        self._drawn_seeds = {name: secrets.randbelow(LARGEST_SEED + 1) for name in DIRECTIONS}

    def _refuse_if_stopped(self) -> None:
        if self._stopped:
            raise ServiceStopped("the emulator is ending: start it again")

    def _directions(self, found: Survey, lived_on: Mapping[int, Sequence[str]] | None = None) -> dict[str, Direction]:
        sender, receiver = (checked_port(found, lived_on or {}, name) for name in self._port_names)
        return {"forward": Direction(sender, receiver), "reverse": Direction(receiver, sender)}

    def _become(
        self,
        netlink: IPRoute,
        found: Survey,
        links: dict[str, LinkSpec],
        down_until_ns: Mapping[str, int] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Give the kernel the links' stages and return the channel that it has, as it is written.

        Raises ChannelRefused if the stages read back, compared whole, are not those that were given. Whatever goes
        wrong, nothing is left of the channel then.
        """
        try:
            return self._given(netlink, found, links, down_until_ns)
        except BaseException:
            self._clear(netlink, survey(netlink))
            raise

    def _given(
        self, netlink: IPRoute, found: Survey, links: dict[str, LinkSpec], down_until_ns: Mapping[str, int]
    ) -> dict[str, Any]:
        self._configurations += 1
        rtt_ns = sum(link.delay_ns for link in links.values())
        wanted: dict[str, Stages] = {}
        for name, link in links.items():
            with qdiscs.refused(name):
                present = self._in_kernel[name].read_back(netlink, found)
                stages = stages_of(link, rtt_ns, self._drawn_seeds[name])
                wanted[name] = kept(stages, present, link.keeps_order)
                self._in_kernel[name].adapt(netlink, found, present, wanted[name], holds=_holds(link))
        after = survey(netlink, whose=False)
        has = {name: in_kernel.read_back(netlink, after) for name, in_kernel in self._in_kernel.items()}
        for name, stages in wanted.items():
            if wrong := differences(stages, has[name]):
                raise ChannelRefused(f"{name}: the kernel did not take it as given: {'; '.join(wrong)}")
            if links[name] != self._links[name]:
                log.info("%s: %s", name, _in_words(links[name]))
        for name, until_ns in down_until_ns.items():
            bottleneck = wanted[name].bottleneck
            if bottleneck is not None:
                with qdiscs.refused(name):
                    self._in_kernel[name].hold_until(netlink, after, bottleneck, until_ns)
        self._links = links
        return self._written(has)

    def _described(self, netlink: IPRoute) -> dict[str, Any]:
        found = survey(netlink)
        self._directions(found)
        return self._written({name: each.read_back(netlink, found) for name, each in self._in_kernel.items()})

    def _written(self, has: Mapping[str, Stages]) -> dict[str, Any]:
        links = {name: link_of(stages, self._links[name]) for name, stages in has.items()}
        return self._asked.model_copy(update=links).to_wire()

    def _step(self, player: Player, moment: Moment, before: Mapping[str, LinkSpec]) -> None:
        """Apply one step of a timeline to the links that it changes; each has seeds of its own, so that none depends on
        what passed before it. A step that is refused takes the channel away.
        """
        with self._lock, open_rtnetlink() as netlink:
            if player is not self._player:
                return
            changed = {name: link for name, link in moment.links.items() if link != before[name]}
            links = self._links | {name: _seeded_for(link, moment.number) for name, link in changed.items()}
            holds = {
                name: end_ns
                for name, end_ns in _outage_ends(moment, links, player.started_ns).items()
                if not _holds(before[name])
            }
            self._become(netlink, survey(netlink, whose=False), links, holds)
            self._last_moment = moment

    def _forget_player(self) -> None:
        """Whatever step it is at, it is no longer the one whose steps count."""
        player, self._player, self._last_moment = self._player, None, None
        if player is not None:
            player.stop()

    def _clear(self, netlink: IPRoute, found: Survey) -> None:
        """Take away all that is ours, whether or not the ports are still there and still fit to be shaped."""
        self._forget_player()
        self._configurations += 1
        self._asked = ChannelSpec()
        self._links = self._asked.states[0]
        clear_ports(netlink, found, self._port_names)
        for in_kernel in self._in_kernel.values():
            in_kernel.close()
        self._in_kernel = {}


def clear_ports(netlink: IPRoute, found: Survey, names: Sequence[str]) -> None:
    """Take away all that an emulator put at these ports, or left behind; ChannelRefused if the kernel refuses any."""
    ports = [port for name in names if (port := find_port(found, name)) is not None]
    refusals = []
    for clear, what in (
        *((qdiscs.clear, port) for port in ports),
        *((clear_injection, port) for port in ports),
    ):
        try:
            with qdiscs.refused(f"clearing {what.name}"):
                clear(netlink, found, what)
        except ChannelRefused as refusal:
            refusals.append(str(refusal))
    with qdiscs.refused("clearing"):
        qdiscs.clear_orphans(netlink, found)
    if refusals:
        raise ChannelRefused("; ".join(refusals))


def _certify_options(options: object) -> dict[str, Any]:
    kinds: dict[str, Any] = {"alpha": float, "budget_s": float, "packets": int, "tolerance_ns": int}
    if not isinstance(options, Mapping) or not set(options) <= set(kinds):
        raise InvalidChannel(f"certify: got the options {options!r:.100}, wanted none but {', '.join(kinds)}")
    try:
        wanted = {name: kinds[name](value) for name, value in options.items()}
    except (TypeError, ValueError, OverflowError):
        raise InvalidChannel(f"certify: got the options {options!r:.100}, wanted numbers") from None
    if any(value <= 0 for value in wanted.values()) or wanted.get("alpha", 0.5) >= 1:
        raise InvalidChannel(f"certify: got the options {options!r:.100}, wanted them above 0, and alpha below 1")
    return wanted


def _outage_ends(moment: Moment, links: Mapping[str, LinkSpec], started_ns: int) -> dict[str, int]:
    """When the outages of links that hold end, on the clock on which the timeline began at `started_ns`."""
    return {
        name: started_ns + end_ns
        for name, end_ns in moment.down_until_ns.items()
        if end_ns is not None and _holds(links[name])
    }


def _holds(link: LinkSpec) -> bool:
    return not link.up and link.while_down == "hold"


def _seeded_for(link: LinkSpec, step: int) -> LinkSpec:
    """Whatever is drawn is drawn anew; but a link with a pattern keeps its seed, and so its place in the pattern."""
    if link.seed is None or link.pattern is not None:
        return link
    digest = hashlib.sha256(f"{link.seed}/{step}".encode()).digest()
    return link.model_copy(update={"seed": int.from_bytes(digest[:8]) % (LARGEST_SEED + 1)})


def _in_words(link: LinkSpec) -> str:
    return ", ".join(f"{name} {value}" for name, value in link.to_wire().items()) or "unimpaired"

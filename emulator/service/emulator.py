"""The emulator as an object: the channel between two ports, configured completely or not at all.

Translating a channel for the kernel belongs to `kernel.link_to_stages`, XML-RPC to `server`.
"""

import logging
import platform
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from types import MappingProxyType
from typing import Any

from owlt.emulator.certification.injection import clear_injection
from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec
from owlt.emulator.channel.text import LARGEST_SEED
from owlt.emulator.faults import ChannelRefused, FaultsNotReplaced, PortRefused, ServiceStopped, TimelineError
from owlt.emulator.kernel import kernel_requests
from owlt.emulator.kernel.capabilities import probe
from owlt.emulator.kernel.direction import Direction, InKernel, Spare
from owlt.emulator.kernel.link_to_stages import Stages, differences, link_of, retaining_netems, stages_of
from owlt.emulator.kernel.ports import NOTHING, KernelState, checked_port, find_port, residents, survey, take
from owlt.emulator.kernel.rtnetlink import IPRoute, open_rtnetlink
from owlt.emulator.service.access import API
from owlt.emulator.service.fault_player import FaultPlayer
from owlt.emulator.service.player import Moment, Player, Position, holds_packets, outage_ends, seeded_links
from owlt.emulator.service.request_checks import (
    changed_channel,
    check_change,
    checked_certify_options,
    require_capabilities,
)
from owlt.inputs.mistake import Mistake

NO_TIMELINE_STATUS: dict[str, Any] = {
    "running": False,
    "elapsed_s": 0.0,
    "steps_applied": 0,
    "late_ns": [],
    "latest_ns": 0.0,
    "failure": "",
}

NO_FAULTS_STATUS: dict[str, Any] = {"faults": [], "hits": [], "held": 0.0, "failure": "", "started_at_ns": "0"}
TIMELINE_IS_RUNNING = "change: a timeline is running: call timeline_stop first"
NO_TIMELINE = "timeline: the channel has none: configure a channel that has one"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _ChannelState:
    """The complete state of a channel at a moment. `described` is None if the kernel had none."""

    described: dict[str, Any] | None
    specified: ChannelSpec
    links: dict[str, LinkSpec]
    drawn_seeds: dict[str, int]
    position: Position | None


class Emulator:
    """The channel between two ports of an existing bridge.

    One call at a time touches the kernel. Public methods are those of the service; their values are XML-RPC's.
    """

    def __init__(self, sender_port: str, receiver_port: str) -> None:
        """Take over two ports by name, and clear what a killed emulator left on them.

        Raises PortRefused if a port does not exist, is used for something else, or is served by another emulator.
        """
        if sender_port == receiver_port:
            raise PortRefused(
                Mistake.of("both ports", f"got {sender_port}", "two, towards the sender and the receiver")
            )
        self._port_names = (sender_port, receiver_port)
        self._specified = ChannelSpec()
        self._links = self._specified.states[0]
        self._drawn_seeds: dict[str, int] = {}
        self._in_kernel: dict[str, InKernel] = {}
        self._spare = Spare()
        self._faults: FaultPlayer | None = None
        self._capabilities: dict[str, Any] = {}
        self._player: Player | None = None
        self._last_moment: Moment | None = None
        """The last step of the player's timeline that was applied."""
        self._configurations = 0
        """Counts up with each change of the channel."""
        self._stopped = False
        self._lock = Lock()
        with self._lock, open_rtnetlink() as netlink:
            state = survey(netlink)
            directions = self._directions(state, residents(netlink))
            self._ownership = take((directions["forward"].entrance, directions["forward"].exit))
            self._clear(netlink, state)

    def configure(self, channel: object) -> dict[str, Any]:
        """Apply a channel instead of the previous one and return what the kernel has, read back.

        A rate is rounded to whole bytes a second and a packet error rate to 32 bits. All packets in flight are
        lost. Nothing changes if the channel is invalid (fault -32602), if the kernel is missing something that it
        needs (fault 7), or if a port is used for something else (fault 2). If the kernel refuses part of the channel,
        neither the new nor the previous channel remains (fault 1).
        `timeline_start` starts a timeline, this method does not.
        """
        specified = ChannelSpec.from_wire(channel)
        specified.refuse_to_begin_held()
        with self._lock, open_rtnetlink() as netlink:
            state, directions = self._ready_for(netlink, specified)
            return self._replace(netlink, state, directions, specified)

    def change(self, direction: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Change some fields of one link ("forward" or "reverse"), the same fields of "both", or fields of "each",
        which `changes` has by direction; nothing else. Returns what the kernel has.

        Fields are written as in a channel; "none" removes one. Packets in flight keep their times; the link's
        `keeps_order` says whether later packets may overtake them. An outage that holds packets needs an end, which
        only a timeline has.
        Nothing changes if the channel would be invalid (fault -32602), if the kernel is missing something that it needs
        (fault 7), or if a timeline is running (fault 8). If the kernel refuses, no channel remains (fault 1).
        """
        check_change(direction, changes)
        with self._lock, open_rtnetlink() as netlink:
            self._refuse_if_stopped()
            if self._player is not None and self._player.status()["running"]:
                raise TimelineError(TIMELINE_IS_RUNNING)
            changed = changed_channel(self._links, direction, changes)
            state = survey(netlink)
            directions = self._directions(state, residents(netlink))
            self._require_capabilities(netlink, changed)
            if not self._in_kernel:
                self._make(directions)
            self._specified = self._specified.model_copy(update={"bypass": False})
            return self._become(netlink, state, changed.states[0])

    def bypass(self) -> dict[str, Any]:
        """Remove the channel and become a transparent bridge (bypass): the papers' unrestricted baseline."""
        return self.configure(ChannelSpec(bypass=True).to_wire())

    def describe(self) -> dict[str, Any]:
        """Return the channel that the kernel has now, as `configure` would take it; empty: unimpaired."""
        with self._lock, open_rtnetlink() as netlink:
            return self._described(netlink)

    def snapshot(self) -> dict[str, Any]:
        """Return `channel` as from `describe` and `statistics` as from `statistics`, both of the same moment."""
        with self._lock, open_rtnetlink() as netlink:
            state = self._surveyed(netlink)
            return {"channel": self._has(netlink, state), "statistics": self._counted(netlink, state)}

    def clear(self) -> bool:
        """Remove the channel: packets pass unimpaired, all in flight are lost. Return true."""
        with self._lock, open_rtnetlink() as netlink:
            self._clear(netlink, survey(netlink))
        log.info("cleared")
        return True

    def certify(self, channel: object, options: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        """Apply a channel, measure with probes whether it is as specified, and return the certificate.

        Afterwards the previous channel is restored as `describe` returned it, whether it was configured, changed
        or set by a step of its timeline. A timeline that was running continues where it was: the measurement takes none
        of its time. Packets in flight are lost, and counters start at 0. If the kernel does not have the previous
        channel afterwards (fault 1), no channel remains.

        No other traffic may pass during the measurement, and nothing may be changed (fault 1). `options`: `alpha`
        (default 0.001: how often a channel that is as specified may fail), `budget_s` (default 600: how long the
        channel may take to send the probes of one measurement), `packets` (the number of probes for each share;
        default: enough to detect a share that is wrong by a factor of 1.5), `tolerance_ns` (of delays; default 200,000,
        which a machine that is not too busy achieves; 1000 on a clock that stands still while the machine computes).
        Returns `verdict` ("ok", "failed", "incomplete") and `checks`, each with `direction`, `quantity`, `verdict`,
        `specified`, `measured`, the interval `low` to `high`, `count` and `reason`. With
        `detection_probability` it would have detected a value of `detectable_low` or less, or of `detectable_high` or
        more. Values that do not exist are missing.
        """
        from owlt.emulator.certification.certify import certify  # numpy, which is slow to load

        numbers = checked_certify_options(options)
        specified = ChannelSpec.from_wire(channel).model_copy(update={"faults": ()})
        specified.refuse_to_begin_held()
        with self._lock, open_rtnetlink() as netlink:
            state, directions = self._ready_for(netlink, specified)
            before = self._remembered(netlink)
            try:
                self._replace(netlink, state, directions, specified)
            except BaseException:
                self._restore(netlink, before)
                raise
            measured = self._configurations
        try:
            certificate = certify(specified, self._port_names, **numbers)
        finally:
            with self._lock, open_rtnetlink() as netlink:
                if self._configurations != measured:
                    problem = "the channel was changed or cleared meanwhile"
                    raise ChannelRefused(Mistake.of("certify", problem, fix="certify again, without other clients"))
                self._restore(netlink, before)
        log.info("certified: %s", certificate.verdict)
        return certificate.to_wire()

    def timeline_start(self) -> dict[str, Any]:
        """Start the channel's timeline now, from its beginning, even if it is running."""
        with self._lock, open_rtnetlink() as netlink:
            self._refuse_if_stopped()
            if self._specified.timeline is None:
                raise TimelineError(NO_TIMELINE)
            self._forget_player()
            self._become(netlink, survey(netlink, with_filters=False), self._specified.states[0])
            self._player = player = Player(self._specified, self._step)
        return player.status()

    def timeline_stop(self) -> dict[str, Any]:
        """Stop the timeline; the links stay as its last step left them, and an outage that holds packets continues."""
        with self._lock:
            status = NO_TIMELINE_STATUS if self._player is None else self._player.status()
            self._forget_player()
        return {**status, "running": False}

    def timeline_status(self) -> dict[str, Any]:
        """Return `running`, `elapsed_s`, `steps_applied`, how late the last steps were (`late_ns`), how late the latest
        of all was (`latest_ns`), and `failure`, "" if there is none.
        """
        player = self._player
        return NO_TIMELINE_STATUS if player is None else player.status()

    def faults_start(self) -> dict[str, Any]:
        """Let the channel's aimed faults count and hit packets from now on, if it has any; once for each channel.
        Return their status.
        """
        with self._lock:
            self._refuse_if_stopped()
            if self._faults is None:
                return NO_FAULTS_STATUS
            self._faults.start()
            return self._faults.status()

    def faults_replace(self, faults: list[Any]) -> dict[str, Any]:
        """Aim other faults in place of those that were started, as if these had been the channel's at their start.
        Return the channel.

        Nothing changes if a fault is wrong (fault -32602), or if the started faults have counted a packet already, or
        do not count packets of the direction and class of each new fault (fault 10).
        """
        aimed = ChannelSpec.from_wire({"faults": faults}).faults if faults else ()
        with self._lock, open_rtnetlink() as netlink:
            self._refuse_if_stopped()
            problem = "the channel has none" if self._faults is None else self._faults.why_not_replaced(aimed)
            if self._faults is None or problem:
                expected = "started faults of the same directions and classes, before the first packet"
                raise FaultsNotReplaced(Mistake.of("faults_replace", problem, expected))
            self._faults.replace(aimed)
            scope = self._specified.fault_scope if aimed else ""
            self._specified = self._specified.model_copy(update={"faults": aimed, "fault_scope": scope})
            return self._described(netlink)

    def faults_status(self) -> dict[str, Any]:
        """Return `faults`, each with the `fault`, its class of packets (`packet`) and its `action` as text, how many
        packets of its class it has `seen` and how many `hits` it had; the first 10,000 `hits` one by one, each with the
        number of its `fault`, its `direction` and `occurrence`, `at_ns` after the start, `frame_bytes` and the first
        bytes of the frame (`head`); how many packets are `held`; `started_at_ns`, the start in ns since 1970 as text,
        "0" before it; and `failure`, "" if there is none.
        """
        with self._lock:
            return NO_FAULTS_STATUS if self._faults is None else self._faults.status()

    def statistics(self) -> dict[str, dict[str, dict[str, float]]]:
        """Return the counters of each direction and stage since the channel was applied, as doubles.

        `gate`: frames that were too long, or found the queue full if its size is not in packets, and `marked_packets`
        if a rule marks any. `bottleneck`: `dropped_packets` found the queue full. `errors`: frames and bits that were
        hit. `faults`: packets that aimed faults dropped, duplicated, corrupted or hold. `pipe`: `dropped_packets` are
        losses; `lost_packets`, `corrupted_packets` and `duplicated_packets` exist
        only if the kernel counts them. `packets` and `bytes` have left a netem or entered a program; `waiting_packets`,
        `waiting_bytes` are in it.
        """
        with self._lock, open_rtnetlink() as netlink:
            return self._counted(netlink, self._surveyed(netlink))

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
        """Clear, take no more channels, and release the ports, so that another emulator may serve them."""
        self._stopped = True
        try:
            self.clear()
        finally:
            for held in self._ownership:
                held.close()

    def _probed(self, netlink: IPRoute) -> dict[str, Any]:
        """The capabilities of the kernel, probed once: they do not change, and probing takes a while."""
        self._capabilities = self._capabilities or probe(netlink)
        return self._capabilities

    def _require_capabilities(self, netlink: IPRoute, specified: ChannelSpec) -> None:
        require_capabilities(specified, self._probed(netlink))

    def _ready_for(self, netlink: IPRoute, specified: ChannelSpec) -> tuple[KernelState, dict[str, Direction]]:
        """Return what is at the ports and the directions between them, or raise why the channel cannot be applied."""
        self._refuse_if_stopped()
        state = survey(netlink)
        directions = self._directions(state, residents(netlink))
        self._require_capabilities(netlink, specified)
        return state, directions

    def _replace(
        self, netlink: IPRoute, state: KernelState, directions: Mapping[str, Direction], specified: ChannelSpec
    ) -> dict[str, Any]:
        """Apply a channel in place of the one before; return the one that the kernel has."""
        self._clear(netlink, state)
        self._make(directions)
        self._specified = specified
        self._become(netlink, NOTHING, specified.states[0])
        self._aim(netlink, directions, specified)
        return self._described(netlink)

    def _aim(self, netlink: IPRoute, directions: Mapping[str, Direction], specified: ChannelSpec) -> None:
        """Prepare the channel's faults. After any error, nothing of the channel remains."""
        if not specified.faults:
            return
        seeds = {name: self._drawn_seeds[name] for name in DIRECTIONS}
        seeds |= {fault.direction: fault.seed for fault in specified.faults if fault.seed is not None}
        try:
            with kernel_requests.refused("faults"):
                self._faults = FaultPlayer(netlink, directions, specified.faults, specified.fault_scope, seeds)
        except BaseException:
            self._clear(netlink, survey(netlink))
            raise

    def _remembered(self, netlink: IPRoute) -> _ChannelState:
        return _ChannelState(
            self._described(netlink) if self._in_kernel else None,
            self._specified,
            self._links,
            self._drawn_seeds,
            self._player.position(self._last_moment) if self._player is not None else None,
        )

    def _restore(self, netlink: IPRoute, before: _ChannelState) -> None:
        """Make the channel what it was. Raises ChannelRefused, with nothing left of it, if that does not succeed."""
        state = survey(netlink)
        self._clear(netlink, state)
        if before.described is None:
            return
        directions = self._directions(state)
        self._make(directions)
        self._drawn_seeds = before.drawn_seeds
        self._specified = before.specified
        last = before.position.last if before.position else None
        elapsed_ns = before.position.elapsed_ns if before.position else 0
        holds = {} if last is None else outage_ends(last, before.links, time.monotonic_ns() - elapsed_ns)
        has = self._become(netlink, NOTHING, before.links, holds)
        if has != before.described:
            self._clear(netlink, survey(netlink))
            problem = f"the previous channel was not restored, and was cleared: got {has}"
            raise ChannelRefused(Mistake.of("certify", problem, str(before.described), "configure it again"))
        self._aim(netlink, directions, before.specified)
        if before.position is not None:
            self._last_moment = last
            self._player = Player(before.specified, self._step, before.position)

    def _make(self, directions: Mapping[str, Direction]) -> None:
        self._in_kernel = {name: InKernel(direction, self._spare) for name, direction in directions.items()}
        self._drawn_seeds = {name: secrets.randbelow(LARGEST_SEED + 1) for name in DIRECTIONS}

    def _refuse_if_stopped(self) -> None:
        if self._stopped:
            raise ServiceStopped(Mistake("the emulator is ending", fix="start it again"))

    def _directions(
        self, state: KernelState, lived_on: Mapping[int, Sequence[str]] | None = None
    ) -> dict[str, Direction]:
        sender, receiver = (checked_port(state, lived_on or {}, name) for name in self._port_names)
        return {"forward": Direction(sender, receiver), "reverse": Direction(receiver, sender)}

    def _become(
        self,
        netlink: IPRoute,
        state: KernelState,
        links: dict[str, LinkSpec],
        down_until_ns: Mapping[str, int] = MappingProxyType({}),
    ) -> dict[str, Any]:
        """Give the kernel the links' stages and return the channel that it has, as it is written.

        Raises ChannelRefused if the stages read back differ from those sent. After any error, nothing of the channel
        remains.
        """
        try:
            return self._given(netlink, state, links, down_until_ns)
        except BaseException:
            self._clear(netlink, survey(netlink))
            raise

    def _given(
        self, netlink: IPRoute, state: KernelState, links: dict[str, LinkSpec], down_until_ns: Mapping[str, int]
    ) -> dict[str, Any]:
        self._configurations += 1
        rtt_ns = sum(link.delay_ns for link in links.values())
        targets: dict[str, Stages] = {}
        for name, link in links.items():
            with kernel_requests.refused(name):
                present = self._in_kernel[name].read_back(netlink, state)
                stages = stages_of(link, rtt_ns, self._drawn_seeds[name])
                targets[name] = retaining_netems(stages, present, link.keeps_order)
                self._in_kernel[name].adapt(netlink, state, present, targets[name], holds=holds_packets(link))
        after = survey(netlink, with_filters=False)
        has = {name: in_kernel.read_back(netlink, after) for name, in_kernel in self._in_kernel.items()}
        for name, stages in targets.items():
            if wrong := differences(stages, has[name]):
                raise ChannelRefused(Mistake.of(name, f"the kernel has other values than given: {'; '.join(wrong)}"))
            if links[name] != self._links[name]:
                log.info("%s: %s", name, _in_words(links[name]))
        for name, until_ns in down_until_ns.items():
            bottleneck = targets[name].bottleneck
            if bottleneck is not None:
                with kernel_requests.refused(name):
                    self._in_kernel[name].hold_until(netlink, after, bottleneck, until_ns)
        self._links = links
        return self._written(has)

    def _described(self, netlink: IPRoute) -> dict[str, Any]:
        return self._has(netlink, self._surveyed(netlink))

    def _surveyed(self, netlink: IPRoute) -> KernelState:
        """What is at the ports. Raises PortRefused if one has gone or is used for something else."""
        state = survey(netlink)
        self._directions(state)
        return state

    def _has(self, netlink: IPRoute, state: KernelState) -> dict[str, Any]:
        """The channel that the kernel has."""
        return self._written({name: each.read_back(netlink, state) for name, each in self._in_kernel.items()})

    def _counted(self, netlink: IPRoute, state: KernelState) -> dict[str, dict[str, dict[str, float]]]:
        by_faults = self._faults.counters() if self._faults is not None else {}
        stages_of_ways = {
            name: in_kernel.count(netlink, state) | ({"faults": by_faults[name]} if name in by_faults else {})
            for name, in_kernel in self._in_kernel.items()
        }
        return {
            name: {
                stage: {counter: float(value) for counter, value in counters.items()}
                for stage, counters in stages.items()
            }
            for name, stages in stages_of_ways.items()
        } or {name: {} for name in DIRECTIONS}

    def _written(self, has: Mapping[str, Stages]) -> dict[str, Any]:
        links = {name: link_of(stages, self._links[name]) for name, stages in has.items()}
        return self._specified.model_copy(update=links).to_wire()

    def _step(self, player: Player, moment: Moment, before: Mapping[str, LinkSpec]) -> None:
        """Apply one step of a timeline to the links that it changes; each has seeds of its own, so that none depends on
        what passed before it. A step that is refused takes the channel away.
        """
        with self._lock, open_rtnetlink() as netlink:
            if player is not self._player:
                return
            links = self._links | seeded_links(moment, before)
            ends = outage_ends(moment, links, player.started_ns)
            holds = {name: end_ns for name, end_ns in ends.items() if not holds_packets(before[name])}
            try:
                self._become(netlink, survey(netlink, with_filters=False), links, holds)
            except BaseException:
                self._player = player  # its status says why the timeline ended
                raise
            self._last_moment = moment

    def _forget_player(self) -> None:
        """Ignore the steps of the present player from now on."""
        player, self._player, self._last_moment = self._player, None, None
        if player is not None:
            player.stop()

    def _clear(self, netlink: IPRoute, state: KernelState) -> None:
        """Remove all that is ours, even if the ports have gone or are used for something else."""
        self._forget_player()
        if self._faults is not None:
            self._faults.close()
            self._faults = None
        self._configurations += 1
        self._specified = ChannelSpec()
        self._links = self._specified.states[0]
        clear_ports(netlink, state, self._port_names)
        for in_kernel in self._in_kernel.values():
            in_kernel.close()
        self._in_kernel = {}


def clear_ports(netlink: IPRoute, state: KernelState, names: Sequence[str]) -> None:
    """Take away all that an emulator put at these ports, or left behind; ChannelRefused if the kernel refuses any."""
    ports = [port for name in names if (port := find_port(state, name)) is not None]
    refusals: list[Mistake] = []
    for clear, what in (
        *((kernel_requests.clear, port) for port in ports),
        *((clear_injection, port) for port in ports),
    ):
        try:
            with kernel_requests.refused(f"clearing {what.name}"):
                clear(netlink, state, what)
        except ChannelRefused as refusal:
            refusals += refusal.mistakes
    with kernel_requests.refused("clearing"):
        kernel_requests.clear_orphans(netlink, state)
    if refusals:
        raise ChannelRefused(*refusals)


def _in_words(link: LinkSpec) -> str:
    return ", ".join(f"{name} {value}" for name, value in link.to_wire().items()) or "unimpaired"

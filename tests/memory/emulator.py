"""An emulator in memory, for tests of what uses one: it takes, refuses and reads back channels as the real one does.

No packet crosses it. A test says what the stages count (`count`), what certificates find (`checks`), how time passes
for a timeline (`elapse`), what the kernel is missing and which calls it refuses. `MemoryTransport` connects a client to
it: leases, the token and XML-RPC are the service's own.
"""

import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from types import MappingProxyType
from typing import Any
from xmlrpc.client import loads

from owlt.emulator.certification.certificate import Certificate, Check
from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec
from owlt.emulator.channel.text import LARGEST_SEED
from owlt.emulator.faults import ChannelRefused, PortRefused, TimelineError
from owlt.emulator.kernel.link_to_stages import Stages, link_of, retaining_netems, stages_of
from owlt.emulator.service.access import Credentials, LeaseKeeper
from owlt.emulator.service.client import EmulatorClient, Transport
from owlt.emulator.service.emulator import NO_TIMELINE, NO_TIMELINE_STATUS, TIMELINE_IS_RUNNING, Emulator
from owlt.emulator.service.methods import Methods
from owlt.emulator.service.player import Moment, moments, seeded_links
from owlt.emulator.service.request_checks import (
    changed_channel,
    check_change,
    checked_certify_options,
    require_capabilities,
)

CAPABILITIES = (
    *("ifb", "netem", "delay_64bit", "rate_64bit", "loss_models", "seed", "corruption_counter", "redirect"),
    *("programs", "faults"),
)
"""What `emulator.kernel.capabilities.probe` tells of."""
KERNEL = "in memory"
_NETEM_COUNTERS = ("packets", "bytes", "dropped_packets", "waiting_packets", "waiting_bytes")
_NOT_MEASURED = "an emulator in memory carries no packets"


class MemoryEmulator(Emulator):
    """The channel of an emulator without a kernel.

    `missing` has the capabilities that its kernel is without, and why.
    """

    def __init__(self, missing: Mapping[str, str] = MappingProxyType({})) -> None:
        if strangers := set(missing) - set(CAPABILITIES):
            raise ValueError(f"missing: got {', '.join(sorted(strangers))}, wanted of {', '.join(CAPABILITIES)}")
        self.refusals: list[ChannelRefused] = []
        """What the kernel answers to the next calls that give it stages, one each."""
        self.checks: Sequence[Check] = [
            Check(direction, "the channel", "not measured", reason=_NOT_MEASURED) for direction in DIRECTIONS
        ]
        """What the next certificates find."""
        self.certified: list[ChannelSpec] = []
        """The channels that were certified."""
        self._missing = missing
        self._lock = Lock()
        self._stopped = False
        self._timeline: _Timeline | None = None
        self._forget()

    def configure(self, channel: object) -> dict[str, Any]:
        specified = ChannelSpec.from_wire(channel)
        specified.refuse_to_begin_held()
        with self._lock:
            self._refuse_what_cannot_be(specified)
            self._refuse_port()
            self._forget()
            self._specified = specified
            self._take(specified.states[0])
            return self._read_back()

    def change(self, direction: str, changes: Mapping[str, Any]) -> dict[str, Any]:
        check_change(direction, changes)
        with self._lock:
            self._refuse_if_stopped()
            if self._timeline is not None and self._timeline.status["running"]:
                raise TimelineError(TIMELINE_IS_RUNNING)
            wanted = changed_channel(self._links, direction, changes)
            require_capabilities(wanted, self.capabilities())
            self._refuse_port()
            self._specified = self._specified.model_copy(update={"bypass": False})
            self._take(wanted.states[0])
            return self._read_back()

    def describe(self) -> dict[str, Any]:
        with self._lock:
            return self._read_back()

    def snapshot(self) -> dict[str, Any]:
        return {"channel": self.describe(), "statistics": self.statistics()}

    def clear(self) -> bool:
        with self._lock:
            self._forget()
        return True

    def certify(self, channel: object, options: Mapping[str, Any] = MappingProxyType({})) -> dict[str, Any]:
        alpha = checked_certify_options(options).get("alpha", 0.001)
        specified = ChannelSpec.from_wire(channel)
        specified.refuse_to_begin_held()
        with self._lock:
            self._refuse_what_cannot_be(specified)
            self._refuse_port()
            self._counters = _no_counters()
            self.certified.append(specified)
            return Certificate(specified.to_wire(), tuple(self.checks), 0, 0.0, KERNEL, alpha).to_wire()

    def timeline_start(self) -> dict[str, Any]:
        with self._lock:
            self._refuse_if_stopped()
            if self._specified.timeline is None:
                raise TimelineError(NO_TIMELINE)
            self._timeline = None
            self._take(self._specified.states[0])
            self._timeline = _Timeline(self._specified)
            return dict(self._timeline.status)

    def timeline_stop(self) -> dict[str, Any]:
        with self._lock:
            status = NO_TIMELINE_STATUS if self._timeline is None else self._timeline.status
            self._timeline = None
        return {**status, "running": False}

    def timeline_status(self) -> dict[str, Any]:
        timeline = self._timeline
        return NO_TIMELINE_STATUS if timeline is None else dict(timeline.status)

    def statistics(self) -> dict[str, dict[str, dict[str, float]]]:
        with self._lock:
            return {
                way: {stage: {name: float(value) for name, value in counters.items()} for stage, counters in of.items()}
                for way, of in self._counters.items()
            }

    def capabilities(self) -> dict[str, Any]:
        reasons = {name: self._missing.get(name, "") for name in CAPABILITIES}
        return {"kernel": KERNEL} | {
            name: {"available": not reason, "reason": reason} for name, reason in reasons.items()
        }

    def stop(self) -> None:
        self._stopped = True
        self.clear()

    def count(self, direction: str, stage: str, **counters: int) -> None:
        """Have a stage count so much more. Raises ValueError if the channel has no such stage."""
        with self._lock:
            stages = self._counters[direction]
            if stage not in stages:
                raise ValueError(f"{direction}: got the stage {stage}, expected one of {', '.join(stages) or 'none'}")
            stages[stage].update(counters)

    def elapse(self, seconds: float, late_ns: int = 0) -> None:
        """Let so much time pass for the timeline: the steps of that time are applied, each `late_ns` late."""
        with self._lock:
            if self._timeline is None:
                return
            try:
                for moment, before in self._timeline.passed(seconds, late_ns):
                    timeline = self._timeline
                    self._take(self._links | seeded_links(moment, before))
                    self._timeline = timeline
            except ChannelRefused as refusal:
                timeline.fail(str(refusal))
                self._timeline = timeline

    def _refuse_what_cannot_be(self, specified: ChannelSpec) -> None:
        self._refuse_if_stopped()
        require_capabilities(specified, self.capabilities())

    def _refuse_port(self) -> None:
        """Raise what concerns a port before anything is touched."""
        if self.refusals and isinstance(self.refusals[0], PortRefused):
            raise self.refusals.pop(0)

    def _take(self, links: dict[str, LinkSpec]) -> None:
        """Have the links' stages. Raises the refusal that stands next, with nothing left of the channel."""
        if self.refusals:
            self._forget()
            raise self.refusals.pop(0)
        rtt_ns = sum(link.delay_ns for link in links.values())
        for name, link in links.items():
            wanted = stages_of(link, rtt_ns, self._drawn_seeds[name])
            self._stages[name] = retaining_netems(wanted, self._stages[name], link.keeps_order)
            for stage, has in self._stages[name].named.items():
                if has is not None:
                    zeros = dict.fromkeys(_NETEM_COUNTERS, 0) if stage in ("bottleneck", "pipe") else {}
                    self._counters[name].setdefault(stage, Counter(zeros))
        self._links = links

    def _read_back(self) -> dict[str, Any]:
        links = {name: link_of(stages, self._links[name]) for name, stages in self._stages.items()}
        return self._specified.model_copy(update=links).to_wire()

    def _forget(self) -> None:
        self._timeline = None
        self._specified = ChannelSpec()
        self._links = self._specified.states[0]
        self._stages = {name: Stages() for name in DIRECTIONS}
        self._counters = _no_counters()
        self._drawn_seeds = {name: secrets.randbelow(LARGEST_SEED + 1) for name in DIRECTIONS}


def _no_counters() -> dict[str, dict[str, Counter[str]]]:
    return {name: {} for name in DIRECTIONS}


class _Timeline:
    """The steps of a channel's timeline, and how far they are."""

    def __init__(self, channel: ChannelSpec) -> None:
        self._moments = moments(channel)
        self._next = next(self._moments, None)
        self._before = channel.states[0]
        self.status = NO_TIMELINE_STATUS | {"running": True}

    def passed(self, seconds: float, late_ns: int) -> Iterator[tuple[Moment, dict[str, LinkSpec]]]:
        """The steps of the time that passes, each with the links as they were before it."""
        elapsed_s = self.status["elapsed_s"] + seconds
        self.status = self.status | {"elapsed_s": elapsed_s}
        while self._next is not None and self._next.at_ns <= elapsed_s * 1e9:
            yield self._next, self._before
            self.status = self.status | {
                "steps_applied": self._next.number,
                "late_ns": [*self.status["late_ns"], float(late_ns)],
                "latest_ns": max(self.status["latest_ns"], float(late_ns)),
            }
            self._before, self._next = self._next.links, next(self._moments, None)
        self.status = self.status | {"running": self._next is not None}

    def fail(self, reason: str) -> None:
        """End before its time."""
        step = self._next
        assert step is not None
        self.status = self.status | {
            "running": False,
            "failure": f"step {step.number}, at {step.at_ns / 1e9:g} s: {reason}",
        }


class MemoryTransport(Transport):
    """Carries a client's calls to an emulator in this process, as XML-RPC, without a connection."""

    def __init__(self, emulator: Emulator, token: str | None = None) -> None:
        super().__init__()
        self._methods = Methods(emulator, LeaseKeeper(emulator.clear), token)
        self._credentials = Credentials()
        self.lost: OSError | None = None
        """What each call raises, as if the connection was lost; None: it is there."""

    def set_credentials(self, token: str | None, lease: str | None) -> None:
        self._credentials = Credentials(token, lease)

    def request(self, host: Any, handler: str, request_body: Any, verbose: bool = False) -> Any:
        """Return the parameters of the answer; raise Fault."""
        if self.lost is not None:
            raise self.lost
        return loads(self._methods.answer(bytes(request_body), self._credentials), use_builtin_types=True)[0]


def memory_client(emulator: Emulator, token: str | None = None) -> EmulatorClient:
    """A client of an emulator in this process, with a lease book of its own."""
    return EmulatorClient("http://memory", token=token, transport=MemoryTransport(emulator, token))

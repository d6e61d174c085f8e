"""The gate at a link's entrance: the rule that a link needs, the program with that rule, and reading it back. It drops
frames that are too long, or that find a queue full which is not counted in packets, and marks ECN-capable packets. If
the queue level decides the marks, the gate also limits queues in packets: both must be counted in one place. A packet
passes it before the bottleneck. The program is `bpf/programs/gate.bpf.c`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any, Self

from owlt.emulator.channel.link import LONGEST_COUNTED_QUEUE, EcnMarking, LinkSpec, QueueLevel
from owlt.emulator.kernel.bpf_stages import ETHERNET_HEADER_BYTES, ProgramStage
from owlt.emulator.kernel.ports import INGRESS_FILTERS

_NONE = 2**64 - 1


_CERTAIN = 2**53
"""The number of draws that corresponds to a probability of 1."""


@dataclass(frozen=True)
class Marking:
    """The rule by which accepted ECN-capable packets are marked CE.

    Each is drawn with the `probability` by the seed. In addition, packets are marked that find at least
    `threshold_packets` in the queue, or `threshold_ns` of transmission time before them; None: there is no such
    threshold.
    """

    probability: float = 0.0
    threshold_packets: int | None = None
    threshold_ns: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse values that are no marking."""
        if not 0 <= self.probability <= 1:
            raise ValueError(f"marking: probability: expected 0..1, got {self.probability}")
        for value in (self.threshold_packets, self.threshold_ns):
            if value is not None and value < 1:
                raise ValueError(f"marking: threshold: expected 1 or more, got {value}")

    @property
    def share(self) -> int:
        """The probability as the program has it, in 2^-53: its error is below 6e-17."""
        return round(self.probability * _CERTAIN)


@dataclass(frozen=True)
class Admission:
    """The rule of a link's entrance; None if there is none.

    `queue_ns` is the largest backlog of the link, in transmission time, after it has accepted a frame; an idle link
    accepts any frame. A frame keeps it busy for its bytes and the overhead at `rate_bytes_per_s`; without a rate (0) it
    is never busy. `queue_packets` is how many may wait or be sent at a time.
    """

    mtu_bytes: int | None
    queue_ns: int | None
    rate_bytes_per_s: int
    overhead_bytes: int = 0
    queue_packets: int | None = None
    marking: Marking | None = None

    def __post_init__(self) -> None:
        """Refuse values that are no rule."""
        counted = (self.queue_packets, self.marking.threshold_packets if self.marking else None)
        if any(number is not None and not 0 < number <= LONGEST_COUNTED_QUEUE for number in counted):
            raise ValueError(f"admission: packets: expected 1 to {LONGEST_COUNTED_QUEUE}, got {counted}")
        for name in ("mtu_bytes", "queue_ns", "rate_bytes_per_s", "overhead_bytes"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"admission: {name}: expected 0 or more, got {value}")

    @property
    def longest_frame_bytes(self) -> int | None:
        """The length of a frame with its Ethernet header and without its checksum."""
        return None if self.mtu_bytes is None else self.mtu_bytes + ETHERNET_HEADER_BYTES

    def serialization_ns(self, frame_bytes: int) -> int:
        """Return the transmission time of a frame as netem computes it: rounded down."""
        if not self.rate_bytes_per_s:
            return 0
        return (frame_bytes + self.overhead_bytes) * 10**9 // self.rate_bytes_per_s


def gate_of(link: LinkSpec, rtt_ns: int, seed: int) -> Admission | None:
    """Return the rule that a link needs; None if it needs none.

    `rtt_ns` is for queues in bandwidth-delay products, `seed` for random choices.
    """
    queue_ns, marking = _queue_ns(link, rtt_ns), _marking(link, seed)
    if link.mtu_bytes is None and queue_ns is None and marking is None:
        return None
    rate = round(link.rate_bps / 8) if link.rate_bps is not None else 0
    queue_packets = link.queue_packets if holds_the_queue(link) and queue_ns is None else None
    return Admission(link.mtu_bytes, queue_ns, rate, link.overhead_bytes, queue_packets, marking)


def holds_the_queue(link: LinkSpec) -> bool:
    """Return whether the gate limits the queue, and not the bottleneck."""
    marks_by_queue = link.ecn_marking is not None and link.ecn_marking.queue_threshold is not None
    return marks_by_queue or link.queue_bytes is not None or link.queue_ns is not None or link.queue_bdp is not None


def fields_of_gate(actual: Admission | None, specified: LinkSpec) -> dict[str, Any]:
    """Return the fields of a link that the kernel's actual rule carries out.

    The units of a queue and of a threshold are those specified.
    """
    fields: dict[str, Any] = {"mtu_bytes": actual.mtu_bytes if actual else None}
    if actual is None or actual.queue_ns is None:
        fields |= dict.fromkeys(("queue_bytes", "queue_ns", "queue_bdp"))
    if actual is not None and actual.queue_packets is not None:
        fields["queue_packets"] = actual.queue_packets
    return fields | {"ecn_marking": _ecn_marking_of(actual.marking if actual else None, specified)}


def _ecn_marking_of(actual: Marking | None, specified: LinkSpec) -> EcnMarking | None:
    if actual is None:
        return None
    if actual == _marking(specified, actual.seed):
        return specified.ecn_marking
    level = None
    if actual.threshold_packets is not None:
        level = QueueLevel(actual.threshold_packets, "packets")
    elif actual.threshold_ns is not None:
        level = QueueLevel(actual.threshold_ns, "ns")
    return EcnMarking(probability=actual.probability, queue_threshold=level)


def _marking(link: LinkSpec, seed: int) -> Marking | None:
    if link.ecn_marking is None:
        return None
    level = link.ecn_marking.queue_threshold
    threshold_ns = level.amount if level and level.unit == "ns" else None
    if level and level.unit == "bytes" and link.rate_bps is not None:
        threshold_ns = max(round(level.amount * 8e9 / link.rate_bps), 1)
    return Marking(
        probability=link.ecn_marking.probability,
        threshold_packets=level.amount if level and level.unit == "packets" else None,
        threshold_ns=threshold_ns,
        seed=seed if link.ecn_marking.draws else 0,
    )


def _queue_ns(link: LinkSpec, rtt_ns: int) -> int | None:
    """The time that the queue takes to empty, where it is not counted in packets."""
    if link.queue_bytes is not None and link.rate_bps is not None:
        return round(link.queue_bytes * 8e9 / link.rate_bps)
    if link.queue_bdp is not None:
        return round(link.queue_bdp * rtt_ns)
    return link.queue_ns


class GateStage(ProgramStage):
    """The rule by which incoming frames at an interface are accepted, before they are redirected."""

    _program = "gate"
    _parent = INGRESS_FILTERS
    _counters = (
        "packets",
        "bytes",
        "dropped_queue_packets",
        "dropped_queue_bytes",
        "dropped_mtu_packets",
        "dropped_mtu_bytes",
        "marked_packets",
    )
    _layout = struct.Struct("=4xI5Qd4Q")
    _hold_at = 4
    _marks = False
    """Whether there was a rule that marks packets, so that those that it marked are counted."""

    @classmethod
    def load(cls, admission: Admission) -> Self:
        """Return a stage that is not attached yet; BpfError if the kernel refuses it."""
        stage = cls._loaded()
        stage._write(admission, 0)
        return stage

    def replace(self, admission: Admission) -> None:
        """Change the rule between two frames. Frames in the queue stay, as in netem."""
        self._write(admission, self._read()[self._hold_at])

    def hold_until(self, ns: int) -> None:
        """Set the time of CLOCK_MONOTONIC before which the link sends nothing; 0: no limit."""
        self._write(self.read_back(), ns)

    def read_back(self) -> Admission:
        """Return the rule that the kernel has.

        Its probability is the written one if the kernel's share belongs to it.
        """
        overhead, longest, queue_ns, rate, _, queue_packets, probability, share, mark_ns, mark_packets, seed = (
            self._read()
        )
        marking = Marking(probability, _or_none(mark_packets), _or_none(mark_ns), seed)
        if marking.share != share:
            marking = replace(marking, probability=share / _CERTAIN)
        return Admission(
            mtu_bytes=None if longest == _NONE else longest - ETHERNET_HEADER_BYTES,
            queue_ns=_or_none(queue_ns),
            rate_bytes_per_s=rate,
            overhead_bytes=overhead,
            queue_packets=_or_none(queue_packets),
            marking=None if marking == Marking() else marking,
        )

    def counters(self) -> dict[str, int]:
        """Return what was counted since the stage was loaded; marked packets only if a rule marks any."""
        counted = super().counters()
        if not self._marks:
            del counted["marked_packets"]
        return counted

    def _write(self, admission: Admission, hold_until_ns: int) -> None:
        marking = admission.marking or Marking()
        value = self._layout.pack(
            admission.overhead_bytes,
            _or_unlimited(admission.longest_frame_bytes),
            _or_unlimited(admission.queue_ns),
            admission.rate_bytes_per_s,
            hold_until_ns,
            _or_unlimited(admission.queue_packets),
            marking.probability,
            marking.share,
            _or_unlimited(marking.threshold_ns),
            _or_unlimited(marking.threshold_packets),
            marking.seed,
        )
        self._object.write("admissions", value, locked=True)
        self._marks |= admission.marking is not None

    def _read(self) -> tuple[Any, ...]:
        return self._layout.unpack(self._object.read("admissions", self._layout.size, locked=True))


def _or_unlimited(value: int | None) -> int:
    return _NONE if value is None else value


def _or_none(value: int) -> int | None:
    return None if value == _NONE else value

"""The gate, at a link's entrance: what a link asks of it, its rule, the program with that rule, and what it reads back.

It turns away frames that are too long, or that find a queue full which is not counted in packets. A packet passes it
before the bottleneck. The program is `bpf/programs/gate.bpf.c`.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Self

from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.kernel.bpf_stages import ProgramStage
from owlt.emulator.kernel.ports import INGRESS_FILTERS
from owlt.emulator.kernel.program_settings import ETHERNET_HEADER_BYTES

_NONE = 2**64 - 1


@dataclass(frozen=True)
class Admission:
    """The rule of a link's entrance; None if there is none.

    `queue_ns` is how far ahead of now the link may be busy after it took a frame; an idle link takes any. A frame
    keeps it busy for its bytes and the overhead at `rate_bytes_per_s`; without a rate (0) it is never busy.
    """

    mtu_bytes: int | None
    queue_ns: int | None
    rate_bytes_per_s: int
    overhead_bytes: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no rule."""
        for name in ("mtu_bytes", "queue_ns", "rate_bytes_per_s", "overhead_bytes"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"admission: {name}: expected 0 or more, got {value}")

    @property
    def longest_frame_bytes(self) -> int | None:
        """A frame with its Ethernet header and without its checksum."""
        return None if self.mtu_bytes is None else self.mtu_bytes + ETHERNET_HEADER_BYTES

    def serialization_ns(self, frame_bytes: int) -> int:
        """Return how long a frame keeps the link busy, as netem has it: cut off, not rounded."""
        if not self.rate_bytes_per_s:
            return 0
        return (frame_bytes + self.overhead_bytes) * 10**9 // self.rate_bytes_per_s


def gate_of(link: LinkSpec, rtt_ns: int, seed: int) -> Admission | None:
    """Return the rule that a link needs; None if it needs none.

    `rtt_ns` is for queues in bandwidth-delay products, `seed` for random choices, of which there are none yet.
    """
    queue_ns = _queue_ns(link, rtt_ns)
    if link.mtu_bytes is None and queue_ns is None:
        return None
    rate = round(link.rate_bps / 8) if link.rate_bps is not None else 0
    return Admission(link.mtu_bytes, queue_ns, rate, link.overhead_bytes)


def holds_the_queue(link: LinkSpec) -> bool:
    """Return whether the gate limits the queue, and not the bottleneck."""
    return link.queue_bytes is not None or link.queue_ns is not None or link.queue_bdp is not None


def fields_of_gate(actual: Admission | None, specified: LinkSpec) -> dict[str, Any]:
    """Return the fields of a link that the kernel's actual rule carries out; the unit of a queue is the specified."""
    fields: dict[str, Any] = {"mtu_bytes": actual.mtu_bytes if actual else None}
    if actual is None or actual.queue_ns is None:
        fields |= dict.fromkeys(("queue_bytes", "queue_ns", "queue_bdp"))
    return fields


def _queue_ns(link: LinkSpec, rtt_ns: int) -> int | None:
    """The time that the queue takes to empty, where it is not counted in packets."""
    if link.queue_bytes is not None and link.rate_bps is not None:
        return round(link.queue_bytes * 8e9 / link.rate_bps)
    if link.queue_bdp is not None:
        return round(link.queue_bdp * rtt_ns)
    return link.queue_ns


class GateStage(ProgramStage):
    """The rule by which frames that come in at an interface are taken, before they are led elsewhere."""

    _program = "gate"
    _parent = INGRESS_FILTERS
    _counters = (
        "packets",
        "bytes",
        "dropped_queue_packets",
        "dropped_queue_bytes",
        "dropped_mtu_packets",
        "dropped_mtu_bytes",
    )
    _layout = struct.Struct("=4xI4Q")

    @classmethod
    def load(cls, admission: Admission) -> Self:
        """Return a stage that is not attached yet; BpfError if the kernel refuses it."""
        stage = cls._loaded()
        stage._write(admission, 0)
        return stage

    def replace(self, admission: Admission) -> None:
        """Change the rule between two frames. What is in the queue stays there, as it does in netem."""
        self._write(admission, self._read()[-1])

    def hold_until(self, ns: int) -> None:
        """Tell that the link sends nothing before a time of CLOCK_MONOTONIC; 0: it sends."""
        self._write(self.read_back(), ns)

    def read_back(self) -> Admission:
        """Return the rule that the kernel has."""
        overhead, longest, queue_ns, rate, _ = self._read()
        return Admission(
            mtu_bytes=None if longest == _NONE else longest - ETHERNET_HEADER_BYTES,
            queue_ns=None if queue_ns == _NONE else queue_ns,
            rate_bytes_per_s=rate,
            overhead_bytes=overhead,
        )

    def _write(self, admission: Admission, hold_until_ns: int) -> None:
        longest, queue_ns = admission.longest_frame_bytes, admission.queue_ns
        value = self._layout.pack(
            admission.overhead_bytes,
            _NONE if longest is None else longest,
            _NONE if queue_ns is None else queue_ns,
            admission.rate_bytes_per_s,
            hold_until_ns,
        )
        self._object.write("admissions", value, locked=True)

    def _read(self) -> tuple[int, ...]:
        return self._layout.unpack(self._object.read("admissions", self._layout.size, locked=True))

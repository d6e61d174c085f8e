"""Packets of an implementation on ports that its profile does not name, and which ports the profile should name.

A port that the kernel chose (bind(2) to port 0, or no bind) differs in the next run, so the profile must not name it.
Linux chooses from net.ipv4.ip_local_port_range; a program may also choose ports at random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from owlt.agents.contract.implementation import ROLES, Implementation
from owlt.captures.frames.columns import Columns, read_columns
from owlt.captures.frames.decoding import Kind
from owlt.captures.frames.session import ANY, Session, sent_by

Pairs = Counter[tuple[int, int]]
"""The number of frames between each two ports."""

EPHEMERAL = (32768, 60999)
"""The kernel's default net.ipv4.ip_local_port_range (ip-sysctl), which the guests have."""
EPHEMERAL_SYSCTL = "net.ipv4.ip_local_port_range"
FEWEST_FRAMES = 2
"""A pair of ports with a single frame may be the effect of a flipped bit."""


@dataclass(frozen=True)
class Advice:
    """What to write under `session` for packets of one kind, "udp" or "tcp"."""

    kind: str
    fixed: tuple[int, ...] = ()
    """Ports that these packets have in every run."""
    changing: tuple[int, int] | None = None
    """The lowest and the highest port of packets without a fixed port; None if each has one."""
    ephemeral: tuple[int, int] | None = None
    """The range that the kernel chooses from, if all changing ports are in it; otherwise None."""

    @property
    def text(self) -> str:
        """The advice as a sentence without a full stop."""
        if self.changing is None:
            return f"add {' and '.join(map(str, self.fixed))} to session.{self.kind}_ports"
        first, last = self.ephemeral or self.changing
        why = (
            f"the kernel chooses them, from {first} to {last} ({EPHEMERAL_SYSCTL})"
            if self.ephemeral
            else f"they are not the same in every run, here from {first} to {last}"
        )
        ports = ", ".join([*map(str, self.fixed), f'"{first}-{last}"'])
        return f"{why}; write session: {{ports: any}}, or {self.kind}_ports: [{ports}]"


def stray_pairs(pcap: Path, session: Session, kind: Kind) -> Pairs:
    """The UDP or TCP frames between the two hosts outside the session, by their ports, the lower one first."""
    if not pcap.exists():
        return Counter()
    frames = read_columns(pcap)
    anywhere = session.model_copy(update={"udp_ports": (ANY,), "tcp_ports": (ANY,)})
    stray = (frames.kind == kind) & ~_belongs(frames, session) & _belongs(frames, anywhere)
    ports = zip(frames.source_port[stray].tolist(), frames.destination_port[stray].tolist(), strict=True)
    return Counter((min(pair), max(pair)) for pair in ports)


def _belongs(frames: Columns, session: Session) -> NDArray[np.bool_]:
    return sent_by(frames, session, "sender") | sent_by(frames, session, "receiver")


def advise(kind: str, runs: Sequence[Pairs], ephemeral: tuple[int, int]) -> Advice | None:
    """The ports to name, from the stray frames of several runs; None if no run had more than single frames."""
    runs = [pairs for pairs in runs if max(pairs.values(), default=0) >= FEWEST_FRAMES]
    if not runs:
        return None
    everywhere = set.intersection(*({port for pair in pairs for port in pair} for pairs in runs))
    fixed = {port for port in everywhere if not _is_within(port, ephemeral)}
    frames = sum(runs, Counter())
    named = _fewest(fixed, frames)
    left = [port for pair, count in frames.items() if count >= FEWEST_FRAMES and not fixed & {*pair} for port in pair]
    if not left:
        return Advice(kind, named)
    is_ephemeral = all(_is_within(port, ephemeral) for port in left)
    return Advice(kind, named, (min(left), max(left)), ephemeral if is_ephemeral else None)


def _is_within(port: int, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= port <= bounds[1]


def _fewest(ports: set[int], frames: Pairs) -> tuple[int, ...]:
    """The fewest ports so that each pair has one of them: greedily those with most frames, the lower of equals."""
    weights: Counter[int] = Counter()
    for pair, count in frames.items():
        for port in {*pair}:
            weights[port] += count
    chosen: set[int] = set()
    for port in sorted(ports, key=lambda port: (-weights[port], port)):
        if any(port in pair and chosen.isdisjoint(pair) for pair in frames):
            chosen.add(port)
    return tuple(sorted(chosen))


def ephemeral_ports(implementation: Implementation) -> tuple[int, int]:
    """The range that the kernel chooses ports from: that of the guests, or the one that the profile sets."""
    for role in ROLES:
        numbers = implementation.side(role).sysctls.get(EPHEMERAL_SYSCTL, "").split()
        if len(numbers) == 2 and all(number.isdecimal() for number in numbers):
            return int(numbers[0]), int(numbers[1])
    return EPHEMERAL

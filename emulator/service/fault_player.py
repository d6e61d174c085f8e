"""Carries out the aimed faults of a channel: takes the packets that the kernel's rules have hit, and drops each of
them, or sends it later, several times, or changed.

Packets that are sent then pass the rest of the link like all others: its errors and its delay.
"""

from __future__ import annotations

import errno
import heapq
import logging
import os
import select
import socket
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from threading import Lock, Thread
from types import MappingProxyType
from typing import Any, Literal

import fastcrc

from owlt.emulator.channel.aimed_fault import ANY, NUMBERS, Fault, FieldChange, compiled
from owlt.emulator.channel.spec import DIRECTIONS
from owlt.emulator.kernel.aims import TAP_PREFIX, AimStage, HitPacket, Rule, Tap, injector
from owlt.emulator.kernel.direction import Direction
from owlt.emulator.kernel.rtnetlink import IPRoute

MOST_HITS = 10_000
"""Hits that are kept one by one; later ones are counted."""
_BUSY_NS = 100_000
HEAD_BYTES = 128
"""The number of bytes of a frame that are kept with its hit, so that it can be found in a capture."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Purpose:
    """What a rule is for: the packets that its fault hits, those that release what it holds, or those that overtake."""

    fault: int
    kind: Literal["hit", "release", "overtake"]


@dataclass
class _Rules:
    """The rules of one direction, with the class of each."""

    packets: list[str]
    rules: list[Rule]
    purposes: list[_Purpose]

    def add(self, packet: str, occurrences: Any, purpose: _Purpose, probability: float = 1.0) -> None:
        if packet not in self.packets:
            self.packets.append(packet)
        number = self.packets.index(packet)
        self.rules += [Rule(number, each.first, each.last, each.step, probability) for each in occurrences]
        self.purposes += [purpose] * len(occurrences)


def rules_of(faults: Sequence[Fault], classes: Mapping[str, Sequence[str]] = MappingProxyType({})) -> dict[str, _Rules]:
    """The rules by direction. `classes` are the classes of packets that a direction already has, in the order of their
    numbers."""
    rules = {direction: _Rules([*classes.get(direction, ())], [], []) for direction in DIRECTIONS}
    for number, fault in enumerate(faults):
        rules[fault.direction].add(fault.packet, fault.occurrences, _Purpose(number, "hit"), fault.probability)
    for number, fault in enumerate(faults):
        if (awaited := fault.action.hold_until_packet) is not None:
            rules[awaited.direction].add(awaited.packet, awaited.occurrences, _Purpose(number, "release"))
        if fault.action.reorder_behind is not None:
            rules[fault.direction].add(ANY, Fault.model_fields["occurrences"].default, _Purpose(number, "overtake"))
    return rules


class FaultPlayer:
    """The faults of a channel between two ports, from `start` until `close`."""

    def __init__(
        self,
        netlink: IPRoute,
        directions: Mapping[str, Direction],
        faults: Sequence[Fault],
        scope: str,
        seeds: Mapping[str, int],
    ) -> None:
        """Put filters and programs into the kernel; nothing is hit yet. `scope` is an expression of pcap-filter(7).

        Raises Invalid, BpfError, NetlinkError or OSError, with what it has attached left to the caller's `clear`.
        """
        self._faults = tuple(faults)
        self._lock = Lock()
        self._hits: list[dict[str, Any]] = []
        self._hit_counts = [0] * len(faults)
        self._changes = {direction: Counter[str]() for direction in DIRECTIONS}
        self._due: list[tuple[int, int, str, bytes]] = []
        self._sent = 0
        self._held: dict[int, list[HitPacket]] = defaultdict(list)
        self._overtaking: dict[int, int] = {}
        self._failure = ""
        self._stopped = False
        self._started_ns = self._started_at_ns = 0
        self._thread: Thread | None = None
        self._purposes: list[_Purpose] = []
        self._stage_of_rule: list[AimStage] = []
        self._sockets: dict[str, socket.socket] = {}
        self._stages: dict[str, AimStage] = {}
        self._classes: dict[str, list[str]] = {}
        """The classes whose filters are attached, by direction."""
        with ExitStack() as undo:
            self._wakes, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            undo.callback(os.close, self._wakes)
            undo.callback(os.close, self._wake)
            self._tap = Tap(netlink, f"{TAP_PREFIX}{directions['forward'].entrance.index}")
            undo.callback(self._tap.close)
            for direction, rules in rules_of(faults).items():
                if rules.rules:
                    self._attach(netlink, direction, directions[direction], rules, scope, seeds[direction], undo)
            self._undo = undo.pop_all()

    def _attach(
        self,
        netlink: IPRoute,
        name: str,
        direction: Direction,
        rules: _Rules,
        scope: str,
        seed: int,
        undo: ExitStack,
    ) -> None:
        stage = AimStage.load(rules.rules, len(self._purposes), self._tap.index, seed)
        undo.callback(stage.close)
        self._sockets[name] = injector(direction.exit.name)
        undo.callback(self._sockets[name].close)
        stage.attach_with(netlink, direction.exit.index, [compiled(packet, scope) for packet in rules.packets])
        self._purposes += rules.purposes
        self._stage_of_rule += [stage] * len(rules.purposes)
        self._stages[name], self._classes[name] = stage, rules.packets

    def start(self) -> None:
        """Let packets be hit from now on. Can be called once."""
        if self._thread is not None:
            return
        self._started_ns, self._started_at_ns = time.monotonic_ns(), time.time_ns()
        self._start_rules()
        self._thread = Thread(target=self._play, name="faults", daemon=True)
        self._thread.start()

    def _start_rules(self) -> None:
        for number, purpose in enumerate(self._purposes):
            fault = self._faults[purpose.fault]
            if purpose.kind == "hit" and not fault.after:
                self._start(number, fault, self._started_ns)

    def why_not_replaced(self, faults: Sequence[Fault]) -> str:
        """Why `replace` cannot aim these faults; "" if it can."""
        if self._thread is None:
            return "the faults have not been started"
        if any(self._seen()):
            return "packets have been counted already"
        for direction, rules in rules_of(faults, self._classes).items():
            if unknown := rules.packets[len(self._classes.get(direction, ())) :]:
                return f"no fault of {direction} counted packets of the class {unknown[0]}"
        return ""

    def replace(self, faults: Sequence[Fault]) -> None:
        """Aim other faults, as if they had been those of the channel when it started."""
        all_rules = rules_of(faults, self._classes)
        with self._lock:
            self._faults, self._hit_counts = tuple(faults), [0] * len(faults)
            self._purposes, self._stage_of_rule = [], []
            for direction, stage in self._stages.items():
                rules = all_rules[direction]
                stage.aim(rules.rules, len(self._purposes))
                self._purposes += rules.purposes
                self._stage_of_rule += [stage] * len(rules.purposes)
        self._start_rules()

    def status(self) -> dict[str, Any]:
        """For each fault how many packets of its class were counted and how many hit, the first hits one by one, how
        many packets are held, and why it ended before its time ("": it did not). Numbers are doubles; the start, in ns
        since 1970, is text.
        """
        seen = self._seen()
        with self._lock:
            faults = [
                {
                    "fault": fault.text,
                    "packet": fault.packet,
                    "action": fault.action.text,
                    "seen": float(seen[number]),
                    "hits": float(hits),
                }
                for number, (fault, hits) in enumerate(zip(self._faults, self._hit_counts, strict=True))
            ]
            held = sum(map(len, self._held.values())) + len(self._due)
            return {
                "faults": faults,
                "hits": list(self._hits),
                "held": float(held),
                "started_at_ns": str(self._started_at_ns),
                "failure": self._failure,
            }

    def counters(self) -> dict[str, dict[str, int]]:
        """By direction, what became of its packets: `packets` passed or were hit, `dropped_packets` were lost,
        `duplicated_packets` are further copies, `corrupted_packets` were changed, `waiting_packets` are held.
        """
        with self._lock:
            held = Counter(direction for _, _, direction, _ in self._due)
            for number, packets in self._held.items():
                held[self._faults[number].direction] += len(packets)
            return {
                name: {"packets": stage.counters()["packets"], **self._changes[name], "waiting_packets": held[name]}
                for name, stage in self._stages.items()
                if stage in self._stage_of_rule
            }

    def _seen(self) -> list[int]:
        """How many packets of its class each fault has counted: the most of its ranges, which count the same."""
        seen = [0] * len(self._faults)
        counts = [count for stage in self._stages.values() for count, _ in stage.counts()]
        for purpose, count in zip(self._purposes, counts, strict=True):
            if purpose.kind == "hit":
                seen[purpose.fault] = max(seen[purpose.fault], count)
        return seen

    def close(self) -> None:
        """End, and release everything; packets that are held are lost. Filters are removed with their port's clsact."""
        self._stopped = True
        os.write(self._wake, b"x")
        if self._thread is not None:
            self._thread.join()
        self._undo.close()

    def _play(self) -> None:
        try:
            while not self._stopped:
                select.select([self._tap.fileno(), self._wakes], [], [], self._wait_s())
                while (packet := self._tap.packet()) is not None:
                    self._take(packet)
                while self._due and self._due[0][0] <= time.monotonic_ns():
                    with self._lock:
                        _, _, direction, frame = heapq.heappop(self._due)
                    self._send(direction, frame)
        except Exception as error:
            log.exception("faults")
            self._failure = str(error)
            for rule, stage in enumerate(self._stage_of_rule):
                stage.stop(rule)  # later packets pass instead of waiting in the tap

    def _wait_s(self) -> float | None:
        """How long to wait for the packet that is due next; None if there is none. The kernel may end a select late by
        a thousandth of its time (fs/select.c), so it is ended before, and the rest is waited for in shorter ones.
        """
        if not self._due:
            return None
        left_ns = self._due[0][0] - time.monotonic_ns()
        return max(left_ns - left_ns // 500 - _BUSY_NS, 0) / 1e9

    def _take(self, packet: HitPacket) -> None:
        purpose = self._purposes[packet.rule]
        fault = self._faults[purpose.fault]
        if purpose.kind == "hit":
            self._note(packet, purpose.fault, fault)
            self._act(packet, purpose.fault, fault)
        elif purpose.kind == "release":
            awaited = fault.action.hold_until_packet
            assert awaited is not None
            self._send(awaited.direction, packet.frame)
            self._release(purpose.fault)
        else:
            self._send(fault.direction, packet.frame)
            self._overtaking[purpose.fault] -= 1
            if not self._overtaking[purpose.fault]:
                self._release(purpose.fault)

    def _note(self, packet: HitPacket, number: int, fault: Fault) -> None:
        hit = {
            "fault": float(number),
            "direction": fault.direction,
            "occurrence": float(packet.occurrence),
            "at_ns": float(packet.at_ns - self._started_ns),
            "frame_bytes": float(len(packet.frame)),
            "head": packet.frame[:HEAD_BYTES].hex(),
        }
        with self._lock:
            self._hit_counts[number] += 1
            self._hits += [hit] if len(self._hits) < MOST_HITS else []
            is_first = self._hit_counts[number] == 1
        if is_first and fault.name:
            self._start_after(fault.name, packet.at_ns)

    def _start_after(self, name: str, at_ns: int) -> None:
        """Start the rules of the faults that come after the one of this name."""
        for number, purpose in enumerate(self._purposes):
            fault = self._faults[purpose.fault]
            if purpose.kind == "hit" and fault.after == name:
                self._start(number, fault, at_ns)

    def _start(self, rule: int, fault: Fault, at_ns: int) -> None:
        from_ns = max(at_ns, self._started_ns + fault.from_ns)
        if fault.until_ns is None:
            self._stage_of_rule[rule].start(rule, from_ns)
        else:
            self._stage_of_rule[rule].start(rule, from_ns, self._started_ns + fault.until_ns)

    def _act(self, packet: HitPacket, number: int, fault: Fault) -> None:
        action = fault.action
        if action.delay_ns is not None:
            self._send_at(packet.at_ns + action.delay_ns, fault.direction, packet.frame)
        elif action.hold_until_ns is not None:
            self._send_at(self._started_ns + action.hold_until_ns, fault.direction, packet.frame)
        elif action.hold_until_packet is not None:
            self._hold(packet, number, "release")
        elif action.reorder_behind is not None:
            self._overtaking[number] = action.reorder_behind
            self._hold(packet, number, "overtake")
        elif action.corrupt_bits:
            self._send_changed(packet, fault, with_flipped_bits(packet.frame, action.corrupt_bits))
        elif action.corrupt_field is not None:
            self._send_changed(packet, fault, with_field(packet.frame, action.corrupt_field))
        elif action.drop:
            self._count(fault, "dropped_packets")
        else:
            self._send(fault.direction, packet.frame)
        if action.duplicate is not None:
            self._count(fault, "duplicated_packets", action.duplicate)
            for _ in range(action.duplicate):
                if self._stopped:
                    break
                self._send(fault.direction, packet.frame)
        if action.replay_after_ns is not None:
            self._count(fault, "duplicated_packets")
            self._send_at(packet.at_ns + action.replay_after_ns, fault.direction, packet.frame)

    def _send_changed(self, packet: HitPacket, fault: Fault, frame: bytes) -> None:
        if frame != packet.frame:
            self._count(fault, "corrupted_packets")
        self._send(fault.direction, frame)

    def _count(self, fault: Fault, counter: str, more: int = 1) -> None:
        with self._lock:
            self._changes[fault.direction][counter] += more

    def _hold(self, packet: HitPacket, number: int, kind: str) -> None:
        with self._lock:
            self._held[number].append(packet)
        for rule, purpose in enumerate(self._purposes):
            if purpose == _Purpose(number, kind):  # type: ignore[arg-type]
                self._stage_of_rule[rule].start(rule, self._started_ns)

    def _release(self, number: int) -> None:
        with self._lock:
            released = self._held.pop(number, [])
        for rule, purpose in enumerate(self._purposes):
            if purpose.fault == number and purpose.kind != "hit":
                self._stage_of_rule[rule].stop(rule)
        for packet in released:
            self._send(self._faults[number].direction, packet.frame)

    def _send_at(self, due_ns: int, direction: str, frame: bytes) -> None:
        self._sent += 1  # packets that are due at one time keep their order
        with self._lock:
            heapq.heappush(self._due, (due_ns, self._sent, direction, frame))

    def _send(self, direction: str, frame: bytes) -> None:
        """Send a frame. ENOBUFS: a later stage of the link has dropped it, and counts it."""
        try:
            self._sockets[direction].send(frame)
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                self._failure = self._failure or f"a packet was not sent: {error.strerror}"


def with_flipped_bits(frame: bytes, bits: Sequence[int]) -> bytes:
    """The frame with these bits flipped; 0 is the first of its first byte. Bits beyond its end do not count."""
    changed = bytearray(frame)
    for bit in bits:
        if bit // 8 < len(changed):
            changed[bit // 8] ^= 0x80 >> bit % 8
    return bytes(changed)


_IP_AT, _IPV4_BYTES, _IPV6_BYTES = 14, 20, 40
_PROTOCOL_AT, _NEXT_HEADER_AT = 9, 6
_FRAGMENT_AT, _MORE_OR_OFFSET = slice(20, 22), 0x3FFF
_NAMES = {number: name for name, number in NUMBERS.items()}
_CHECKSUM_AT = {"udp": 6, "tcp": 16}
"""Where the Internet checksum is in a header."""
_CRC = slice(8, 12)
"""The place of the CRC32c in the header of SCTP."""


def with_field(frame: bytes, change: FieldChange) -> bytes:
    """The frame with another value in a field, and with right checksums in IPv4, UDP, TCP and SCTP. A frame without
    the layer, or that ends before the field does, stays as it is. A fragment of IPv4 has no transport: its checksum
    covers other fragments too.
    """
    is_ipv6 = frame[12:14] == b"\x86\xdd"
    if len(frame) < _IP_AT + _IPV4_BYTES or not (is_ipv6 or frame[12:14] == b"\x08\0"):
        return _overwritten(frame, change.offset, change.value) if change.layer == "ether" else frame
    transport_at = _IP_AT + (_IPV6_BYTES if is_ipv6 else (frame[_IP_AT] & 0x0F) * 4)
    protocol = frame[_IP_AT + (_NEXT_HEADER_AT if is_ipv6 else _PROTOCOL_AT)]
    is_fragment = not is_ipv6 and int.from_bytes(frame[_FRAGMENT_AT]) & _MORE_OR_OFFSET
    transport = "" if is_fragment else _NAMES.get(protocol, "")
    layers = {"ether": 0, "ip6" if is_ipv6 else "ip": _IP_AT, transport: transport_at}
    at = layers.get(change.layer, len(frame)) + change.offset
    changed = bytearray(_overwritten(frame, at, change.value))
    if changed == frame:
        return frame
    if not is_ipv6:
        _set_checksum(changed, _IP_AT + 10, bytes(changed[_IP_AT:transport_at]))
    length_at = _IP_AT + (4 if is_ipv6 else 2)
    counted_from = transport_at if is_ipv6 else _IP_AT
    segment = bytes(changed[transport_at : counted_from + int.from_bytes(changed[length_at : length_at + 2])])
    if transport in _CHECKSUM_AT:
        addresses = changed[_IP_AT + 8 : _IP_AT + 40] if is_ipv6 else changed[_IP_AT + 12 : _IP_AT + 20]
        pseudo = bytes(addresses) + len(segment).to_bytes(4) + bytes([0, 0, 0, protocol])
        _set_checksum(changed, transport_at + _CHECKSUM_AT[transport], pseudo + segment)
    elif transport and len(segment) >= _CRC.stop:
        crc = fastcrc.crc32.iscsi(segment[: _CRC.start] + bytes(4) + segment[_CRC.stop :])
        changed[transport_at + _CRC.start : transport_at + _CRC.stop] = crc.to_bytes(4, "little")
    return bytes(changed)


def _overwritten(frame: bytes, at: int, value: bytes) -> bytes:
    """The frame with these bytes there; as it is if it ends before."""
    return frame[:at] + value + frame[at + len(value) :] if at + len(value) <= len(frame) else frame


def _set_checksum(frame: bytearray, at: int, covered: bytes) -> None:
    """Set the Internet checksum (RFC 1071) of what it covers, in which the old one is, if the frame is that long."""
    if at + 2 > len(frame):
        return
    old = int.from_bytes(frame[at : at + 2])
    even = covered + b"\0" * (len(covered) % 2)
    total = sum(int.from_bytes(even[n : n + 2]) for n in range(0, len(even), 2)) - old
    frame[at : at + 2] = (0xFFFF - total % 0xFFFF).to_bytes(2)

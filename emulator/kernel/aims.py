"""Aimed faults in the kernel, for one direction: filters that find the packets of each class, the program that counts
them and picks those that are hit, and the tap through which the emulator gets these. The program is
`bpf/programs/aims.bpf.c`; what becomes of a packet is decided by `emulator.service.fault_player`.

Filters and program run where packets leave the emulator, before errors and delay, so a packet that the emulator sends
again passes both like any other.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple, Self

from owlt.emulator.channel.aimed_fault import MOST_RULES
from owlt.emulator.channel.packet_filter import ANY, compiled
from owlt.emulator.kernel.bpf.classic import as_classifier
from owlt.emulator.kernel.bpf.loading import BpfError, Classifier
from owlt.emulator.kernel.bpf_stages import ProgramStage
from owlt.emulator.kernel.kernel_requests import AIMS, FIRST_CLASS, add_program, clsact, silence
from owlt.emulator.kernel.ports import EGRESS_FILTERS
from owlt.emulator.kernel.rtnetlink import IPRoute
from owlt.inputs.mistake import Invalid

TAP_PREFIX = "owlt-tap"
LONGEST_FRAME_BYTES = 65_535
_INJECTED = 0x8000_0000
_NEVER = 2**64 - 1
_CERTAIN = 2**53
_TUNSETIFF, _IFF_TAP, _IFF_NO_PI = 0x4004_54CA, 0x0002, 0x1000  # linux/if_tun.h
_TAP_MTU_BYTES = 65_521
_TAP_QUEUE_PACKETS = 10_000
_SO_MARK = 36  # asm-generic/socket.h


@dataclass(frozen=True)
class Rule:
    """The occurrences `first`, `first + step`, ... up to `last` of a class, by its number, each with a probability."""

    class_number: int
    first: int
    last: int
    step: int = 1
    probability: float = 1.0


class HitPacket(NamedTuple):
    """A packet that a rule has hit, and which one of its packets it was; the time is of CLOCK_MONOTONIC."""

    rule: int
    occurrence: int
    at_ns: int
    frame: bytes


_HEADER = struct.Struct("=QQQ")


class Tap:
    """The interface through which the program gives packets to this process. It is gone when this is closed."""

    def __init__(self, netlink: IPRoute, name: str) -> None:
        """Make it in the network namespace of this process. Raises OSError."""
        self._descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            fcntl.ioctl(self._descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
            (self.index,) = netlink.link_lookup(ifname=name)
            silence(netlink, self.index)
            netlink.link("set", index=self.index, mtu=_TAP_MTU_BYTES, txqlen=_TAP_QUEUE_PACKETS, state="up")
        except BaseException:
            self.close()
            raise

    def fileno(self) -> int:
        """Its file descriptor, for select."""
        return self._descriptor

    def packet(self) -> HitPacket | None:
        """The next packet; None if there is none now."""
        while True:
            try:
                given = os.read(self._descriptor, _HEADER.size + LONGEST_FRAME_BYTES)
            except BlockingIOError:
                return None
            if len(given) > _HEADER.size:
                rule, occurrence, at_ns = _HEADER.unpack_from(given)
                return HitPacket(rule, occurrence, at_ns, given[_HEADER.size :])

    def close(self) -> None:
        """Remove it."""
        os.close(self._descriptor)


def injector(interface: str) -> socket.socket:
    """A socket whose frames leave an interface without being counted as packets of a class."""
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    made.setsockopt(socket.SOL_SOCKET, _SO_MARK, struct.pack("=I", _INJECTED))
    made.bind((interface, 0))
    return made


class AimStage(ProgramStage):
    """The rules of a direction, in its program. A rule has no effect before it is started."""

    _program = "aims"
    _parent = EGRESS_FILTERS
    _counters = ("packets", "hit_packets", "failed_packets")
    _process = struct.Struct("=4xIQ")
    _rule = struct.Struct("=IIQQQQQQ")

    @classmethod
    def load(cls, rules: Sequence[Rule], first_id: int, tap_index: int, seed: int) -> Self:
        """Return a stage that is not attached yet, whose rules are numbered from `first_id` on."""
        stage = cls._loaded()
        stage._settings = cls._process.pack(tap_index, seed)
        stage.aim(rules, first_id)
        return stage

    _settings: bytes
    _first_id: int
    _from_ns: list[int]
    _until_ns: list[int]

    def aim(self, rules: Sequence[Rule], first_id: int) -> None:
        """Replace the rules by others, of the classes whose filters are attached; all counts begin at 0."""
        self._first_id = first_id
        self._from_ns, self._until_ns = [_NEVER] * MOST_RULES, [_NEVER] * MOST_RULES
        written = b"".join(self._written(rule, first_id + number) for number, rule in enumerate(rules))
        value = self._settings + written.ljust(MOST_RULES * self._rule.size, b"\0")
        self._object.write("processes", value, locked=True)
        self._write_times()

    @classmethod
    def _written(cls, rule: Rule, number: int) -> bytes:
        share = round(rule.probability * _CERTAIN)
        return cls._rule.pack(1 << rule.class_number, number, rule.first, rule.last, rule.step, share, 0, 0)

    def attach_with(self, netlink: IPRoute, index: int, classes: Sequence[bytes]) -> None:
        """Let all frames that leave an interface pass the filters of the classes, then the program."""
        with clsact(netlink, index):
            for number, code in enumerate(classes):
                with Classifier(as_classifier(code, 1 << number)) as loaded:
                    name, priority = f"owlt-class-{number}", FIRST_CLASS + number
                    add_program(netlink, index, self._parent, loaded.program, name, priority, decides=False)
            self.attach(netlink, index, AIMS)

    def start(self, number: int, from_ns: int, until_ns: int = _NEVER) -> None:
        """Let a rule count from a moment of CLOCK_MONOTONIC on, until another one."""
        self._from_ns[number - self._first_id] = from_ns
        self._until_ns[number - self._first_id] = until_ns
        self._write_times()

    def stop(self, number: int) -> None:
        """Let a rule count no more."""
        self.start(number, _NEVER)

    def _write_times(self) -> None:
        self._object.write("times", struct.pack(f"={2 * MOST_RULES}Q", *self._from_ns, *self._until_ns))

    def counts(self) -> list[tuple[int, int]]:
        """For each rule, how many packets of its class it has counted, and how many it has hit."""
        size = self._process.size + MOST_RULES * self._rule.size
        value = self._object.read("processes", size, locked=True)[self._process.size :]
        rules = list(self._rule.iter_unpack(value))
        return [(seen, hits) for bit, *_, seen, hits in rules if bit]


def aims_reason(netlink: IPRoute, index: int) -> str:
    """Return why this kernel cannot aim faults; "" if it can. Leaves filters on the interface."""
    try:
        tap = Tap(netlink, f"{TAP_PREFIX}-probe")
    except OSError as error:
        return f"/dev/net/tun: {error.strerror}; next: run the emulator as root, with the module tun"
    try:
        with closing(AimStage.load([Rule(0, 1, 1)], 0, tap.index, 0)) as stage:
            stage.attach_with(netlink, index, [compiled(ANY)])
    except (BpfError, Invalid) as error:
        return str(error)
    finally:
        tap.close()
    return ""

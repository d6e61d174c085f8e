"""A libnorm session: opened, called, asked for its events with an exact deadline, closed; the transfer of each side.
The part of libnorm's C interface that this needs, by ctypes, stands first.

libnorm does its work on a thread of its own. A sender's end is acknowledged or flushed; a receiver stays until the
sender has its answers.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from ctypes import POINTER as Pointer
from ctypes import Structure, c_bool, c_char_p, c_double, c_int, c_int64, c_uint, c_uint8, c_uint16, c_uint32
from ctypes import c_void_p as Handle
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple, Self

from owlt.agents.endpoint.exit import Failed, Unsupported
from owlt.agents.endpoint.system_calls import Wait
from owlt.agents.endpoint.udp import RECEIVE_BUFFER_BYTES, Address
from owlt.agents.norm.settings import RECEIVER_ID, CongestionControl, End, Settings

SONAME = "libnorm.so.1"


class EventType(IntEnum):
    """NormEventType, in full: an event must have a name in a log."""

    INVALID = 0
    TX_QUEUE_VACANCY = 1
    TX_QUEUE_EMPTY = 2
    TX_FLUSH_COMPLETED = 3
    TX_WATERMARK_COMPLETED = 4
    TX_CMD_SENT = 5
    TX_OBJECT_SENT = 6
    TX_OBJECT_PURGED = 7
    TX_RATE_CHANGED = 8
    LOCAL_SENDER_CLOSED = 9
    REMOTE_SENDER_NEW = 10
    REMOTE_SENDER_RESET = 11
    REMOTE_SENDER_ADDRESS = 12
    REMOTE_SENDER_ACTIVE = 13
    REMOTE_SENDER_INACTIVE = 14
    REMOTE_SENDER_PURGED = 15
    RX_CMD_NEW = 16
    RX_OBJECT_NEW = 17
    RX_OBJECT_INFO = 18
    RX_OBJECT_UPDATED = 19
    RX_OBJECT_COMPLETED = 20
    RX_OBJECT_ABORTED = 21
    RX_ACK_REQUEST = 22
    GRTT_UPDATED = 23
    CC_ACTIVE = 24
    CC_INACTIVE = 25
    ACKING_NODE_NEW = 26
    SEND_ERROR = 27
    USER_TIMEOUT = 28


class AckingStatus(IntEnum):
    """NormAckingStatus: what is known of the receivers asked to acknowledge."""

    INVALID = 0
    FAILURE = 1
    PENDING = 2
    SUCCESS = 3


class ProbingMode(IntEnum):
    """NormProbingMode: whether the sender measures round trips with probes, and receivers answer each."""

    NONE = 0
    PASSIVE = 1
    ACTIVE = 2


class RepairBoundary(IntEnum):
    """NormRepairBoundary: where a receiver looks back for what is missing."""

    BLOCK = 0
    OBJECT = 1


class Event(Structure):
    """NormEvent."""

    _fields_ = (("type", c_int), ("session", Handle), ("sender", Handle), ("object", Handle))


_FUNCTIONS: dict[str, tuple[object, ...]] = {
    # name: result, arguments...
    "NormCreateInstance": (Handle, c_bool),
    "NormDestroyInstance": (None, Handle),
    "NormGetDescriptor": (c_int, Handle),
    "NormGetNextEvent": (c_bool, Handle, Pointer(Event), c_bool),
    "NormSetCacheDirectory": (c_bool, Handle, c_char_p),
    "NormCreateSession": (Handle, Handle, c_char_p, c_uint16, c_uint32),
    "NormSetMulticastInterface": (c_bool, Handle, c_char_p),
    "NormIsUnicastAddress": (c_bool, c_char_p),
    "NormSetTxOnly": (None, Handle, c_bool, c_bool),
    "NormSetDefaultUnicastNack": (None, Handle, c_bool),
    "NormSetTxPort": (c_bool, Handle, c_uint16, c_bool, c_char_p),
    "NormSetRxPortReuse": (None, Handle, c_bool, c_char_p, c_char_p, c_uint16),
    "NormSetTxRate": (None, Handle, c_double),
    "NormGetTxRate": (c_double, Handle),
    "NormSetTxRateBounds": (None, Handle, c_double, c_double),
    "NormSetCongestionControl": (None, Handle, c_bool, c_bool),
    "NormSetEcnSupport": (None, Handle, c_bool, c_bool, c_bool),
    "NormSetTxCacheBounds": (None, Handle, c_int64, c_uint32, c_uint32),
    "NormSetTxRobustFactor": (None, Handle, c_int),
    "NormSetGrttEstimate": (None, Handle, c_double),
    "NormSetGrttMax": (None, Handle, c_double),
    "NormSetGrttProbingMode": (None, Handle, c_int),
    "NormSetBackoffFactor": (None, Handle, c_double),
    "NormSetGroupSize": (None, Handle, c_uint),
    "NormSetAutoParity": (None, Handle, c_uint8),
    "NormStartSender": (c_bool, Handle, c_uint16, c_uint32, c_uint16, c_uint16, c_uint16, c_uint8),
    "NormFileEnqueue": (Handle, Handle, c_char_p, c_char_p, c_uint),
    "NormAddAckingNode": (c_bool, Handle, c_uint32),
    "NormSetWatermark": (c_bool, Handle, Handle, c_bool),
    "NormGetGrttEstimate": (c_double, Handle),
    "NormGetAckingStatus": (c_int, Handle, c_uint32),
    "NormSetDefaultRepairBoundary": (None, Handle, c_int),
    "NormSetRxSocketBuffer": (c_bool, Handle, c_uint),
    "NormStartReceiver": (c_bool, Handle, c_uint32),
    "NormFileGetName": (c_bool, Handle, c_char_p, c_uint),
}


def load() -> dict[str, Callable[..., Any]]:
    """The functions of the library by name, each with its types.

    Raises:
        Unsupported: this host does not have it.
    """
    try:
        library = ctypes.CDLL(SONAME)
    except OSError as error:
        raise Unsupported(f"{error}; install it: apt-get install libnorm1") from error
    functions: dict[str, Callable[..., Any]] = {}
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    return functions


class SessionPlace(NamedTuple):
    """Where a node is: the session's address (a multicast group, or the receiver's own), the interface of its
    multicast, the node's own port and id."""

    destination: Address
    interface: str | None
    tx_port: int
    node_id: int


INSTANCE_ID = 1
"""The instance of the sender (RFC 5740, section 4.2): a run has one, and what does not depend on chance has the same
packets with every seed."""

M_PERTURB = -6
"""The parameter of mallopt(3) with which new memory is filled, all bits inverted."""


class Session:
    """One node in one session."""

    def __init__(self, place: SessionPlace, seed: int) -> None:
        self._norm = load()
        c_library = ctypes.CDLL(None)
        c_library.srand(ctypes.c_uint(seed))  # libnorm draws its back-offs from rand(), and never seeds it
        self._instance = self._norm["NormCreateInstance"](False)
        self._wait = Wait(self._norm["NormGetDescriptor"](self._instance))
        destination, interface, tx_port, node_id = place
        host = destination.host.encode()
        c_library.mallopt(M_PERTURB, 0xFF)  # memory is zero: libnorm takes its first sequence number from there
        self._handle = self._norm["NormCreateSession"](self._instance, host, destination.port, node_id)
        c_library.mallopt(M_PERTURB, 0)
        if not self._handle:
            raise Failed(f"libnorm cannot create a session on {destination}; give an IPv4 address and a port")
        self.is_unicast: bool = self._norm["NormIsUnicastAddress"](host)
        self.need("NormSetTxPort", tx_port, False, None)
        if not self.is_unicast:
            self.call("NormSetRxPortReuse", True, None, None, 0)  # a group has many members, on one host too
        if interface is not None:
            self.need("NormSetMulticastInterface", interface.encode())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._norm["NormDestroyInstance"](self._instance)

    def call(self, function: str, *arguments: object) -> Any:
        """Call a function of libnorm on this session."""
        return self._norm[function](self._handle, *arguments)

    def need(self, function: str, *arguments: object) -> Any:
        """Call a function whose result states whether it succeeded. Raises Failed."""
        result = self.call(function, *arguments)
        if not result:
            raise Failed(f"libnorm refused {function}{arguments}; is the interface up, the port free?")
        return result

    def set_congestion_control(self, chosen: CongestionControl) -> None:
        """To be called before the start, on both sides: the receiver decides what counts as congestion."""
        ecn_alone = chosen is CongestionControl.ECN
        self.call("NormSetEcnSupport", ecn_alone, ecn_alone, chosen is CongestionControl.LOSS_TOLERANT)
        self.call("NormSetCongestionControl", chosen is not CongestionControl.NONE, True)

    def set_cache_directory(self, directory: str) -> None:
        """Where files appear while they are received. libnorm ignores files without it."""
        if not self._norm["NormSetCacheDirectory"](self._instance, directory.encode()):
            raise Failed(f"libnorm cannot write to {directory}")

    def file_name(self, file: int) -> str:
        """The path of a file object."""
        name = ctypes.create_string_buffer(4096)
        self._norm["NormFileGetName"](file, name, len(name))
        return name.value.decode()

    def next_event(self, within_s: float) -> Event | None:
        """The next event; None if libnorm has shown no activity within this time.

        There may be one for each packet, so no clock is read here.
        """
        event = Event()
        while not self._norm["NormGetNextEvent"](self._instance, ctypes.byref(event), False):
            if not self._wait(within_s):
                return None
        if event.type == EventType.SEND_ERROR:
            raise Failed("libnorm cannot send: no route to the session's address, or the interface is down")
        return event


def receive(output: Path, settings: Settings, place: SessionPlace) -> str:
    """Receive one file, which appears at `output` when it is complete. Returns counters as text.

    Raises:
        Failed: the file was given up, or no progress for too long.
    """
    with Session(place, settings.seed + 1) as session:
        session.set_congestion_control(settings.congestion_control)
        session.call("NormSetDefaultUnicastNack", session.is_unicast)
        session.set_cache_directory(f"{output.parent}/")
        session.call("NormSetDefaultRepairBoundary", RepairBoundary[settings.repair_boundary.upper()])
        session.need("NormStartReceiver", settings.buffer_bytes)
        session.call("NormSetRxSocketBuffer", RECEIVE_BUFFER_BYTES)
        print(f"listening on {place.destination}", flush=True)
        received = _await_file(session, settings)
        Path(received).replace(output)
        whole_at_s = time.monotonic()
        _linger(session, whole_at_s + settings.linger_s)
    return f"linger_s={settings.linger_s:.6f}"


def _await_file(session: Session, settings: Settings) -> str:
    """The name that libnorm gave to the file, once the file is complete."""
    while True:
        event = session.next_event(settings.silence_limit_s)
        if event is None:
            raise Failed(f"no progress for {settings.silence_limit_s} s")
        if event.type == EventType.RX_OBJECT_COMPLETED:
            return session.file_name(event.object)
        if event.type == EventType.RX_OBJECT_ABORTED:
            raise Failed("the sender no longer has what is missing")


def _linger(session: Session, until_s: float) -> None:
    while (left_s := until_s - time.monotonic()) > 0:
        session.next_event(left_s)  # libnorm answers by itself; its queue of events must not grow


def send(file: Path, settings: Settings, place: SessionPlace) -> str:
    """Send a file to its end. Returns counters as text.

    Raises:
        Failed: the receiver did not acknowledge, or no progress for too long.
    """
    begin_s = time.monotonic()
    with Session(place, settings.seed) as session:
        _start(session, settings)
        entry = session.need("NormFileEnqueue", bytes(file), file.name.encode(), len(file.name.encode()))
        if settings.end is End.ACKNOWLEDGED:
            session.need("NormSetWatermark", entry, True)
        _await_end(session, settings)
        grtt_s, rate_bps = session.call("NormGetGrttEstimate"), session.call("NormGetTxRate")
        duration_s = time.monotonic() - begin_s
    return f"end={settings.end} grtt_s={grtt_s:.6f} message_rate_bps={rate_bps:.0f} duration_s={duration_s:.6f}"


def _start(session: Session, settings: Settings) -> None:
    session.call("NormSetTxOnly", session.is_unicast, False)  # messages of a receiver arrive at the port sent from
    session.set_congestion_control(settings.congestion_control)
    session.call("NormSetTxRate", settings.message_rate_bps)
    session.call("NormSetTxRateBounds", *settings.message_rate_bounds_bps)
    session.call("NormSetGrttMax", settings.grtt_limit_s)
    session.call("NormSetGrttProbingMode", ProbingMode[settings.probing.upper()])
    session.call("NormSetBackoffFactor", settings.backoff_factor)
    session.call("NormSetGroupSize", settings.group_size)
    session.call("NormSetTxRobustFactor", settings.robust_factor)
    session.call("NormSetAutoParity", settings.auto_parity_segments)
    session.call("NormSetTxCacheBounds", settings.file_bytes + 1, 1, 2)
    if settings.end is End.ACKNOWLEDGED:
        session.need("NormAddAckingNode", RECEIVER_ID)
    session.need(
        "NormStartSender",
        INSTANCE_ID,
        settings.buffer_bytes,
        settings.segment_bytes,
        settings.block_segments,
        settings.parity_segments,
        0,
    )
    # After the start, which rounds an earlier estimate up a second time (a step of the 8-bit GRTT is 8 %).
    session.call("NormSetGrttEstimate", settings.first_grtt_s)


def _await_end(session: Session, settings: Settings) -> None:
    while True:
        event = session.next_event(settings.silence_limit_s)
        if event is None:
            raise Failed(f"no progress for {settings.silence_limit_s} s")
        if event.type == EventType.TX_RATE_CHANGED:
            session.call("NormGetTxRate")  # or the next change is not reported
        if event.type == EventType.TX_WATERMARK_COMPLETED:
            status = session.call("NormGetAckingStatus", RECEIVER_ID)
            if status != AckingStatus.SUCCESS:
                raise Failed(f"the receiver did not acknowledge {settings.robust_factor} flushes")
            return
        if event.type == EventType.TX_FLUSH_COMPLETED and settings.end is End.FLUSHED:
            return

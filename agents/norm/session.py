"""A libnorm session as a value to hold: opened, called, asked for its events with an exact deadline, closed.

libnorm does its work on a thread of its own. Which calls make a sender or a receiver is left to those two.
"""

import ctypes
from typing import Any, NamedTuple, Self

from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.system_calls import Wait
from owlt.agents.endpoint.udp import Address
from owlt.agents.norm.library import Event, EventType, load
from owlt.agents.norm.settings import CongestionControl


class Place(NamedTuple):
    """Where a node is: the session's address (a multicast group, or the receiver's own), the interface of its
    multicast, the node's own port and id."""

    destination: Address
    interface: str | None
    tx_port: int
    node_id: int


M_PERTURB = -6
"""The parameter of mallopt(3) with which new memory is filled, all bits inverted."""


class Session:
    """One node in one session."""

    def __init__(self, place: Place, seed: int) -> None:
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
            raise Failed(f"libnorm cannot make a session on {destination}; give an IPv4 address and a port")
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
        """The same for a function whose result says whether it worked. Raises Failed."""
        result = self.call(function, *arguments)
        if not result:
            raise Failed(f"libnorm refused {function}{arguments}; is the interface up, the port free?")
        return result

    def set_congestion_control(self, chosen: CongestionControl) -> None:
        """Before the start, on both sides: it is the receiver who takes what has come for congestion or not."""
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

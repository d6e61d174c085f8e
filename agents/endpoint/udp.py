"""A UDP endpoint that talks to one peer: its socket, and waiting for it with an exact deadline."""

import socket
from contextlib import suppress
from typing import NamedTuple, Self

from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.system_calls import ReceiveWaiting, Wait

RECEIVE_BUFFER_BYTES = 4 << 20
"""The size requested from the kernel, which limits it to net.core.rmem_max.

The send buffer keeps its default size: with a larger one a host's own shaper would fill up before this socket does, and
drop packets.
"""

LARGEST_PAYLOAD_BYTES = 65507

AT_ONCE = 16
"""The most datagrams that are received before timers and sending have their turn."""


class Address(NamedTuple):
    """Where an endpoint is: IPv4 or IPv6 address, and port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """From `10.77.0.1:2501` or `[fd4f::1]:2501` (RFC 5952, section 6).

        Raises ValueError with the right spelling.
        """
        host, colon, port = text.rpartition(":")
        is_ipv6 = host.startswith("[") and host.endswith("]")
        if not (colon and host and is_ipv6 == (":" in host) and port.isdecimal() and 0 < int(port) < 65536):
            raise ValueError(f"got {text!r}, expected ADDRESS:PORT such as 10.77.0.1:2501 or [fd4f::1]:2501")
        return cls(host.strip("[]"), int(port))

    @property
    def is_ipv6(self) -> bool:
        """Whether the address is one of IPv6."""
        return ":" in self.host

    @property
    def family(self) -> socket.AddressFamily:
        """The family of a socket at this address."""
        return socket.AF_INET6 if self.is_ipv6 else socket.AF_INET

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_ipv6 else f"{self.host}:{self.port}"


class Endpoint:
    """A bound socket and its peer. Not connected, because the kernel would report an absent peer as errors.

    The peer is known by its IP address. It may send from any port; what is sent to it goes to the configured one, or if
    `learns_port`, to the one that its first datagram came from.
    """

    def __init__(self, local: Address, peer: Address, learns_port: bool = False) -> None:
        self._peer = peer
        self._learns_port = learns_port
        self.from_other_addresses = 0
        """Datagrams that were dropped because the peer did not send them."""
        self._socket = socket.socket(local.family, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        try:
            self._socket.bind(local)
        except OSError as error:
            self._socket.close()
            raise Failed(f"cannot listen on {local}: {error.strerror}; give an address of this host") from error
        self._peer_host = socket.inet_pton(peer.family, peer.host)
        self._receive = ReceiveWaiting(self._socket, AT_ONCE, LARGEST_PAYLOAD_BYTES)
        self.wait = Wait(self._socket.fileno())
        """Sleep until a datagram arrives, a timeout or, if requested, until there is room to send."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, payload: bytes) -> bool:
        """Hand one datagram to the kernel. False when the send buffer is full: wait until it is writable."""
        try:
            self._socket.sendto(payload, self._peer)
        except BlockingIOError:
            return False
        return True

    def received(self) -> list[bytes]:
        """The datagrams from the peer's address that have come so far, at most `AT_ONCE`. Others are counted and
        dropped."""
        if self._learns_port:
            self._learn_port()
        waiting = self._receive()
        payloads = [payload for host, payload in waiting if host == self._peer_host]
        self.from_other_addresses += len(waiting) - len(payloads)
        return payloads

    def _learn_port(self) -> None:
        """Take the port of the datagram that waits, if the peer sent it."""
        with suppress(BlockingIOError):
            host, port, *_ = self._socket.recvfrom(1, socket.MSG_PEEK)[1]
            if socket.inet_pton(self._peer.family, host) == self._peer_host:
                self._peer, self._learns_port = self._peer._replace(port=port), False

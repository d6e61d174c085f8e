"""Settings of the kernel's TCP through socket options (tcp(7), socket(7)), and its counters of a connection."""

import errno
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from owlt.agents.endpoint.exit import Unsupported
from owlt.agents.tcp.settings import Settings

SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
"""Like SO_SNDBUF and SO_RCVBUF, but not limited by net.core.wmem_max and rmem_max; only for root."""

TCP_DELACK_MAX_US = 46
"""An option of Linux 7; its values are from two ticks of the kernel (20 ms at 100 Hz) to 200 ms."""

MOST_SYN_RETRIES = 127
LONGEST_USER_TIMEOUT_MS = 2**30
"""12 days. With twice as much, the kernel ends a connection whose segments BBR has given a time ahead of the clock."""

AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
TIMESTAMPS = Path("/proc/sys/net/ipv4/tcp_timestamps")
TIMESTAMPS_BYTES = 12
"""The size of the option in every segment, padding included (RFC 7323, appendix A)."""

NO_RTT_US = 0xFFFFFFFF
"""Linux's value without a sample of the round trip. It stores round trips in 32 bits of µs, which wrap to 0 at 2^32 µs
(4295 s)."""

INFO_BYTES = 160
"""The part of struct tcp_info (linux/tcp.h) that has all fields used here."""


@dataclass(frozen=True)
class Info:
    """The kernel's counters of a connection. Segments are those that were handed to IP or came from it.

    `min_rtt_s` is None if the kernel has no sample of the round trip."""

    segments_out: int
    segments_in: int
    data_segments_out: int
    data_segments_in: int
    retransmitted: int
    bytes_acked: int
    min_rtt_s: float | None

    @classmethod
    def read(cls, tcp_info: bytes) -> Self:
        """From the value of the option TCP_INFO: at least INFO_BYTES of a struct tcp_info."""
        (retransmitted,) = struct.unpack_from("I", tcp_info, 100)
        (bytes_acked,) = struct.unpack_from("Q", tcp_info, 120)
        segments_out, segments_in, _, min_rtt_us, data_in, data_out = struct.unpack_from("6I", tcp_info, 136)
        min_rtt_s = None if min_rtt_us == NO_RTT_US else min_rtt_us / 1e6
        return cls(segments_out, segments_in, data_out, data_in, retransmitted, bytes_acked, min_rtt_s)


def limit_unsent(connection: socket.socket, unsent_bytes: int) -> None:
    """Let the kernel hold no more data than this that it has not sent (TCP_NOTSENT_LOWAT)."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent_bytes)


def prepare(endpoint: socket.socket, settings: Settings) -> None:
    """Options of both sides, before there is a connection.

    A SYN and its answer are retransmitted for hours (a first timeout of 1 s is built into Linux), nothing
    unacknowledged makes the kernel give up (tcp_retries2 would after 924 s), and the connection ends with its program:
    a program that ends early resets it, so that no orphaned connection sends into the next run.
    """
    set_option = endpoint.setsockopt
    set_option(socket.IPPROTO_TCP, socket.TCP_SYNCNT, MOST_SYN_RETRIES)
    set_option(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LONGEST_USER_TIMEOUT_MS)
    set_linger(endpoint, 0)
    if settings.buffer_bytes is not None:
        _set_buffer(endpoint, SO_SNDBUFFORCE, socket.SO_SNDBUF, settings.buffer_bytes)
        _set_buffer(endpoint, SO_RCVBUFFORCE, socket.SO_RCVBUF, settings.buffer_bytes)


def _set_buffer(endpoint: socket.socket, forced: int, asked: int, size_bytes: int) -> None:
    """Set a buffer size. Without the privilege to force it, net.core.rmem_max or wmem_max limits it."""
    try:
        endpoint.setsockopt(socket.SOL_SOCKET, forced, size_bytes)
    except PermissionError:
        endpoint.setsockopt(socket.SOL_SOCKET, asked, size_bytes)


def set_linger(endpoint: socket.socket, linger_s: int) -> None:
    """How long `close` waits until all is acknowledged; 0 resets the connection."""
    endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, linger_s))


def choose_congestion_control(endpoint: socket.socket, name: str) -> None:
    """Raises Unsupported if the kernel does not have it, with a list of those that it has."""
    try:
        endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EPERM):
            raise
        why = "is not for every user" if error.errno == errno.EPERM else "is not in this kernel"
        raise Unsupported(f"congestion control {name!r} {why}; it has: {AVAILABLE.read_text().strip()}") from error


def congestion_control(endpoint: socket.socket) -> str:
    """The congestion control of the connection."""
    return endpoint.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def limit_segments(endpoint: socket.socket, data_bytes: int) -> None:
    """Limit the data of each segment. Timestamps, if the host uses them, are not counted."""
    option_bytes = TIMESTAMPS_BYTES if int(TIMESTAMPS.read_text()) else 0
    endpoint.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, data_bytes + option_bytes)


def segment_bytes(endpoint: socket.socket) -> int:
    """The data in a full segment of a connection."""
    return endpoint.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)


def limit_delayed_acknowledgement(endpoint: socket.socket, limit_ms: int) -> None:
    """Limit how long an acknowledgement waits for a second segment.

    Raises Unsupported where the kernel has no such limit.
    """
    try:
        endpoint.setsockopt(socket.IPPROTO_TCP, TCP_DELACK_MAX_US, 1000 * limit_ms)
    except OSError as error:
        if error.errno not in (errno.ENOPROTOOPT, errno.EINVAL):
            raise
        raise Unsupported(f"acknowledgements delayed by {limit_ms} ms at most; Linux 7: two ticks to 200 ms") from error


def info(endpoint: socket.socket) -> Info:
    """The counters of the connection so far."""
    return Info.read(endpoint.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES))

"""The settings of a TCP transfer, and the values that follow from them."""

import argparse
import math
from dataclasses import dataclass

from owlt.agents.endpoint.command_line import count, not_negative, option
from owlt.agents.endpoint.exit import Unsupported

SMALLEST_SEGMENT_BYTES, LARGEST_SEGMENT_BYTES = 88, 32_755
"""The range of TCP_MAXSEG of Linux, without timestamps."""

LARGEST_WINDOW_BYTES = 65535 << 14
"""The largest window with window scaling (RFC 7323, section 2.2). More data are never in flight on any channel."""

LARGEST_BUFFER_BYTES = (1 << 30) - 1
"""The largest buffer that Linux grants: it counts in 31 bits, and doubles the requested size."""

SMALLEST_BUFFER_BYTES = 1 << 20

PACKET_OVERHEAD_BYTES = 1500
"""Memory that a packet may take in addition to its data; the window is the rest of the buffer."""

LONGEST_TIMEOUT_S = 120.0
"""TCP_RTO_MAX of Linux. tcp_rto_max_ms and TCP_RTO_MAX_MS make it shorter, nothing makes it longer."""

KERNEL_BUFFERS = "kernel"
CHANNEL_BUFFERS = "channel"


def _buffers(text: str) -> str:
    if text not in (CHANNEL_BUFFERS, KERNEL_BUFFERS) and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"got {text!r}, expected {CHANNEL_BUFFERS}, {KERNEL_BUFFERS} or bytes")
    return text


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Choices of both sides. Raises Unsupported when TCP or Linux has no such segments or delays."""

    rate_bps: float = option("rate of the channel, for the buffers; 0: unlimited", not_negative)
    rtt_s: float = option("round-trip time, for buffers and time limits", not_negative)
    file_bytes: int | None = None
    """None: data for a time, whose amount is not known."""
    segment_bytes: int = option("most bytes of file data per segment; 0: as the MTU allows", count, 1000)
    buffers: str = option(
        "channel: the bytes in flight; kernel: its own tuning; or a number of bytes", _buffers, CHANNEL_BUFFERS
    )
    congestion_control: str = option("congestion control of the kernel", default="cubic", sides=("send",))
    delack_limit_ms: int = option(
        "longest delay of an acknowledgement; 0: the kernel's value", count, 0, sides=("receive",)
    )
    idle_limit_s: float | None = option(
        "silence of the peer that ends a run; default: 1200 and 10 round trips", not_negative, None
    )

    def __post_init__(self) -> None:
        if self.segment_bytes and not SMALLEST_SEGMENT_BYTES <= self.segment_bytes <= LARGEST_SEGMENT_BYTES:
            wanted = f"{SMALLEST_SEGMENT_BYTES} to {LARGEST_SEGMENT_BYTES}"
            raise Unsupported(f"segments of {self.segment_bytes} bytes; Linux supports {wanted}")

    @property
    def load_text(self) -> str:
        """The received data in words, to follow a number of bytes."""
        return "" if self.file_bytes is None else f"of {self.file_bytes} "

    @property
    def buffer_bytes(self) -> int | None:
        """The size to request for both buffers: the data that the channel holds in a round trip, or the file if that is
        less. None leaves it to the kernel, which tunes within tcp_rmem and tcp_wmem."""
        if self.buffers == KERNEL_BUFFERS:
            return None
        if self.buffers != CHANNEL_BUFFERS:
            return min(int(self.buffers), LARGEST_BUFFER_BYTES)
        most_bytes = LARGEST_WINDOW_BYTES if self.file_bytes is None else self.file_bytes
        window_bytes = min(self._bytes_in_flight, most_bytes, LARGEST_WINDOW_BYTES)
        overhead = PACKET_OVERHEAD_BYTES / (self.segment_bytes or PACKET_OVERHEAD_BYTES)
        return min(max(math.ceil(window_bytes * (1 + overhead)), SMALLEST_BUFFER_BYTES), LARGEST_BUFFER_BYTES)

    @property
    def _bytes_in_flight(self) -> float:
        """The bytes in flight with a full channel and a queue of the same size."""
        return 2 * self.rate_bps * self.rtt_s / 8 if self.rate_bps else math.inf

    @property
    def silence_limit_s(self) -> float:
        """How long the peer may be silent: ten of the longest timeouts, for a packet that is lost as often."""
        return self.idle_limit_s if self.idle_limit_s is not None else 10 * (LONGEST_TIMEOUT_S + self.rtt_s)

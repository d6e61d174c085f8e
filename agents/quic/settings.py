"""The settings of a QUIC transfer, and the values that follow from them for both sides."""

from dataclasses import dataclass

from owlt.agents.endpoint.command_line import count, not_negative, option
from owlt.agents.endpoint.event_loop import longest_whole_bytes, sending_s
from owlt.agents.endpoint.exit import Unsupported

SMALLEST_DATAGRAM_BYTES = 1200
"""The UDP payload that QUIC requires of every path (RFC 9000 section 14). aioquic goes no lower."""

HANDSHAKE_DATAGRAMS = 4
"""The datagrams that an answer to a handshake packet may have to wait for on the channel: a flight of three, and the
request."""

IDLE_RTTS = 64
"""A probe is retransmitted after 2, 4, 8, ... round trips.

Six fit into the idle timeout; at PER 0.1 both ways all of them are lost in one run of 20,000.
"""

SMALLEST_WINDOW_BYTES = 16 << 20
NO_LOG = "none"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of a side. Those of the transport must be equal on both; the logs may differ."""

    rate_bps: float = option("rate of the channel, for windows and timers; 0: unlimited", not_negative)
    rtt_s: float = option("round-trip time before it is measured", not_negative)
    application: str = option(
        "push: the sender opens a stream for the file; http3: the receiver fetches it over HTTP/3",
        default="push",
        choices=["push", "http3"],
    )
    congestion_control: str = option("congestion control of aioquic", default="reno", choices=["reno", "cubic"])
    datagram_bytes: int = option("largest UDP payload, 1200 to 1472, over IPv6 to 1452", count, SMALLEST_DATAGRAM_BYTES)
    flow_window_bytes: int = option("receive window; 0: 16 MiB or four bandwidth-delay products", count, 0)
    timer_margin_s: float = option("added to the first estimate of the round trip", not_negative, 0.1)
    initial_rtt_s: float = option("first estimate of the round trip; 0: that of the channel", not_negative, 0.0)
    idle_limit_s: float = option("silence of the peer that ends a run; 0: 30 s and 64 round trips", not_negative, 0.0)
    linger_rtts: float = option("round trips for which the sender retransmits CONNECTION_CLOSE", not_negative, 10.0)
    seed: int = option("seed of the receiver's key", count, 1)
    wanted: str = option("name of the file to fetch over HTTP/3; default: none", default="", sides=("receive",))
    secrets_log: str = option("file for secrets, for tshark; - is standard output", default=NO_LOG)
    qlog_dir: str = option("directory for qlogs, in send/ and receive/, written at the end", default=NO_LOG)

    over_ipv6: bool = False
    """Whether the channel is crossed over IPv6, whose frames are longer."""

    def __post_init__(self) -> None:
        largest = longest_whole_bytes(self.over_ipv6)  # QUIC datagrams are never fragmented (RFC 9000 section 14)
        if not SMALLEST_DATAGRAM_BYTES <= self.datagram_bytes <= largest:
            raise Unsupported(
                f"datagrams of {self.datagram_bytes} bytes; over {'IPv6' if self.over_ipv6 else 'IPv4'} QUIC takes "
                f"{SMALLEST_DATAGRAM_BYTES} to {largest} bytes of UDP payload"
            )

    @property
    def first_rtt_s(self) -> float:
        """The round trip before it was measured. Handshake packets are retransmitted after twice this (RFC 9002 section
        6.2.2), so with that of the channel nothing is retransmitted that was not lost."""
        longest_s = sending_s(self.datagram_bytes, self.rate_bps, self.over_ipv6)
        return self.initial_rtt_s or self.rtt_s + HANDSHAKE_DATAGRAMS * longest_s + self.timer_margin_s

    @property
    def idle_timeout_s(self) -> float:
        """How long the peer may be silent."""
        return self.idle_limit_s or 30 + IDLE_RTTS * self.first_rtt_s

    @property
    def window_bytes(self) -> int:
        """Flow control of the receiver, for the stream and the connection: four bandwidth-delay products, so that
        congestion control alone limits the sender. aioquic doubles it as it fills."""
        return self.flow_window_bytes or max(SMALLEST_WINDOW_BYTES, round(4 * self.rate_bps * self.rtt_s / 8))

    @property
    def linger_s(self) -> float:
        """How long the sender answers with its CONNECTION_CLOSE after the last datagram that it received.

        A receiver that misses it sends probes after some 3 and 9 round trips, because it has few measurements of them.
        """
        return self.linger_rtts * self.first_rtt_s

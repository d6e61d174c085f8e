"""Sending no faster than a channel carries: when the next packet may go, counted in layer-2 bytes.

Values only; the clock and the waiting are left to the caller.
"""

import math

IP_MTU_BYTES = 1500
IPV4_HEADER_BYTES = 20
UDP_HEADER_BYTES = 8
ETHERNET_HEADER_BYTES = 14

CATCH_UP_S = 0.002
"""How late a sender may be and still make up for it. Timers fire some 50 us late, those of a busy host some ms. What is
made up for arrives at the channel as a burst: 3 packets of 1 kB at 10 Mbit/s, 240 at 1 Gbit/s."""


def frame_bytes(payload_bytes: int) -> int:
    """Layer-2 bytes of a UDP payload on Ethernet, IP fragments included, preamble and checksum not.

    This is what netem's and tbf's rate count.
    """
    datagram_bytes = payload_bytes + UDP_HEADER_BYTES
    fragment_payload_bytes = IP_MTU_BYTES - IPV4_HEADER_BYTES
    fragments = math.ceil(datagram_bytes / fragment_payload_bytes)
    return datagram_bytes + fragments * (IPV4_HEADER_BYTES + ETHERNET_HEADER_BYTES)


class Pacer:
    """A schedule on which packets leave back to back at `rate_bps`, and never faster. 0 is no limit.

    A packet may leave from `opens_at_s` on (seconds of the caller's clock). Lateness is made up for, idleness
    is not.
    """

    def __init__(self, rate_bps: float) -> None:
        self._rate_bps = rate_bps
        self._resting = True
        self.opens_at_s = -math.inf

    def spend(self, payload_bytes: int, now_s: float) -> None:
        """A packet leaves now: the next one may when the channel has taken this one."""
        if self._rate_bps > 0:
            begins_at_s = max(self.opens_at_s, now_s if self._resting else now_s - CATCH_UP_S)
            self.opens_at_s = begins_at_s + 8 * frame_bytes(payload_bytes) / self._rate_bps
        self._resting = False

    def rest(self) -> None:
        """There is nothing to send: time that passes from here on is not made up for."""
        self._resting = True

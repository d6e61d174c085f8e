"""The Internet checksum of the parts of a frame that carry one (RFC 791, RFC 768, RFC 9293, RFC 1071)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from captures.frames.decoding import ETHERNET_BYTES

_IPV4 = b"\x08\x00"
_CHECKSUM_AT = {6: 16, 17: 6}
"""Where in a TCP and in a UDP header the checksum is."""


def has_right_checksums(frame: bytes, like: bytes) -> Iterator[tuple[slice, bool]]:
    """For each part of the frame that has a checksum: where it is, and whether the checksum is right.

    The parts are the IPv4 header and what it carries, if that is UDP or TCP, whole, and all there. Where they begin
    and end is read from the frame `like` it, which is undamaged.
    """
    if like[12:14] != _IPV4 or len(like) < ETHERNET_BYTES + 20:
        return
    body = ETHERNET_BYTES + (like[14] & 15) * 4
    end = ETHERNET_BYTES + int.from_bytes(like[16:18], "big")
    if not ETHERNET_BYTES + 20 <= body <= min(end, len(like)):
        return
    yield slice(ETHERNET_BYTES, body), _is_right(frame[ETHERNET_BYTES:body])
    protocol, is_fragment = like[23], int.from_bytes(like[20:22], "big") & 0x3FFF
    checksum_at = body + _CHECKSUM_AT.get(protocol, end)
    if is_fragment or end > len(like) or checksum_at + 2 > end or not any(like[checksum_at : checksum_at + 2]):
        return
    pseudo_header = frame[26:34] + bytes([0, protocol]) + (end - body).to_bytes(2, "big")
    yield slice(body, end), _is_right(pseudo_header + frame[body:end])


def _is_right(covered: bytes) -> bool:
    words = np.frombuffer(covered + b"\0" * (len(covered) % 2), ">u2")
    return int(words.sum(dtype=np.int64)) % 0xFFFF == 0

"""Endpoint ids of the ipn scheme (RFC 6260): a node and one of its services."""

import re
from typing import NamedTuple, Self

from owlt.agents.bundle.fields import Malformed

_IPN = re.compile(rb"ipn:(0|[1-9][0-9]{0,18})\.(0|[1-9][0-9]{0,18})")


class Eid(NamedTuple):
    """`ipn:node.service`. Service 0 is the node's administrative endpoint; 0.0 stands for dtn:none."""

    node: int
    service: int

    @classmethod
    def from_text(cls, text: bytes) -> Self:
        """From `ipn:1.1`, as extension blocks and administrative records hold it. Raises Malformed."""
        match = _IPN.fullmatch(text)
        if not match:
            raise Malformed(f"got {text[:40]!r}, expected an endpoint id such as ipn:1.1")
        return cls(int(match[1]), int(match[2]))

    def text(self) -> bytes:
        """`ipn:1.1`"""
        return b"ipn:%d.%d" % self


NONE = Eid(0, 0)

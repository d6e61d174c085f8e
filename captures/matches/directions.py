"""Which way each frame of a capture is bound: from the sender's side of the channel or from the receiver's.

The session's packets tell it by their addresses. Other frames (ARP, IGMP, router solicitations, other programs) are
of the side from which the session's packets with the same Ethernet source come.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from owlt.captures.frames.columns import Columns
from owlt.captures.frames.heads import read_heads
from owlt.captures.session.session import Host, Session, sent_by

Rows = NDArray[np.int64]

_NONE = np.empty(0, np.int64)
_AT_ONCE = 1 << 16
_SAMPLE = 1_000
"""So many of a host's packets tell its Ethernet address: the one that most of them have, should some be damaged."""


@dataclass(frozen=True, eq=False)
class Bound:
    """The frames from one side: the rows of the session's packets, and those of the others."""

    session: Rows
    others: Rows = field(default_factory=lambda: _NONE)

    @property
    def all(self) -> Rows:
        """Both."""
        return np.concatenate([self.session, self.others]) if len(self.others) else self.session


ByHost = dict[Host | None, Bound]
"""The frames of a capture by the host from whose side they come; None: it cannot be told."""


def bound_by_host(capture: Columns, session: Session) -> ByHost:
    """All frames of the capture."""
    belongs = {host: sent_by(capture, session, host) for host in ("sender", "receiver")}
    sender, receiver = (np.flatnonzero(belongs[host]) for host in ("sender", "receiver"))
    if len(sender) + len(receiver) == len(capture):
        return {"sender": Bound(sender), "receiver": Bound(receiver), None: Bound(_NONE)}
    rest = np.flatnonzero(~(belongs["sender"] | belongs["receiver"]))
    addresses = _ethernet_sources(capture, rest)
    of_sender, of_receiver = _usual_source(capture, sender), _usual_source(capture, receiver)
    if of_sender == of_receiver:
        return {"sender": Bound(sender), "receiver": Bound(receiver), None: Bound(_NONE, rest)}
    is_sender, is_receiver = addresses == of_sender, addresses == of_receiver
    return {
        "sender": Bound(sender, rest[is_sender]),
        "receiver": Bound(receiver, rest[is_receiver]),
        None: Bound(_NONE, rest[~is_sender & ~is_receiver]),
    }


def with_known_direction(bound: ByHost, of_sender: Rows, of_receiver: Rows) -> ByHost:
    """The same when it has become known from where these frames come."""
    sender, receiver = bound["sender"], bound["receiver"]
    unknown = np.setdiff1d(bound[None].others, np.concatenate([of_sender, of_receiver]))
    return {
        "sender": Bound(sender.session, np.union1d(sender.others, of_sender)),
        "receiver": Bound(receiver.session, np.union1d(receiver.others, of_receiver)),
        None: Bound(_NONE, unknown),
    }


def _usual_source(capture: Columns, rows: Rows) -> int:
    """The Ethernet source that most of the frames have; -1 where there are none."""
    if not len(rows):
        return -1
    sources, counts = np.unique(_ethernet_sources(capture, rows[:: -(-len(rows) // _SAMPLE)]), return_counts=True)
    return int(sources[counts.argmax()])


def _ethernet_sources(capture: Columns, rows: Rows) -> Rows:
    """The source addresses of the frames as numbers; 0 if the capture does not reach so far."""
    weights = np.int64(256) ** np.arange(5, -1, -1)
    parts = (read_heads(capture, rows[start : start + _AT_ONCE], 12) for start in range(0, len(rows), _AT_ONCE))
    return np.concatenate([_NONE, *(part[:, 6:].astype(np.int64) @ weights for part in parts)])

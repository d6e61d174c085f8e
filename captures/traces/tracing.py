"""What of a transfer was seen when, each way, from both captures or from one.

Times are in ns since the session's first packet, at whichever port it was seen; two captures must have been taken with
one clock. Which packet is which is matching.py's, what protocols write into them messages.py's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from owlt.captures.frames.columns import Columns, by_time
from owlt.captures.matches.bottleneck import Link, Queue, queue_of
from owlt.captures.matches.delivery import INTACT, Delivery, without
from owlt.captures.session.session import Host, Session, sent_by
from owlt.captures.traces.offsets import Acknowledgements, FileData, offsets_of

if TYPE_CHECKING:
    from owlt.captures.protocols.messages import Message

Integers = NDArray[np.int64]

_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Delays:
    """A row for each packet that was delivered, by the time that it was sent; of duplicates the first copy.

    `delay_ns` is from port to port, `waiting_ns` what is left of it without propagation and the packet's own
    serialization, both as measured: a few ns below zero are the clock's. None if the link is not known.
    """

    sent_ns: Integers
    delay_ns: Integers
    wire_bytes: Integers
    waiting_ns: Integers | None


@dataclass(frozen=True, eq=False)
class Way:
    """One direction: the session's packets at the port of the host that sent them, and at the other port. Where only
    one of these was seen, there is nothing of the other, nor of what became of packets between them.

    `sent_*` and `delivered_*` are the packets that the session's filter passes in either capture, in order of time:
    those that the run's summary counts. `lost_ns` and `damaged_ns` are when packets were sent that did not arrive, or
    arrived with a bit flipped, recognised or not; where captures are `cut`, those only that were hit in what is left.
    """

    sent_ns: Integers
    sent_bytes: Integers
    delivered_ns: Integers
    delivered_bytes: Integers
    lost_ns: Integers
    damaged_ns: Integers
    delays: Delays
    queue: Queue | None
    link: Link | None
    cut: bool
    seen_departing: bool = True
    seen_arriving: bool = True


@dataclass(frozen=True, eq=False)
class Traces:
    """All traces of a run. `data` and `acknowledgements` are None if the packets do not say.

    `first_packet_ns` is the captures' time of the session's first packet, which is 0 in everything else; `length_ns` is
    until the last one was seen at either port.
    """

    first_packet_ns: int
    length_ns: int
    forward: Way
    reverse: Way
    data: FileData | None
    acknowledgements: Acknowledgements | None


def trace_run(
    at_sender: Columns,
    at_receiver: Columns,
    deliveries: tuple[Delivery, Delivery],
    messages: Sequence[Message] = (),
    forward_link: Link | None = None,
    reverse_link: Link | None = None,
    unrecognised: tuple[Integers, Integers] = (_NO_ROWS, _NO_ROWS),
) -> Traces:
    """The traces of a run from both captures, their deliveries (`match_captures`) and the messages of the sender's.

    `unrecognised` are the packets, rows of each host's capture, of which it is known that they arrived damaged although
    no copy was recognised (`captures.accounting`).
    """
    forward, reverse = deliveries
    times_ns = np.concatenate(
        [
            *(at_sender.time_ns[rows] for rows in (forward.near, reverse.far)),
            *(at_receiver.time_ns[rows] for rows in (reverse.near, forward.far)),
        ]
    )
    first_ns, last_ns = _first_and_last(times_ns)
    came_intact = reverse.delivered[reverse.flipped_bit == INTACT]
    data, acknowledgements = offsets_of(at_sender, forward.near, came_intact, messages, first_ns)
    return Traces(
        first_packet_ns=first_ns,
        length_ns=last_ns - first_ns,
        forward=_way(at_sender, at_receiver, forward, forward_link, first_ns, unrecognised[0]),
        reverse=_way(at_receiver, at_sender, reverse, reverse_link, first_ns, unrecognised[1]),
        data=data,
        acknowledgements=acknowledgements,
    )


def trace_one_side(capture: Columns, session: Session, seen_at: Host, messages: Sequence[Message] = ()) -> Traces:
    """What the capture at that host's port alone tells, with the messages that are in it."""
    damaged = [message.frame - 1 for message in messages if message.is_damaged]
    whole = np.ones(len(capture), np.bool_)
    whole[damaged] = False
    of_sender, of_receiver = (sent_by(capture, session, host) for host in ("sender", "receiver"))
    times_ns = capture.time_ns[of_sender | of_receiver]
    first_ns, last_ns = _first_and_last(times_ns)
    data, acknowledgements = offsets_of(
        capture, np.flatnonzero(of_sender & whole), np.flatnonzero(of_receiver & whole), messages, first_ns
    )
    return Traces(
        first_packet_ns=first_ns,
        length_ns=last_ns - first_ns,
        forward=_way_at_one_port(capture, np.flatnonzero(of_sender), seen_at == "sender", first_ns),
        reverse=_way_at_one_port(capture, np.flatnonzero(of_receiver), seen_at == "receiver", first_ns),
        data=data,
        acknowledgements=acknowledgements,
    )


def _way_at_one_port(capture: Columns, rows: Integers, is_departing: bool, first_ns: int) -> Way:
    rows, none = by_time(capture, rows), np.zeros(0, np.int64)
    times_and_lengths = capture.time_ns[rows] - first_ns, _lengths(capture, rows)
    sent_ns, sent_bytes = times_and_lengths if is_departing else (none, none)
    delivered_ns, delivered_bytes = (none, none) if is_departing else times_and_lengths
    return Way(
        sent_ns=sent_ns,
        sent_bytes=sent_bytes,
        delivered_ns=delivered_ns,
        delivered_bytes=delivered_bytes,
        lost_ns=none,
        damaged_ns=none,
        delays=Delays(none, none, none, None),
        queue=None,
        link=None,
        cut=bool(capture.is_cut[rows].any()),
        seen_departing=is_departing,
        seen_arriving=not is_departing,
    )


def _way(
    near: Columns, far: Columns, delivery: Delivery, link: Link | None, first_ns: int, unrecognised: Integers
) -> Way:
    sent, delivered = by_time(near, delivery.near), by_time(far, delivery.far)
    firsts = delivery.first_copies
    firsts = firsts[np.argsort(near.time_ns[delivery.sent[firsts]], kind="stable")]
    first_sent = delivery.sent[firsts]
    delays = Delays(
        sent_ns=near.time_ns[first_sent] - first_ns,
        delay_ns=delivery.delay_ns[firsts],
        wire_bytes=_lengths(near, first_sent),
        waiting_ns=None
        if link is None
        else delivery.delay_ns[firsts] - link.delay_ns - link.serialization_ns(_lengths(near, first_sent)),
    )
    damaged = np.unique(np.concatenate([delivery.sent[delivery.flipped_bit != INTACT], unrecognised]))
    return Way(
        sent_ns=near.time_ns[sent] - first_ns,
        sent_bytes=_lengths(near, sent),
        delivered_ns=far.time_ns[delivered] - first_ns,
        delivered_bytes=_lengths(far, delivered),
        lost_ns=np.sort(near.time_ns[without(delivery.lost, unrecognised)] - first_ns),
        damaged_ns=np.sort(near.time_ns[damaged] - first_ns),
        delays=delays,
        queue=None if link is None else queue_of(near, sent, first_sent, delays.delay_ns, link, first_ns),
        link=link,
        cut=delivery.was_cut and bool(near.is_cut[sent].any() or far.is_cut[delivered].any()),
    )


def _first_and_last(times_ns: Integers) -> tuple[int, int]:
    return (int(times_ns.min()), int(times_ns.max())) if len(times_ns) else (0, 0)


def _lengths(capture: Columns, rows: Integers) -> Integers:
    return capture.wire_bytes[rows].astype(np.int64)

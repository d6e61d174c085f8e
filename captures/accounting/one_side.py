"""The results from one capture alone: its packets, and the session's duration as that port shows it.

The authors of the main paper had a single capture, at the receiver's side of the emulator, and added the round trip to
the time of the session, to include the time before the sender's first packet arrived there and after the last packet
left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from owlt.captures.accounting.measures import rate_over, ratio, seconds_between
from owlt.captures.accounting.suspicion import (
    NOTHING_EXPECTED,
    Claims,
    order_notes,
    suspect_capture,
    suspect_copies,
    too_fast,
    too_few_bytes,
)
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.decoding import CE, ECT
from owlt.captures.frames.session import HOSTS, Host, Session, sent_by


class OneSide(BaseModel):
    """One capture of a session. `seen_at` is the host at whose port it was taken: that host's packets are counted as
    sent, the other's as delivered; losses are not visible.

    `session_s` is between the first packet and the last at the sender's port. At the receiver's port it is the time
    seen there plus `round_trip_added_s`, which is correct if the sender sent first and the receiver last, else too long
    by at most that; None if the round trip is not known. `goodput_bps` is over this time, `goodput_seen_bps` over the
    time that was seen; `efficiency` is the former over the channel's rate. They are None if no time passed or the size
    of the file is not known, and if the capture contradicts the description of the transfer, which `contradicted`
    states. `suspect` has these contradictions, and the faults of the capture. Packets that are `ecn_capable` have ECT,
    those `ecn_marked` CE (RFC 3168).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seen_at: Host
    str_packets: int
    str_bytes: int
    rts_packets: int
    rts_bytes: int
    first_packet_ns: int | None
    last_packet_ns: int | None
    session_seen_s: float | None
    round_trip_added_s: float | None
    session_s: float | None
    goodput_seen_bps: float | None
    goodput_bps: float | None
    efficiency: float | None
    str_ecn_capable: int
    str_ecn_marked: int
    rts_ecn_capable: int
    rts_ecn_marked: int
    contradicted: list[str]
    suspect: list[str]
    background_packets: int
    notes: list[str]


def one_side(
    capture: Columns,
    session: Session,
    seen_at: Host,
    claims: Claims,
    carried_file_bytes: int | None = None,
    failure: str = "",
) -> OneSide:
    """The results from the capture at the host's port, of the transfer that `claims` describe. `carried_file_bytes` is
    how many bytes of the file the messages carry, None if not known; `failure` is why the transfer failed, according to
    them.
    """
    file_size_bytes, rate_bps = claims.file_size_bytes, claims.rate_bps
    there_ns, back_ns = claims.forward_delay_ns, claims.reverse_delay_ns
    from_sender, from_receiver = (sent_by(capture, session, host) for host in HOSTS)
    times_ns = capture.time_ns[from_sender | from_receiver]
    first_ns, last_ns = (int(times_ns.min()), int(times_ns.max())) if len(times_ns) else (None, None)
    round_trip_ns = None if there_ns is None or back_ns is None else there_ns + back_ns
    added_ns = 0 if seen_at == "sender" else round_trip_ns
    end_ns = None if last_ns is None or added_ns is None else last_ns + added_ns
    str_bytes = int(capture.wire_bytes[from_sender].sum())
    passed = "were sent by the sender" if seen_at == "sender" else "arrived from the sender"
    wrong = list(too_few_bytes(file_size_bytes, carried_file_bytes, str_bytes, passed))
    wrong += [f"the transfer failed: {failure}"] if failure else []
    if seen_at == "receiver":
        wrong += too_fast(capture, np.flatnonzero(from_sender), rate_bps)
    goodput_bps = None if wrong else rate_over(file_size_bytes, first_ns, end_ns)
    return OneSide(
        seen_at=seen_at,
        str_packets=int(from_sender.sum()),
        str_bytes=str_bytes,
        rts_packets=int(from_receiver.sum()),
        rts_bytes=int(capture.wire_bytes[from_receiver].sum()),
        first_packet_ns=first_ns,
        last_packet_ns=last_ns,
        session_seen_s=seconds_between(first_ns, last_ns),
        round_trip_added_s=None if added_ns is None else added_ns / 1e9,
        session_s=seconds_between(first_ns, end_ns),
        goodput_seen_bps=None if wrong else rate_over(file_size_bytes, first_ns, last_ns),
        goodput_bps=goodput_bps,
        efficiency=ratio(goodput_bps, rate_bps),
        contradicted=wrong,
        str_ecn_capable=_count_ecn(capture, from_sender, ECT),
        str_ecn_marked=_count_ecn(capture, from_sender, (CE,)),
        rts_ecn_capable=_count_ecn(capture, from_receiver, ECT),
        rts_ecn_marked=_count_ecn(capture, from_receiver, (CE,)),
        suspect=[
            *wrong,
            *suspect_capture(capture, None, NOTHING_EXPECTED.mtu_bytes),
            *suspect_copies(
                capture, {"sender": np.flatnonzero(from_sender), "receiver": np.flatnonzero(from_receiver)}
            ),
        ],
        background_packets=int(np.count_nonzero(~(from_sender | from_receiver))),
        notes=_notes(seen_at, added_ns, capture, from_sender, times_ns),
    )


def _notes(
    seen_at: Host,
    added_ns: int | None,
    capture: Columns,
    from_sender: NDArray[np.bool_],
    times_ns: NDArray[np.int64],
) -> list[str]:
    notes = ["one capture only: loss, delay and damage are not visible", *order_notes(capture)]
    if not len(times_ns):
        notes.append("no packet of the session: are the session's ports and addresses right?")
    elif seen_at == "receiver" and added_ns is None:
        notes.append("taken at the receiver's port: the session's duration at the sender is unknown without --delay")
    elif seen_at == "receiver" and added_ns is not None:
        notes.append(f"taken at the receiver's port: the round trip of {added_ns / 1e9:g} s was added to the session")
        receiver_first = not from_sender[capture.time_ns == times_ns.min()].any()
        sender_last = from_sender[capture.time_ns == times_ns.max()].any()
        turns = ((receiver_first, "the receiver sent the first packet"), (sender_last, "the sender sent the last one"))
        if who := " and ".join(text for is_so, text in turns if is_so):
            notes.append(f"{who}: the session was shorter than stated, by up to the round trip")
    return notes


def _count_ecn(capture: Columns, is_own: NDArray[np.bool_], codes: tuple[int, ...]) -> int:
    return int(np.count_nonzero(is_own & np.isin(capture.ecn, codes)))

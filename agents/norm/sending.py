"""The sending node: one file, and an end that is acknowledged or flushed."""

import time
from pathlib import Path

from owlt.agents.endpoint.exit import Failed
from owlt.agents.norm.library import AckingStatus, EventType, ProbingMode
from owlt.agents.norm.session import Place, Session
from owlt.agents.norm.settings import RECEIVER_ID, End, Settings


def send(file: Path, settings: Settings, place: Place) -> str:
    """Send a file to its end. Returns plain facts.

    Raises:
        Failed: the receiver did not acknowledge, or no progress for too long.
    """
    begin_s = time.monotonic()
    with Session(place, settings.seed) as session:
        _start(session, settings)
        entry = session.need("NormFileEnqueue", bytes(file), file.name.encode(), len(file.name.encode()))
        if settings.end is End.ACKNOWLEDGED:
            session.need("NormSetWatermark", entry, True)
        _await_end(session, settings)
        grtt_s, rate_bps = session.call("NormGetGrttEstimate"), session.call("NormGetTxRate")
        duration_s = time.monotonic() - begin_s
    return f"end={settings.end} grtt_s={grtt_s:.6f} message_rate_bps={rate_bps:.0f} duration_s={duration_s:.6f}"


def _start(session: Session, settings: Settings) -> None:
    session.call("NormSetTxOnly", session.is_unicast, False)  # what a receiver says comes to the port sent from
    session.set_congestion_control(settings.congestion_control)
    session.call("NormSetTxRate", settings.message_rate_bps)
    session.call("NormSetTxRateBounds", *settings.message_rate_bounds_bps)
    session.call("NormSetGrttMax", settings.grtt_limit_s)
    session.call("NormSetGrttProbingMode", ProbingMode[settings.probing.upper()])
    session.call("NormSetBackoffFactor", settings.backoff_factor)
    session.call("NormSetGroupSize", settings.group_size)
    session.call("NormSetTxRobustFactor", settings.robust_factor)
    session.call("NormSetAutoParity", settings.auto_parity_segments)
    session.call("NormSetTxCacheBounds", settings.file_bytes + 1, 1, 2)
    if settings.end is End.ACKNOWLEDGED:
        session.need("NormAddAckingNode", RECEIVER_ID)
    session.need(
        "NormStartSender",
        settings.seed & 0xFFFF,
        settings.buffer_bytes,
        settings.segment_bytes,
        settings.block_segments,
        settings.parity_segments,
        0,
    )
    # After the start, which rounds an earlier estimate up a second time (a step of the 8-bit GRTT is 8 %).
    session.call("NormSetGrttEstimate", settings.first_grtt_s)


def _await_end(session: Session, settings: Settings) -> None:
    while True:
        event = session.next_event(settings.silence_limit_s)
        if event is None:
            raise Failed(f"no progress for {settings.silence_limit_s} s")
        if event.type == EventType.TX_RATE_CHANGED:
            session.call("NormGetTxRate")  # or the next change is not told
        if event.type == EventType.TX_WATERMARK_COMPLETED:
            status = session.call("NormGetAckingStatus", RECEIVER_ID)
            if status != AckingStatus.SUCCESS:
                raise Failed(f"the receiver did not acknowledge {settings.robust_factor} flushes")
            return
        if event.type == EventType.TX_FLUSH_COMPLETED and settings.end is End.FLUSHED:
            return

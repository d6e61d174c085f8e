"""The receiving node: one file, and staying until the sender has had its answers."""

import time
from pathlib import Path

from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.udp import RECEIVE_BUFFER_BYTES
from owlt.agents.norm.library import EventType, RepairBoundary
from owlt.agents.norm.session import Place, Session
from owlt.agents.norm.settings import Settings


def receive(output: Path, settings: Settings, place: Place) -> str:
    """Receive one file, which appears at `output` when it is whole. Returns plain facts.

    Raises:
        Failed: the file was given up, or no progress for too long.
    """
    with Session(place, settings.seed + 1) as session:
        session.set_congestion_control(settings.congestion_control)
        session.call("NormSetDefaultUnicastNack", session.is_unicast)
        session.set_cache_directory(f"{output.parent}/")
        session.call("NormSetDefaultRepairBoundary", RepairBoundary[settings.repair_boundary.upper()])
        session.need("NormStartReceiver", settings.buffer_bytes)
        session.call("NormSetRxSocketBuffer", RECEIVE_BUFFER_BYTES)
        print(f"listening on {place.destination}", flush=True)
        received = _await_file(session, settings)
        Path(received).replace(output)
        whole_at_s = time.monotonic()
        _linger(session, whole_at_s + settings.linger_s)
    return f"linger_s={settings.linger_s:.6f}"


def _await_file(session: Session, settings: Settings) -> str:
    """The name that libnorm gave to the file, once that is whole."""
    while True:
        event = session.next_event(settings.silence_limit_s)
        if event is None:
            raise Failed(f"no progress for {settings.silence_limit_s} s")
        if event.type == EventType.RX_OBJECT_COMPLETED:
            return session.file_name(event.object)
        if event.type == EventType.RX_OBJECT_ABORTED:
            raise Failed("the sender no longer has what is missing")


def _linger(session: Session, until_s: float) -> None:
    while (left_s := until_s - time.monotonic()) > 0:
        session.next_event(left_s)  # libnorm answers by itself; its queue of events must not grow

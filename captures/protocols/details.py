"""The deep view of a few chosen packets: all fields that pyshark shows, in a child process."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from owlt.captures.accounting.cutting import write_frames
from owlt.captures.frames.columns import Columns
from owlt.captures.frames.session import Session
from owlt.captures.protocols.saratoga import NotSaratoga, read_packet
from owlt.captures.protocols.tshark import NOT_TSHARKS, Dissector, NoDissection, default_settings, parse_dissector

_DETAILS_S = 120
"""The time limit of the child process."""


def packet_details(
    columns: Columns, frames: Sequence[int], session: Session | None, options: Sequence[str]
) -> dict[int, dict[str, Any]]:
    """All fields that pyshark shows of chosen frames (numbers from 1): layer by layer, field by field, as nested dicts.

    Saratoga, which tshark does not have, is read here, as `saratoga`. Without a session tshark decides by the ports
    which protocol a packet has. Raises ValueError on unknown options,
    NoDissection if the child fails or takes too long.
    """
    dissector = parse_dissector(options)
    if not columns.other_records and not columns.untimed_frames:
        return _by_child(columns.path, tuple(frames), session, dissector)
    with TemporaryDirectory() as folder:
        packets = Path(folder).resolve() / "packets.pcap"
        try:
            write_frames(columns, np.arange(len(columns)), columns.captured_bytes.astype(np.int64), packets)
        except ValueError as problem:
            raise NoDissection(
                f"{problem}: split it by interface: tshark -r IN -Y frame.interface_id==0 -w OUT"
            ) from problem
        return _by_child(packets, tuple(frames), session, dissector)


def _by_child(
    capture: Path, frames: tuple[int, ...], session: Session | None, dissector: Dissector
) -> dict[int, dict[str, Any]]:
    """Run the child on a file that has only packets with times: tshark numbers other blocks too, and pyshark fails
    without a time."""
    work = partial(_details, str(capture), frames, session, dissector)
    with get_context("spawn").Pool(1) as child:  # pyshark has an event loop of its own, which must not meet another
        try:
            details: dict[int, dict[str, Any]] = child.apply_async(work).get(_DETAILS_S)
        except Exception as error:
            raise NoDissection(f"{capture}: pyshark did not show frames {list(frames)[:5]}: {error!r}") from error
    return details


def _details(
    capture: str, frames: tuple[int, ...], session: Session | None, dissector: Dissector
) -> dict[int, dict[str, Any]]:
    """Runs in the child. Raises NoDissection unless tshark showed every frame."""
    import pyshark
    from pyshark.capture.capture import TSharkCrashException

    os.environ.update(default_settings())
    packets = pyshark.FileCapture(
        capture,
        display_filter=f"frame.number in {{{', '.join(map(str, frames))}}}",
        use_json=True,
        keep_packets=False,
        custom_parameters=dissector.options(session, NOT_TSHARKS) if session else [],
        override_prefs={"tcp.desegment_tcp_streams": "FALSE"},
    )
    details = {int(packet.number): _layers(packet, dissector) for packet in packets}
    if missing := sorted(set(frames) - set(details)):
        raise NoDissection(f"tshark did not show frame {missing[0]}: {packets._last_error_line}")
    try:
        packets.close()
    except TSharkCrashException:
        # pyshark kills a tshark that it has not seen end, which takes its exit status away: asyncio reports 255 then.
        # Whether tshark did its work is known from the frames.
        packets._running_processes.clear()
    return details


def _layers(packet: Any, dissector: Dissector) -> dict[str, Any]:
    layers = {layer.layer_name: _plain(layer._all_fields) for layer in packet}
    udp = layers.get("udp")
    if isinstance(udp, dict) and "udp.payload" in udp:
        ports = int(udp["udp.dstport"]), int(udp["udp.srcport"])
        if dissector.protocol("udp", *ports) == "saratoga":
            layers["saratoga"] = _saratoga(bytes.fromhex(udp["udp.payload"].replace(":", "")))
    return layers


def _saratoga(payload: bytes) -> dict[str, str]:
    try:
        read = read_packet(payload)
    except NotSaratoga as error:
        return {"malformed": str(error)}
    return {"message": read.kind} | {name: str(value) for name, value in read.fields.items()}


def _plain(value: Any) -> Any:
    """The values as dicts, lists and text only."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else str(value)

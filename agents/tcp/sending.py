"""The sender's side: connects, hands its file to the kernel, and waits until the receiver has closed.

Or it hands data to the kernel for a given time.
"""

import random
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path

from owlt.agents.endpoint.exit import Failed, Unsupported
from owlt.agents.endpoint.udp import Address
from owlt.agents.tcp import kernel
from owlt.agents.tcp.settings import Settings

CHUNK_BYTES = 1 << 16
"""How much one call passes to the kernel if data is sent for a given time."""
UNSENT_BYTES = 1 << 17
"""The limit of the kernel's unsent data in that case; data still in this buffer when the time ends is sent
afterwards."""


def send(file: Path, peer: Address, settings: Settings) -> str:
    """Send a file. Returns counters as text, after the receiver has closed its side: it does so only with the complete
    file.

    Raises:
        Failed: nobody answered, or the receiver gave up or fell silent.
        Unsupported: this host's kernel has no such congestion control, or this path no such segments.
    """
    with file.open("rb") as content:
        return _transfer(lambda connection: connection.sendfile(content), peer, settings)


def send_for(duration_s: float, peer: Address, settings: Settings) -> str:
    """Send data for a given time, from when the connection is established. Returns and raises as `send` does."""

    def hand_over(connection: socket.socket) -> None:
        kernel.limit_unsent(connection, UNSENT_BYTES)
        data = random.Random(CHUNK_BYTES).randbytes(CHUNK_BYTES)
        end_s = time.monotonic() + duration_s
        acked = 0
        while (left_s := end_s - time.monotonic()) > 0:
            connection.settimeout(min(left_s, settings.silence_limit_s))
            try:
                connection.send(data)
            except TimeoutError:  # a slow receiver is not silent
                acked, before = kernel.info(connection).bytes_acked, acked
                if left_s > settings.silence_limit_s and acked == before:
                    raise

    return _transfer(hand_over, peer, settings)


def _transfer(hand_over: Callable[[socket.socket], object], peer: Address, settings: Settings) -> str:
    """Connect, hand over the data, and wait until the receiver has it."""
    begin_s = time.monotonic()
    with socket.socket(peer.family, socket.SOCK_STREAM) as connection:
        kernel.prepare(connection, settings)
        kernel.choose_congestion_control(connection, settings.congestion_control)
        if settings.segment_bytes:
            kernel.limit_segments(connection, settings.segment_bytes)
        connection.settimeout(settings.silence_limit_s)
        segment_bytes = _connect(connection, peer, settings)
        try:
            hand_over(connection)
        except TimeoutError as error:
            raise Failed(f"the receiver was silent for {settings.silence_limit_s} s; {_facts(connection)}") from error
        connection.settimeout(settings.silence_limit_s)
        connection.shutdown(socket.SHUT_WR)
        _await_close(connection, settings)
        facts = f"segment_bytes={segment_bytes} {_facts(connection)}"
    return f"{facts} duration_s={time.monotonic() - begin_s:.6f}"


def _connect(connection: socket.socket, peer: Address, settings: Settings) -> int:
    """Connect. Returns the bytes of data in a full segment."""
    try:
        connection.connect(peer)
    except TimeoutError as error:
        raise Failed(f"{peer} did not answer for {settings.silence_limit_s} s") from error
    except ConnectionRefusedError as error:
        raise Failed(f"no program listens on {peer}") from error
    segment_bytes = kernel.segment_bytes(connection)
    if settings.segment_bytes not in (0, segment_bytes):
        raise Unsupported(f"segments of {settings.segment_bytes} bytes; path and peer allow {segment_bytes}")
    return segment_bytes


def _await_close(connection: socket.socket, settings: Settings) -> None:
    """Wait for the receiver's FIN; after each `silence_limit_s`, check that more data was acknowledged."""
    acked = -1
    while not select.select([connection], [], [], settings.silence_limit_s)[0]:
        acked, before = kernel.info(connection).bytes_acked, acked
        if acked == before:
            raise Failed(f"the receiver was silent for {settings.silence_limit_s} s; {_facts(connection)}")
    try:
        received = connection.recv(1)
    except ConnectionResetError as error:
        raise Failed(f"the receiver gave up; {_facts(connection)}") from error
    if received:
        raise Failed("the receiver sent data, which it never does: another program listens there")


def _facts(connection: socket.socket) -> str:
    info = kernel.info(connection)
    min_rtt = "" if info.min_rtt_s is None else f" min_rtt_s={info.min_rtt_s:.6f}"
    return (
        f"congestion_control={kernel.congestion_control(connection)} "
        f"segments={info.segments_out} data_segments={info.data_segments_out} retransmitted={info.retransmitted} "
        f"received={info.segments_in}{min_rtt}"
    )

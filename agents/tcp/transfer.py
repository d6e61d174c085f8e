"""The transfer over one connection, as each side sees it.

The sender connects, hands its file to the kernel, and waits until the receiver has closed. The receiver accepts one
connection and the file on it, and closes when the file is complete. If the transfer is for a given time, the sender
hands data to the kernel until then, and the receiver counts them and stores nothing.
"""

import math
import random
import select
import socket
import time
from collections.abc import Callable
from pathlib import Path

from owlt.agents.endpoint.exit import Failed, Unsupported
from owlt.agents.endpoint.files import IncomingFile
from owlt.agents.endpoint.udp import Address
from owlt.agents.tcp import kernel
from owlt.agents.tcp.settings import Settings

CHUNK_BYTES = 1 << 16
"""How much one call passes to the kernel if data is sent for a given time."""
UNSENT_BYTES = 1 << 17
"""The limit of the kernel's unsent data in that case; data still in this buffer when the time ends is sent
afterwards."""
READ_BYTES = 1 << 20
"""How much the receiver reads at once."""


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
            raise Failed(
                f"the receiver was silent for {settings.silence_limit_s} s; {_sender_facts(connection)}"
            ) from error
        connection.settimeout(settings.silence_limit_s)
        connection.shutdown(socket.SHUT_WR)
        _await_close(connection, settings)
        facts = f"segment_bytes={segment_bytes} {_sender_facts(connection)}"
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
            raise Failed(f"the receiver was silent for {settings.silence_limit_s} s; {_sender_facts(connection)}")
    try:
        received = connection.recv(1)
    except ConnectionResetError as error:
        raise Failed(f"the receiver gave up; {_sender_facts(connection)}") from error
    if received:
        raise Failed("the receiver sent data, which it never does: another program listens there")


def _sender_facts(connection: socket.socket) -> str:
    info = kernel.info(connection)
    min_rtt = "" if info.min_rtt_s is None else f" min_rtt_s={info.min_rtt_s:.6f}"
    return (
        f"congestion_control={kernel.congestion_control(connection)} "
        f"segments={info.segments_out} data_segments={info.data_segments_out} retransmitted={info.retransmitted} "
        f"received={info.segments_in}{min_rtt}"
    )


def receive(output: Path, local: Address, settings: Settings) -> str:
    """Receive a file of `settings.file_bytes`, which appears at `output` when it is complete. Returns counters as text.

    Raises:
        Failed: nobody connected, the sender gave up or fell silent, or the data are shorter or longer than the file.
        Unsupported: this host's kernel cannot limit delayed acknowledgements.
    """

    def store(connection: socket.socket) -> str:
        with IncomingFile(output) as file:
            _store(connection, file, settings)
            file.finish()
        return ""

    return _take(store, local, settings)


def receive_for(duration_s: float, local: Address, settings: Settings) -> str:
    """Receive until the sender ends, and count the bytes of the first `duration_s`. Returns and raises as `receive`."""
    return _take(lambda connection: _count(connection, duration_s, settings), local, settings)


def _take(read: Callable[[socket.socket], str], local: Address, settings: Settings) -> str:
    """Accept one connection, read it to its end, and close it; `read` returns its own counters."""
    with _listen(local, settings) as listener:
        print(f"listening on {local}", flush=True)
        try:
            connection, _ = listener.accept()
        except TimeoutError as error:
            raise Failed(f"no connection for {settings.silence_limit_s} s") from error
    begin_s = time.monotonic()
    with connection:
        connection.settimeout(settings.silence_limit_s)
        facts = f"{read(connection)}{_receiver_facts(connection)}"
        _close(connection, settings)
    return f"{facts} duration_s={time.monotonic() - begin_s:.6f}"


def _listen(local: Address, settings: Settings) -> socket.socket:
    """A listening socket. Its options are those of the connection that it takes."""
    listener = socket.socket(local.family, socket.SOCK_STREAM)
    try:
        kernel.prepare(listener, settings)
        if settings.delack_limit_ms:
            kernel.limit_delayed_acknowledgement(listener, settings.delack_limit_ms)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.settimeout(settings.silence_limit_s)
        listener.bind(local)
        listener.listen(1)
    except OSError as error:
        listener.close()
        raise Failed(f"cannot listen on {local}: {error.strerror}; give an address of this host") from error
    return listener


def _store(connection: socket.socket, file: IncomingFile, settings: Settings) -> None:
    """Write the data to the end of the connection. Data of another size end the sender's connection in a reset."""
    file_bytes = settings.file_bytes or 0
    buffer = memoryview(bytearray(READ_BYTES))
    came = 0
    while count := _read(connection, buffer, came, settings):
        if came + count > file_bytes:
            raise Failed(
                f"{came + count} bytes arrived, more than the file of {file_bytes}; {_receiver_facts(connection)}"
            )
        file.write(came, buffer[:count])
        came += count
    if came < file_bytes:
        raise Failed(f"the sender ended after {came} of {file_bytes} bytes; {_receiver_facts(connection)}")


def _count(connection: socket.socket, duration_s: float, settings: Settings) -> str:
    """Read to the end. Returns the bytes that arrived in time, and those that arrived later."""
    buffer = memoryview(bytearray(READ_BYTES))
    end_s = time.monotonic() + duration_s
    in_time = late = 0
    while count := _read(connection, buffer, in_time + late, settings):
        if time.monotonic() <= end_s:
            in_time += count
        else:
            late += count
    return f"received_bytes={in_time} late_bytes={late} "


def _read(connection: socket.socket, buffer: memoryview, came: int, settings: Settings) -> int:
    so_far = f"{came} {settings.load_text}bytes came"
    try:
        return connection.recv_into(buffer)
    except TimeoutError as error:
        raise Failed(f"the sender was silent for {settings.silence_limit_s} s; {so_far}") from error
    except ConnectionResetError as error:
        raise Failed(f"the sender gave up; {so_far}") from error


def _close(connection: socket.socket, settings: Settings) -> None:
    """Confirm the complete file (FIN), and stay until the sender has received that or is certainly gone."""
    kernel.set_linger(connection, math.ceil(settings.silence_limit_s))
    connection.close()


def _receiver_facts(connection: socket.socket) -> str:
    info = kernel.info(connection)
    return f"received={info.segments_in} data_segments={info.data_segments_in} segments={info.segments_out}"

"""The receiver's side: accepts one connection and the file on it, and closes when the file is complete. Or it counts
the data of a given time, and stores nothing.
"""

import math
import socket
import time
from collections.abc import Callable
from pathlib import Path

from owlt.agents.endpoint.exit import Failed
from owlt.agents.endpoint.files import IncomingFile
from owlt.agents.endpoint.udp import Address
from owlt.agents.tcp import kernel
from owlt.agents.tcp.settings import Settings

READ_BYTES = 1 << 20


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
        facts = f"{read(connection)}{_facts(connection)}"
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
            raise Failed(f"{came + count} bytes arrived, more than the file of {file_bytes}; {_facts(connection)}")
        file.write(came, buffer[:count])
        came += count
    if came < file_bytes:
        raise Failed(f"the sender ended after {came} of {file_bytes} bytes; {_facts(connection)}")


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


def _facts(connection: socket.socket) -> str:
    info = kernel.info(connection)
    return f"received={info.segments_in} data_segments={info.data_segments_in} segments={info.segments_out}"

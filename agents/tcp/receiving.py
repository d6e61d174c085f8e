"""The receiver's side: takes one connection and the file that comes on it, and closes when that is whole."""

import math
import socket
import time
from pathlib import Path

from agents.ending import Failed
from agents.incoming import IncomingFile
from agents.tcp import kernel
from agents.tcp.settings import Settings
from agents.udp import Address

READ_BYTES = 1 << 20


def receive(output: Path, local: Address, settings: Settings) -> str:
    """Receive a file of `settings.file_bytes`, which appears at `output` when it is whole. Returns plain facts.

    Raises:
        Failed: nobody connected, the sender gave up or fell silent, or more or less came than the file has.
        Unsupported: this host's kernel cannot limit delayed acknowledgements.
    """
    with _listen(local, settings) as listener:
        print(f"listening on {local}", flush=True)
        try:
            connection, _ = listener.accept()
        except TimeoutError as error:
            raise Failed(f"nobody connected for {settings.silence_limit_s} s") from error
    begin_s = time.monotonic()
    with connection:
        connection.settimeout(settings.silence_limit_s)
        with IncomingFile(output) as file:
            _store(connection, file, settings)
            file.finish()
        facts = _facts(connection)
        _close(connection, settings)
    return f"{facts} duration_s={time.monotonic() - begin_s:.6f}"


def _listen(local: Address, settings: Settings) -> socket.socket:
    """A listening socket. Its options are those of the connection that it takes."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
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
        raise Failed(f"cannot listen on {local}: {error.strerror}; give an own address") from error
    return listener


def _store(connection: socket.socket, file: IncomingFile, settings: Settings) -> None:
    """Write what comes, to its end. Whatever is not the file makes the sender's connection end in a reset."""
    buffer = memoryview(bytearray(READ_BYTES))
    came = 0
    while count := _read(connection, buffer, came, settings):
        if came + count > settings.file_bytes:
            raise Failed(f"{came + count} bytes came of a file of {settings.file_bytes}; {_facts(connection)}")
        file.write(came, buffer[:count])
        came += count
    if came < settings.file_bytes:
        raise Failed(f"the sender ended after {came} of {settings.file_bytes} bytes; {_facts(connection)}")


def _read(connection: socket.socket, buffer: memoryview, came: int, settings: Settings) -> int:
    so_far = f"{came} of {settings.file_bytes} bytes came"
    try:
        return connection.recv_into(buffer)
    except TimeoutError as error:
        raise Failed(f"the sender was silent for {settings.silence_limit_s} s; {so_far}") from error
    except ConnectionResetError as error:
        raise Failed(f"the sender gave up; {so_far}") from error


def _close(connection: socket.socket, settings: Settings) -> None:
    """Say that the file is whole (FIN), and stay until the sender has heard it or is surely gone."""
    kernel.set_linger(connection, math.ceil(settings.silence_limit_s))
    connection.close()


def _facts(connection: socket.socket) -> str:
    info = kernel.info(connection)
    return f"received={info.segments_in} data_segments={info.data_segments_in} segments={info.segments_out}"

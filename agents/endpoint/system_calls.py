"""Two system calls that Python does not offer, through libc: ppoll(2) and recvmmsg(2) of Linux.

In a User-Mode Linux guest a system call takes longer than the Python around it. select.select reads the clock at each
call with a timeout, and select.poll counts in milliseconds; ppoll does neither. recvmmsg returns every datagram that
waits, so no further call is needed to find out that there is none.
"""

import ctypes
import errno
import math
import mmap
import os
import select
import socket

_LIBC = ctypes.CDLL(None, use_errno=True)
_ADDRESS_BYTES = 28
"""The length of a sockaddr_in6 (ipv6(7)); a sockaddr_in (ip(7)) is shorter."""
_HOST = {socket.AF_INET: slice(4, 8), socket.AF_INET6: slice(8, 24)}
"""The host in such an address, by its family."""


class _PollFile(ctypes.Structure):
    _fields_ = [("file", ctypes.c_int), ("events", ctypes.c_short), ("result", ctypes.c_short)]


class _Duration(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class _Buffer(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class _Header(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_void_p),
        ("address_bytes", ctypes.c_uint),
        ("buffers", ctypes.POINTER(_Buffer)),
        ("buffer_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_bytes", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    ]


class _Message(ctypes.Structure):
    _fields_ = [("header", _Header), ("received_bytes", ctypes.c_uint)]


class Wait:
    """Sleeps until an event on a file, or until a timeout."""

    def __init__(self, file: int) -> None:
        self._files = (_PollFile * 2)(_PollFile(file, 0, 0))
        self._file, self._alarm = self._files
        self._duration = _Duration()
        self._arguments = ctypes.byref(self._files), 1
        self._duration_argument = ctypes.byref(self._duration)

    def end_on(self, alarm: int) -> None:
        """Let a sleep also end when something is written to the pipe `alarm`, which is then emptied."""
        self._alarm.file, self._alarm.events = alarm, select.POLLIN
        self._arguments = ctypes.byref(self._files), 2

    def __call__(self, timeout_s: float | None, *, until_writable: bool = False) -> bool:
        """Whether the file is readable. False after the timeout, a signal, an alarm or, if requested, when it is
        writable."""
        self._file.events = select.POLLIN | select.POLLOUT if until_writable else select.POLLIN
        duration = None
        if timeout_s is not None:
            self._duration.seconds, self._duration.nanoseconds = divmod(math.ceil(1e9 * timeout_s), 10**9)
            duration = self._duration_argument
        count = _LIBC.ppoll(*self._arguments, duration, None)
        if count < 0:
            _raise_unless(errno.EINTR)
            return False
        if self._alarm.result:
            os.read(self._alarm.file, select.PIPE_BUF)
        return count > 0 and int(self._file.result) not in (0, select.POLLOUT)


class ReceiveWaiting:
    """Receives the datagrams that wait at a socket of IPv4 or IPv6, at most `most` of `longest_bytes`."""

    def __init__(self, endpoint: socket.socket, most: int, longest_bytes: int) -> None:
        self._file = endpoint.fileno()
        self._host = _HOST[endpoint.family]
        self._longest_bytes = longest_bytes
        self._addresses = bytearray(most * _ADDRESS_BYTES)
        self._content = mmap.mmap(-1, most * longest_bytes)  # memory that is used only where datagrams are stored
        addresses = ctypes.addressof(ctypes.c_char.from_buffer(self._addresses))
        content = ctypes.addressof(ctypes.c_char.from_buffer(self._content))
        self._messages = (_Message * most)()
        for number, message in enumerate(self._messages):
            message.header.address = addresses + number * _ADDRESS_BYTES
            message.header.buffers = ctypes.pointer(_Buffer(content + number * longest_bytes, longest_bytes))
            message.header.buffer_count = 1
        self._arguments = ctypes.byref(self._messages), most, socket.MSG_DONTWAIT, None
        self._used = list(self._messages)

    def __call__(self) -> list[tuple[bytes, bytes]]:
        """Each datagram, preceded by the bytes of the sending host's address; an empty list if none waits."""
        for message in self._used:
            message.header.address_bytes = _ADDRESS_BYTES  # the kernel writes the length of what it has stored
        count = _LIBC.recvmmsg(self._file, *self._arguments)
        if count < 0:
            _raise_unless(errno.EAGAIN)
            count = 0
        self._used = self._messages[:count]
        return [self._datagram(number, message.received_bytes) for number, message in enumerate(self._used)]

    def _datagram(self, number: int, length: int) -> tuple[bytes, bytes]:
        address = self._addresses[number * _ADDRESS_BYTES : (number + 1) * _ADDRESS_BYTES]
        begin = number * self._longest_bytes
        return bytes(address[self._host]), self._content[begin : begin + length]


def _raise_unless(expected: int) -> None:
    number = ctypes.get_errno()
    if number != expected:
        raise OSError(number, os.strerror(number))

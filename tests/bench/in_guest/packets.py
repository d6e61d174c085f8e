"""Sends 10,000 UDP packets from one namespace to another at the channel's rate, and counts those that come."""

import ctypes
import json
import os
import socket
import time

COUNT = 10_000
PAYLOAD = bytes(1000)
GAP_NS = (len(PAYLOAD) + 42) * 8 * 100  # a frame's serialization at 10 Mbit/s
RECEIVER = ("10.77.0.2", 5000)
QUIET_S = 0.2
CLONE_NEWNET = 0x4000_0000
SO_RCVBUFFORCE = 33
LIBC = ctypes.CDLL(None)


def socket_in(namespace: str) -> socket.socket:
    """A UDP socket of that namespace; this process stays in it."""
    descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    if LIBC.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(f"cannot enter {namespace}")
    os.close(descriptor)
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


with socket_in("receiver") as receiver, socket_in("sender") as sender:
    receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
    receiver.bind(RECEIVER)
    sender.connect(RECEIVER)
    begin_ns = time.monotonic_ns()
    for number in range(COUNT):
        wait_ns = begin_ns + number * GAP_NS - time.monotonic_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / 1e9)
        sender.send(PAYLOAD)
    receiver.settimeout(QUIET_S)
    received = 0
    try:
        while True:
            receiver.recv(2000)
            received += 1
    except TimeoutError:
        took_s = (time.monotonic_ns() - begin_ns) / 1e9 - QUIET_S
print(json.dumps({"received": received, "took_s": took_s}))

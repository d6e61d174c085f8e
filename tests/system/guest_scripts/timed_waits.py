"""Waits of a program in a PID namespace, one of each kind, as the guest's kernel records them: printed as JSON.

An argument is the number of windows in which waits are skipped. Printed are the waits, how long the program took, and
how long it took by its own clocks.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from owlt.orchestrator.rigs.timed_waits import WaitRecorder

LENGTHS_S = {
    "nanosleep": 1.0,
    "clock_nanosleep": 1.1,
    "poll": 1.2,
    "epoll_wait": 1.3,
    "pselect6": 1.4,
    "futex": 1.5,
    "recvfrom": 1.6,
    "timerfd": 1.7,
    "alarm": 1.8,
    "timer_create": 1.9,
}
"""How long each kind waits."""
EVENT_S = 0.25
"""After how long a byte ends the waits that do not time out."""
PATIENCE_S = 60
OUTSIDE_S = 0.75
"""The wait of a process outside of the PID namespace."""
NANOSLEEP, CLOCK_MONOTONIC = 35, 1
libc = ctypes.CDLL(None)


def timespec(seconds: float) -> bytes:
    return struct.pack("=qq", int(seconds), round(seconds % 1 * 1e9))


def receive_in_vain(seconds: float) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as port:
        port.bind(("127.0.0.1", 0))
        port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("=qq", int(seconds), int(seconds % 1 * 1e6)))
        try:
            port.recv(1)
        except BlockingIOError:
            return


def wait_for_timer_file(seconds: float) -> None:
    timer = libc.timerfd_create(CLOCK_MONOTONIC, 0)
    libc.timerfd_settime(timer, 0, timespec(0) + timespec(seconds), None)
    with select.epoll() as poll:
        poll.register(timer)
        poll.poll()
    os.close(timer)


def wait_for_alarm(seconds: float) -> None:
    signal.setitimer(signal.ITIMER_REAL, seconds)
    signal.pause()


def wait_for_timer(seconds: float) -> None:
    timer = ctypes.c_void_p()
    libc.timer_create(CLOCK_MONOTONIC, None, ctypes.byref(timer))
    libc.timer_settime(timer, 0, timespec(0) + timespec(seconds), None)
    signal.pause()


def wait_in_all_ways() -> None:
    signal.signal(signal.SIGALRM, lambda *_: None)
    with select.epoll() as poll:
        ways = {
            "nanosleep": lambda s: libc.syscall(NANOSLEEP, timespec(s), None),
            "clock_nanosleep": time.sleep,
            "poll": lambda s: select.poll().poll(s * 1000),
            "epoll_wait": poll.poll,
            "pselect6": lambda s: select.select([], [], [], s),
            "futex": threading.Event().wait,
            "recvfrom": receive_in_vain,
            "timerfd": wait_for_timer_file,
            "alarm": wait_for_alarm,
            "timer_create": wait_for_timer,
        }
        for kind, length_s in LENGTHS_S.items():
            ways[kind](length_s)


def wait_for_an_event() -> None:
    """Poll for a byte that another process sends before the time-out."""
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        time.sleep(EVENT_S)
        theirs.send(b"x")
        os._exit(0)
    poll = select.poll()
    poll.register(ours, select.POLLIN)
    poll.poll(PATIENCE_S * 1000)
    with select.epoll() as epoll:
        epoll.register(ours, select.EPOLLIN)
        epoll.poll(PATIENCE_S)
    os.wait()


def main(windows: int) -> None:
    recorder = WaitRecorder({"sender": Path("/proc/self/ns/net")})
    recorder.begin()
    began_ns = time.time_ns()
    for _ in range(windows):
        recorder.skip("sender", began_ns, began_ns + PATIENCE_S * 10**9)
    inside = ["unshare", "--pid", "--fork", sys.executable, __file__, "inside"]
    own_clocks = subprocess.run(inside, check=True, stdout=subprocess.PIPE, text=True).stdout
    ended_ns = time.time_ns()
    time.sleep(OUTSIDE_S)
    waits = recorder.waits()
    assert all(began_ns <= wait.begin_ns <= wait.end_ns <= ended_ns for wait in waits.waits)
    result = {"took_s": (ended_ns - began_ns) / 1e9, "own_clocks_s": json.loads(own_clocks)}
    print(json.dumps(result | waits.model_dump()))


def inside() -> None:
    began = time.time(), time.monotonic()
    wait_in_all_ways()
    ended = time.time(), time.monotonic()
    wait_for_an_event()
    print(json.dumps([end - start for start, end in zip(began, ended, strict=True)]))


if __name__ == "__main__":
    if "inside" in sys.argv:
        inside()
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 0)

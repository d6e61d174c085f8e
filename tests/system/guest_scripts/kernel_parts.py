"""Tries each feature of a kernel that a rig and its implementations may need, and prints the error (empty: none)."""

import ctypes
import json
import mmap
import os
import pty
import resource
import select
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
IPC_CREAT, IPC_PRIVATE = 0o1000, 0


def run(*command: str) -> str:
    """What a command complained of; empty when it succeeded."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"


def call(function: str, *arguments: object) -> str:
    """The error of a C library function; empty when it has none."""
    return "" if getattr(LIBC, function)(*arguments) >= 0 else os.strerror(ctypes.get_errno())


def opened(family: int, kind: int, protocol: int = 0) -> str:
    """The error of making a socket."""
    try:
        socket.socket(family, kind, protocol).close()
    except OSError as error:
        return str(error)
    return ""


def done(function: Callable[[], object]) -> str:
    """The error of a Python function."""
    try:
        function()
    except OSError as error:
        return str(error)
    return ""


def links() -> dict[str, str]:
    """Kinds of network device."""
    kinds = ("veth", "bridge", "dummy", "ifb")
    found = {kind: run("ip", "link", "add", f"a-{kind}", "type", kind) for kind in kinds}
    return found | {"tun": run("ip", "tuntap", "add", "a-tun", "mode", "tun")}


def qdiscs() -> dict[str, str]:
    """Queueing disciplines, on the dummy device."""
    settings = {
        "netem": "delay 1ms",
        "tbf": "rate 1mbit burst 10k limit 100k",
        "htb": "",
        "prio": "",
        "fq": "",
        "codel": "",
        "fq_codel": "",
        "red": "limit 100000 avpkt 1000",
        "sfq": "",
        "etf": "clockid CLOCK_TAI delta 1000",
        "pfifo": "",
    }
    found = {
        kind: run("tc", "qdisc", "replace", "dev", "a-dummy", "root", kind, *how.split())
        for kind, how in settings.items()
    }
    return found | {"clsact": run("tc", "qdisc", "add", "dev", "a-ifb", "clsact")}


def filters() -> dict[str, str]:
    """Classifiers and actions, on the ifb device's clsact."""
    add = ["tc", "filter", "add", "dev", "a-ifb", "ingress"]
    mirror = ["action", "mirred", "egress", "redirect", "dev", "a-dummy"]
    return {
        "matchall": run(*add, "matchall", *mirror),
        "u32": run(*add, "protocol", "ip", "u32", "match", "u32", "0", "0", "action", "drop"),
        "bpf": run(*add, "bpf", "bytecode", "1,6 0 0 0", "action", "drop"),
    }


def namespaces() -> dict[str, str]:
    """Kinds of namespace."""
    return {kind: run("unshare", f"--{kind}", "--fork", "true") for kind in ("net", "mount", "pid", "ipc", "uts")} | {
        "user": run("unshare", "--user", "--map-root-user", "true")
    }


def programs() -> dict[str, str]:
    """System calls that implementations live on."""
    inotify = LIBC.inotify_init()
    return {
        "epoll": done(select.epoll),
        "eventfd": done(lambda: os.eventfd(0)),
        "timerfd": call("timerfd_create", 1, 0),
        "signalfd": call("signalfd", -1, ctypes.create_string_buffer(128), 0),
        "inotify": "" if inotify >= 0 else os.strerror(ctypes.get_errno()),
        "aio": call("syscall", 206, 1, ctypes.byref(ctypes.c_ulong())),
        "SysV shared memory": call("shmget", IPC_PRIVATE, 4096, IPC_CREAT | 0o600),
        "SysV semaphores": call("semget", IPC_PRIVATE, 1, IPC_CREAT | 0o600),
        "SysV messages": call("msgget", IPC_PRIVATE, IPC_CREAT | 0o600),
        "POSIX messages": call("mq_open", b"/owlt", os.O_CREAT | os.O_RDWR, 0o600, None),
        "POSIX timers": done(lambda: signal.setitimer(signal.ITIMER_REAL, 0)),
        "locks": done(lambda: os.lockf(os.open("/run/lock-me", os.O_CREAT | os.O_RDWR), os.F_LOCK, 0)),
        "shared memory": done(lambda: mmap.mmap(-1, 4096)),
        "limits": done(lambda: resource.getrlimit(resource.RLIMIT_NOFILE)),
        "pseudo-terminal": done(pty.openpty),
    }


def sockets() -> dict[str, str]:
    """Kinds of socket."""
    return {
        "packet": opened(socket.AF_PACKET, socket.SOCK_RAW),
        "unix": opened(socket.AF_UNIX, socket.SOCK_STREAM),
        "UDP": opened(socket.AF_INET, socket.SOCK_DGRAM),
        "TCP over IPv6": opened(socket.AF_INET6, socket.SOCK_STREAM),
        "raw": opened(socket.AF_INET, socket.SOCK_RAW, 1),
    }


print(
    json.dumps(
        {
            "link": links(),
            "qdisc": qdiscs(),
            "filter": filters(),
            "namespace": namespaces(),
            "program": programs(),
            "socket": sockets(),
            "absent": {"wireguard": run("ip", "link", "add", "a-wireguard", "type", "wireguard")},
            "tcp": Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split(),
        }
    )
)

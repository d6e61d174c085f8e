"""A sender or a receiver whose packets show what it finds on its host: settings, sockets, files, processes.

usage: leftovers.py sender|receiver ADDRESS PEER FILE GROUP

With a GROUP other than "honest" it first leaves on its host what that group stands for. Its packets then show that the
leftovers are there, and those of a later run whether they still are.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

UDP, TCP, TCP_OF_SENDER = 5000, 5001, 5002
DF_BYTES = 1400
LIMIT_S = 5.0
LIBC = ctypes.CDLL(None, use_errno=True)


def shell(line: str) -> str:
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    return done.stdout + done.stderr


def lines_of(path: str, needle: str = "") -> list[str]:
    return sorted(line.strip() for line in Path(path).read_text().splitlines() if needle in line)


def names_in(place: str) -> list[str]:
    return sorted(each.name for each in Path(place).iterdir())


def opened_mqueue() -> str:
    return "there" if LIBC.mq_open(b"/left", os.O_RDONLY) >= 0 else "none"


def sysctls() -> str:
    values = []
    for path in sorted(Path("/proc/sys/net").rglob("*")):
        with suppress(OSError):
            if path.is_file():
                values.append(f"{path} {path.read_text()}")
    return hashlib.sha256("".join(values).encode()).hexdigest()


def attributes() -> list[str]:
    names = ("mtu", "address", "flags", "tx_queue_len", "ifalias", "netdev_group", "ifindex")
    return [f"{name} {Path('/sys/class/net/test0', name).read_text().strip()}" for name in names]


OBSERVED: dict[str, Callable[[], object]] = {
    "file in /tmp": lambda: names_in("/tmp"),
    "file in /var/tmp": lambda: names_in("/var/tmp"),
    "file in /dev/shm": lambda: names_in("/dev/shm"),
    "file in the run directory": lambda: [name for name in names_in(".") if name.startswith("left")],
    "shared memory": lambda: len(lines_of("/proc/sysvipc/shm")),
    "semaphores": lambda: len(lines_of("/proc/sysvipc/sem")),
    "message queue of System V": lambda: len(lines_of("/proc/sysvipc/msg")),
    "message queue of POSIX": opened_mqueue,
    "processes": lambda: len([name for name in names_in("/proc") if name.isdigit()]),
    "abstract socket": lambda: len(lines_of("/proc/net/unix", "@left")),
    "bound port": lambda: len(lines_of("/proc/net/udp", ":138B ")),
    "multicast group": lambda: lines_of("/proc/net/igmp", "0907"),
    "multicast address": lambda: lines_of("/proc/net/dev_mcast", "test0"),
    "routes": lambda: sorted(shell("ip route show table all").splitlines()),
    "rules": lambda: shell("ip rule"),
    "neighbours": lambda: shell("ip neigh show nud permanent"),
    "addresses": lambda: shell("ip -brief -4 addr show dev test0"),
    "queues": lambda: [each["kind"] for each in json.loads(shell("tc -json qdisc show dev test0"))],
    "interface": attributes,
    "offloads": lambda: shell("ethtool -k test0 | grep tx-checksumming"),
    "other interfaces": lambda: names_in("/sys/class/net"),
    "connections": lambda: len(lines_of("/proc/net/tcp", ":138")),
    "TCP metrics": lambda: shell("ip tcp_metrics show"),
    "settings of the kernel": sysctls,
    "clock": lambda: time.strftime("%Y"),
    "name": lambda: f"{os.uname().nodename} at {socket.gethostbyname(os.uname().nodename)}",
}


def leave_a_process() -> None:
    """It has a timer, a socket with a name, a port, a multicast group, and sends packets until it is killed."""
    if os.fork():
        return
    os.setsid()
    named = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    named.bind("\0left")
    bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    bound.bind(("", 5003))
    group = socket.inet_aton("224.7.7.9") + socket.inet_aton(sys.argv[2])
    bound.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group)
    while True:
        bound.sendto(b"left", (sys.argv[3], UDP))
        time.sleep(0.05)


def leave_settings() -> None:
    for place in ("/tmp", "/var/tmp", "/dev/shm", "."):
        Path(place, "left").write_text("left")
    LIBC.shmget(7, 4096, 0o1666)
    LIBC.semget(7, 1, 0o1666)
    LIBC.msgget(7, 0o1666)
    LIBC.mq_open(b"/left", os.O_CREAT | os.O_RDWR, 0o666, None)
    leave_a_process()
    for line in (
        "ip route add 10.99.0.0/16 dev test0",
        "ip rule add from 10.99.0.1 lookup 77",
        "ip neigh add 10.77.0.9 lladdr 02:00:00:00:4d:99 nud permanent dev test0",
        "ip addr add 10.77.0.3/24 dev test0",
        "ip maddr add 01:00:5e:01:02:03 dev test0",
        "tc qdisc replace dev test0 root pfifo limit 50",
        "tc qdisc add dev test0 clsact",
        "ip link set test0 mtu 1496 txqueuelen 17 alias left promisc on group 7",
        "ethtool -K test0 tx on",
        "ip link add left type dummy",
        "ip tuntap add left1 mode tun",
    ):
        print(line, shell(line), flush=True)
    for line in ("date -s 2030-01-01", "echo left >/proc/sys/kernel/hostname", "echo left >/var/log/left"):
        print(line, shell(f"({line}) >/dev/null 2>&1 && echo was done || echo was refused"), flush=True)
    time.sleep(0.2)


def leave_a_broken_path() -> None:
    for line in (
        "ip neigh replace 10.77.0.1 lladdr 02:00:00:00:4d:66 nud permanent dev test0",
        "ip neigh replace 10.77.0.2 lladdr 02:00:00:00:4d:66 nud permanent dev test0",
        "ip route add blackhole 10.77.0.1/32",
        "ip route add blackhole 10.77.0.2/32",
        "ip link set test0 address 02:00:00:00:4d:77",
        "ip link set test0 down",
    ):
        shell(line)
    print(shell("ip -brief link show test0; ip route; ip neigh"), flush=True)


def forge_addresses() -> None:
    """Frames from the peer's MAC address: a bridge that learns would send the peer's packets here. And a question for
    the emulator's address in the management network, which Linux answers on any interface.
    """
    macs = {"10.77.0.1": bytes.fromhex("020000004d01"), "10.77.0.2": bytes.fromhex("020000004d02")}
    own, peer = macs[sys.argv[2]], macs[sys.argv[3]]
    asked = bytes.fromhex("0001080006040001") + own + socket.inet_aton(sys.argv[2]) + bytes(6)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as link:
        link.bind(("test0", 0))
        for _ in range(3):
            link.send(own + peer + b"\x88\xb5" + b"forged".ljust(46))
        link.send(b"\xff" * 6 + own + b"\x08\x06" + asked + socket.inet_aton("10.78.0.3"))


def forge_fragmentation_needed() -> None:
    """ICMP (RFC 1191): a packet from the peer was too long for the path to here."""
    quoted = struct.pack(
        "!BBHHHBBH4s4s", 0x45, 0, 1428, 0, 0x4000, 64, 17, 0, *map(socket.inet_aton, (sys.argv[3], sys.argv[2]))
    )
    quoted += struct.pack("!HHHH", UDP, UDP, 1408, 0)
    message = struct.pack("!BBHHH", 3, 4, 0, 0, 600) + quoted
    total = sum(struct.unpack(f"!{len(message) // 2}H", message))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    message = message[:2] + struct.pack("!H", ~total & 0xFFFF) + message[4:]
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as raw:
        raw.sendto(message, (sys.argv[3], 0))


def tell(udp: socket.socket, observed: dict[str, object]) -> None:
    for name, value in observed.items():
        udp.send(f"{sys.argv[1]}: {name} = {value}".encode()[:1200])
    udp.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO (ip(7))
    try:
        udp.send(b"x" * DF_BYTES)
    except OSError as problem:
        udp.send(f"{sys.argv[1]}: a long packet = {problem}".encode())


def main(role: str, address: str, peer: str, file: str, group: str) -> None:
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.settimeout(LIMIT_S)
    udp.bind((address, UDP))
    udp.connect((peer, UDP))
    if group == "settings":
        leave_settings()
    observed = {name: observe() for name, observe in OBSERVED.items()}
    tcp = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    tcp.settimeout(LIMIT_S)
    tcp.bind((address, TCP if role == "receiver" else TCP_OF_SENDER))
    if role == "sender":
        udp.send(b"hello")
        with suppress(OSError):  # that a packet was too long
            udp.recv(100)
        tell(udp, observed)
        tcp.connect((peer, TCP))
        tcp.sendall(Path(file).read_bytes())
        tcp.shutdown(socket.SHUT_WR)
        tcp.recv(1)
        tcp.close()
    else:
        tcp.listen()
        print("ready", flush=True)
        udp.recv(100)
        if group == "forged packets":
            forge_fragmentation_needed()
            forge_addresses()
        udp.send(b"go")
        tell(udp, observed)
        connection, _ = tcp.accept()
        received = bytearray()
        while chunk := connection.recv(65536):
            received += chunk
        Path(file).write_bytes(received)
        connection.send(b"k")
        connection.recv(1)
    if group == "broken path":
        leave_a_broken_path()
    if group == "no path" and role == "receiver":
        shell("ip link del test0")
    print(shell("cat /proc/net/tcp; ip tcp_metrics show"), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

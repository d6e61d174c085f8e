"""Three hosts in one guest, made with `ip`: sender and receiver, and between them the emulator with its bridge.

The scripts of this folder run in the guest as root. They use this module to make the hosts, to serve a channel,
to capture at the emulator's two ports and to send numbered packets; they print what they saw as JSON and leave
captures in OUT_DIR. Judging is left to the tests.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from pathlib import Path

from owlt.emulator.service.client import EmulatorClient

URL = "http://10.78.0.3:8765"
ADDRESSES = {"sender": "10.77.0.1", "receiver": "10.77.0.2"}
SERVICE = [sys.executable, "-m", "owlt.emulator", "--listen", "10.78.0.3:8765", "--no-token"]
PORTS = ["--sender-port", "to-sender", "--receiver-port", "to-receiver"]


def run(command: str) -> str:
    """Run a command line and return what it prints; raise if it fails."""
    done = subprocess.run(command.split(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command}: {done.stderr.strip()}")
    return done.stdout


def on(host: str, command: Sequence[str]) -> list[str]:
    """Return the command that runs on a host."""
    return ["ip", "netns", "exec", host, *command]


def shaped() -> str:
    """Return all queueing disciplines of the emulator, as tc shows them, and its interfaces."""
    return run("tc -n emulator qdisc show") + run("ip netns exec emulator ls /sys/class/net")


def make() -> None:
    """Make the hosts, the test path through the bridge, and a management link to the emulator."""
    run("sysctl -qw net.core.netdev_max_backlog=100000")  # a burst on a veth meets it first
    for host in ("sender", "emulator", "receiver"):
        run(f"ip netns add {host}")
        run(f"ip -n {host} link set lo up")
        for name in ("all", "default"):  # nothing but the test's own packets on the path
            run(f"ip netns exec {host} sysctl -qw net.ipv6.conf.{name}.disable_ipv6=1")
    run("ip -n emulator link add channel type bridge stp_state 0 mcast_snooping 0")
    for host in ADDRESSES:
        _connect(host)
    run("ip -n emulator link set channel up")
    run("ip link add mgmt-emulator type veth peer name mgmt0 netns emulator")
    run("ip address add 10.78.0.254/24 dev mgmt-emulator")
    run("ip link set mgmt-emulator up")
    run("ip -n emulator address add 10.78.0.3/24 dev mgmt0")
    run("ip -n emulator link set mgmt0 up")
    _introduce()


def _connect(host: str) -> None:
    port = f"to-{host}"
    run(f"ip -n {host} link add test0 type veth peer name {port} netns emulator")
    run(f"ip -n emulator link set {port} master channel")
    for namespace, interface in ((host, "test0"), ("emulator", port)):
        run(f"ip netns exec {namespace} ethtool -K {interface} tx off tso off gso off gro off")
        run(f"ip -n {namespace} link set {interface} up")
    run(f"ip -n {host} address add {ADDRESSES[host]}/24 dev test0")


def _introduce() -> None:
    """Fix the hosts' neighbours, and send a first packet: at a boot's first, the guest's clock leaps by ms."""
    for host, other in (("sender", "receiver"), ("receiver", "sender")):
        address = run(f"ip netns exec {other} cat /sys/class/net/test0/address").strip()
        run(f"ip -n {host} neighbour add {ADDRESSES[other]} lladdr {address} nud permanent dev test0")
        send(host, count=1, size_bytes=8)


@contextmanager
def process(command: Sequence[str], ready: str, stream: str, end: signal.Signals) -> Iterator[subprocess.Popen[str]]:
    """Start a program, wait until it prints `ready` to "stdout" or "stderr", and end it with a signal."""
    program = subprocess.Popen(
        command,
        text=True,
        stdout=subprocess.PIPE if stream == "stdout" else None,
        stderr=subprocess.PIPE if stream == "stderr" else None,
    )
    lines = getattr(program, stream)
    try:
        if not any(ready in line for line in lines):
            raise RuntimeError(f"{' '.join(command)}: ended before it said {ready!r}")
        yield program
    finally:
        program.send_signal(end)
        program.wait()
        lines.close()


@contextmanager
def service() -> Iterator[EmulatorClient]:
    """Serve the channel on the emulator and yield a client; it must end well."""
    with process(on("emulator", [*SERVICE, *PORTS]), "listening", "stdout", signal.SIGTERM) as program:
        yield EmulatorClient(URL)
    if program.returncode:
        raise RuntimeError(f"the service ended with {program.returncode}")


@contextmanager
def captures(name: str = ".") -> Iterator[None]:
    """Capture whole packets at both ports, those that come in and those that go out apart, in a folder of OUT_DIR:
    sender-in.pcap, receiver-out.pcap and so on.
    """
    folder = Path(os.environ["OUT_DIR"], name)
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        for host, way in product(ADDRESSES, ("in", "out")):
            options = "--immediate-mode -B 16384 --time-stamp-precision=nano -Z root"
            command = f"tcpdump -i to-{host} -Q {way} {options} -w {folder}/{host}-{way}.pcap".split()
            stack.enter_context(process(on("emulator", command), "listening on", "stderr", signal.SIGINT))
        yield


def send(origin: str, count: int, size_bytes: int, pause_s: float = 0, wait_s: float = 0.01) -> int:
    """Send numbered UDP packets to the other host and wait; return how many its socket got whole."""
    target = "receiver" if origin == "sender" else "sender"
    packets = [sys.executable, str(Path(__file__).with_name("packets.py"))]
    receiving = on(target, [*packets, "receive", ADDRESSES[target]])
    with process(receiving, "bound", "stdout", signal.SIGTERM) as receiver:
        sending = [*packets, "send", ADDRESSES[target], *map(str, (count, size_bytes, pause_s))]
        subprocess.run(on(origin, sending), check=True)
        time.sleep(wait_s)
        receiver.send_signal(signal.SIGTERM)
        assert receiver.stdout is not None
        return int(receiver.stdout.read())

"""System calls per 1000 bytes of a file, for each endpoint of ours and side: what a transfer in a guest mostly costs.

strace counts the calls of real transfers over loopback, of a short and of a longer file; the difference leaves out what
a program does once. They are slow, so that a receiver wakes for each packet, as it does in a guest, where every call
is a trap of some 10 us.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
CLOCK_READS = Path(__file__).with_name("clock_reads.c")
SHORT_KB, LONG_KB = 50, 250
SENDER, RECEIVER = "127.0.0.1:26101", "127.0.0.2:26102"
RATE_BPS, RTT_S = 2e6, 0.01
TIMEOUT_S = 60
SHOWN_FROM = 0.02
"""Calls that are rarer are part of the sum only."""
OF_BOTH = ("--rate-bps", str(RATE_BPS))
BETWEEN = ("--rtt-s", str(RTT_S))

Calls = dict[str, float]


@dataclass(frozen=True)
class Endpoint:
    """One of ours: its module, and the options of both sides, of the sender and of the receiver.

    `{bytes}` is the size of the file.
    """

    module: str
    both: tuple[str, ...] = BETWEEN
    send: tuple[str, ...] = ("--local", SENDER, "--peer", RECEIVER)
    receive: tuple[str, ...] = ("--local", RECEIVER, "--peer", SENDER)

    def options(self, side: str, file_bytes: int) -> Iterator[str]:
        """The arguments of a side after its file."""
        own = self.send if side == "send" else self.receive
        return (option.format(bytes=file_bytes) for option in (*OF_BOTH, *self.both, *own))


NORM = ("--session", "127.0.0.2:26103", "--destination", "address", "--receiver-address", "127.0.0.2")
ENDPOINTS = {
    "cfdp": Endpoint("owlt.agents.cfdp"),
    "ltp": Endpoint("owlt.agents.ltp", receive=(*Endpoint.receive, "--file-bytes", "{bytes}")),
    "norm": Endpoint(
        "owlt.agents.norm",
        both=(*BETWEEN, *NORM),
        send=("--tx-port", "26101"),
        receive=("--tx-port", "26103", "--file-bytes", "{bytes}"),
    ),
    "saratoga": Endpoint("owlt.agents.saratoga", both=(*BETWEEN, "--transfer", "put")),
    "bp-acs": Endpoint("owlt.agents.bundle"),
    "bp-cs": Endpoint("owlt.agents.bundle", both=(*BETWEEN, "--custody", "cs")),
    "cfdp-librecube": Endpoint("owlt.agents.librecube"),
    "quic-aioquic": Endpoint("owlt.agents.quic"),
    "tcp": Endpoint(
        "owlt.agents.tcp", send=("--peer", RECEIVER), receive=("--local", RECEIVER, "--file-bytes", "{bytes}")
    ),
    "udp-blast": Endpoint(
        "owlt.agents.blast",
        both=(),
        receive=(*Endpoint.receive, "--file-bytes", "{bytes}", "--one-way-delay-s", "0.01"),
    ),
}


def main() -> int:
    """Print the calls of each endpoint and side. Exit status 1 if a transfer failed."""
    for program, fix in (("strace", "apt-get install strace"), ("cc", "apt-get install gcc")):
        if shutil.which(program) is None:
            sys.exit(f"bench: system calls: {program} is not installed; expected it on PATH; {fix}")
    print(f"system calls per 1000 bytes of the file, over loopback at {RATE_BPS / 1e6:g} Mbit/s", flush=True)
    failed = []
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as name:
        directory = Path(name)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", directory / "clock_reads.so", CLOCK_READS], check=True)
        for implementation, endpoint in ENDPOINTS.items():
            try:
                short, long = (calls_of(endpoint, 1000 * size, directory) for size in (SHORT_KB, LONG_KB))
            except TransferFailed as failure:
                failed.append(implementation)
                print(f"  {implementation:15} {failure}", flush=True)
                continue
            for side in ("send", "receive"):
                print(line(implementation, side, per_kb(short[side], long[side])), flush=True)
    print(f"system calls: {len(ENDPOINTS) - len(failed)} endpoints; failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))


class TransferFailed(Exception):
    """A program did not exit with status 0."""


def calls_of(endpoint: Endpoint, file_bytes: int, directory: Path) -> dict[str, Calls]:
    """The calls of both sides in one transfer. Raises TransferFailed."""
    (directory / "file").write_bytes(bytes(range(250)) * (file_bytes // 250))
    receiver = start(endpoint, "receive", ["--output", "received"], file_bytes, directory)
    ready = receiver.stdout.readline() if receiver.stdout else ""
    if not ready.startswith("listening"):
        raise TransferFailed(ready + receiver.communicate(timeout=TIMEOUT_S)[0])
    sender = start(endpoint, "send", ["--file", "file"], file_bytes, directory)
    for program in (sender, receiver):
        output, _ = program.communicate(timeout=TIMEOUT_S)
        if program.returncode != 0:
            receiver.kill()
            raise TransferFailed(output.strip())
    return {side: counted((directory / f"{side}.calls").read_text()) for side in ("send", "receive")}


def start(endpoint: Endpoint, side: str, files: list[str], file_bytes: int, directory: Path) -> subprocess.Popen[str]:
    """Start one side under strace, which writes its counts at the end."""
    strace = ["strace", "-f", "-c", "-U", "name,calls", "-o", f"{side}.calls"]
    environment = ["-E", f"LD_PRELOAD={directory / 'clock_reads.so'}", "-E", f"PYTHONPATH={REPOSITORY}"]
    program = [sys.executable, "-m", endpoint.module, side, *files, *endpoint.options(side, file_bytes)]
    return subprocess.Popen(
        [*strace, *environment, *program],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def counted(summary: str) -> Calls:
    """Calls by name, from strace's summary."""
    counts = re.findall(r"^\s*(\w+)\s+(\d+)\s*$", summary, re.MULTILINE)
    return {name: float(count) for name, count in counts if name != "total"}


def per_kb(short: Calls, long: Calls) -> Calls:
    """Calls for each further 1000 bytes of the file."""
    return {name: (count - short.get(name, 0)) / (LONG_KB - SHORT_KB) for name, count in long.items()}


def line(implementation: str, side: str, calls: Calls) -> str:
    """The calls of a side, the most frequent first."""
    shown = sorted(((count, name) for name, count in calls.items() if count >= SHOWN_FROM), reverse=True)
    listed = ", ".join(f"{name} {count:.2f}" for count, name in shown)
    return f"  {implementation:15} {side:8} {sum(calls.values()):6.2f}  {listed}"

"""The readers that are held against each other: how long each takes over a capture, and what it counts there."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import numpy as np

from owlt.captures.frames.columns import Columns, read_columns
from tests.bench.packets_captures import PORT

SCAPY_PACKETS, PYSHARK_PACKETS, TSHARK_PACKETS = 20_000, 2_000, 100_000
REPETITIONS = 3
"""The least is taken: what else the machine does can only add."""
SHARED = 1.25
"""When it took this much longer than its CPU time, it had to share a core."""
_WHOLE_SEGMENTS = "tcp.desegment_tcp_streams:FALSE"
_FIELDS = ("frame.time_epoch", "frame.len", "ip.src", "ip.dst", "ip.id", "ip.proto")
_UDP_FIELDS = ("udp.srcport", "udp.dstport", "udp.length")
_TCP_FIELDS = ("tcp.srcport", "tcp.dstport", "tcp.seq", "tcp.ack", "tcp.flags", "tcp.window_size_value", "tcp.len")


@dataclass(frozen=True)
class Counts:
    """What a reader finds in the first packets of a capture; None where it cannot tell."""

    packets: int
    wire_bytes: int
    forward: int | None = None
    payload_bytes: int | None = None

    def agrees(self, other: Counts) -> bool:
        """Whether they differ in nothing that both tell."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return all(mine == theirs for mine, theirs in pairs if mine is not None and theirs is not None)


@dataclass(frozen=True)
class Timed:
    """What a reader counted, and the least that it took."""

    counts: Counts
    wall_s: float
    cpu_s: float
    cores: int = 1
    """That it used at once."""

    @property
    def judged_s(self) -> float:
        """The wall time, or the CPU time on each core where something else had the cores too."""
        alone_s = self.cpu_s / self.cores
        return alone_s if self.wall_s > SHARED * alone_s else self.wall_s

    @property
    def rate(self) -> float:
        """Packets a second of the time that is judged."""
        return self.counts.packets / self.judged_s


def timed(reader: Callable[[], Counts], repetitions: int = REPETITIONS) -> Timed:
    """The best of several; the CPU time is that of this process and of those that it started."""
    results = []
    for _ in range(repetitions):
        start_s, start_cpu_s = time.perf_counter(), cpu_time_s()
        counts = reader()
        results.append(Timed(counts, time.perf_counter() - start_s, cpu_time_s() - start_cpu_s))
    return min(results, key=lambda result: result.judged_s)


def cpu_time_s() -> float:
    """Of this process and of the processes that it started and that have ended."""
    return sum(usage.ru_utime + usage.ru_stime for usage in (getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)))


def count_columns(capture: Path) -> Counts:
    """All packets, as the columns have them."""
    return counts_of(read_columns(capture))


def counts_of(columns: Columns, most: int | None = None) -> Counts:
    """The same of columns that have been read, or of their first rows."""
    rows = slice(most)
    return Counts(
        packets=len(columns.time_ns[rows]),
        wire_bytes=int(columns.wire_bytes[rows].sum()),
        forward=int(np.count_nonzero(columns.destination_port[rows] == PORT)),
        payload_bytes=int(columns.payload_bytes[rows].sum()),
    )


def count_with_scapy(capture: Path) -> Counts:
    """The first packets, dissected."""
    from scapy.layers.inet import TCP, UDP
    from scapy.layers.l2 import Ether
    from scapy.utils import RawPcapReader

    packets = wire_bytes = forward = payload_bytes = 0
    with RawPcapReader(str(capture)) as reader:
        for data, told in reader:
            packet = Ether(data)
            segment = packet[UDP] if UDP in packet else packet[TCP]
            packets += 1
            wire_bytes += told.wirelen
            forward += segment.dport == PORT
            payload_bytes += len(segment.payload)
            if packets == SCAPY_PACKETS:
                break
    return Counts(packets, wire_bytes, forward, payload_bytes)


def count_with_pyshark(capture: Path) -> Counts:
    """The first packets; in a process of its own, since pyshark runs an event loop."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(_count_in_child, (capture,))


def _count_in_child(capture: Path) -> Counts:
    import pyshark

    packets = wire_bytes = forward = payload_bytes = 0
    overriding = {"tcp.desegment_tcp_streams": "FALSE"}
    with pyshark.FileCapture(str(capture), use_json=True, keep_packets=False, override_prefs=overriding) as reader:
        for packet in reader:
            segment = packet.udp if "UDP" in packet else packet.tcp
            packets += 1
            wire_bytes += int(packet.length)
            forward += int(segment.dstport) == PORT
            payload_bytes += int(segment.length) - 8 if "UDP" in packet else int(segment.len)
            if packets == PYSHARK_PACKETS:
                break
    return Counts(packets, wire_bytes, forward, payload_bytes)


def count_with_tshark(capture: Path, is_tcp: bool) -> Counts:
    """The first packets' fields, as many as the columns have."""
    command = ["tshark", "-n", "-r", str(capture), "-c", str(TSHARK_PACKETS), "-o", _WHOLE_SEGMENTS, "-T", "fields"]
    fields = _FIELDS + (_TCP_FIELDS if is_tcp else _UDP_FIELDS)
    for field in fields:
        command += ["-e", field]
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    rows = [line.split("\t") for line in told.splitlines()]
    port, last = fields.index("tcp.dstport" if is_tcp else "udp.dstport"), len(fields) - 1
    payload_bytes = sum(int(row[last]) for row in rows) - (0 if is_tcp else 8 * len(rows))
    return Counts(
        len(rows), sum(int(row[1]) for row in rows), sum(row[port] == str(PORT) for row in rows), payload_bytes
    )


def count_with_capinfos(capture: Path) -> Counts:
    """All packets and their bytes; it looks no deeper."""
    command = ["capinfos", "-T", "-M", "-r", "-c", "-d", str(capture)]
    told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    packets, wire_bytes = told.split("\t")[-2:]
    return Counts(int(packets), int(wire_bytes))

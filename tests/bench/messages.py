"""What the messages of a capture cost, in CPU time. One packet in ten has a bit flipped anywhere."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from owlt.agents.ltp.segments import DataSegment, SessionId
from owlt.agents.ltp.segments import encode as ltp
from owlt.captures.frames.columns import read_columns
from owlt.captures.protocols.messages import Message, messages
from tests.bench.packets_readers import cpu_time_s
from tests.unit.captures.making import SESSION, Timed, flip, timed, write_pcap
from tests.unit.captures.octets import (
    BUNDLES,
    CFDP,
    LTP,
    NORM,
    SARATOGA,
    bundle,
    cfdp_data,
    frame,
    norm_data,
    saratoga_data,
)

PACKETS, BYTES, REPETITIONS = 20_000, 1000, 2
LIMIT_S = 0.5
"""CPU time."""
_IP_HEADER_BITS = 8 * 34
"""Before which no bit is flipped: the packet would not be one of the session."""
_SESSION = SessionId(1, 7)
_DATA: dict[str, tuple[tuple[str, ...], Callable[[int], bytes]]] = {
    "LTP": (LTP, lambda number: ltp(DataSegment(_SESSION, 3, number * BYTES, bytes(BYTES), True))),
    "CFDP": (CFDP, lambda number: cfdp_data(number * BYTES, BYTES)),
    "NORM": (NORM, lambda number: norm_data(number, BYTES)),
    "Saratoga": (SARATOGA, lambda number: saratoga_data(number * BYTES, BYTES)),
    "bundles": (BUNDLES, lambda number: bundle(number * BYTES, BYTES, number)),
}


def main() -> int:
    """Print it for each protocol. Exit status 1 if one takes longer than the limit, or a packet is no message."""
    failed = 0
    for name, (dissector, data) in _DATA.items():
        with tempfile.TemporaryDirectory(prefix="owlt-bench-") as directory:
            columns = read_columns(write_pcap(Path(directory) / "x.pcap", _frames(data)))
            found, cost_s = _least_cpu_s(partial(messages, columns, SESSION, dissector))
        failed += len(found) != PACKETS or cost_s > LIMIT_S
        print(f"messages: {PACKETS:,} packets of {name}: {cost_s:.2f} CPU s ({LIMIT_S} s at most)", flush=True)
    return int(failed > 0)


def _frames(data: Callable[[int], bytes]) -> list[Timed]:
    frames = timed([frame(data(number)) for number in range(PACKETS)])
    chance = random.Random(PACKETS)
    for number in range(0, PACKETS, 10):
        time_ns, octets = frames[number]
        frames[number] = time_ns, flip(octets, chance.randrange(_IP_HEADER_BITS, 8 * len(octets)))
    return frames


def _least_cpu_s(read: Callable[[], list[Message]]) -> tuple[list[Message], float]:
    """What is read, and the least CPU time of several."""
    costs = []
    for _ in range(REPETITIONS):
        begin_s = cpu_time_s()
        result = read()
        costs.append(cpu_time_s() - begin_s)
    return result, min(costs)

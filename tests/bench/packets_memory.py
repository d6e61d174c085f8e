"""The memory that reading a capture of many gigabytes takes: of a process that does nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.bench.packets_captures import write_long

WANTED_PACKETS, WIRE_BYTES = 5_000_000, 1000
RECORD_BYTES = WIRE_BYTES + 16
LEFT_FREE_BYTES = 4 * 10**9
LIMIT_BYTES = 500 * 10**6
_SAMPLED_EVERY_S = 0.005
_READ = (
    "import sys, time; from pathlib import Path; from owlt.captures.frames.columns import read_columns;"
    "start = time.perf_counter(); columns = read_columns(Path(sys.argv[1]));"
    "print(len(columns), time.perf_counter() - start)"
)


@dataclass(frozen=True)
class Peak:
    """The most memory of the process's own (no file's pages) that it held, of how many packets, read in what time."""

    file_bytes: int
    packets: int
    anonymous_bytes: int
    read_s: float


def measure(directory: Path, say: Callable[[str], None]) -> Peak:
    """Write the capture, as long as the disk has room for, read it in a child, remove it."""
    room = shutil.disk_usage(directory).free - LEFT_FREE_BYTES
    packets = min(WANTED_PACKETS, room // RECORD_BYTES)
    if packets < WANTED_PACKETS:
        say(f"the disk has room for {room / 1e9:.1f} GB only: a shorter capture")
    path = directory / "long.pcap"
    try:
        for number, written in enumerate(write_long(path, packets, WIRE_BYTES)):
            if number % 10 == 9:
                say(f"written {written / 1e9:.1f} GB")
        return _peak_of_reading(path)
    finally:
        path.unlink(missing_ok=True)


def _peak_of_reading(path: Path) -> Peak:
    child = subprocess.Popen([sys.executable, "-c", _READ, str(path)], stdout=subprocess.PIPE, text=True)
    status, most = Path(f"/proc/{child.pid}/status"), 0
    while child.poll() is None:
        most = max(most, _anonymous_bytes(status))
        time.sleep(_SAMPLED_EVERY_S)
    told = child.communicate()[0].split()
    if child.returncode:
        raise SystemExit(f"bench: reading {path.stat().st_size / 1e9:.1f} GB ended with {child.returncode}")
    return Peak(path.stat().st_size, int(told[0]), most, float(told[1]))


def _anonymous_bytes(status: Path) -> int:
    for line in status.read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0

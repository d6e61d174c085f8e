"""Whether a sweep that is killed again and again comes to its end: what is certified and recorded after each kill."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

SWEEP = {
    "name": "kills",
    "seed": 12,
    "implementations": ["cfdp", "ltp"],
    "file_size": "100 kB",
    "rate": "10 Mbit/s",
    "delay": ["25 ms", "1250 ms"],
    "packet_error_rate": [0, 0.01],
    "repetitions": 6,
}
KILL_AFTER_S = (15.0, 30.0)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
MOST_STARTS = 60
MOST_STARTS_WITHOUT_PROGRESS = 4
END_S = 120.0


@dataclass(frozen=True)
class Start:
    """One start of the sweep: how it ended after how long, and how many channels and runs it had come to then."""

    ended_by: str
    after_s: float
    certified: int
    recorded: int

    @property
    def progress(self) -> int:
        """How much is done."""
        return self.certified + self.recorded

    def __str__(self) -> str:
        done = f"{self.certified} channels certified, {self.recorded} runs recorded"
        return f"{self.ended_by:8} after {self.after_s:5.1f} s: {done}"


def start_once(sweep: Path, results: Path, draw: random.Random) -> Start:
    """Start the sweep, and kill it at a random moment unless it ends before."""
    command = [str(Path(sys.executable).parent / "owlt"), "run", str(sweep), "--results", str(results), "--no-report"]
    began_s, number = time.monotonic(), draw.choice(SIGNALS)
    with (results.parent / "output.txt").open("a") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        status = process.wait(draw.uniform(*KILL_AFTER_S))
        ended_by = f"status {status}"
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        process.wait(END_S)
        ended_by = number.name
    certified = len(list(results.glob("certificates/*.json")))
    return Start(ended_by, time.monotonic() - began_s, certified, len(recorded(results)))


def recorded(results: Path) -> dict[str, dict[str, object]]:
    """The records by run; raises ValueError for one that is not complete."""
    return {path.parent.name: json.loads(path.read_text()) for path in results.glob("runs/*/record.json")}


def is_stuck(starts: list[Start]) -> bool:
    """Whether the last few starts got nowhere."""
    latest = [start.progress for start in starts[-1 - MOST_STARTS_WITHOUT_PROGRESS :]]
    return len(latest) > MOST_STARTS_WITHOUT_PROGRESS and len(set(latest)) == 1 and starts[-1].ended_by != "status 0"


def main() -> int:
    """Kill a sweep every 15 to 30 s until it is finished. Exit status 1: it was not, or runs were lost or aborted."""
    draw = random.Random(SWEEP["seed"])
    starts: list[Start] = []
    with tempfile.TemporaryDirectory(prefix="owlt-kills-") as directory:
        sweep, results = Path(directory, "kills.yaml"), Path(directory, "results")
        sweep.write_text(json.dumps(SWEEP))
        while len(starts) < MOST_STARTS and not (starts and starts[-1].ended_by == "status 0"):
            starts.append(start_once(sweep, results, draw))
            print(f"  start {len(starts):2}: {starts[-1]}", flush=True)
            if is_stuck(starts):
                break
        records = recorded(results)
    counts = [start.progress for start in starts]
    alone = sum(bool(record["alone"]) for record in records.values())
    is_finished = starts[-1].ended_by == "status 0" and counts == sorted(counts)
    is_finished &= all(record["outcome"] != "aborted" for record in records.values())
    verdict = "finished" if is_finished else "NOT FINISHED"
    print(f"kills: {verdict} with {len(starts)} starts: {len(records)} runs recorded, {alone} of them alone in a guest")
    return int(not is_finished)

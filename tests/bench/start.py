"""How long the `owlt` command takes to start, as a ratio to an empty Python program: the best of ten starts each."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

STARTS = 10
OWLT = str(Path(sys.executable).parent / "owlt")
COMPLETION = {"_OWLT_COMPLETE": "complete_bash", "COMP_WORDS": "owlt run de", "COMP_CWORD": "2"}
COMMANDS: dict[str, tuple[list[str], dict[str, str]]] = {
    "python -c pass": ([sys.executable, "-c", "pass"], {}),
    "owlt --help": ([OWLT, "--help"], {}),
    "owlt run --help": ([OWLT, "run", "--help"], {}),
    "completion of 'owlt run de'": ([OWLT], COMPLETION),
    "owlt sweeps list": ([OWLT, "sweeps", "list"], {}),
}


def best_s(command: list[str], settings: dict[str, str]) -> float:
    """The shortest of several starts, in seconds: what else the machine does only makes a start longer."""
    environment = os.environ | settings
    durations_s = []
    for _ in range(STARTS):
        began_s = time.perf_counter()
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
        durations_s.append(time.perf_counter() - began_s)
    return min(durations_s)


def main() -> int:
    """Print the table and the summary. Returns 0: a ratio depends on the machine and is for people to judge."""
    durations_s = {name: best_s(*command) for name, command in COMMANDS.items()}
    empty_s = durations_s["python -c pass"]
    for name, duration_s in durations_s.items():
        print(f"  {name:28} {duration_s:6.3f} s, {duration_s / empty_s:5.1f} times an empty program")
    help_s = durations_s["owlt --help"]
    print(f"start: owlt --help takes {help_s / empty_s:.1f} times an empty Python program ({help_s:.3f} s)")
    return 0

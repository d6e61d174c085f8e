"""Makes the golden captures again: `python -m tests.unit.captures.golden.make [RESULTS]`.

Those of other formats and headers are made from nothing; with RESULTS, the results directory of a run of `golden.yaml`
(`owlt run .../golden.yaml --results RESULTS`), those of the protocols are cut out of its runs too.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.unit.captures.golden.made import MADE

HERE = Path(__file__).parent
FIRST, LAST = 15, 10
LARGEST_BYTES = 20_000
"""A longer capture is cut to its first and last packets."""

TAKEN = {"bp-acs": "receiver", "bp-cs": "sender", "ltp": "receiver", "quic-aioquic": "receiver", "saratoga": "receiver"}
"""Which host's capture is kept of a build; the receiver's has the damaged copies. Else the sender's."""


def cut(capture: Path, target: Path) -> None:
    """The capture, or its first and last packets where it is long."""
    count = int(told("capinfos", "-T", "-r", "-M", "-c", str(capture)).split()[-1])
    kept = [f"1-{FIRST}", f"{count - LAST + 1}-{count}"] if capture.stat().st_size > LARGEST_BYTES else [f"1-{count}"]
    told("editcap", "-F", "nsecpcap", "-r", str(capture), str(target), *kept)


def told(*command: str) -> str:
    """What the command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Write all of them beside this file."""
    for name, make in MADE.items():
        (HERE / name).write_bytes(make())
    for results in map(Path, sys.argv[1:]):
        for run in sorted((results / "runs").iterdir()):
            build = run.name.split("_")[0]
            cut(run / f"{TAKEN.get(build, 'sender')}.pcap", HERE / f"run-{build}.pcap")


if __name__ == "__main__":
    main()

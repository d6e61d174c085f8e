"""Cutting captures to the headers of their frames once they are summarised: a tenth of the room.

The cutting is editcap's; times to the nanosecond and the original lengths stay.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from captures.cache import SUMMARY, load_summary
from captures.kept import CAPTURES, Kept, digests_of_captures, keep, load

HEADER_BYTES = 96
"""Ethernet, IPv4 and TCP with all options; or 54 bytes of what UDP carries."""


def keep_only_headers(run_dir: Path, also: Mapping[str, type[Kept]], frame_bytes: int = HEADER_BYTES) -> None:
    """Replace both captures of the run by the first `frame_bytes` of each of their frames.

    `also` names what else than the summary is kept of these captures, and its kind. Wherever this is interrupted,
    each capture is whole or cut, and what is kept is valid for either. Raises RuntimeError if no summary of these very
    captures is kept, or if editcap is missing or fails.
    """
    summary = load_summary(run_dir)
    whole = digests_of_captures(run_dir)
    if summary is None or summary.source is None or not summary.source.accepts_captures(whole):
        raise RuntimeError(
            f"{run_dir}: got no summary of the captures as they are, wanted one before they are cut, "
            f"for headers alone do not show every damaged bit; call load_or_summarise first"
        )
    partial = {name: run_dir / f".{name}.partial" for name in CAPTURES}
    for name, path in partial.items():
        write_headers(run_dir / name, path, frame_bytes)
    for name, kind in {SUMMARY: type(summary), **also}.items():
        kept = load(run_dir / name, kind)
        if kept and kept.source and kept.source.accepts_captures(whole):
            keep(run_dir / name, kept.model_copy(update={"source": kept.source.with_forms(partial)}))
    for name, path in partial.items():
        path.replace(run_dir / name)


def write_headers(capture: Path, target: Path, frame_bytes: int = HEADER_BYTES) -> None:
    """Write the first `frame_bytes` of each frame of the capture to `target`, a pcap with ns."""
    command = ["editcap", "-F", "nsecpcap", "-s", str(frame_bytes), str(capture), str(target)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise RuntimeError("editcap is not installed: apt-get install wireshark-common") from None
    if done.returncode:
        raise RuntimeError(f"editcap ended with {done.returncode} on {capture}: {done.stderr.strip()}")

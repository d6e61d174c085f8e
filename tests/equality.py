"""`python -m tests.equality RESULTS`: whether owlt and tshark say the same of every run in a results directory.

Frame by frame, what the columns say of both captures; packets and bytes as sent and as delivered, which the summary
has of the whole frames, and the session's first and last time, by tshark's filter of the session.
"""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from owlt.captures.accounting.summary import CAPTURES, load_summary
from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.session import Host, Session, summary_filter
from owlt.results.record import read_record
from owlt.results.recorded_runs import recorded_runs
from tests.conftest import require_command
from tests.tshark_frames import Frame, differences, frames_of, read_with_tshark

TOLD_MOST = 10
"""Differences that are printed of one run."""


def differences_from_tshark(run: Path) -> list[str]:
    """What owlt says otherwise than tshark of a run that has its captures and a summary: a line each.

    Raises OSError, NotACapture.
    """
    session = Session.model_validate(read_record(run).session)
    summary = load_summary(run)
    if summary is None:
        return ["there is no summary of this version"]
    found, told = [], {}
    for name in CAPTURES:
        frames, complaint = read_with_tshark(run / name)
        columns = read_columns(run / name)
        if bool(complaint) != bool(columns.damage):
            found.append(f"{name}: damage {columns.damage!r}, and tshark says {complaint!r}")
        found += [f"{name}: {difference}" for difference in differences(frames_of(columns), frames)]
        rows = session_rows(run / name, session)
        told[name] = [frames[row] for row in rows if row < len(frames)]
    at_sender, at_receiver = (told[name] for name in CAPTURES)
    times_ns = [frame.time_ns for frame in at_sender]
    expected = {
        **flow("str", "sender", at_sender, at_receiver, session),
        **flow("rts", "receiver", at_receiver, at_sender, session),
        "first_packet_ns": min(times_ns, default=None),
        "last_packet_ns": max(times_ns, default=None),
    }
    return found + [
        f"{name} {getattr(summary, name)}, and tshark says {value}"
        for name, value in expected.items()
        if getattr(summary, name) != value
    ]


def flow(name: str, host: Host, near: list[Frame], far: list[Frame], session: Session) -> dict[str, int]:
    """Packets and bytes that the host sent, as sent and as delivered."""
    address = str(session.address(host))
    sent, delivered = ([frame.wire_bytes for frame in frames if frame.source == address] for frames in (near, far))
    return {
        f"{name}_sent": len(sent),
        f"{name}_sent_bytes": sum(sent),
        f"{name}_delivered": len(delivered),
        f"{name}_delivered_bytes": sum(delivered),
    }


def session_rows(capture: Path, session: Session) -> list[int]:
    """The rows of the frames that tshark's filter of the session passes."""
    command = [require_command("tshark"), "-n", "-r", str(capture), "-Y", summary_filter(session)]
    told = subprocess.run([*command, "-T", "fields", "-e", "frame.number"], capture_output=True, text=True, check=False)
    return [int(number) - 1 for number in told.stdout.split()]


def runs_of(results: Path) -> list[Path]:
    """The runs that have both captures and a session."""
    return [
        run.directory
        for run in recorded_runs(results)
        if all((run.directory / name).exists() for name in CAPTURES) and run.record.session
    ]


def main(results: Path) -> int:
    """Print what differs, and one line about all. Exit status 1 when something does, or there is no run."""
    runs = runs_of(results)
    left_out = sum(1 for _ in results.glob("runs/*")) - len(runs)
    count = 0
    with ProcessPoolExecutor() as pool:
        for run, found in zip(runs, pool.map(differences_from_tshark, runs), strict=True):
            count += len(found)
            for difference in found[:TOLD_MOST]:
                print(f"{run.name}: {difference}", flush=True)
    without = f", {left_out} runs without captures" if left_out else ""
    print(f"equality: {len(runs)} runs, {len(runs) * len(CAPTURES)} captures, {count} differences{without}")
    return int(bool(count) or not runs)


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1], "runs").is_dir():
        sys.exit("python -m tests.equality: wanted one results directory, such as results/demo")
    sys.exit(main(Path(sys.argv[1])))

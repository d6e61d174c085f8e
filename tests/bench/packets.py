"""What the captures cost: columns, the whole ledger, memory and the summaries of a campaign, beside other readers.

All readers read the same captures in the same run, from a warm cache, and must count the same; each is given as many
packets as it reads in seconds. OWLT_BENCH_RUNS=5760 summarises a whole campaign instead of a part of one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path

from owlt.captures.accounting.summary import Transfer
from owlt.captures.frames.columns import read_columns
from tests.bench import packets_memory, packets_runs
from tests.bench.packets_captures import DATA_BYTES, SESSION, Fate, write_session, write_tcp
from tests.bench.packets_readers import (
    REPETITIONS,
    Counts,
    Timed,
    count_columns,
    count_with_capinfos,
    count_with_pyshark,
    count_with_scapy,
    count_with_tshark,
    counts_of,
    timed,
)
from tests.unit.captures.summarising import summarise

PACKETS = 500_000
COLUMNS_LIMIT, LEDGER_LIMIT = 1.5e6, 1e6
"""Packets a second, at least."""
RUNS = 200
"""Of a campaign's, unless told otherwise."""
_TOOLS = ("tshark", "capinfos", "editcap")


@dataclass(frozen=True)
class Figure:
    """One of the things that have a limit."""

    told: str
    is_within: bool

    def __str__(self) -> str:
        return f"{self.told}: {'within' if self.is_within else 'OVER'}"


def main() -> int:
    """Print all figures. Exit status 1 when counts differ, or a figure is over its limit."""
    missing = [tool for tool in _TOOLS if not shutil.which(tool)]
    if missing:
        sys.exit(f"bench: not installed: {', '.join(missing)}; apt-get install tshark")
    asked = os.environ.get("OWLT_BENCH_RUNS", str(RUNS))
    if not asked.isdecimal() or int(asked) < 2:
        sys.exit(f"bench: OWLT_BENCH_RUNS={asked}: expected a number of runs, 2 at least; leave it out for {RUNS}")
    runs = int(asked)
    load = ", ".join(f"{load:.1f}" for load in os.getloadavg())
    print(f"packets: best of {REPETITIONS}, warm cache; load {load} on {os.cpu_count()} CPUs", flush=True)
    with tempfile.TemporaryDirectory(prefix="owlt-bench-") as name:
        directory, began_s = Path(name), time.monotonic()
        fates = write_session(directory, PACKETS)
        write_tcp(directory / "tcp.pcap", PACKETS)
        editcap = ["editcap", "-F", "pcapng", f"{directory}/sender.pcap", f"{directory}/udp.pcapng"]
        subprocess.run(editcap, check=True, stderr=subprocess.DEVNULL)
        say(f"captures of {PACKETS:,} packets made in {time.monotonic() - began_s:.0f} s")
        columns, wrong = compare_readers(directory)
        ledger, differences = time_ledger(directory, *fates)
        wrong += differences
        for capture in directory.glob("*.pcap*"):
            capture.unlink()
        memory = measure_memory(directory)
        campaign, differences = summarise_runs(directory, runs)
        wrong += differences
    for difference in wrong:
        say(f"WRONG: {difference}")
    figures = (columns, ledger, memory, campaign)
    counts = f"{len(wrong)} counts are WRONG" if wrong else "all count the same"
    print(f"packets: {'; '.join(map(str, figures))}; {counts}")
    return int(bool(wrong) or not all(figure.is_within for figure in figures))


def say(text: str) -> None:
    """A line, now."""
    print(f"  {text}", flush=True)


def compare_readers(directory: Path) -> tuple[Figure, list[str]]:
    """A line for each reader of UDP and of TCP, and for pcapng; the columns' lesser rate, and who counts otherwise."""
    judged, wrong = [], []
    for name, capture in (("UDP", directory / "sender.pcap"), ("TCP", directory / "tcp.pcap")):
        ours = timed(partial(count_columns, capture))
        columns = read_columns(capture)
        for reader, read in (
            ("capinfos, which looks no deeper", partial(count_with_capinfos, capture)),
            ("tshark -T fields", partial(count_with_tshark, capture, name == "TCP")),
            ("scapy: RawPcapReader, Ether", partial(count_with_scapy, capture)),
            ("pyshark, use_json", partial(count_with_pyshark, capture)),
        ):
            theirs = timed(read)
            ours = min(ours, timed(partial(count_columns, capture)), key=attrgetter("judged_s"))
            report(f"{name}: {reader}", theirs, ours)
            wrong += differences(f"{name}: {reader}", theirs.counts, counts_of(columns, theirs.counts.packets))
        judged.append(ours.rate)
        report(f"{name}: columns", ours, ours)
    whole = counts_of(read_columns(directory / "sender.pcap"))
    in_pcapng = timed(partial(count_columns, directory / "udp.pcapng"))
    report("UDP in pcapng: columns", in_pcapng, in_pcapng)
    wrong += differences("UDP in pcapng", in_pcapng.counts, whole)
    rate = min(judged)
    return Figure(f"columns {rate / 1e6:.2f} M/s of {COLUMNS_LIMIT / 1e6:g} wanted", rate >= COLUMNS_LIMIT), wrong


def report(reader: str, theirs: Timed, ours: Timed) -> None:
    """A line: the rate, and how many times as fast ours is."""
    read = f"{theirs.rate:11,.0f} packets/s over {theirs.counts.packets:9,} in {theirs.judged_s:.2f} s"
    times = "" if theirs is ours else f", ours is {ours.rate / theirs.rate:,.1f} times as fast"
    shared = f" (CPU time; {theirs.wall_s:.2f} s on a shared CPU)" if theirs.judged_s != theirs.wall_s else ""
    say(f"{reader:38} {read}{times}{shared}")


def differences(reader: str, theirs: Counts, ours: Counts) -> list[str]:
    """What a reader counts otherwise than the columns."""
    return [] if theirs.agrees(ours) else [f"{reader} counts {theirs}, the columns {ours}"]


def time_ledger(directory: Path, forward: Fate, reverse: Fate) -> tuple[Figure, list[str]]:
    """Both captures read and matched, and all that a summary says of them; held against what was done to them."""
    counts = [counts_of(read_columns(directory / name)) for name in ("sender.pcap", "receiver.pcap")]
    both = Counts(sum(each.packets for each in counts), sum(each.wire_bytes for each in counts))
    summaries = []

    def ledger() -> Counts:
        summaries.append(
            summarise(
                directory / "sender.pcap", directory / "receiver.pcap", SESSION, Transfer(forward.sent * DATA_BYTES)
            )
        )
        return both

    ours = timed(ledger, 3 * REPETITIONS)
    report("whole ledger of both UDP captures", ours, ours)
    wrong = [f"ledger: {told}" for told in packets_runs.differences(summaries[-1], forward, reverse)]
    wrong += [f"ledger: {reason}" for reason in summaries[-1].suspect]
    told = f"whole ledger {ours.rate / 1e6:.2f} M/s of {LEDGER_LIMIT / 1e6:g} wanted"
    return Figure(told, ours.rate >= LEDGER_LIMIT), wrong


def measure_memory(directory: Path) -> Figure:
    """The memory that a capture of 5 GB takes."""
    peak = packets_memory.measure(directory, say)
    limit_bytes = packets_memory.LIMIT_BYTES
    told = f"{peak.file_bytes / 1e9:.1f} GB in {peak.anonymous_bytes / 1e6:.0f} MB of {limit_bytes / 1e6:.0f} allowed"
    say(f"{told}; {peak.packets:,} packets read in {peak.read_s:.1f} s")
    return Figure(told, peak.anonymous_bytes <= limit_bytes)


def summarise_runs(directory: Path, runs: int) -> tuple[Figure, list[str]]:
    """The summaries of a campaign, extrapolated from some of its runs unless all were asked for."""
    passes = packets_runs.measure(directory, runs, say)
    campaign_s = passes.first.judged_s * packets_runs.CAMPAIGN / runs
    how = "all measured" if runs >= packets_runs.CAMPAIGN else f"measured {runs}, extrapolated"
    told = f"{packets_runs.CAMPAIGN} runs in {campaign_s:.0f} s of {packets_runs.LIMIT_S} allowed ({how})"
    return Figure(told, campaign_s <= packets_runs.LIMIT_S), passes.wrong

"""What a check of a build comes to: one finding after the other, each with what was seen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agents.contract import Implementation
from captures.cache import load_summary
from captures.summary import CaptureSummary
from emulator.quantities import format_rate
from orchestrator.proving import CLEAN, DEAD, LOSSY
from orchestrator.record import Outcome, RunRecord, read_record

Weight = Literal["ok", "note", "bad"]
LOG_LINES = 6
STRAY_KINDS = ("udp", "tcp", "fragment", "other_ipv4")
"""Kinds of frames that a build makes: outside its session they are on ports that its profile does not name."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. A "bad" one makes the build unfit for a sweep."""

    what: str
    weight: Weight
    seen: str


def findings(build: Implementation, results: Path) -> list[Finding]:
    """All that the runs of `proving.check_plan` say of a build."""
    runs = {record.channel_name: (record, path) for record, path in _records(results)}
    found = [_version(next(iter(runs.values()))[0])]
    for channel, what in ((CLEAN, "clean, 25 ms"), (LOSSY, "PER 0.01, 250 ms")):
        found.append(_delivery(build, what, *runs[channel]))
    found.append(_honesty(runs[DEAD][0]))
    found += _limits(build)
    found.append(_leftovers([record for record, _ in runs.values()]))
    found += [_session(load_summary(runs[CLEAN][1])), *_pace(runs[CLEAN][0])]
    return [*found, *_suspicions([record for record, _ in runs.values()])]


def is_fit(found: list[Finding]) -> bool:
    """Whether nothing bad was found."""
    return all(finding.weight != "bad" for finding in found)


def explanation(build: Implementation, record: RunRecord) -> str | None:
    """Why the build is known to fail where this run is; None where that is not known."""
    at = (record.file_size_bytes, record.delay_ns / 1e9, record.packet_error_rate)
    return next((limit.why for limit in build.known_limits if limit.covers(*at)), None)


def log_tail(directory: Path) -> Iterator[str]:
    """The last lines that each side of a run wrote."""
    for name in ("sender.out", "sender.err", "receiver.out", "receiver.err"):
        path = directory / name
        if path.exists():
            lines = path.read_bytes()[-20_000:].decode(errors="replace").splitlines()[-LOG_LINES:]
            yield from (f"{name}: {line.rstrip()[:300]!r}" for line in lines if line.strip())


def _records(results: Path) -> Iterator[tuple[RunRecord, Path]]:
    for path in sorted((results / "runs").iterdir()):
        yield read_record(path), path


def _version(record: RunRecord) -> Finding:
    version = record.versions.get("implementation", "unknown")
    known = version != "unknown"
    return Finding("version", "ok" if known else "note", version if known else "unknown: give a version_command")


def _delivery(build: Implementation, what: str, record: RunRecord, directory: Path) -> Finding:
    if record.outcome is Outcome.COMPLETED:
        return Finding(what, "ok", f"completed{_numbers(load_summary(directory))}")
    why = explanation(build, record)
    if why:
        return Finding(what, "note", f"{record.outcome}, as is known: {why}; {record.reason}")
    return Finding(what, "bad", f"{record.outcome}: {record.reason}")


def _numbers(summary: CaptureSummary | None) -> str:
    if summary is None or summary.goodput_until_whole_bps is None or summary.goodput_bps is None:
        return ""
    until_whole, session = (f"{bps / 1e6:.3g} Mbit/s" for bps in (summary.goodput_until_whole_bps, summary.goodput_bps))
    return (
        f", goodput {until_whole} until whole, {session} of the session, STR {summary.str_sent}, RTS {summary.rts_sent}"
    )


def _honesty(record: RunRecord) -> Finding:
    what = "nothing arrives"
    if record.outcome is Outcome.COMPLETED:
        return Finding(what, "bad", "completed over a dead channel: the file came another way")
    status = record.sender.exit_status
    if status == 0 and not record.sender.stopped:
        return Finding(what, "note", "its sender ends with status 0 all the same; owlt goes by the receiver's file")
    ended = "was stopped at the time limit" if record.sender.stopped else f"ends with status {status}"
    return Finding(what, "ok", f"{record.outcome}; its sender {ended}")


def _limits(build: Implementation) -> list[Finding]:
    told = [f"{name} {value:g}" for name, value in build.limits if value is not None]
    return [Finding("limits", "ok", f"beyond {', '.join(told)} a run is unsupported, not launched")] if told else []


def _leftovers(records: list[RunRecord]) -> Finding:
    left = [command for record in records for side in (record.sender, record.receiver) for command in side.left_running]
    if not left:
        return Finding("leftovers", "ok", "none")
    told = ", ".join(f"{command!r}" for command in Counter(left))
    return Finding("leftovers", "note", f"left running when its command ended, and ended with it: {told}")


def _session(summary: CaptureSummary | None) -> Finding:
    what = "session"
    if summary is None:
        return Finding(what, "note", "no captures to tell its packets from")
    stray = {kind: summary.background_packets[kind] for kind in STRAY_KINDS if summary.background_packets.get(kind)}
    if summary.str_sent == 0:
        return Finding(what, "bad", f"none of its packets is on the ports under session; others: {stray or 'none'}")
    size = f"{summary.str_sent_bytes / summary.str_sent:.0f} bytes a frame from the sender"
    if stray:
        return Finding(what, "bad", f"{size}; packets on ports that session does not name: {stray}")
    return Finding(what, "ok", f"{size}; no packets on other ports")


def _pace(record: RunRecord) -> list[Finding]:
    rate_bps = record.sender.card_rate_bps
    return [] if rate_bps is None else [Finding("pace", "note", f"by the host's card, at {format_rate(rate_bps)}")]


def _suspicions(records: list[RunRecord]) -> list[Finding]:
    return [Finding("suspect", "bad", f"{record.run_id}: {reason}") for record in records for reason in record.suspect]

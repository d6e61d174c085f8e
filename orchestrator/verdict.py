"""What a check of a build comes to: one finding after the other, each with what was seen."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agents.contract import ROLES, Implementation
from captures.cache import load_summary
from captures.frames.columns import Kind
from captures.session import Session
from captures.summary import CaptureSummary
from emulator.quantities import format_rate
from orchestrator.exit_status import BY_SIGNAL, SHELL_BASE, how_ended
from orchestrator.keeping import KEPT_NAME
from orchestrator.proving import CLEAN, DEAD, LOSSY
from orchestrator.record import NOT_DELIVERED, UNKNOWN, Outcome, RunRecord, read_record
from orchestrator.stray_ports import advise, ephemeral_ports, stray_pairs

Weight = Literal["ok", "note", "bad"]
LOG_LINES = 6
KILLED = (BY_SIGNAL, SHELL_BASE + signal.SIGKILL)
"""The exit status that a program has which SIGKILL ended."""
STRAY = {"UDP": Kind.UDP, "TCP": Kind.TCP, "fragment": Kind.FRAGMENT, "other IPv4": Kind.OTHER_IPV4}
"""Frames of the background that a build makes: outside its session they are on ports that its profile does not name."""
WITH_PORTS = (Kind.UDP, Kind.TCP)


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
    if all(runs[channel][0].outcome is Outcome.UNSUPPORTED for channel in (CLEAN, LOSSY)):
        found.append(Finding("tried", "bad", "nothing could be tried"))
    found.append(_honesty(runs[DEAD][0]))
    records = [record for record, _ in runs.values()]
    found += [*_limits(build), *_ends(build, records), _leftovers(records)]
    if runs[CLEAN][0].outcome in (Outcome.COMPLETED, Outcome.TIMED_OUT):
        found.append(_session(build, runs[CLEAN], runs[LOSSY]))
    found += _pace(runs[CLEAN][0])
    if build.not_repeatable:
        found.append(Finding("repeats", "note", f"not on the clock exact: {build.not_repeatable}"))
    return [*found, *_suspicions(records)]


def is_fit(found: list[Finding]) -> bool:
    """Whether nothing bad was found."""
    return all(finding.weight != "bad" for finding in found)


def explanation(build: Implementation, record: RunRecord) -> str | None:
    """Why the build is known to fail where this run is; None where that is not known."""
    if record.outcome not in NOT_DELIVERED:
        return None
    at = (record.file_size_bytes, record.delay_ns / 1e9, record.packet_error_rate)
    return next((limit.why for limit in build.known_limits if limit.covers(*at)), None)


def log_tail(directory: Path) -> Iterator[str]:
    """The last lines that each side of a run wrote to its output, its errors and the files that its profile keeps."""
    kept = sorted(path.relative_to(directory) for path in (directory / KEPT_NAME).rglob("*"))
    for name in ("sender.out", "sender.err", "receiver.out", "receiver.err", *map(str, kept)):
        path = directory / name
        if path.is_file():
            lines = path.read_bytes()[-20_000:].decode(errors="replace").splitlines()[-LOG_LINES:]
            yield from (f"{name}: {line.rstrip()[:300]!r}" for line in lines if line.strip())


def _records(results: Path) -> Iterator[tuple[RunRecord, Path]]:
    for path in sorted((results / "runs").iterdir()):
        yield read_record(path), path


def _version(record: RunRecord) -> Finding:
    version = record.versions.get("implementation", UNKNOWN)
    if not version.startswith(UNKNOWN):
        return Finding("version", "ok", version)
    return Finding("version", "note", version if ":" in version else f"{version}: give a version_command")


def _delivery(build: Implementation, what: str, record: RunRecord, directory: Path) -> Finding:
    if record.outcome is Outcome.COMPLETED:
        return Finding(what, "ok", f"completed{_numbers(load_summary(directory))}")
    if record.outcome is Outcome.UNSUPPORTED and record.sender.exit_status is None:
        return Finding(what, "note", record.reason)
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
    if record.outcome in (Outcome.ABORTED, Outcome.UNSUPPORTED) or not record.sender.command:
        return Finding(what, "note", f"not tried: the sender was not launched; {record.outcome}: {record.reason}")
    status = record.sender.exit_status
    if status == 0 and not record.sender.stopped:
        return Finding(what, "note", "its sender ends with status 0 all the same; owlt goes by the receiver's file")
    ended = "had to be ended" if record.sender.stopped or status is None else how_ended(status)
    return Finding(what, "ok", f"{record.outcome}; its sender {ended}")


def _ends(build: Implementation, records: list[RunRecord]) -> Iterator[Finding]:
    """What is odd about how its programs ended, where the file came."""
    for role in ROLES:
        sides = [getattr(record, role) for record in records if record.outcome is Outcome.COMPLETED]
        stop = build.side(role).stop
        was_killed = any(side.stopped and side.exit_status in KILLED for side in sides)
        if was_killed and (stop.send is not None or stop.signal != "KILL"):
            asked = stop.signal if stop.send is None else repr(stop.send)
            told = f"the {role} did not end within {stop.grace_s:g} s of {asked}, and was killed"
            yield Finding("end", "note", told)
        statuses = {side.exit_status for side in sides if not side.stopped and side.exit_status}
        if statuses:
            told = ", or ".join(map(how_ended, sorted(statuses)))
            yield Finding("end", "note", f"the {role} {told} although the file was delivered")


def _limits(build: Implementation) -> list[Finding]:
    told = [f"{name} {value:g}" for name, value in build.limits if value is not None]
    return [Finding("limits", "ok", f"beyond {', '.join(told)} a run is unsupported, not launched")] if told else []


def _leftovers(records: list[RunRecord]) -> Finding:
    left = [command for record in records for side in (record.sender, record.receiver) for command in side.left_running]
    if not left:
        return Finding("leftovers", "ok", "none")
    told = ", ".join(f"{command!r}" for command in Counter(left))
    return Finding("leftovers", "note", f"left running when its command ended, and ended with it: {told}")


def _session(build: Implementation, *tried: tuple[RunRecord, Path]) -> Finding:
    """Whether the packets of the first of these runs are on the ports of its session; all of them tell its ports."""
    what, (record, directory) = "session", tried[0]
    summary = load_summary(directory)
    if summary is None:
        return Finding(what, "note", "no captures to tell its packets from")
    stray = "; ".join(_stray(build, Session.model_validate(record.session), summary, [path for _, path in tried]))
    if summary.str_sent == 0:
        return Finding(what, "bad", f"none of its packets is on the ports under session; others: {stray or 'none'}")
    size = f"{summary.str_sent_bytes / summary.str_sent:.0f} bytes a frame from the sender"
    if stray:
        return Finding(what, "bad", f"{size}; packets on ports that session does not name: {stray}")
    others = "every port is its own" if build.session.ports else "no packets on other ports"
    return Finding(what, "ok", f"{size}; {others}")


def _stray(build: Implementation, session: Session, summary: CaptureSummary, runs: list[Path]) -> Iterator[str]:
    """The packets that its profile does not name, by kind and port, each with what to write in the profile."""
    for name, kind in STRAY.items():
        count = summary.background_packets.get(name, 0)
        by_run = [stray_pairs(path / "sender.pcap", session, kind) for path in runs] if kind in WITH_PORTS else []
        advice = advise(name.lower(), by_run, ephemeral_ports(build))
        if count and advice and by_run[0]:
            (low, high), _ = by_run[0].most_common(1)[0]
            yield f"{count} of {name}, most between ports {low} and {high}: {advice.text}"
        elif count:
            yield f"{count} of {name}"


def _pace(record: RunRecord) -> list[Finding]:
    rate_bps = record.sender.card_rate_bps
    return [] if rate_bps is None else [Finding("pace", "note", f"by the host's card, at {format_rate(rate_bps)}")]


def _suspicions(records: list[RunRecord]) -> list[Finding]:
    return [Finding("suspect", "bad", f"{record.run_id}: {reason}") for record in records for reason in record.suspect]

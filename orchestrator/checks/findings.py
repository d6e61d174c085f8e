"""The verdict on an implementation after its trial runs: one finding for each thing that was checked.

Packets on ports that its profile does not name are among them, with the ports that the profile should name. A port
that the kernel chose (bind(2) to port 0, or no bind) differs in the next run, so the profile must not name it. Linux
chooses from net.ipv4.ip_local_port_range; a program may also choose ports at random.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from owlt.agents.contract.implementation import ROLES, Implementation
from owlt.captures.accounting.derived_files import CAPTURES, load_pairs
from owlt.captures.accounting.summary import CaptureSummary, load_summary, read_both
from owlt.captures.frames.columns import Columns, first_difference, read_columns
from owlt.captures.frames.decoding import TRANSPORTS, WITH_PORTS, Kind
from owlt.captures.frames.session import ANY, Session, sent_by
from owlt.captures.matches.delivery import UNCHECKED_BITS
from owlt.captures.matches.matching import match_captures
from owlt.inputs.quantities import format_rate
from owlt.orchestrator.checks.fault_cases import what_is_left
from owlt.orchestrator.checks.proof import Trial
from owlt.orchestrator.checks.trials import CLEAN, DEAD, LOSSY, Load, best_clock
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.hosts.printable import BY_SIGNAL, SHELL_BASE, begin_of, how_ended, printable
from owlt.orchestrator.run.analysis import case_of_run
from owlt.results.files import KEPT_NAME
from owlt.results.judgements import known_failure
from owlt.results.record import UNKNOWN, Outcome, RunRecord, read_record, refusals_text
from owlt.results.recorded_runs import recorded_runs

Level = Literal["ok", "note", "bad"]
LOG_LINES = 6
LOG_CHARACTERS = 300
SUBJECTS = {CLEAN: "clean, 25 ms", LOSSY: "PER 0.01, 250 ms"}
"""Channels on which the file has to be delivered, and as the verdict names them."""
KILLED = (BY_SIGNAL, SHELL_BASE + signal.SIGKILL)
"""The exit status of a program that SIGKILL ended."""
STRAY = {"UDP": Kind.UDP, "TCP": Kind.TCP, "SCTP": Kind.SCTP, "fragment": Kind.FRAGMENT, "other IPv4": Kind.OTHER_IPV4}
"""Background frames that an implementation may cause: its profile does not name their ports."""
Pairs = Counter[tuple[int, int]]
"""The number of frames between each two ports."""
EPHEMERAL = (32768, 60999)
"""The kernel's default net.ipv4.ip_local_port_range (ip-sysctl), which the guests have."""
EPHEMERAL_SYSCTL = "net.ipv4.ip_local_port_range"
FEWEST_FRAMES = 2
"""A pair of ports with a single frame may be the effect of a flipped bit."""


@dataclass(frozen=True)
class Finding:
    """The result of one check. One at level "bad" makes the implementation unfit for a sweep."""

    subject: str
    level: Level
    text: str


def findings(
    implementation: Implementation,
    results: Path,
    repeated: Path | None = None,
    losses: Sequence[Trial] = (),
    load: Load = load_summary,
) -> list[Finding]:
    """The findings of the runs of `trials.check_plan`; `repeated` has those that were performed a second time, `losses`
    are short transfers without a loss, and with one each."""
    runs = {run.record.channel_name: (run.record, run.directory) for run in recorded_runs(results)}
    result = [_version(next(iter(runs.values()))[0])]
    for channel, subject in SUBJECTS.items():
        result.append(_delivery(implementation, subject, *runs[channel], load))
    if all(runs[channel][0].outcome is Outcome.UNSUPPORTED for channel in (CLEAN, LOSSY)):
        result.append(Finding("tried", "bad", "nothing could be tried"))
    result.append(_honesty(implementation, *runs[DEAD]))
    result += _losses(implementation, losses) if losses else []
    records = [record for record, _ in runs.values()]
    result += [*_limits(implementation), *_ends(implementation, records), _leftovers(records)]
    if runs[CLEAN][0].outcome in (Outcome.COMPLETED, Outcome.TIMED_OUT):
        result.append(_session(implementation, load, runs[CLEAN], runs[LOSSY]))
    result += _pace(runs[CLEAN][0])
    if repeats := _repeats(implementation, {name: run[1] for name, run in runs.items()}, repeated):
        result.append(repeats)
    return [*result, *_suspicions(records)]


def is_fit(findings: list[Finding]) -> bool:
    """Whether no finding is bad."""
    return all(finding.level != "bad" for finding in findings)


def log_tail(directory: Path) -> Iterator[str]:
    """The last lines of each side's output, errors and log files that its profile keeps."""
    kept = sorted(path.relative_to(directory) for path in (directory / KEPT_NAME).rglob("*"))
    for name in ("sender.out", "sender.err", "receiver.out", "receiver.err", *map(str, kept)):
        path = directory / name
        if path.is_file():
            lines = path.read_bytes()[-20_000:].decode(errors="replace").splitlines()[-LOG_LINES:]
            shown = (begin_of(printable(line.rstrip()), LOG_CHARACTERS) for line in lines if line.strip())
            yield from (f"{name}: '{line}'" for line in shown)


def _version(record: RunRecord) -> Finding:
    version = record.versions.get("implementation", UNKNOWN)
    if not version.startswith(UNKNOWN):
        return Finding("version", "ok", version)
    return Finding("version", "note", version if ":" in version else f"{version}: give a version_command")


def _delivery(implementation: Implementation, subject: str, record: RunRecord, directory: Path, load: Load) -> Finding:
    if record.outcome is Outcome.COMPLETED:
        return Finding(subject, "ok", f"completed{_numbers(load(directory))}")
    if record.outcome is Outcome.UNSUPPORTED and record.sender.exit_status is None:
        return Finding(subject, "note", record.reason)
    why = known_failure(implementation, record)
    if why:
        return Finding(subject, "note", f"{record.outcome}, a known limit: {why}; {record.reason}")
    return Finding(subject, "bad", f"{record.outcome}: {record.reason}")


def _numbers(summary: CaptureSummary | None) -> str:
    if summary is None or summary.goodput_to_delivery_bps is None or summary.goodput_bps is None:
        return ""
    to_delivery, session = (f"{bps / 1e6:.3g} Mbit/s" for bps in (summary.goodput_to_delivery_bps, summary.goodput_bps))
    return (
        f", goodput {to_delivery} to delivery, {session} of the session, STR {summary.str_sent}, RTS {summary.rts_sent}"
    )


def _honesty(implementation: Implementation, record: RunRecord, directory: Path) -> Finding:
    subject = "nothing arrives"
    if record.outcome is Outcome.COMPLETED:
        return Finding(subject, "bad", "completed over a dead channel: the file arrived on another path")
    if record.present_bytes or record.outcome is Outcome.CORRUPT:
        if why := known_failure(implementation, record):
            return Finding(subject, "note", f"{record.outcome}, a known limit: {why}; {record.reason}")
        count, payload_bytes = _unchecked_packets(directory)
        if count and record.present_bytes is not None and record.present_bytes <= payload_bytes:
            why = f"{count} packets were damaged in Ethernet's source address, which no checksum protects"
            return Finding(subject, "ok", f"{record.outcome}: {record.reason}; {why}")
        accepted = "every packet was damaged: the receiver accepted damaged packets, or the file came on another path"
        return Finding(subject, "bad", f"{record.outcome}: {record.reason}; {accepted}")
    if record.outcome in (Outcome.ABORTED, Outcome.UNSUPPORTED) or not record.sender.command:
        return Finding(subject, "note", f"not tried: the sender was not launched; {record.outcome}: {record.reason}")
    status = record.sender.exit_status
    if status == 0 and not record.sender.stopped:
        return Finding(subject, "note", "its sender still exited with status 0; owlt relies on the receiver's file")
    ended = "had to be killed" if record.sender.stopped or status is None else how_ended(status)
    return Finding(subject, "ok", f"not delivered, as expected: {record.outcome}; its sender {ended}")


def _unchecked_packets(directory: Path) -> tuple[int, int]:
    """The sender's packets that arrived damaged but that the receiver accepts: their number, and their payload in
    bytes. (0, 0) without captures."""
    try:
        _, case = case_of_run(directory)
        both = read_both(*(directory / capture for capture in CAPTURES))
    except (OwltError, OSError):
        return 0, 0
    crossing = load_pairs(directory, *both, case.session) or match_captures(*both, case.session)
    way = crossing.ways[0]
    rows = np.unique(way.delivery.sent[np.isin(way.delivery.flipped_bit, UNCHECKED_BITS)])
    return len(rows), int(way.near.payload_bytes[rows].sum())


def _losses(implementation: Implementation, trials: Sequence[Trial]) -> Iterator[Finding]:
    """What became of a short transfer after the loss of one packet; the first of the trials has none."""
    subject, (base, *lossy) = "one loss", trials
    if not base.is_delivered:
        text = f"not tried: even without a loss: {base.outcome}: {'; '.join((base.reason, *base.suspect))}"
        yield Finding(subject, "note", text)
        return
    for trial in lossy:
        if trial.is_decided and not trial.is_delivered:
            why = known_failure(implementation, read_record(trial.run))
            known = f", a known limit: {why}" if why else ""
            text = f"if {trial.text}: {trial.outcome}{known}: {trial.reason}; {trial.run}"
            yield Finding(subject, "note" if why else "bad", text)
    delivered = sum(trial.is_delivered for trial in lossy)
    text = f"delivered after {delivered} of {len(lossy)} losses: the first packet, the last, control packets"
    yield Finding(subject, "ok", text)
    if undecided := [trial for trial in lossy if not trial.is_decided]:
        why = "; ".join((undecided[0].reason, *undecided[0].suspect))
        yield Finding(subject, "note", f"{len(undecided)} of these runs are suspect or aborted: {why}")


def _repeats(implementation: Implementation, first: dict[str, Path], repeated: Path | None) -> Finding | None:
    """Whether the runs of `repeated` sent the packets of those in `first`, by channel, at the same times."""
    subject = "repeats"
    if implementation.not_repeatable:
        return Finding(subject, "note", f"not repeatable on the exact clock: {implementation.not_repeatable}")
    if repeated is None:
        return Finding(subject, "note", f"not compared: runs do not repeat on the clock {best_clock(implementation)}")
    second = {run.record.channel_name: run.directory for run in recorded_runs(repeated)}
    compared = []
    for channel in (name for name in SUBJECTS if name in second):
        runs = first[channel], second[channel]
        if any(not (run / name).exists() for run in runs for name in CAPTURES):
            continue
        differences = ((name, first_difference(*(run / name for run in runs))) for name in CAPTURES)
        if difference := next((f"{name}: {text}" for name, text in differences if text), ""):
            fix = "state the reason under not_repeatable, or remove the cause (docs/implementations.md)"
            return Finding(
                subject, "bad", f"a second run with the same seed differs: {SUBJECTS[channel]}: {difference}; {fix}"
            )
        compared.append(SUBJECTS[channel])
    if not compared:
        return Finding(subject, "note", "not compared: no run has packets")
    return Finding(subject, "ok", f"a second run with the same seed sent the same packets: {'; '.join(compared)}")


def _ends(implementation: Implementation, records: list[RunRecord]) -> Iterator[Finding]:
    """Programs that had to be killed or failed although the file was delivered."""
    for role in ROLES:
        sides = [getattr(record, role) for record in records if record.outcome is Outcome.COMPLETED]
        stop = implementation.side(role).stop
        was_killed = any(side.stopped and side.exit_status in KILLED for side in sides)
        if was_killed and (stop.send is not None or stop.signal != "KILL"):
            request = stop.signal if stop.send is None else repr(stop.send)
            text = f"the {role} did not end within {stop.grace_s:g} s of {request} and was killed"
            yield Finding("end", "note", text)
        statuses = {side.exit_status for side in sides if not side.stopped and side.exit_status}
        if statuses:
            endings = ", or ".join(map(how_ended, sorted(statuses)))
            yield Finding("end", "note", f"the {role} {endings} although the file was delivered")


def _limits(implementation: Implementation) -> list[Finding]:
    limits = ", ".join(f"{name} {value:g}" for name, value in implementation.limits if isinstance(value, int | float))
    return [Finding("limits", "ok", f"beyond {limits} a run is unsupported, not launched")] if limits else []


def _leftovers(records: list[RunRecord]) -> Finding:
    """What the sides of the runs left when they had ended; sockets of one that had to be stopped are part of it."""
    left = dict.fromkeys(sentence for record in records for sentence in what_is_left(record))
    level: Level = "note" if left else "ok"
    return Finding("leftovers", level, "; ".join(left) or "none")


def _session(implementation: Implementation, load: Load, *tried: tuple[RunRecord, Path]) -> Finding:
    """Whether the packets of the first run are on the ports of its session; all runs serve to find other ports."""
    subject, (record, directory) = "session", tried[0]
    summary = load(directory)
    if summary is None:
        return Finding(subject, "note", "there are no captures of its packets")
    stray = "; ".join(
        _stray(implementation, Session.model_validate(record.session), summary, [path for _, path in tried])
    )
    if summary.str_sent == 0:
        return Finding(subject, "bad", f"none of its packets is on the ports under session; others: {stray or 'none'}")
    size = f"{summary.str_sent_bytes / summary.str_sent:.0f} bytes per frame from the sender"
    if stray:
        return Finding(subject, "bad", f"{size}; packets on ports that session does not name: {stray}")
    others = "all ports belong to the session" if implementation.session.ports else "no packets on other ports"
    return Finding(subject, "ok", f"{size}; {others}")


def _stray(
    implementation: Implementation, session: Session, summary: CaptureSummary, runs: list[Path]
) -> Iterator[str]:
    """The packets whose ports its profile does not name, by kind, each with what to write in the profile."""
    for name, kind in STRAY.items():
        count = summary.background_packets.get(name, 0)
        by_run = [stray_pairs(path / "sender.pcap", session, kind) for path in runs] if kind in WITH_PORTS else []
        advice = advise(name.lower(), by_run, ephemeral_ports(implementation))
        if count and advice and by_run[0]:
            (low, high), _ = by_run[0].most_common(1)[0]
            yield f"{count} of {name}, most between ports {low} and {high}: {advice.text}"
        elif count:
            yield f"{count} of {name}"


def _pace(record: RunRecord) -> Iterator[Finding]:
    rate_bps = record.sender.card_rate_bps
    if rate_bps is not None:
        yield Finding("pace", "note", f"limited by the host's interface to {format_rate(rate_bps)}")
    if refused := refusals_text(record.host_refusals):
        text = f"not sent, because the socket or the interface was full: {refused}; pace it, or use a blocking socket"
        yield Finding("refused", "note", text)


def _suspicions(records: list[RunRecord]) -> list[Finding]:
    return [Finding("suspect", "bad", f"{record.run_id}: {reason}") for record in records for reason in record.suspect]


@dataclass(frozen=True)
class Advice:
    """What to write under `session` for packets of one transport."""

    kind: str
    fixed: tuple[int, ...] = ()
    """Ports that these packets have in every run."""
    changing: tuple[int, int] | None = None
    """The lowest and the highest port of packets without a fixed port; None if each has one."""
    ephemeral: tuple[int, int] | None = None
    """The range that the kernel chooses from, if all changing ports are in it; otherwise None."""

    @property
    def text(self) -> str:
        """The advice as a sentence without a full stop."""
        if self.changing is None:
            return f"add {' and '.join(map(str, self.fixed))} to session.{self.kind}_ports"
        first, last = self.ephemeral or self.changing
        why = (
            f"the kernel chooses them, from {first} to {last} ({EPHEMERAL_SYSCTL})"
            if self.ephemeral
            else f"they are not the same in every run, here from {first} to {last}"
        )
        ports = ", ".join([*map(str, self.fixed), f'"{first}-{last}"'])
        return f"{why}; write session: {{ports: any}}, or {self.kind}_ports: [{ports}]"


def stray_pairs(pcap: Path, session: Session, kind: Kind) -> Pairs:
    """The frames of a transport between the two hosts outside the session, by their ports, the lower one first."""
    if not pcap.exists():
        return Counter()
    frames = read_columns(pcap)
    anywhere = session.model_copy(update={f"{transport}_ports": (ANY,) for transport in TRANSPORTS})
    stray = (frames.kind == kind) & ~_belongs(frames, session) & _belongs(frames, anywhere)
    ports = zip(frames.source_port[stray].tolist(), frames.destination_port[stray].tolist(), strict=True)
    return Counter((min(pair), max(pair)) for pair in ports)


def _belongs(frames: Columns, session: Session) -> NDArray[np.bool_]:
    return sent_by(frames, session, "sender") | sent_by(frames, session, "receiver")


def advise(kind: str, runs: Sequence[Pairs], ephemeral: tuple[int, int]) -> Advice | None:
    """The ports to name, from the stray frames of several runs; None if no run had more than single frames."""
    runs = [pairs for pairs in runs if max(pairs.values(), default=0) >= FEWEST_FRAMES]
    if not runs:
        return None
    everywhere = set.intersection(*({port for pair in pairs for port in pair} for pairs in runs))
    fixed = {port for port in everywhere if not _is_within(port, ephemeral)}
    frames = sum(runs, Counter())
    named = _fewest(fixed, frames)
    left = [port for pair, count in frames.items() if count >= FEWEST_FRAMES and not fixed & {*pair} for port in pair]
    if not left:
        return Advice(kind, named)
    is_ephemeral = all(_is_within(port, ephemeral) for port in left)
    return Advice(kind, named, (min(left), max(left)), ephemeral if is_ephemeral else None)


def _is_within(port: int, bounds: tuple[int, int]) -> bool:
    return bounds[0] <= port <= bounds[1]


def _fewest(ports: set[int], frames: Pairs) -> tuple[int, ...]:
    """The fewest ports so that each pair has one of them: greedily those with most frames, the lower of equals."""
    weights: Counter[int] = Counter()
    for pair, count in frames.items():
        for port in {*pair}:
            weights[port] += count
    chosen: set[int] = set()
    for port in sorted(ports, key=lambda port: (-weights[port], port)):
        if any(port in pair and chosen.isdisjoint(pair) for pair in frames):
            chosen.add(port)
    return tuple(sorted(chosen))


def ephemeral_ports(implementation: Implementation) -> tuple[int, int]:
    """The range that the kernel chooses ports from: that of the guests, or the one that the profile sets."""
    for role in ROLES:
        numbers = implementation.side(role).sysctls.get(EPHEMERAL_SYSCTL, "").split()
        if len(numbers) == 2 and all(number.isdecimal() for number in numbers):
            return int(numbers[0]), int(numbers[1])
    return EPHEMERAL

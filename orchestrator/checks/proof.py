"""The proof that an implementation delivers a short transfer after every set of faults at up to k packets, or the
smallest set after which it does not. A fault is a loss, a duplicate or a delay.

A fault changes what is sent after it, so sets grow packet by packet: to the faults of a run, one at each packet is
added that this run sent after the last packet that was hit. Every set is performed once, and none is left out. A set
after which the file is not delivered is not enlarged: it is a counterexample already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from owlt.emulator.channel.aimed_fault import Action
from owlt.orchestrator.checks.fault_cases import DROP, Hit, Hits, SentPacket, case_name, effect, sent_packets
from owlt.orchestrator.planning.plan import Plan
from owlt.results.record import Outcome, RunRecord, read_record
from owlt.results.recorded_runs import run_directory

UNDECIDED = (Outcome.ABORTED, Outcome.QUARANTINED)
"""Outcomes that show nothing about an implementation."""


@dataclass(frozen=True)
class Trial:
    """A set of faults and what became of the transfer.

    `packets` names those that were hit. The file was delivered `delivered_s` after the launch, `extra_rtts` round trips
    later than without faults, and both hosts sent `extra_packets` more; None: it was not. `sent` are all packets of the
    run.
    """

    hits: Hits
    packets: tuple[str, ...]
    outcome: Outcome
    reason: str
    suspect: tuple[str, ...]
    delivered_s: float | None
    extra_rtts: float | None
    extra_packets: int | None
    run: Path
    sent: tuple[SentPacket, ...]

    @property
    def is_delivered(self) -> bool:
        """Whether the file arrived, and the run is not suspect."""
        return self.outcome is Outcome.COMPLETED and not self.suspect

    @property
    def is_decided(self) -> bool:
        """Whether the run shows what the implementation does: it was not aborted, and is not suspect."""
        return self.outcome not in UNDECIDED and not self.suspect

    @property
    def faults(self) -> tuple[str, ...]:
        """The faults in words, such as "forward #24 (EOF) is lost"."""
        return tuple(f"{packet} is {effect(hit.action)}" for packet, hit in zip(self.packets, self.hits, strict=True))

    @property
    def text(self) -> str:
        """The faults in a sentence."""
        return " and ".join(self.faults) or "no fault"


def successors(trial: Trial, actions: Sequence[Action] = (DROP,)) -> list[Hits]:
    """The sets with one fault more: each action at each packet that the run sent after the last one that was hit."""
    places = [packet.place for packet in trial.sent]
    after = places.index(trial.hits[-1].place) + 1 if trial.hits else 0
    return [(*trial.hits, Hit(place, action)) for place in places[after:] for action in actions]


def places_of(trial: Trial) -> tuple[int, ...]:
    """The places of the packets that were hit in the order in which the run sent them, from 0."""
    order = {packet.place: number for number, packet in enumerate(trial.sent)}
    return tuple(order[hit.place] for hit in trial.hits)


def trials_of(plan: Plan, results: Path, sets: Iterable[Hits], base: Trial | None) -> list[Trial]:
    """What became of each set of faults, all of which are recorded; `base` is the run without faults, None for that."""
    run_ids = {run.permutation.channel_name: run for run in plan.runs}
    return [_trial(hits, results, run_ids[case_name(hits)].run_id, plan, base) for hits in sets]


def _trial(hits: Hits, results: Path, run_id: str, plan: Plan, base: Trial | None) -> Trial:
    directory = run_directory(results, run_id)
    record = read_record(directory)
    is_observed = record.session and record.outcome not in UNDECIDED  # a run that was aborted may have no captures
    dissectors = {name: each.dissector for name, each in plan.implementations.items()}
    sent = tuple(sent_packets(directory, dissectors)) if is_observed else ()
    names = {packet.place: packet.text for packet in sent}
    is_complete = record.outcome is Outcome.COMPLETED
    delivered_s = _delivered_s(record) if is_complete else None
    before_s = base.delivered_s if base else delivered_s
    rtt_s = next(run.rtt_s for run in plan.runs)
    return Trial(
        hits=hits,
        packets=tuple(names.get(hit.place, hit.place.text) for hit in hits),
        outcome=record.outcome,
        reason=record.reason,
        suspect=tuple(record.suspect),
        delivered_s=delivered_s,
        extra_rtts=None
        if delivered_s is None or before_s is None
        else _to_thousandth((delivered_s - before_s) / rtt_s),
        extra_packets=len(sent) - len(base.sent if base else sent) if is_complete else None,
        run=directory,
        sent=sent,
    )


def _to_thousandth(rtts: float) -> float:
    """Rounded; what is earlier by less is 0, and not -0."""
    return round(rtts, 3) + 0.0


def _delivered_s(record: RunRecord) -> float | None:
    """From the launch until the receiver had the file."""
    if record.started_at_ns is None or record.file_delivered_at_ns is None:
        return None
    return (record.file_delivered_at_ns - record.started_at_ns) / 1e9


@dataclass(frozen=True)
class Verdict:
    """What the trials show: the smallest sets after which the file was not delivered, and the slowest of the others."""

    trials: int
    most_hits: int
    counterexamples: tuple[Trial, ...]
    undecided: tuple[Trial, ...]
    """Trials that were aborted or are suspect: what they show is not sure."""
    worst: Trial | None

    @property
    def is_proven(self) -> bool:
        """Whether the file was delivered after every set."""
        return not (self.counterexamples or self.undecided)


def verdict_of(trials: Sequence[Trial]) -> Verdict:
    """The verdict on all trials, of which the first is the one without faults."""
    failed = [trial for trial in trials if not trial.is_delivered and trial.is_decided]
    fewest = min((len(trial.hits) for trial in failed), default=0)
    late = [trial for trial in trials if trial.hits and trial.extra_rtts is not None]
    return Verdict(
        trials=len(trials),
        most_hits=max(len(trial.hits) for trial in trials),
        counterexamples=tuple(trial for trial in failed if len(trial.hits) == fewest),
        undecided=tuple(trial for trial in trials if not trial.is_decided),
        worst=max(late, key=lambda trial: trial.extra_rtts or 0.0, default=None),
    )

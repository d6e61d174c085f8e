"""The proof that an implementation delivers a short transfer after every loss of up to k packets, or the smallest set
of losses after which it does not.

A loss changes what is sent after it, so sets grow packet by packet: to the losses of a run, each packet is added that
this run sent after the last of them. Every set is performed once, and none is left out. A set after which the file is
not delivered is not enlarged: it is a counterexample already.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from owlt.orchestrator.checks.fault_cases import Losses, SentPacket, case_name, sent_packets
from owlt.orchestrator.planning.plan import Plan
from owlt.results.record import Outcome, RunRecord, read_record
from owlt.results.recorded_runs import run_directory


@dataclass(frozen=True)
class Trial:
    """A set of losses and what became of the transfer.

    `lost` names the packets. The file was delivered `delivered_s` after the launch, `extra_rtts` round trips later than
    without losses, and both hosts sent `extra_packets` more; None: it was not. `sent` are all packets of the run.
    """

    losses: Losses
    lost: tuple[str, ...]
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
        return self.outcome not in (Outcome.ABORTED, Outcome.QUARANTINED) and not self.suspect

    @property
    def text(self) -> str:
        """The losses in words."""
        return " and ".join(self.lost) or "no loss"


def successors(trial: Trial) -> list[Losses]:
    """The sets with one loss more: of each packet that the run sent after the last of its losses."""
    places = [packet.place for packet in trial.sent]
    after = places.index(trial.losses[-1]) + 1 if trial.losses else 0
    return [(*trial.losses, place) for place in places[after:]]


def places_of(trial: Trial) -> tuple[int, ...]:
    """The places of the lost packets in the order in which the run sent them, from 0."""
    order = {packet.place: number for number, packet in enumerate(trial.sent)}
    return tuple(order[place] for place in trial.losses)


def trials_of(plan: Plan, results: Path, sets: Iterable[Losses], base: Trial | None) -> list[Trial]:
    """What became of each set of losses, all of which are recorded; `base` is the run without losses, None for that."""
    run_ids = {run.permutation.channel_name: run for run in plan.runs}
    return [_trial(losses, results, run_ids[case_name(losses)].run_id, plan, base) for losses in sets]


def _trial(losses: Losses, results: Path, run_id: str, plan: Plan, base: Trial | None) -> Trial:
    directory = run_directory(results, run_id)
    record = read_record(directory)
    sent = tuple(sent_packets(directory)) if record.session else ()
    names = {packet.place: packet.text for packet in sent}
    is_complete = record.outcome is Outcome.COMPLETED
    delivered_s = _delivered_s(record) if is_complete else None
    before_s = base.delivered_s if base else delivered_s
    rtt_s = next(run.rtt_s for run in plan.runs)
    return Trial(
        losses=losses,
        lost=tuple(names.get(place, place.text) for place in losses),
        outcome=record.outcome,
        reason=record.reason,
        suspect=tuple(record.suspect),
        delivered_s=delivered_s,
        extra_rtts=(delivered_s - before_s) / rtt_s if delivered_s is not None and before_s is not None else None,
        extra_packets=len(sent) - len(base.sent if base else sent) if is_complete else None,
        run=directory,
        sent=sent,
    )


def _delivered_s(record: RunRecord) -> float | None:
    """From the launch until the receiver had the file."""
    if record.started_at_ns is None or record.file_delivered_at_ns is None:
        return None
    return (record.file_delivered_at_ns - record.started_at_ns) / 1e9


@dataclass(frozen=True)
class Verdict:
    """What the trials show: the smallest sets after which the file was not delivered, and the slowest of the others."""

    trials: int
    most_losses: int
    counterexamples: tuple[Trial, ...]
    undecided: tuple[Trial, ...]
    """Trials that were aborted or are suspect: what they show is not sure."""
    worst: Trial | None

    @property
    def is_proven(self) -> bool:
        """Whether the file was delivered after every set."""
        return not (self.counterexamples or self.undecided)


def verdict_of(trials: Sequence[Trial]) -> Verdict:
    """The verdict on all trials, of which the first is the one without losses."""
    failed = [trial for trial in trials if not trial.is_delivered and trial.is_decided]
    fewest = min((len(trial.losses) for trial in failed), default=0)
    lossy = [trial for trial in trials if trial.losses and trial.extra_rtts is not None]
    return Verdict(
        trials=len(trials),
        most_losses=max(len(trial.losses) for trial in trials),
        counterexamples=tuple(trial for trial in failed if len(trial.losses) == fewest),
        undecided=tuple(trial for trial in trials if not trial.is_decided),
        worst=max(lossy, key=lambda trial: trial.extra_rtts or 0.0, default=None),
    )

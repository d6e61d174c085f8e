"""One run of each implementation, message by message: counts of messages, phases, the end of the session.

Counting belongs to owlt.captures.protocols.view; drawing these runs belongs to session_figures.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from owlt.captures.protocols.view import ProtocolView
from owlt.reports.results.load import Results, Run
from owlt.reports.units import number_text
from owlt.results.record import NOT_DELIVERED

UNKNOWN = "–"
PHASES = {
    "first data": "first_data_ns",
    "last new data": "last_new_data_ns",
    "file delivered": "file_delivered_at_ns",
    "session end": "last_packet_ns",
}


@dataclass(frozen=True)
class MessageRow:
    """The messages of one name: how many each host sent, and how many bytes of frames they were; as texts."""

    name: str
    sender_count: str
    sender_bytes: str
    receiver_count: str
    receiver_bytes: str


@dataclass(frozen=True)
class ShownRun:
    """The one run of an implementation whose messages are shown."""

    name: str
    run: Run
    view: ProtocolView

    @property
    def phases(self) -> dict[str, str]:
        """The phases in s since the session's first packet, in their order."""
        summary = self.run.summary
        if summary is None or summary.first_packet_ns is None:
            return dict.fromkeys(PHASES, UNKNOWN)
        times_ns = {
            "first_data_ns": self.view.first_data_ns,
            "last_new_data_ns": self.view.last_new_data_ns,
            "file_delivered_at_ns": self.run.record.file_delivered_at_ns,
            "last_packet_ns": summary.last_packet_ns,
        }
        first_ns = summary.first_packet_ns
        return {
            phase: UNKNOWN if (time_ns := times_ns[key]) is None else f"{(time_ns - first_ns) / 1e9:.3f}"
            for phase, key in PHASES.items()
        }

    @property
    def repeated(self) -> str:
        """The bytes of the file that were retransmitted, as text."""
        count = self.view.repeated_file_bytes
        return UNKNOWN if count is None else number_text(count)

    @property
    def carried(self) -> str:
        """The bytes of the file that were sent at least once, as text."""
        count = self.view.carried_file_bytes
        return UNKNOWN if count is None else number_text(count)

    @property
    def messages(self) -> list[MessageRow]:
        """A row for each name: those of the sender by their number, then those that only the receiver sent."""
        counts, sizes = self.view.counts, self.view.wire_bytes
        names = dict.fromkeys((*counts["sender"], *counts["receiver"]))

        def text(values: dict[str, int], name: str) -> str:
            return number_text(values[name]) if name in values else UNKNOWN

        return [
            MessageRow(name, *(text(values[host], name) for host in counts for values in (counts, sizes)))
            for name in names
        ]


def shown_runs(results: Results) -> list[ShownRun]:
    """One run with decoded messages of each implementation that has one, in the order of the report.

    The completed run with the highest packet error rate, then the longest delay, then the largest file; of any outcome
    if none completed. Of a pair whose sides are in the sweep too, only a run that failed: there are many pairs, and
    drawing one takes seconds.
    """
    runs = (
        (name, _first_failed(results, name) if _is_between_others(results, name) else _hardest(results, name))
        for name in results.implementations
    )
    return [ShownRun(name, run, run.view) for name, run in runs if run is not None and run.view is not None]


def _is_between_others(results: Results, name: str) -> bool:
    pair = results.profiles[name].pair
    return pair is not None and {pair.sender.name, pair.receiver.name} <= results.profiles.keys()


def _first_failed(results: Results, name: str) -> Run | None:
    failed = (run for run in results.runs if run.record.implementation == name and run.view is not None)
    return next((run for run in failed if run.record.outcome in NOT_DELIVERED), None)


def _hardest(results: Results, name: str) -> Run | None:
    viewed = [run for run in results.runs if run.record.implementation == name and run.view is not None]
    completed = [run for run in viewed if run.completed]
    return max(completed or viewed, key=_hardness, default=None)


def _hardness(run: Run) -> tuple[float, int, int]:
    return run.record.packet_error_rate, run.record.delay_ns, run.record.permutation.load

"""The rows of the table of runs, from a results directory: every planned run, with any outcome."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from owlt.captures.accounting.ledger import Ledger
from owlt.captures.accounting.measures import DelaySummary
from owlt.captures.accounting.summary import CaptureSummary
from owlt.captures.protocols.view import ProtocolView
from owlt.reports.results.load import Results, Run
from owlt.reports.results.records import HostTcp, PlannedRun, Record, WrittenChannel
from owlt.reports.style.units import written_delay_ns, written_rate_bps, written_size_bytes
from owlt.reports.table.columns import COUNTERS, NAMES, NOT_RUN, RECEIVER_COUNTERS, TABLE_VERSION
from owlt.reports.table.tcp_numbers import tcp_of

Row = dict[str, Any]
"""A value for each column, None if the run has none; in the order of NAMES."""

_RECORD = (
    *("run_id", "title", "protocol", "repetition", "order", "seed", "clock", "rig", "outcome", "reason_code"),
    *("reason", "attempt", "started_at_ns", "ended_at_ns", "file_delivered_at_ns", "received_bytes"),
    "certificate",
)
_SUMMARY = tuple(name for name in NAMES if name in CaptureSummary.model_fields and name not in ("suspect", "caveats"))
_VIEW = tuple(name for name in NAMES if name in ProtocolView.model_fields)
_TCP = (
    *("packets_sent", "sent_again", "timeouts", "fast_retransmissions", "spurious"),
    *("timeout_percent", "fast_percent", "spurious_percent"),
)
_POINT = (
    *("implementation", "file_size_bytes", "duration_ns", "channel_name"),
    *("rate_bps", "delay_ns", "packet_error_rate"),
)
_BETWEEN = "; "


def run_rows(results: Results) -> list[Row]:
    """A row for each planned run, in the order of the grid; those without a record have the outcome NOT_RUN."""
    shared = {"table_version": TABLE_VERSION, "sweep": results.sweep.name}
    rows = [_complete(shared | _recorded(results, run)) for run in results.runs]
    rows += [_complete(shared | _unrecorded(results, planned)) for planned in results.unrecorded]
    places = {point: place for place, point in enumerate(results.planned)}
    by_run = {run.record.run_id: run.record.permutation for run in results.runs}
    by_run |= {planned.run_id: planned.permutation for planned in results.unrecorded}
    return sorted(rows, key=lambda row: (places[by_run[row["run_id"]]], row["repetition"]))


def _complete(values: Row) -> Row:
    return {name: values.get(name) for name in NAMES}


def _recorded(results: Results, run: Run) -> Row:
    record, summary = run.record, run.summary
    delay = record.machine_delay
    return {
        **_planned(results, record, record.channel_key, record.run_id),
        **{name: getattr(record, name) for name in _RECORD},
        "implementation_version": record.versions.get("implementation"),
        "owlt_version": record.versions.get("owlt"),
        "kernel_version": record.versions.get("kernel"),
        "parameters": _json(record.parameters),
        "advertised_rate_bps": record.advertised.get("rate_bps"),
        "advertised_one_way_delay_s": record.advertised.get("one_way_delay_s"),
        "suspect": _joined(run.suspect),
        "known_limit": results.profiles[record.implementation].known_failure(record),
        **({"waited_ns": delay.waited_ns, "dispatches": delay.dispatches} if delay else {}),
        **(_of_summary(summary) if summary else {}),
        **({name: getattr(run.view, name) for name in _VIEW} if run.view else {}),
        **_of_tcp(run),
    }


def _unrecorded(results: Results, planned: PlannedRun) -> Row:
    title = results.implementations.get(planned.permutation.implementation)
    own = {name: getattr(planned, name) for name in ("run_id", "repetition", "order", "seed")}
    of_plan = _planned(results, planned.permutation, planned.channel_key, planned.run_id)
    return {**of_plan, **own, "title": title, "outcome": NOT_RUN}


def _planned(results: Results, point: Any, channel_key: str, run_id: str) -> Row:
    """What the plan states of a run: the point of the grid, and its channel."""
    channel = results.channels[point.permutation if isinstance(point, Record) else point].specified
    links = {"forward": channel.forward, "reverse": channel.reverse}
    return {
        **point.model_dump(include=set(_POINT)),
        "channel_key": channel_key,
        "is_baseline": run_id in results.baseline,
        "rtt_ns": sum(_delay_ns(link) for link in links.values()),
        "bypass": channel.bypass,
        "timeline": _timeline(channel),
        **{f"{way}_{name}": value for way, link in links.items() for name, value in _of_link(link).items()},
    }


def _of_link(link: Mapping[str, Any]) -> Row:
    return {
        "rate_bps": None if _text(link, "rate") is None else written_rate_bps(link["rate"]),
        "delay_ns": _delay_ns(link),
        "packet_error_rate": link.get("packet_error_rate", 0.0),
        "bit_error_rate": link.get("bit_error_rate", 0.0),
        "error_effect": link.get("error_effect", "flip"),
        "error_pattern": _json(link.get("pattern")),
        "loss": _json(link.get("loss")),
        "coding": _json(link.get("coding")),
        "jitter": _json(link.get("jitter")),
        "reordering_rule": _json(link.get("reordering")),
        "keeps_order": link.get("keeps_order"),
        "duplication_rate": link.get("duplication_rate", 0.0),
        "queue_limit": link.get("queue"),
        "mtu_bytes": None if (mtu := _text(link, "mtu")) is None else written_size_bytes(mtu),
        "overhead_bytes": written_size_bytes(link.get("overhead", "0 B")),
        "while_down": link.get("while_down"),
    }


def _of_summary(summary: CaptureSummary) -> Row:
    ledgers = {"forward": summary.ledger_forward, "reverse": summary.ledger_reverse}
    delays = {"forward": summary.owd_forward, "reverse": summary.owd_reverse}
    return {
        **{name: getattr(summary, name) for name in _SUMMARY},
        "caveats": _joined(summary.caveats),
        **{f"{way}_{name}": getattr(ledger, name) for way, ledger in ledgers.items() for name in Ledger.model_fields},
        **{
            f"{way}_owd_{name}": getattr(delay, name)
            for way, delay in delays.items()
            for name in DelaySummary.model_fields
        },
    }


def _of_tcp(run: Run) -> Row:
    hosts = run.record.tcp
    if not hosts:
        return {}
    missing = HostTcp(problem="no counters were recorded")
    sender, receiver = hosts.get("sender", missing), hosts.get("receiver", missing)
    numbers = tcp_of(run)
    return {
        **{name: getattr(numbers, name, None) for name in _TCP},
        "others_retransmitted": sender.others_retransmitted + receiver.others_retransmitted,
        **({} if sender.problem else {name: sender.counters.get(name, 0) for name in COUNTERS}),
        **(
            {}
            if receiver.problem
            else {f"receiver_{name}": receiver.counters.get(name, 0) for name in RECEIVER_COUNTERS}
        ),
        "problem": _joined(filter(None, (sender.problem, receiver.problem))),
    }


def _delay_ns(link: Mapping[str, Any]) -> int:
    return written_delay_ns(link.get("delay", "0 ns"))


def _timeline(channel: WrittenChannel) -> str | None:
    return None if channel.timeline is None else _json(channel.timeline.model_dump(mode="json"))


def _text(link: Mapping[str, Any], name: str) -> str | None:
    """A quantity as it is written; None if there is no limit."""
    written = link.get(name)
    return None if written in (None, "none", "unlimited") else str(written)


def _json(value: Any) -> str | None:
    return None if value in (None, "none", {}) else json.dumps(value, sort_keys=True, ensure_ascii=False)


def _joined(sentences: Iterable[str]) -> str:
    return _BETWEEN.join(sentences)

"""The queue as captures show it, against the emulator that had it: its limit, its drops, what it held at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from owlt.captures.frames.columns import read_columns
from owlt.captures.frames.session import Session
from owlt.captures.inspection.traces import Traces, trace_run
from owlt.captures.matches.bottleneck import Link
from owlt.captures.matches.matching import match_captures
from tests.system.sweeps import RECORDED, perform, records

LIMIT, FILE_BYTES = 20, 500_000
LINK = Link(25_000_000, 10e6)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> dict[str, tuple[dict[str, Any], Traces]]:
    """Record and traces of TCP through a queue of 20 packets, and through one that never fills."""
    directory = tmp_path_factory.mktemp("queues")
    for name, packets in (("shallow", LIMIT), ("deep", 1_000)):
        link = {"delay": "25 ms", "rate": "10 Mbit/s", "queue": f"{packets} packets"}
        (directory / f"{name}.yaml").write_text(json.dumps({"name": name, "title": name, "both": link}))
    changes = dict.fromkeys(("rate", "delay", "packet_error_rate"))
    channels = [str(directory / f"{name}.yaml") for name in ("shallow", "deep")]
    done = perform(
        directory,
        directory / "results",
        implementations=["tcp"],
        file_size="500 kB",
        channel=channels,
        certify=False,
        keep_captures="headers",
        runs_per_guest=2,
        **changes,
    )
    assert done.returncode in RECORDED, done.stderr
    return {
        record["channel_name"]: (record, traces_of(directory / "results" / "runs" / run_id, record))
        for run_id, record in records(directory / "results").items()
    }


def traces_of(run: Path, record: dict[str, Any]) -> Traces:
    captures = [read_columns(run / f"{host}.pcap", 96) for host in ("sender", "receiver")]
    crossing = match_captures(*captures, Session.model_validate(record["session"]))
    return trace_run(crossing, forward_link=LINK, reverse_link=LINK)


def test_a_queue_of_20_packets_shows_20_when_it_drops_and_never_more(
    runs: dict[str, tuple[dict[str, Any], Traces]],
) -> None:
    record, traces = runs["shallow"]
    queue = traces.forward.queue

    assert queue is not None
    assert queue.packets.max() == LIMIT
    assert len(traces.forward.lost_ns) == record["emulator_statistics"]["forward"]["bottleneck"]["dropped_packets"] > 0


def test_a_deeper_queue_shows_more_and_loses_nothing(runs: dict[str, tuple[dict[str, Any], Traces]]) -> None:
    _, traces = runs["deep"]

    assert traces.forward.queue is not None
    assert traces.forward.queue.packets.max() > LIMIT
    assert len(traces.forward.lost_ns) == 0


def test_a_queue_is_as_empty_at_the_end_as_the_emulator_says(runs: dict[str, tuple[dict[str, Any], Traces]]) -> None:
    for record, traces in runs.values():
        for direction, way in (("forward", traces.forward), ("reverse", traces.reverse)):
            held = record["emulator_statistics"][direction]["bottleneck"]
            assert way.queue is not None
            last = (way.queue.packets[-1], way.queue.wire_bytes[-1])
            assert last == (held["waiting_packets"], held["waiting_bytes"]) == (0, 0)


def test_tcp_sends_again_what_the_queue_dropped_and_no_byte_of_the_file_is_missing(
    runs: dict[str, tuple[dict[str, Any], Traces]],
) -> None:
    for _, traces in runs.values():
        assert traces.data is not None
        assert traces.acknowledgements is not None
        assert traces.data.new_bytes.sum() == FILE_BYTES == traces.acknowledgements.acknowledged_bytes[-1]
        assert traces.data.again.sum() == len(traces.forward.lost_ns)

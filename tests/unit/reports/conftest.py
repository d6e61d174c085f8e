"""Results directories as a sweep leaves them, with numbers that a real one could have.

The plan and the records are written by the orchestrator's own code, the summaries by the captures'; only what
hosts and channels would have done is made up here, from each run's seed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

import pytest
import yaml

from owlt.captures.accounting.derived_files import CAPTURES, keep
from owlt.captures.accounting.ledger import Ledger
from owlt.captures.accounting.measures import Amounts, measure
from owlt.captures.accounting.summary import CaptureSummary, load_summary
from owlt.captures.protocols.view import ProtocolView, load_or_view
from owlt.emulator.certification.certificate import Certificate, Check
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.planning.plan import Plan, Run, plan_sweep
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.profiles.catalogue import implementations_of
from owlt.reports.comparison.cells import cells_of
from owlt.reports.comparison.panels import Figure
from owlt.reports.comparison.theory import comparisons_of
from owlt.reports.drawing.output import KeptFigures
from owlt.reports.drawing.sweep_figures import draw, save
from owlt.reports.page.page import Contents, Drawings, build_report, render_page
from owlt.reports.rendering import Parts
from owlt.reports.results.load import load_results
from owlt.reports.results.rows import run_rows
from owlt.reports.sessions.protocols import shown_runs
from owlt.reports.sessions.session_figures import draw_sessions
from owlt.results.certificates import write_certificate
from owlt.results.record import SUMMARY, VIEW, Outcome, RunRecord, Side, write_record
from tests.unit.captures.making import RECEIVER_MAC, SESSION, timed, write_pcap
from tests.unit.captures.octets import CFDP, CFDP_RUN


def measured_row(goodput: float | None, seed: int = 0, **columns: Any) -> dict[str, Any]:
    """The columns of a run that the answer reads; `goodput` in Mbit/s, None: the file was not delivered."""
    bps = None if goodput is None else goodput * 1e6
    return {
        **{"outcome": "failed" if goodput is None else "completed", "suspect": "", "file_size_bytes": 10**6},
        **{"seed": seed, "clock": "exact", "timeline": "", "forward_packet_error_rate": 0.01},
        **{"goodput_bps": bps, "goodput_to_delivery_bps": bps, "session_s": None if not bps else 8e6 / bps},
        **{"str_sent": 20, "str_sent_bytes": 10**6, "rts_sent": 10, "rts_sent_bytes": 1000, "total_data_bytes": 10**6},
        **columns,
    }


TITLES = {"cfdp": "CFDP class 2 (cfdp-py)", "norm": "NORM (NRL libnorm)"}
PAYLOAD_BYTES, WIRE_BYTES = 1024, 1090
START_NS = 1_767_225_600_000_000_000  # 2026-01-01 00:00 UTC, where every guest's clock starts

TIMED_OUT = "norm_1MB_10Mbps_1.25s_per0.01_r2"
FAILED = "cfdp_1MB_10Mbps_25ms_per0.01_r3"
FAILURE = "the sender exited with status 1; its last line: 'NAK limit reached <transaction 1.1>'"
SUSPECT = "cfdp_1MB_10Mbps_25ms_per0_r2"
SUSPICION = "sender.pcap is not complete: 118 of 121 packets captured, 3 dropped by the kernel, 0 by the interface"
UNSUMMARISED = "norm_1MB_10Mbps_25ms_per0_r1"
RELIABLE_CHECK = Check("forward", "rate, bit/s", "ok", 1e7, 1e7, 9.99e6, 1.001e7, 5000)
PROFILES = {
    "terrestrial": ChannelSpec.from_wire({"both": {"delay": "25 ms", "rate": "10 Mbit/s"}}),
    "deep-space": ChannelSpec.from_wire(
        {
            "both": {"delay": "600 s", "bit_error_rate": 1e-6, "error_effect": "drop"},
            "forward": {"rate": "2 Mbit/s"},
            "reverse": {"rate": "8 kbit/s"},
        }
    ),
}
LOGS = ("sender.out", "sender.err", "receiver.out", "receiver.err")


def sweep(**changes: Any) -> Sweep:
    """The demo sweep, with changes."""
    return Sweep.model_validate(
        {
            "name": "demo",
            "title": "CFDP and NORM, terrestrial and cislunar",
            "seed": 2012,
            "implementations": ["cfdp", "norm"],
            "file_size": ["100 kB", "1 MB"],
            "rate": "10 Mbit/s",
            "delay": ["25 ms", "1250 ms"],
            "packet_error_rate": [0, 0.001, 0.01],
            "repetitions": 3,
            **changes,
        }
    )


def sweep_of(file: Path, **changes: Any) -> Sweep:
    """The sweep in a file, with changes."""
    return Sweep.model_validate(yaml.safe_load(file.read_text()) | changes)


def write_results(directory: Path, asked: Sweep, skip: Callable[[Run], bool] = lambda run: False) -> Path:
    """A results directory with a record for every run of the sweep but those to be skipped."""
    plan = plan_of(asked)
    write_plan(plan, directory)
    for run in plan.runs:
        if not skip(run):
            write_run(directory / "runs" / run.run_id, run, asked)
    return directory


def plan_of(asked: Sweep) -> Plan:
    """The plan of a sweep, of channels in PROFILES where it names any."""
    return plan_sweep(asked, implementations_of(asked), {name: PROFILES[name] for name in asked.channel or ()})


def write_certificates(directory: Path, asked: Sweep, *checks: Check) -> None:
    """A certificate with these checks for every channel of the sweep."""
    for key, channel in plan_of(asked).channels.items():
        certificate = Certificate(channel.to_wire(), checks, START_NS, 12.5, "6.12.48", 0.001)
        write_certificate(certificate.to_wire(), key, directory / "certificates")


def write_run(directory: Path, run: Run, asked: Sweep) -> None:
    """One run as it lies there once it is analysed."""
    directory.mkdir(parents=True)
    for name in (*LOGS, "sender.pcap", "receiver.pcap"):
        (directory / name).write_bytes(b"")
    outcome, reason = {
        TIMED_OUT: (
            Outcome.TIMED_OUT,
            "the receiver had not ended 120 s after the launch, its time limit; it wrote nothing",
        ),
        FAILED: (Outcome.FAILED, FAILURE),
    }.get(run.run_id, (Outcome.COMPLETED, ""))
    draw = random.Random(run.seed)
    summary = made_up_summary(run, draw)
    first_ns, last_ns = summary.first_packet_ns, summary.last_packet_ns
    assert first_ns is not None
    assert last_ns is not None
    point = run.permutation
    write_record(
        RunRecord(
            run_id=run.run_id,
            sweep=asked.name,
            **point.model_dump(),
            channel_key=run.channel_key,
            title=TITLES.get(point.implementation, point.implementation.upper()),
            protocol=point.implementation.upper(),
            repetition=run.repetition,
            order=run.order,
            seed=run.seed,
            clock=asked.clock,
            rig=asked.rig,
            outcome=outcome,
            reason=reason,
            started_at_ns=first_ns - 40_000_000,
            ended_at_ns=last_ns + 10_000_000,
            sender=Side(command=["send"], exit_status=1 if run.run_id == FAILED else 0),
            receiver=Side(command=["receive"], exit_status=0),
            versions={
                "owlt": "0.1.0",
                "kernel": "6.12.48",
                "python": "3.11.2",
                "cfdp": "cfdp-py 0.7.0",
                "norm": "libnorm 1.5.9",
                "implementation": {"cfdp": "cfdp-py 0.7.0"}.get(point.implementation, "libnorm 1.5.9"),
            },
            kernel_hz=1000,
        ),
        directory,
    )
    if run.run_id != UNSUMMARISED:
        keep(directory / SUMMARY, summary)


def made_up_summary(run: Run, draw: random.Random) -> CaptureSummary:
    """What captures of such a run could say: data paced at the channel's rate, a round trip for each repair."""
    point = run.permutation
    lost = 0
    packets = ceil(point.most_bytes / PAYLOAD_BYTES)
    rounds, to_repair = 0, packets
    while to_repair := sum(draw.random() < point.packet_error_rate for _ in range(to_repair)):
        lost += to_repair
        rounds += 1
    paced_s = 8 * WIRE_BYTES * (packets + lost) / (point.rate_bps or 1e7)
    whole_s = paced_s + point.delay_ns / 1e9 + rounds * (run.rtt_s + draw.uniform(0.01, 0.4))
    if point.implementation == "cfdp":
        session_s = whole_s + run.rtt_s + draw.uniform(0, 0.002)
        sent, returned = packets + lost + 3, 2 + rounds + draw.randrange(2) * (rounds > 0)
    else:
        session_s = whole_s + 20 * max(run.rtt_s, 0.1) * draw.uniform(0.95, 1.05)
        sent, returned = packets + lost + 40 + draw.randrange(6), 9 + 3 * rounds + draw.randrange(5)
    first_ns = START_NS + run.repetition * 1_000_000_000
    delays = {"matched": sent, "min_ns": point.delay_ns + 872_000}
    amounts = Amounts(sent * WIRE_BYTES, sent * WIRE_BYTES, returned * 60, returned * 60)
    last_ns, whole_at_ns = (first_ns + int(seconds * 1e9) for seconds in (session_s, whole_s))
    duration_s = point.duration_ns and point.duration_ns / 1e9
    measures = measure(amounts, first_ns, last_ns, point.most_bytes, whole_at_ns, point.rate_bps, duration_s)
    return CaptureSummary.model_validate(
        measures.model_dump()
        | amounts._asdict()
        | {
            "str_sent": sent,
            "str_delivered": sent,
            "rts_sent": returned,
            "rts_delivered": returned,
            "ledger_forward": ledger(sent),
            "ledger_reverse": ledger(returned),
            "owd_forward": delays,
            "owd_reverse": {"matched": returned},
            "background_packets": {},
            "slow_frames": 0,
            "headers_only": True,
            "suspect": [SUSPICION] if run.run_id == SUSPECT else [],
        }
    )


def ledger(sent: int) -> Ledger:
    """Of packets that all arrived."""
    return Ledger.model_validate(dict.fromkeys(Ledger.model_fields, 0) | {"sent": sent, "delivered": sent})


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's 72 runs: two did not complete, one is suspect, one has no summary. No report is made."""
    return write_results(tmp_path_factory.mktemp("results") / "demo", sweep())


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve runs of the demo and their report: one failed, one is suspect, one has no summary."""
    directory = write_results(tmp_path_factory.mktemp("results") / "few", few())
    build_report(directory)
    return directory


def page_text(directory: Path, compared: tuple[Figure, ...] = ()) -> str:
    """The page of a results directory with the figures of single runs, and of those over the sweep only these.

    To draw all of them takes some seconds; `reported` has them.
    """
    results = load_results(directory)
    contents = Contents(compared, (), tuple(shown_runs(results)))
    figures = directory / "report" / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for figure in compared:
        save(draw(figure, results.series), figures, figure.name)
    kept = KeptFigures(figures, figures, (".svg",))
    sessions = draw_sessions(results, contents.shown_runs, kept, map)
    cells = cells_of(run_rows(results))
    drawn = Drawings(sessions)
    return render_page(results, cells, comparisons_of(cells), contents, drawn, kept, Parts(directory / "parts"))


def few(**changes: Any) -> Sweep:
    """A part of the demo that is drawn in a moment."""
    return sweep(**{"file_size": "1 MB", "delay": "25 ms", "packet_error_rate": [0, 0.01], **changes})


def named(**changes: Any) -> Sweep:
    """A sweep over named channels, of runs that are over in no time."""
    own: dict[str, Any] = {"rate": None, "delay": None, "packet_error_rate": None, "file_size": "100 kB"}
    return sweep(**{**own, "channel": list(PROFILES), "repetitions": 1, **changes})


def change_record(directory: Path, run_id: str, **changes: Any) -> None:
    """Write other values into a record, as another version, or a mistake, would have."""
    path = directory / "runs" / run_id / "record.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def write_view(directory: Path, run_id: str, **changes: Any) -> None:
    """What the messages of a run of CFDP with one repair could come to, in a run that has a summary."""
    summary = load_summary(directory / "runs" / run_id)
    assert summary is not None
    assert summary.first_packet_ns is not None
    told: dict[str, Any] = {
        "dissector": ["-d", "udp.port==2501,cfdp"],
        "counts": {"sender": {"data": 1001, "EOF": 1}, "receiver": {"NAK": 2, "Finished": 1}},
        "wire_bytes": {"sender": {"data": 1_067_066, "EOF": 62}, "receiver": {"NAK": 180, "Finished": 54}},
        "carried_file_bytes": 1_000_000,
        "repeated_file_bytes": 1_000,
        "first_data_ns": summary.first_packet_ns + 1_500_000,
        "last_new_data_ns": summary.first_packet_ns + 850_000_000,
        "termination": ["00:00:00.850000 IP 10.77.0.1.2501 > 10.77.0.2.2502: UDP, length 20  EOF: <whole>"],
        "tcp": None,
    }
    keep(directory / "runs" / run_id / VIEW, ProtocolView(**told | changes))


def write_captures(run_directory: Path, delay_ns: int = 25_000_000) -> None:
    """The captures of ten packets of CFDP, one a data that is sent again, over a channel that only delays."""
    frames = timed(CFDP_RUN, step_ns=100_000_000)
    answers = RECEIVER_MAC.replace(":", "")
    later = [(time_ns + (-delay_ns if frame[6:12].hex() == answers else delay_ns), frame) for time_ns, frame in frames]
    for name, at_port in zip(CAPTURES, (frames, later), strict=True):
        write_pcap(run_directory / name, at_port)


def show_packets(directory: Path, run_id: str) -> None:
    """Give a run captures of that sort, and the view of them."""
    write_captures(directory / "runs" / run_id)
    change_record(directory, run_id, session=SESSION.model_dump(mode="json"))
    load_or_view(directory / "runs" / run_id, SESSION, CFDP)

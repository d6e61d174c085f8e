"""The results of a run on the exact clock in whose captures one packet was lost and another one damaged."""

from __future__ import annotations

from pathlib import Path

from owlt.captures.accounting.cutting import keep_only_headers
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.planning.stored_plan import write_plan
from owlt.orchestrator.run.analysis import analyse_run
from owlt.results.plain_files import make_directory
from owlt.results.record import write_record
from owlt.results.recorded_runs import run_directory
from tests.unit.captures.making import SESSION, flip, later, timed, udp_frame, write_pcap
from tests.unit.orchestrator.making import record
from tests.unit.orchestrator.small_sweep import small_plan

PACKETS, LOST, DAMAGED = 40, 12, 30
"""The number of packets from the sender, and the numbers, from 1, of the one that was lost and the one damaged."""
DAMAGED_BIT = 8 * 150
"""The bit of the frame that was flipped: behind the bytes that a cut capture keeps."""


def run_with_losses(results: Path, is_cut: bool, plan: Plan | None = None, damaged_bit: int = DAMAGED_BIT) -> Path:
    """The directory of a run of a plan, default: of CFDP, with its plan, record, captures and summary; of a second
    repetition, which has no protocol view."""
    plan = plan or small_plan("exact")
    planned = next(run for run in plan.runs if run.repetition == 2)
    run = make_directory(run_directory(results, planned.run_id))
    write_plan(plan, results)
    point = planned.permutation
    write_record(
        record(
            run_id=planned.run_id,
            seed=planned.seed,
            order=planned.order,
            repetition=planned.repetition,
            channel_key=planned.channel_key,
            session=SESSION.model_dump(mode="json"),
            **point.model_dump(),
        ),
        run,
    )
    sent = timed(udp_frame(number.to_bytes(4, "big") * 50) for number in range(PACKETS))
    arrived = [
        (time_ns, flip(frame, damaged_bit) if number == DAMAGED else frame)
        for number, (time_ns, frame) in enumerate(sent, start=1)
        if number != LOST
    ]
    write_pcap(run / "sender.pcap", sent)
    write_pcap(run / "receiver.pcap", later(arrived, point.delay_ns))
    analyse_run(run, "full", {})
    if is_cut:
        keep_only_headers(run, SESSION, {})
    return run

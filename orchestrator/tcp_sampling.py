"""What the kernel's TCP says of a run: noted on both hosts by `agents/tcp_samples.py`, from before the launch on.

Counters come from both hosts, samples of the run's sockets over time from the sender.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from pydantic import ValidationError

from agents.contract import ROLES, Role
from orchestrator.exit_status import how_ended
from orchestrator.findings import Findings
from orchestrator.plan import Run
from orchestrator.program import Program
from orchestrator.record import HostTcp
from orchestrator.rigs.rig import Rig

SAMPLES_PER_RTT = 4
SHORTEST_PERIOD_S = 0.010
STARTING_S = 30.0
STOPPING_S = 30.0
SAMPLES_NAME = "tcp-sender.csv"


def start_sampling(
    run: Run, rig: Rig, found: Findings, paths: dict[str, str], directory: Path, undo: ExitStack
) -> dict[Role, Program]:
    """Start a sampler on each host, where the session has TCP ports, and return once they look."""
    ports = found.facts["session"]["tcp_ports"]
    if not ports:
        return {}
    hosts = {"sender": rig.sender, "receiver": rig.receiver}
    samplers: dict[Role, Program] = {}
    for role, other in zip(ROLES, reversed(ROLES), strict=True):
        period_s = max(run.rtt_s / SAMPLES_PER_RTT, SHORTEST_PERIOD_S) if role == "sender" else 0
        between = [hosts[role].address, hosts[other].address]
        command = [rig.python, "-m", "agents.tcp_samples", *between, ",".join(map(str, ports)), f"{period_s:f}"]
        samplers[role] = hosts[role].host.start(command, paths[role], directory / f"tcp-{role}")
        undo.callback(samplers[role].stop)
    for sampler in samplers.values():
        sampler.wait_for_line("^sampling$", STARTING_S)
    return samplers


def stop_sampling(samplers: dict[Role, Program], directory: Path, found: Findings) -> None:
    """Stop the samplers; note what they counted, and keep the sender's samples as SAMPLES_NAME beside the record."""
    told = {role: _result(sampler, directory / f"tcp-{role}", directory) for role, sampler in samplers.items()}
    if told:
        found.facts["tcp"] = told


def _result(sampler: Program, logs: Path, directory: Path) -> HostTcp:
    status = sampler.stop("TERM", STOPPING_S)
    counted, _, samples = sampler.output().partition("\n")
    try:
        result = HostTcp.model_validate_json(counted)
    except ValidationError:
        ended = "did not end" if status is None else how_ended(status)
        return HostTcp(problem=f"the sampler {ended}{sampler.last_words}")
    if result.period_ns:
        (directory / SAMPLES_NAME).write_text(samples)
    for suffix in (".out", ".err"):
        logs.with_suffix(suffix).unlink()
    return result

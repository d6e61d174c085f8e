"""Host baselines of a sweep on a lab rig: what its hosts can transfer over the unrestricted link, before and after it.

As in the NASA Glenn evaluation of NACK-oriented protocols (Iannicca, Hylton, Ishac), each implementation transfers one
file; iperf3 sends for some seconds. Each start of the sweep has its own, in results directories of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from owlt.agents.contract.implementation import Implementation
from owlt.orchestrator.planning.plan import Plan, plan_sweep
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.sweep.campaign import BeginObserving, Performed, Start, perform_plan, warn
from owlt.results.plain_files import directories_in

DIRECTORY_NAME = "host-baselines"
IPERF3_NS = 10 * 10**9
_UNRESTRICTED: dict[str, Any] = {
    "channel": None,
    "rate": [None],
    "delay": [0],
    "packet_error_rate": [0.0],
    "together": [],
    "exclude": [],
    "include": [],
    "baseline": None,
    "repetitions": 1,
    "advertised": {},
    "queue_packets": None,
    "certify": False,
    "host_captures": False,
}


def file_baseline(plan: Plan, size_bytes: int) -> Plan:
    """One transfer of a file of this size for each implementation of a plan. Raises ProfileError."""
    changes = {"name": f"{plan.sweep.name}-baseline", "file_size": [size_bytes], "duration": None}
    return _planned(plan, changes, plan.implementations)


def iperf3_baseline(plan: Plan, iperf3: Implementation) -> Plan:
    """One run of iperf3 for IPERF3_NS. Raises ProfileError."""
    changes = {"name": f"{plan.sweep.name}-iperf3", "file_size": None, "duration": [IPERF3_NS]}
    return _planned(plan, {**changes, "implementations": [iperf3.name], "parameters": {}}, {iperf3.name: iperf3})


def _planned(plan: Plan, changes: dict[str, Any], implementations: dict[str, Implementation]) -> Plan:
    title = f"Host baseline of {plan.sweep.name} over the unrestricted link"
    sweep = plan.sweep.model_copy(update=_UNRESTRICTED | {"title": title} | changes)
    return plan_sweep(sweep, implementations)


class HostBaselines:
    """The host baselines of one start: `host-baselines/N/before` and `.../after` of the sweep's results directory.

    Raises ProfileError if an implementation cannot do without the sweep's channel.
    """

    def __init__(self, start: Start, size_bytes: int) -> None:
        self._start = start
        self._files = file_baseline(start.plan, size_bytes)
        self._iperf3 = iperf3_baseline(start.plan, find_implementation("iperf3"))
        root = start.directory / DIRECTORY_NAME
        starts = [int(path.name) for path in directories_in(root) if path.name.isdecimal()]
        self._directory = root / str(max(starts, default=0) + 1)

    def perform(self, moment: Literal["before", "after"], observe: BeginObserving) -> list[Performed]:
        """Perform them before or after the sweep. Without iperf3 on the hosts, a warning says how to install it."""
        done = [self._perform(self._files, self._directory / moment / "files", observe)]
        if missing := self._start.machine.missing(self._iperf3):
            warn(f"no host baseline with iperf3: {'; '.join(map(str, missing))}")
        elif not done[0].interrupted:
            done.append(self._perform(self._iperf3, self._directory / moment / "iperf3", observe))
        return done

    def _perform(self, plan: Plan, directory: Path, observe: BeginObserving) -> Performed:
        return perform_plan(Start(plan, directory, self._start.again, machine=self._start.machine), observe)

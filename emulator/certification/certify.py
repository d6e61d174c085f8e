"""The emulator measures its own channel in place: sends probes through its ports, both ways, and judges what it saw.

Nobody else may send meanwhile. Loading this module takes longer than starting the service (numpy): load it when a
certificate is asked for.
"""

from __future__ import annotations

import platform
import time

from owlt.emulator.certification.certificate import Certificate
from owlt.emulator.certification.expectations import Expectations
from owlt.emulator.certification.injection import LONGEST_FRAME_BYTES
from owlt.emulator.certification.judging import Judge, Judges
from owlt.emulator.certification.measuring import Campaign
from owlt.emulator.certification.probing import prober
from owlt.emulator.certification.sample_sizes import Means
from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec
from owlt.emulator.faults import PortRefused
from owlt.emulator.kernel.admission import ETHERNET_HEADER_BYTES
from owlt.emulator.kernel.rtnetlink import open_rtnetlink
from owlt.emulator.kernel.survey import KernelState, survey
from owlt.inputs.mistake import Mistake

VIRTUAL_TOLERANCE_NS = 1_000
"""On a clock that stands still while the machine computes."""
PLANNED_CHECKS = 40
"""Samples are large enough for so many checks that a right channel may fail by chance; few channels have as many."""
REAL_TOLERANCE_NS = 200_000
"""What a machine that is not too busy keeps to."""


def certify(
    channel: ChannelSpec,
    ports: tuple[str, str],
    *,
    alpha: float = 0.001,
    budget_s: float = 600.0,
    packets: int | None = None,
    tolerance_ns: int = REAL_TOLERANCE_NS,
) -> Certificate:
    """Measure the channel between two ports, towards the sender and the receiver, and say whether it is as specified.

    Apply it just before, and send nothing since: the numbers of a pattern are those of the probes. A channel as
    specified fails with at most the probability `alpha`. `packets` probes are sent for each share (None: enough to
    detect what `power` aims at, up to MOST_PACKETS). A sample is cut to what the channel can send in `budget_s`
    seconds; what cannot be cut and takes longer is not measured. Raises PortRefused if a port is not there,
    ChannelRefused if the kernel is missing what injecting needs; leaves no interface, qdisc or filter, however it ends.
    """
    started_at_ns, began_ns = time.time_ns(), time.monotonic_ns()
    judges: list[Judge] = []
    with open_rtnetlink() as netlink:
        state = survey(netlink)
        ways = dict(zip(DIRECTIONS, (ports, ports[::-1]), strict=True))
        longest_bytes = min(*(_longest_frame(state, name) for name in ports), LONGEST_FRAME_BYTES)
        means = Means(longest_bytes, budget_s, packets, alpha / PLANNED_CHECKS)
        for direction, (entrance, exit_) in ways.items():
            judged = Judges(direction, Expectations.of(channel, direction), tolerance_ns)
            with prober(netlink, _index(state, entrance), _index(state, exit_), longest_bytes) as probing:
                judges += Campaign(probing, judged, means).judges()
            if channel.timeline is not None:
                judges.append(
                    judged.not_measured("changes with time", "only the links before the first step are measured")
                )
    alpha_each = alpha / max(sum(judge.by_chance for judge in judges), 1)
    return Certificate(
        channel=channel,
        checks=tuple(judge(alpha_each) for judge in judges),
        started_at_ns=started_at_ns,
        duration_s=(time.monotonic_ns() - began_ns) / 1e9,
        kernel=platform.release(),
        alpha=alpha,
    )


def _index(state: KernelState, port: str) -> int:
    if port not in state.links:
        raise PortRefused(
            Mistake.of(f"port {port}", "got no such interface", f"one of: {', '.join(sorted(state.links))}")
        )
    return int(state.links[port]["index"])


def _longest_frame(state: KernelState, port: str) -> int:
    _index(state, port)
    return int(state.links[port].get_attr("IFLA_MTU")) + ETHERNET_HEADER_BYTES

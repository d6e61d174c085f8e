"""A soak: one life of the hosts with many transfers, as a plan of its times, and what its transfers show.

The clocks of the guest start so that they pass the chosen wraps within the life, each while a transfer is under way.
What is left on a host after each transfer is examined for growth.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from scipy.stats import binom, theilslopes

from owlt.agents.contract.implementation import ROLES, Implementation
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.mistake import Mistake
from owlt.inputs.quantities import format_delay, format_size
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.checks.trials import SEED
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.planning.plan import Plan, plan_sweep
from owlt.orchestrator.rigs.guest import START_NS
from owlt.orchestrator.run.life import TRANSFERS

NS_PER_DAY = 86_400 * 10**9
LEAST_TRANSFERS, MOST_TRANSFERS = 4, 20_000
LONGEST_NS, LONGEST_PAUSE_NS = 3650 * NS_PER_DAY, 30 * NS_PER_DAY
RAISING_NS = 60 * 10**9
"""Uptime at which the rig is raised for certain."""
UPTIME_WRAPS_NS: Mapping[str, int] = {"2^31 ms": 2**31 * 10**6, "2^32 ms": 2**32 * 10**6}
"""Uptimes at which a count of milliseconds no longer fits: 24.9 and 49.7 days."""
DATE_WRAPS_NS: Mapping[str, int] = {"2^31 s": 2**31 * 10**9}
"""Dates, in ns since 1970, at which a count of seconds no longer fits: 2038-01-19 03:14:08 UTC."""
WRAPS = (*UPTIME_WRAPS_NS, *DATE_WRAPS_NS)


@dataclass(frozen=True)
class LifePlan:
    """When the guest starts (in ns since 1970), when each transfer does (uptime in ns), and when each wrap is passed
    (likewise)."""

    boot_ns: int
    starts_ns: tuple[int, ...]
    wraps_ns: Mapping[str, int]


def plan_life(duration_ns: int, every_ns: int, wraps: Sequence[str] | None, before_wrap_ns: int) -> LifePlan:
    """The life with a transfer every `every_ns`; that nearest to a wrap starts `before_wrap_ns` before it.

    None: all wraps that fit into the duration, of those of uptime at least 2^32 ms. Raises OwltError.
    """
    for option, time_ns, most_ns in (("--for", duration_ns, LONGEST_NS), ("--every", every_ns, LONGEST_PAUSE_NS)):
        if not 0 < time_ns <= most_ns:
            expected = f"more than 0 and at most {most_ns // NS_PER_DAY:,} days"
            raise OwltError(Mistake.of(option, f"got {time_ns / NS_PER_DAY:,.1f} days", expected))
    count = duration_ns // every_ns
    if not LEAST_TRANSFERS <= count <= MOST_TRANSFERS:
        problem = f"{count:,} transfers, one every {format_delay(every_ns)}"
        raise OwltError(
            Mistake.of("--for", problem, f"{LEAST_TRANSFERS} to {MOST_TRANSFERS:,}", "choose another --every")
        )
    chosen = WRAPS if wraps is None else wraps
    uptimes = sorted(UPTIME_WRAPS_NS[name] for name in chosen if name in UPTIME_WRAPS_NS)
    if len(uptimes) > 1 and uptimes[-1] - uptimes[0] >= duration_ns - 2 * every_ns:
        if wraps is not None:
            problem = f"no life of this length passes both {' and '.join(UPTIME_WRAPS_NS)}"
            raise OwltError(Mistake.of("--for", problem, "more than 25 days", "or choose one of them with --start"))
        uptimes = uptimes[-1:]
    first_ns = RAISING_NS
    if uptimes:
        first_ns = max(first_ns, uptimes[0] - (duration_ns - (uptimes[-1] - uptimes[0])) // 2)
    passed = {name: at_ns for name, at_ns in UPTIME_WRAPS_NS.items() if at_ns in uptimes}
    boot_ns = START_NS
    for name in chosen:
        if name in DATE_WRAPS_NS:
            passed[name] = first_ns + duration_ns // 3
            boot_ns = DATE_WRAPS_NS[name] - passed[name]
    starts_ns = [first_ns + number * every_ns for number in range(count)]
    regular = list(range(count))
    for at_ns in passed.values():
        place = min(regular, key=lambda place: abs(starts_ns[place] - at_ns))
        regular.remove(place)
        starts_ns[place] = at_ns - before_wrap_ns
    return LifePlan(boot_ns, tuple(sorted(starts_ns)), dict(sorted(passed.items(), key=lambda each: each[1])))


def session_numbers(bits: int, count: int) -> list[int]:
    """Numbers of the sessions of so many transfers, of which the first quarter comes before the wrap to 0."""
    return [(place - max(1, count // 4)) % (1 << bits) for place in range(count)]


def plan_transfers(
    implementation: Implementation, channel: ChannelSpec, channel_name: str, file_size_bytes: int, count: int
) -> Plan:
    """So many transfers as a plan, on the clock exact."""
    sweep = Sweep.model_validate(
        {
            "name": f"soak-{implementation.name}".replace("_", "-").replace(".", "-").lower(),
            "seed": SEED,
            "implementations": [implementation.name],
            "file_size": format_size(file_size_bytes),
            "channel": [channel_name],
            "repetitions": count,
            "certify": False,
            "quarantine_after": 0,
            "keep_captures": "headers",
        }
    )
    return plan_sweep(sweep, {implementation.name: implementation}, {channel_name: channel})


Values = Mapping[str, Any]


def read_transfers(results: Path) -> list[Values]:
    """The lines that a life has written so far, as `orchestrator.run.life.Transfer` has them; [] without any.

    The last one is left out if it is not complete: the guest was ended while it wrote.
    """
    try:
        lines = (results / TRANSFERS).read_text().split("\n")[:-1]
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in lines]


MEASURES = {
    "memory_bytes": ("memory of its programs", "bytes"),
    "open_files": ("open files of its programs", "files"),
    "programs": ("programs", "programs"),
    "sockets": ("sockets", "sockets"),
    "files": ("files in the run directory, /tmp and /dev/shm", "files"),
    "file_bytes": ("size of these files", "bytes"),
}
"""Measures of `orchestrator.run.life.Left` in words, and their units."""
WARM_UP = 0.1
"""The share of the transfers, from the first, that may still fill caches and pools."""
BLOCKS, LEAST_BLOCKS = 20, 11
"""With fewer blocks, not even a rise between all of them is significant."""
SIGNIFICANCE = 0.001
"""Of each test: with 12 measures, a soak without growth has a finding with a probability below 0.012."""


@dataclass(frozen=True)
class Growth:
    """How a measure changed: slope per transfer (the median of Theil and Sen over means of blocks), and the probability
    of as many rises between successive blocks by chance (one-sided sign test)."""

    role: str
    measure: str
    first: float
    last: float
    slope: float
    p: float
    transfers: int
    """The number of transfers that were examined; of fewer than 2 x LEAST_BLOCKS, p is 1."""

    @property
    def is_tested(self) -> bool:
        """Whether there were enough transfers for the test."""
        return self.transfers >= 2 * LEAST_BLOCKS

    @property
    def is_finding(self) -> bool:
        """Whether it grows."""
        return self.p <= SIGNIFICANCE and self.slope > 0

    @property
    def text(self) -> str:
        """In a sentence."""
        what, unit = MEASURES[self.measure]
        return (
            f"{self.role}: {what}: {self.slope:+,.3g} {unit} per transfer, from {self.first:,.0f} to {self.last:,.0f} "
            f"in {self.transfers:,} transfers (sign test over blocks: p = {self.p:.2g})"
        )


def growth_of(role: str, measure: str, values: Sequence[float]) -> Growth:
    """How a measure changed over the transfers after the warm-up.

    One rise to another level, such as of a memory pool, is no growth: means of successive blocks have to rise again and
    again.
    """
    rest = values[int(WARM_UP * len(values)) :]
    size = max(2, -(-len(rest) // BLOCKS))
    means = [fmean(rest[place : place + size]) for place in range(0, len(rest) - size + 1, size)]
    steps = [later - earlier for earlier, later in pairwise(means)]
    rises, changes = sum(step > 0 for step in steps), sum(step != 0 for step in steps)
    p = float(binom.sf(rises - 1, changes, 0.5)) if changes and len(means) >= LEAST_BLOCKS else 1.0
    return Growth(
        role=role,
        measure=measure,
        first=values[0] if values else 0.0,
        last=values[-1] if values else 0.0,
        slope=float(theilslopes(means).slope) / size if len(means) > 1 else 0.0,
        p=p,
        transfers=len(rest),
    )


def growths(transfers: Sequence[Values]) -> list[Growth]:
    """How each measure changed at each end."""
    return [
        growth_of(role, measure, [each["left"][role][measure] for each in transfers if each["left"]])
        for role in ROLES
        for measure in MEASURES
    ]


@dataclass(frozen=True)
class Finding:
    """What a soak found: a transfer that failed, programs that were left running, or growth."""

    kind: Literal["failed", "left running", "growth"]
    text: str
    transfer: int | None = None
    """The number of the first transfer that shows it; None: all together."""
    run: Path | None = None


def findings_of(transfers: Sequence[Values], life: LifePlan, results: Path) -> list[Finding]:
    """All findings: one for each failed transfer, for each command that was left running, and each growth."""
    found = [
        Finding(
            "failed",
            f"transfer {each['number']:,}{place_in_life(each, life)}: {each['outcome']}: {each['reason']}",
            each["number"],
            results / "runs" / each["run_id"],
        )
        for each in transfers
        if each["outcome"] != "completed"
    ]
    left: dict[tuple[str, str], list[int]] = {}
    for each in transfers:
        for role, commands in each["left_running"].items():
            for command in set(commands):
                left.setdefault((role, command), []).append(each["number"])
    for (role, command), numbers in left.items():
        text = f"{role}: after {len(numbers):,} of {len(transfers):,} transfers this was left running: {command}"
        found.append(Finding("left running", text, numbers[0]))
    return found + [Finding("growth", each.text) for each in growths(transfers) if each.is_finding]


def place_in_life(transfer: Values, life: LifePlan) -> str:
    """Where a transfer lies in the life: its time, its session number, and the wraps that it passes or follows."""
    began_ns = transfer["uptime_ns"]
    ended_ns = began_ns + transfer["lasted_ns"]
    words = [f" at {(began_ns - life.starts_ns[0]) / NS_PER_DAY:.3f} days, uptime {began_ns / 1e9:,.1f} s"]
    if transfer["session_number"] is not None:
        words.append(f"session number {transfer['session_number']:,}")
    for name, at_ns in life.wraps_ns.items():
        if began_ns <= at_ns <= ended_ns:
            words.append(f"which passes {name}")
        elif at_ns < began_ns:
            words.append(f"after {name}")
    return ", ".join(words)


def passed_by(transfers: Iterable[Values], at_ns: int) -> Values | None:
    """The transfer that was under way at an uptime; None if none was."""
    for each in transfers:
        if each["uptime_ns"] <= at_ns <= each["uptime_ns"] + each["lasted_ns"]:
            return each
    return None

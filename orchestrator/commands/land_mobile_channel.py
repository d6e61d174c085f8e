"""`owlt channel land-mobile`: a fading link with hybrid ARQ as a channel, on top of the delays of another one."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from owlt.emulator.channel.channel_file import ChannelProfile
from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.spec import DIRECTIONS, ChannelSpec
from owlt.emulator.channel.text import SMALLEST_ERROR_RATE
from owlt.emulator.faults import InvalidChannel
from owlt.emulator.models.links import (
    AVERAGE_TABLE_ENTRIES,
    SuccessTable,
    attempt_shares,
    coded_table,
    delay_table,
    snr_series_db,
)
from owlt.emulator.models.sky import Values
from owlt.inputs.mistake import Mistake
from owlt.inputs.quantities import format_delay
from owlt.orchestrator.commands.computed_channels import ComputedChannel, seconds_text, table_rows
from owlt.orchestrator.errors import OwltError, ProfileError

SAMPLES_PER_ATTEMPT = 2
"""The number of samples of the SNR between two attempts."""
STEP_ATTEMPTS = 5
"""How many attempts a step of the channel lasts by default."""
MOST_ATTEMPTS = 4
"""The most attempts: a delay table of netem ends at 3.99 times the amount of its jitter."""


@dataclass(frozen=True)
class HarqRequest:
    """The arguments of `owlt channel land-mobile`."""

    mean_snr_db: float
    speed_m_per_s: float
    first_ns: int
    again_ns: int
    step_ns: int
    """The duration of a step of the channel; a multiple of `again_ns`."""
    coherence_ns: int | None
    """How long packets share a fade that is drawn from the averages; None: each packet has its own."""
    in_order: bool
    seed: int
    seconds: float
    table: SuccessTable
    links: dict[str, dict[str, Any]]


def land_mobile_channel(request: HarqRequest, base: ChannelProfile | None) -> ComputedChannel:
    """Compute the channel. Its forward link has the fading."""
    sample_s = request.again_ns / 1e9 / SAMPLES_PER_ATTEMPT
    per_step = SAMPLES_PER_ATTEMPT * (request.step_ns // request.again_ns)
    steps = int(request.seconds / (sample_s * per_step))
    _require_steps(request, steps)
    count = steps * per_step + SAMPLES_PER_ATTEMPT * (request.table.attempts - 1)
    snr_db = snr_series_db(request.mean_snr_db, count, sample_s, request.speed_m_per_s, request.seed)
    shares = attempt_shares(snr_db, request.table, SAMPLES_PER_ATTEMPT)
    by_step = shares[: steps * per_step].reshape(steps, per_step, -1).mean(axis=1)
    title = f"Land-mobile satellite link with HARQ at a mean SNR of {request.mean_snr_db:g} dB"
    return _stepped_channel(request, base, by_step, request.step_ns, title, "")


def _stepped_channel(
    request: HarqRequest, base: ChannelProfile | None, by_step: Values, step_ns: int, title: str, shares: str
) -> ComputedChannel:
    """The channel with these shares of attempts and losses (columns) in each step (rows); `shares` describes them."""
    moments: Values = numpy.arange(len(by_step), dtype=numpy.float64) * step_ns / 1e9
    bases = _base_links(request, base, moments)
    success = float(1 - by_step[:, -1].mean())
    facts = {
        "steps_s": step_ns / 1e9,
        "success": success,
        "attempts": [float(share) for share in by_step[:, :-1].mean(axis=0)],
    }
    columns = ("forward.delay_us", "reverse.delay_us", "forward.jitter_table", "forward.packet_error_rate", "both.up")
    rows = _changes(moments, [_cells(request, *each) for each in zip(bases, by_step, strict=True)])
    source = _source(request, base, success, shares)
    return ComputedChannel(title, source, _links(request, base), columns, rows, facts=facts)


def average_channel(request: HarqRequest, base: ChannelProfile | None) -> ComputedChannel:
    """Compute a channel that has, at every moment, the shares of attempts and losses of the series as a whole; with
    `coherence_ns`, as fades that packets share.

    Packets that enter so late that an attempt would be after the end of the series are left out.
    """
    sample_s = request.again_ns / 1e9 / SAMPLES_PER_ATTEMPT
    count = round(request.seconds / sample_s)
    if count <= SAMPLES_PER_ATTEMPT * (request.table.attempts - 1):
        problem, expected = f"got {request.seconds / 3600:g}", "longer than all attempts of a packet"
        raise OwltError(Mistake.of("--hours", problem, expected))
    snr_db = snr_series_db(request.mean_snr_db, count, sample_s, request.speed_m_per_s, request.seed)
    shares = attempt_shares(snr_db, request.table, SAMPLES_PER_ATTEMPT).mean(axis=0)
    if request.coherence_ns is not None:
        return _fading_channel(request, base, shares, request.coherence_ns)
    links = _links(request, base)
    changes_later = base is not None and base.channel.timeline is not None
    steps = int(request.seconds * 1e9 / request.step_ns) if changes_later else 1
    _require_steps(request, steps)
    moments: Values = numpy.arange(steps, dtype=numpy.float64) * request.step_ns / 1e9
    bases = _base_links(request, base, moments)
    links["forward"] |= {
        "delay": format_delay(bases[0][0].delay_ns + request.first_ns),
        "jitter": links["forward"]["jitter"] | {"table": list(delay_table(shares, AVERAGE_TABLE_ENTRIES))},
        "packet_error_rate": float(_error_rate_text(_error_rate(shares, bases[0][0]))),
    }
    success = float(1 - shares[-1])
    facts = {"success": success, "attempts": [float(share) for share in shares[:-1]]}
    title = f"Satellite link with HARQ at a mean SNR of {request.mean_snr_db:g} dB, the same shares at every moment"
    source = _source(request, base, success, "averaged, and drawn for each packet independently; ")
    columns = ("forward.delay_us", "reverse.delay_us", "both.up") if changes_later else ()
    rows = _changes(moments, [_base_cells(request, *each) for each in bases]) if changes_later else []
    return ComputedChannel(title, source, links, columns, rows, facts=facts)


def _fading_channel(
    request: HarqRequest, base: ChannelProfile | None, shares: Values, coherence_ns: int
) -> ComputedChannel:
    """A channel of fades: in each, all packets need the same number of attempts, or are lost. There are as many of each
    kind as the shares say, in random order."""
    count = int(request.seconds * 1e9 / coherence_ns)
    _require_steps(request, count)
    kinds = numpy.array(delay_table(numpy.append(shares, 0.0), count))
    order = numpy.random.default_rng((request.seed, 1)).permutation(count)
    fades = numpy.eye(len(shares))[kinds[order]]
    title = (
        f"Satellite link with HARQ at a mean SNR of {request.mean_snr_db:g} dB, fades of {format_delay(coherence_ns)}"
    )
    text = f"averaged, and drawn for each {format_delay(coherence_ns)}; "
    return _stepped_channel(request, base, fades, coherence_ns, title, text)


def read_success_table(path: Path) -> SuccessTable:
    """A CSV file with the columns snr_db, 1, 2, ...: the probability that an attempt succeeds if those before failed.

    Raises OwltError.
    """
    rows = table_rows(path)
    try:
        header, *values = rows
        numbers = numpy.array([[float(cell) for cell in row] for row in values])
        attempts = numbers.shape[1] - 1
        well_formed = [cell.strip() for cell in header] == ["snr_db", *map(str, range(1, attempts + 1))]
        rising = bool((numpy.diff(numbers[:, 0]) > 0).all())
        shares = bool(((numbers[:, 1:] >= 0) & (numbers[:, 1:] <= 1)).all())
    except (ValueError, IndexError):
        well_formed = rising = shares = False
    if not (well_formed and rising and shares and 1 <= attempts <= MOST_ATTEMPTS):
        expected = (
            f"a header snr_db,1,... with at most {MOST_ATTEMPTS} attempts, and rows with increasing SNR and "
            "probabilities from 0 to 1"
        )
        raise OwltError(Mistake.of(str(path), "got no table of success probabilities", expected))
    return SuccessTable(numbers[:, 0], numbers[:, 1:])


def default_table(attempts: int) -> SuccessTable:
    """The default probabilities. Raises OwltError for a number of attempts that is not possible."""
    if not 1 <= attempts <= MOST_ATTEMPTS:
        expected = f"1 to {MOST_ATTEMPTS}, as a delay table of netem reaches no further"
        raise OwltError(Mistake.of("--attempts", f"got {attempts}", expected))
    return coded_table(attempts)


def _links(request: HarqRequest, base: ChannelProfile | None) -> dict[str, dict[str, Any]]:
    """The links of the base with the values given on the command line, and the HARQ of the forward link."""
    before = {name: base.channel.link(name).to_wire() if base else {} for name in DIRECTIONS}
    links = {name: before[name] | request.links[name] for name in DIRECTIONS}
    links["forward"] |= {
        "error_effect": "drop",
        "jitter": {"amount": format_delay(request.again_ns), "distribution": "table", "table": [0]},
        "keeps_order": request.in_order,
    }
    return links


def _base_links(request: HarqRequest, base: ChannelProfile | None, moments: Values) -> list[tuple[LinkSpec, LinkSpec]]:
    """The links without HARQ at each moment. Raises ProfileError, OwltError if the base changes something else."""
    try:
        constant = ChannelSpec.from_wire(_links(request, base))
    except InvalidChannel as problem:
        raise ProfileError(*problem.mistakes) from problem
    timeline = base.channel.timeline if base else None
    states = [(0, constant.forward, constant.reverse)]
    if base is not None and timeline is not None:
        states += [(step.at_ns, step.forward, step.reverse) for step in timeline.steps]
        _require_delays_only(base)
    starts = [at_ns for at_ns, _, _ in states]
    period_ns = timeline.loop_after_ns if timeline else None
    times_ns = [round(float(at) * 1e9) for at in moments]
    return [states[bisect_right(starts, at % period_ns if period_ns else at) - 1][1:] for at in times_ns]


def _require_steps(request: HarqRequest, steps: int) -> None:
    """Raise OwltError if the channel is shorter than a step."""
    if not steps:
        raise OwltError(Mistake.of("--hours", f"got {request.seconds / 3600:g}", "at least a step, --step"))


def _require_delays_only(base: ChannelProfile) -> None:
    """Raise OwltError if the timeline of a channel changes more than delays and outages."""
    for direction in DIRECTIONS:
        kinds = {state[direction].model_copy(update={"delay_ns": 0, "up": True}) for state in base.channel.states}
        if len(kinds) > 1:
            problem = f"the timeline of {base.name} changes more than delay and up"
            raise OwltError(Mistake.of("--base", problem, "a channel such as those of owlt channel leo"))


def _source(request: HarqRequest, base: ChannelProfile | None, success: float, shares: str) -> str:
    return (
        f"Computed by owlt channel land-mobile: three-state model of Perez-Fontan (2001), S band, intermediate tree "
        f"shadow, 40 degrees (compared with another publication of the model, docs/channels.md), "
        f"at {request.speed_m_per_s:g} m/s, seed {request.seed}; type II HARQ with up to "
        f"{request.table.attempts} attempts, the first of {format_delay(request.first_ns)}, the others of "
        f"{format_delay(request.again_ns)}; {shares}{success:.2%} of the packets arrive"
        f"{f'; delays of {base.name}' if base else ''}."
    )


def _cells(request: HarqRequest, links: tuple[LinkSpec, LinkSpec], shares: Values) -> tuple[str, ...]:
    forward_us, reverse_us, up = _base_cells(request, *links)
    table = " ".join(map(str, delay_table(shares)))
    return forward_us, reverse_us, table, _error_rate_text(_error_rate(shares, links[0])), up


def _base_cells(request: HarqRequest, forward: LinkSpec, reverse: LinkSpec) -> tuple[str, str, str]:
    up = "1" if forward.up and reverse.up else "0"
    return _us(forward.delay_ns + request.first_ns), _us(reverse.delay_ns), up


def _error_rate(shares: Values, link: LinkSpec) -> float:
    """The share of the packets that HARQ or the link loses."""
    return float(1 - (1 - shares[-1]) * (1 - link.packet_error_rate))


def _error_rate_text(probability: float) -> str:
    """Six significant digits; 0 below what netem can draw."""
    return f"{probability:.6g}" if probability >= SMALLEST_ERROR_RATE else "0"


def _us(delay_ns: int) -> str:
    return f"{delay_ns / 1000:.3f}"


def _changes(moments: Values, rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The rows with the cells that differ from those before."""
    written: list[tuple[str, ...]] = []
    before: tuple[str, ...] = ("",) * len(rows[0]) if rows else ()
    for at, row in zip(moments, rows, strict=True):
        now = tuple("" if cell == last else cell for cell, last in zip(row, before, strict=True))
        before = row
        if any(now):
            written.append((seconds_text(float(at)), *now))
    return written

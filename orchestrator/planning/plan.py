"""The plan of a sweep: every run with its seed, in its order, in batches that share a guest.

A plan is a pure function of the sweep and its implementations, so the same sweep gives the same plan on every machine;
that is what makes resuming a look-up and a repeated sweep comparable run by run.

Runs are performed repetition by repetition, shuffled within each: a sweep that ends early has almost the same number of
runs of each permutation. Runs that can share the start of their programs follow each other: those of the first
repetition that differ only in the packet error rate; then, after the first repetition of all, SHARING repetitions at a
time. The place of a run among the others is drawn from its name, so runs that are added to a sweep do not move those
that were there. Only one run of each implementation comes first, the one that ends soonest, so that what the build or
its parameters cannot do is found at once.

`owlt.results.plan` has the model of a plan; writing it belongs to `planning.stored_plan`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, PlainSerializer, ValidationError

from owlt.agents.contract.implementation import Implementation
from owlt.emulator.channel.aimed_fault import Fault, check_faults
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.axes import AXES, OF_THE_LINK, base_name
from owlt.inputs.mistake import Invalid, Mistake, Place, ResultsConflict, got, not_one_of
from owlt.inputs.quantities import format_delay, format_rate_or_unlimited
from owlt.inputs.sweep import MOST_REPETITIONS, OF_CHANNELS, Advertised, Sweep
from owlt.inputs.validation import first_error
from owlt.orchestrator.errors import SweepMistake
from owlt.orchestrator.planning.grid import baseline_of, permutations, require_points_of_assertions
from owlt.orchestrator.planning.run_channel import (
    channel_at,
    channel_key,
    longest_rtt_s,
    seeded,
    slowest_rate_bps,
    time_to_change_s,
)
from owlt.orchestrator.planning.seeds import certification_seed, guest_seed, link_seed, order_seed, run_seed
from owlt.results.files import PLAN_NAME
from owlt.results.permutation import Permutation
from owlt.results.plain_files import read_json
from owlt.results.plan import Batch as Batch
from owlt.results.plan import PlanChange as PlanChange
from owlt.results.plan import PlanFile
from owlt.results.plan import Run as Run
from owlt.results.upgrades import MOST_PLAN_BYTES, PLAN_STEPS, NewerVersion, upgraded


class RunPlace(NamedTuple):
    """What is performed at one place of the order: a repetition of a point, or the baseline again."""

    permutation: Permutation
    repetition: int
    """From 1; the runs of the baseline are counted on their own."""
    is_baseline: bool = False


SHARING = 9
"""The number of repetitions that share the start of their programs, and follow each other for this."""


def first_sharing(repetition: int) -> int:
    """The first of the repetitions that may share their start with this one (`run.branching`). The first repetition
    shares it with no other, so that every cell soon has a run."""
    return repetition - (repetition - 2) % SHARING if repetition > 1 else 1


def run_order(
    permutations: Sequence[Permutation], repetitions: int, seed: int, sharing: Collection[str] = ()
) -> list[RunPlace]:
    """Every permutation with every repetition number (from 1); `sharing` are the implementations whose runs may share
    their start."""
    runs = [
        RunPlace(permutation, repetition) for permutation in permutations for repetition in range(1, repetitions + 1)
    ]
    first = set(first_permutations(permutations))

    def place(run: RunPlace) -> tuple[int, bool, int, str, int]:
        shares = run.permutation.implementation in sharing
        turn = first_sharing(run.repetition) if shares else run.repetition
        drawn = order_seed(seed, (run.permutation.without_errors if shares else run.permutation).slug, turn)
        return turn, turn > 1 or run.permutation not in first, drawn, run.permutation.slug, run.repetition

    return sorted(runs, key=place)


def _deterministic(sweep: Sweep, implementations: Mapping[str, Implementation]) -> set[str]:
    """The names of the implementations whose runs may share their start."""
    if sweep.clock != "exact":
        return set()
    return {name for name, each in implementations.items() if each.is_deterministic}


def first_permutations(permutations: Iterable[Permutation]) -> list[Permutation]:
    """The permutation of each implementation, with its parameters, that is performed first: the smallest transfer with
    the shortest delay and the fewest errors."""
    first: dict[str, Permutation] = {}
    for point in sorted(permutations, key=lambda point: (point.load, point.delay_ns, point.packet_error_rate)):
        first.setdefault(point.implementation, point)
    return list(first.values())


def first_batches(plan: Plan) -> list[Batch]:
    """The batches with the first run of each implementation."""
    first = set(first_permutations(run.permutation for run in plan.runs))
    return [
        batch
        for batch in plan.batches
        if any(run.permutation in first and run.repetition == 1 and not run.is_baseline for run in batch.runs)
    ]


def with_baseline(order: Sequence[RunPlace], baseline: Permutation, every: int) -> Iterator[RunPlace]:
    """The order with a run of the baseline before the first run, after each `every` runs, and after the last."""
    for place, run in enumerate(order):
        if place % every == 0:
            yield RunPlace(baseline, place // every + 1, is_baseline=True)
        yield run
    yield RunPlace(baseline, -(-len(order) // every) + 1, is_baseline=True)


IPV6_LEAST_MTU_BYTES = 1280
HOW_TO_WRITE_PLAN = "'owlt run' with the sweep file of these results rewrites it"


Channel = Annotated[
    ChannelSpec,
    BeforeValidator(lambda given: given if isinstance(given, ChannelSpec) else ChannelSpec.from_wire(given)),
    PlainSerializer(ChannelSpec.to_wire),
]
"""A channel, as it is written in every file."""


class Plan(PlanFile[Channel]):
    """The plan with its channels as values, as it is made and performed."""

    def draws(self, run: Run) -> bool:
        """Whether chance has a part in what happens to the packets of a run."""
        by_fault = any("probability" in fault for fault in run.faults)
        return by_fault or self.channels[run.channel_key].draws


def plan_sweep(
    sweep: Sweep, implementations: dict[str, Implementation], profiles: Mapping[str, ChannelSpec] = MappingProxyType({})
) -> Plan:
    """Every run of the sweep, in its order, in batches; `profiles` has its channels by their own names.

    The plan has these names instead of the files that the sweep names.

    Raises ProfileError if the sweep contradicts a profile, SweepMistake if it advertises a value for a rate or delay
    that no run has.
    """
    points = permutations(sweep, implementations, profiles)
    if unused := list(_unused_advertised(sweep, points)):
        raise SweepMistake(*unused)
    require_points_of_assertions(sweep, points)
    strangers = [(key, name) for key in OF_CHANNELS for name in getattr(sweep, key) if name not in profiles]
    if strangers:
        raise SweepMistake(*(_unknown_channel(name, profiles).at(Place(key=(key, name))) for key, name in strangers))
    if unknown := list(_unknown_commands(sweep, points, implementations)):
        raise SweepMistake(*unknown)
    keyed = _keyed_channels(sweep, points, profiles)
    for point in points:
        _require_mtu(point, keyed[_conditions(point)][1])
    names = {_conditions(point): point.channel_name for point in points}
    common = {conditions: _of_channel(sweep, name, *keyed[conditions]) for conditions, name in names.items()}
    runs = []
    sharing = _deterministic(sweep, implementations)
    places = run_order(points, sweep.most_repetitions, sweep.seed, sharing)
    if sweep.baseline and (baseline := baseline_of(sweep, points)):
        places = list(with_baseline(places, baseline, sweep.baseline["every"]))
    for order, place in enumerate(places, start=1):
        runs.append(_run(sweep, order, place, common[_conditions(place.permutation)]))
    channels = {key: channel.model_copy(update={"faults": ()}) for key, channel in keyed.values()}
    batches = _batches(sweep, runs, sharing)
    return Plan(
        sweep=sweep.model_copy(update={"channel": list(profiles)}) if sweep.channel else sweep,
        implementations={name: each.planned for name, each in implementations.items()},
        channels=dict(sorted(channels.items())),
        certifications=_certifications(sweep, channels, first_index=len(batches)) if sweep.certify else [],
        batches=batches,
    )


def with_one_seed(plan: Plan) -> Plan:
    """The plan with the same seed for all runs: they then differ in nothing but their permutations."""
    own = {"seed": run_seed(plan.sweep.seed, plan.sweep.name)}
    of_guest = own if plan.sweep.clock == "exact" else {}
    batches = [
        batch.model_copy(update={**of_guest, "runs": [run.model_copy(update=own) for run in batch.runs]})
        for batch in plan.batches
    ]
    return plan.model_copy(update={"batches": batches})


def _checked(faults: tuple[Fault, ...]) -> tuple[Fault, ...]:
    """The faults of a channel and of a sweep together. Raises SweepMistake for a name that two of them have."""
    try:
        return check_faults(faults)
    except Invalid as error:
        raise SweepMistake(*(mistake.below("faults") for mistake in error.mistakes)) from None


def _conditions(point: Permutation) -> tuple[str | float | None, ...]:
    """What the channel of a point depends on."""
    return tuple(AXES[key].of(point) for key in ("channel", *OF_THE_LINK))


def _keyed_channels(
    sweep: Sweep, points: Iterable[Permutation], profiles: Mapping[str, ChannelSpec]
) -> dict[tuple[str | float | None, ...], tuple[str, ChannelSpec]]:
    """The key and the channel of each condition, computed once: a timeline may have 100,000 steps."""
    keyed: dict[tuple[str | float | None, ...], tuple[str, ChannelSpec]] = {}
    try:
        of_sweep = faults_of(sweep.faults)
    except Invalid as error:
        raise SweepMistake(*error.mistakes) from None
    for point in points:
        if _conditions(point) not in keyed:
            channel = channel_at(point, sweep, profiles.get(point.channel_name))
            aimed = _checked((*channel.faults, *of_sweep))
            keyed[_conditions(point)] = channel_key(channel), channel.model_copy(update={"faults": aimed})
    return keyed


def _require_mtu(point: Permutation, channel: ChannelSpec) -> None:
    """Raise SweepMistake for IPv6 on a path whose MTU is below the least (RFC 8200, section 5)."""
    mtu_bytes = min(link.mtu_bytes or IPV6_LEAST_MTU_BYTES for link in (channel.forward, channel.reverse))
    if point.ip == 6 and mtu_bytes < IPV6_LEAST_MTU_BYTES:
        problem = f"IPv6 over the channel of {point.slug}, whose MTU is {mtu_bytes} B"
        expected = f"an MTU of at least {IPV6_LEAST_MTU_BYTES} B, which IPv6 needs (RFC 8200, section 5)"
        fix = "exclude these points, or write 'ip: 4'"
        raise SweepMistake(Mistake(problem, expected, fix, Place(key=("ip",))))


def with_repetitions(plan: Plan, repetitions: int) -> Plan:
    """The plan of the same sweep with more repetitions: equal to the plan of a sweep file with this number.

    Raises SweepMistake if it has more already, or if its repetitions are adaptive and the number is another one.
    """
    sweep = plan.sweep
    where = Place(key=("repetitions",))
    if sweep.adaptive and repetitions == sweep.most_repetitions:
        return plan.model_copy(update={"history": []})
    if sweep.adaptive:
        fix = "change 'at_most' in the sweep file, and run it"
        raise SweepMistake(Mistake("are adaptive", "a fixed number of repetitions", fix, where))
    if not sweep.most_repetitions <= repetitions <= MOST_REPETITIONS:
        expected = f"{sweep.most_repetitions}, the number now, to {MOST_REPETITIONS}"
        raise SweepMistake(Mistake(got(repetitions), expected, where=where))
    sweep = sweep.model_copy(update={"repetitions": repetitions})
    examples = {run.permutation: run for run in plan.runs}
    sharing = _deterministic(sweep, plan.implementations)
    places = run_order(list(examples), repetitions, sweep.seed, sharing)
    if sweep.baseline and (baseline := baseline_of(sweep, list(examples))):
        places = list(with_baseline(places, baseline, sweep.baseline["every"]))
    channels = {run.channel_key: plan.channels[run.channel_key] for run in plan.runs}
    common = {
        conditions: _of_channel(
            sweep, run.permutation.channel_name, run.channel_key, _with_faults(channels[run.channel_key], run)
        )
        for conditions, run in {_conditions(point): run for point, run in examples.items()}.items()
    }
    runs = [
        _run(sweep, order, place, common[_conditions(place.permutation)]) for order, place in enumerate(places, start=1)
    ]
    batches = _batches(sweep, runs, sharing)
    certifications = _certifications(sweep, channels, first_index=len(batches)) if sweep.certify else []
    return plan.model_copy(update={"sweep": sweep, "batches": batches, "certifications": certifications, "history": []})


def _batches(sweep: Sweep, runs: list[Run], sharing: Collection[str]) -> list[Batch]:
    """The runs in batches; on the exact clock the repetitions that may share their start, and every other run alone.
    Each has a guest of its own there, so that it is a function of its own seed; for a deterministic implementation only
    the channel depends on that, and all runs that start alike have the same guest."""
    if sweep.clock == "exact":

        def guest_of(run: Run) -> tuple[int, str, int]:
            """What runs of one batch have in common: the seed of their guests, and the cell and the first of the
            repetitions."""
            point = run.permutation
            if point.implementation not in sharing or run.is_baseline:
                return run.seed, point.slug, run.repetition
            return guest_seed(sweep.seed, point.without_errors.slug), point.slug, first_sharing(run.repetition)

        parts = [(seed, list(part)) for (seed, _, _), part in groupby(runs, key=guest_of)]
        return [Batch(index=index, seed=seed, runs=part) for index, (seed, part) in enumerate(parts)]
    size = sweep.runs_per_guest
    return [
        Batch(index=index, seed=guest_seed(sweep.seed, index), runs=runs[start : start + size])
        for index, start in enumerate(range(0, len(runs), size))
    ]


def _certifications(sweep: Sweep, channels: dict[str, ChannelSpec], first_index: int) -> list[Batch]:
    """Each channel once, in a guest of its own. A bypass specifies nothing that could be measured."""
    keys = sorted(key for key, channel in channels.items() if not channel.bypass)
    return [
        Batch(index=index, seed=certification_seed(sweep.seed, key), certify=[key])
        for index, key in enumerate(keys, start=first_index)
    ]


def _of_channel(sweep: Sweep, name: str, key: str, channel: ChannelSpec) -> dict[str, Any]:
    """What all runs over a channel have in common."""
    return {
        "channel_key": key,
        "rtt_s": longest_rtt_s(channel),
        "slowest_rate_bps": slowest_rate_bps(channel),
        "channel_changes_s": max(time_to_change_s(channel), _disturbed_s(sweep, name)),
        "faults": channel.to_wire().get("faults", []),
    }


def _run(sweep: Sweep, order: int, place: RunPlace, of_channel: Mapping[str, Any]) -> Run:
    run_id = f"{place.permutation.slug}_{'baseline' if place.is_baseline else 'r'}{place.repetition}"
    return Run(
        run_id=run_id,
        permutation=place.permutation,
        repetition=place.repetition,
        is_baseline=place.is_baseline,
        order=order,
        seed=run_seed(sweep.seed, run_id),
        **of_channel,
    )


def _unknown_channel(name: str, profiles: Mapping[str, ChannelSpec]) -> Mistake:
    return not_one_of(name, profiles) if profiles else Mistake(got(name), "a channel that the sweep has under channel")


def _disturbed_s(sweep: Sweep, channel: str) -> float:
    """The time from the launch until a host has restarted and the sides have got their commands; 0 without them."""
    restarted = [each.at + each.after for each in [sweep.restarts.get(channel)] if each]
    commanded = [each.at for each in sweep.commands.get(channel, [])]
    return max(restarted + commanded, default=0) / 1e9


def _unknown_commands(
    sweep: Sweep, points: Sequence[Permutation], implementations: Mapping[str, Implementation]
) -> Iterator[Mistake]:
    """A mistake for each command that the profiles of some implementations do not have, which would get it."""
    for channel, commands in sweep.commands.items():
        performed = dict.fromkeys(point.implementation for point in points if point.channel_name == channel)
        for number, given in enumerate(commands):
            sides = {name: implementations[name].of(given.side).side(given.side) for name in performed}
            if without := [name for name, side in sides.items() if getattr(side, given.command) is None]:
                problem = f"the profile of {', '.join(without)} has no command {given.command} for the {given.side}"
                fix = f"leave out {'this implementation' if len(without) == 1 else 'these implementations'}, or add it"
                where = Place(key=("commands", channel, number, "command"))
                yield Mistake(problem, "implementations with this command", fix, where)


def _unused_advertised(sweep: Sweep, points: Sequence[Permutation]) -> Iterator[Mistake]:
    """A mistake for each rate and delay that `advertised` has a value for and that no run has."""
    rates = dict.fromkeys(format_rate_or_unlimited(point.rate_bps) for point in points)
    delays = dict.fromkeys(format_delay(point.delay_ns) for point in points)
    for name, advertised in sweep.advertised.items():
        for axis, values, here in (("rate", advertised.rate, rates), ("delay", advertised.delay, delays)):
            for stranger in (key for key in values if key and key not in here):
                where = Place(key=("advertised", name, axis))
                yield Mistake(got(stranger), f"a {axis} of this sweep: {', '.join(here)}", where=where)


def channel_of(run: Run, channel: ChannelSpec, netem_takes_seeds: bool) -> ChannelSpec:
    """The channel of a run: the plan's, with a seed for each direction that has random effects."""
    return seeded(_with_faults(channel, run), partial(link_seed, run.seed), netem_takes_seeds)


def _with_faults(channel: ChannelSpec, run: Run) -> ChannelSpec:
    return channel.model_copy(update={"faults": faults_of(run.faults)})


def faults_of(written: Sequence[Mapping[str, Any]]) -> tuple[Fault, ...]:
    """Written faults as values. Raises InvalidChannel with a mistake for every key that is wrong."""
    return ChannelSpec.from_wire({"faults": list(written)}).faults if written else ()


def read_plan_values(results: Path) -> dict[str, Any]:
    """The values of the plan in a results directory, upgraded if an older version of owlt wrote it.

    Raises FileNotFoundError if there is none, ResultsConflict if it cannot be read or a newer version wrote it.
    """
    path = results / PLAN_NAME
    try:
        values = upgraded(read_json(path, MOST_PLAN_BYTES), PLAN_STEPS)
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise ResultsConflict(
            Mistake(f"cannot be read ({problem.strerror})", fix=HOW_TO_WRITE_PLAN, where=Place(str(path)))
        ) from problem
    except NewerVersion as newer:
        raise ResultsConflict(
            Mistake(f"a newer version of owlt wrote it ({newer})", fix="use that version", where=Place(str(path)))
        ) from newer
    except ValueError as problem:
        raise ResultsConflict(
            Mistake(f"damaged ({problem})", fix=f"remove it, and {HOW_TO_WRITE_PLAN}", where=Place(str(path)))
        ) from problem
    return values if isinstance(values, dict) else {}


def read_plan(results: Path) -> Plan:
    """The plan in a results directory. Raises as `read_plan_values` does, and ResultsConflict if it is no plan."""
    try:
        return Plan.model_validate(read_plan_values(results))
    except ValidationError as problem:
        raise ResultsConflict(
            Mistake(
                f"damaged ({': '.join(filter(None, first_error(problem)))})",
                fix=f"remove it, and {HOW_TO_WRITE_PLAN}",
                where=Place(str(results / PLAN_NAME)),
            )
        ) from problem


@dataclass(frozen=True)
class AdvertisedValues:
    """Rate (None: unlimited), one-way delay and round trip as they are given to an implementation."""

    rate_bps: float | None
    one_way_delay_s: float
    rtt_s: float


def advertised_values(run: Run, sweep: Sweep) -> AdvertisedValues:
    """The values given to the run's implementation. An advertised delay applies in both directions."""
    point = run.permutation
    advertised = sweep.advertised.get(base_name(point.implementation), Advertised())
    rates = {"": point.rate_bps} | advertised.rate
    rate_bps = rates.get(format_rate_or_unlimited(point.rate_bps), rates[""])
    delay_ns = advertised.delay.get(format_delay(point.delay_ns), advertised.delay.get(""))
    if delay_ns is None:
        return AdvertisedValues(rate_bps, point.delay_ns / 1e9, run.rtt_s)
    return AdvertisedValues(rate_bps, delay_ns / 1e9, 2 * delay_ns / 1e9)

"""Which runs share their beginning."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from owlt.emulator.channel.aimed_fault import Action, Aim, Fault, Range
from owlt.emulator.channel.spec import ChannelSpec
from owlt.inputs.sweep import Advertised, Restart
from owlt.orchestrator.checks.fault_cases import PLAIN_CHANNEL, plan_of_cases
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.kernel.kernel import Kernel
from owlt.orchestrator.planning.plan import Batch, Plan, Run, faults_of
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.orchestrator.run.branching import Sharing
from owlt.orchestrator.run.launching import Beginnings, SharedBeginnings, Templates
from tests.unit.orchestrator.small_sweep import small_plan

DROP, LATE, TWICE = Action(drop=True), Action(delay_ns=5 * 10**9), Action(duplicate=1)
AFTER_ANOTHER = Action(hold_until_packet=Aim(direction="forward", packet="cfdp.eof"))


def fault(direction: Any = "forward", number: int = 1, action: Action = DROP, **more: Any) -> Fault:
    return Fault(direction=direction, occurrences=(Range(number, number),), action=action, **more)


def planned(*cases: list[Fault], channel: ChannelSpec = PLAIN_CHANNEL) -> Plan:
    named = {f"case-{number}": each for number, each in enumerate(cases)}
    return plan_of_cases("prove-cfdp", find_implementation("cfdp"), channel, 2000, named)


def beginning(each: Fault) -> Run | None:
    plan = planned([each])
    return Sharing(plan).beginning_of(plan.runs[0])


def test_runs_that_differ_only_in_the_packets_that_are_hit_share_their_beginning() -> None:
    plan = planned([fault()], [fault("reverse", 3)], [fault(), fault("reverse", 2, LATE)], [fault(action=TWICE)])

    beginnings = list(map(Sharing(plan).beginning_of, plan.runs))

    assert beginnings[0] is not None
    assert beginnings == [beginnings[0]] * 4


def test_the_faults_of_the_beginning_count_the_packets_of_both_directions() -> None:
    shared = beginning(fault())

    assert shared is not None
    assert [each.direction for each in faults_of(shared.faults)] == ["forward", "reverse"]


def test_runs_over_other_channels_have_another_beginning() -> None:
    slow = PLAIN_CHANNEL.model_copy(update={"forward": PLAIN_CHANNEL.forward.model_copy(update={"rate_bps": 10_000})})
    plans = planned([fault()]), planned([fault()], channel=slow)

    one, other = (Sharing(plan).beginning_of(plan.runs[0]) for plan in plans)

    assert one != other


def test_runs_with_other_seeds_have_another_beginning() -> None:
    plan = planned([fault()])
    other = plan.runs[0].model_copy(update={"seed": 1})

    assert Sharing(plan).beginning_of(plan.runs[0]) != Sharing(plan).beginning_of(other)


@pytest.mark.parametrize(
    "special",
    [
        fault(packet="cfdp.eof"),
        fault(from_ns=10**9),
        fault(probability=0.5),
        fault(action=AFTER_ANOTHER),
    ],
)
def test_a_run_does_not_share_its_beginning_if_a_fault_depends_on_more_than_the_number_of_the_packet(
    special: Fault,
) -> None:
    assert beginning(special) is None


@pytest.mark.parametrize(
    "other",
    [
        {"clock": "skip"},
        {"rig": "local"},
        {"restarts": {"case-0": Restart.model_validate({"side": "sender", "at": "1 s", "after": "1 s"})}},
        {"commands": {"case-0": []}},
    ],
)
def test_runs_on_another_clock_or_rig_or_with_a_restart_are_performed_whole(other: dict[str, Any]) -> None:
    plan = planned([fault()])
    special = plan.model_copy(update={"sweep": plan.sweep.model_copy(update=other)})

    assert Sharing(special).beginning_of(plan.runs[0]) is None


def test_runs_of_several_plans_share_a_beginning_if_they_are_launched_alike() -> None:
    plan, again = planned([fault()]), planned([fault("reverse", 3)])
    implementation = plan.implementations["cfdp"]
    options = plan.model_copy(
        update={"implementations": {"cfdp": implementation.model_copy(update={"parameters": {"ack_limit": 9}})}}
    )
    advertised = plan.sweep.model_copy(update={"advertised": {"cfdp": Advertised.model_validate({"rate": "1 kbit/s"})}})
    templates = Templates(Kernel.model_construct(path=Path("never-booted")), "exact", cpu=0)

    for each in (plan, again, options, plan.model_copy(update={"sweep": advertised})):
        SharedBeginnings(each, templates, slots=1)

    assert sorted(templates.sharing.values()) == [1, 1, 2]
    templates.close()


def test_runs_share_a_beginning_only_if_their_guests_have_one_seed() -> None:
    baseline = {"every": 3, "implementations": "cfdp", "packet_error_rate": 0}
    templates = Templates(Kernel.model_construct(path=Path("never-booted")), "exact", cpu=0)

    SharedBeginnings(small_plan("exact", repetitions=3, baseline=baseline), templates, slots=1)

    of_baselines = 4 * [1]
    assert sorted(templates.sharing.values()) == [*of_baselines, 3, 6]
    templates.close()


@pytest.mark.parametrize(("slots", "expected"), [(1, [2]), (9, [])])
def test_a_beginning_of_single_runs_is_performed_for_the_second_one_unless_most_runs_are_performed_meanwhile(
    slots: int, expected: list[int], tmp_path: Path
) -> None:
    templates = Templates(Kernel.model_construct(path=Path("never-booted")), "exact", cpu=0)
    plan = small_plan("exact", packet_error_rate=[0, 0.1, 0.2, 0.3], repetitions=1)
    shared = SharedBeginnings(plan, templates, slots)
    performed: list[int] = []

    for number, batch in enumerate(plan.batches[:2], start=1):

        def write(_of: Batch, _directory: Path, number: int = number) -> None:
            performed.append(number)
            raise HostError("this test has no guests")

        assert shared.copy(batch, 768, 0, tmp_path, write) is None

    assert performed == expected
    templates.close()


class Guest:
    """Stands for the guest of a beginning."""

    def __init__(self, has_copies: bool = False) -> None:
        self.has_ended = False
        self.has_copies = has_copies

    def close(self) -> None:
        self.has_ended = True


def begun(beginnings: Beginnings, name: str, most: int = 9, has_copies: bool = False) -> Guest:
    """The guest of a beginning that nobody has needed before."""
    guest = Guest(has_copies)
    beginnings.get(name, lambda: guest, most)  # type: ignore[arg-type,return-value]
    return guest


def must_not_begin() -> Any:
    raise AssertionError("it was performed already")


def test_a_beginning_is_performed_once_and_whoever_needs_it_meanwhile_does_not_wait() -> None:
    beginnings, begins, may_end, guest = Beginnings(), threading.Event(), threading.Event(), Guest()

    def begin() -> Any:
        begins.set()
        may_end.wait(60)
        return guest

    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(beginnings.get, "shared", begin, 1)
        begins.wait(60)
        meanwhile = beginnings.get("shared", must_not_begin, 1)
        may_end.set()

    assert meanwhile is None
    assert first.result() is guest
    assert beginnings.get("shared", must_not_begin, 1) is guest


def test_a_beginning_may_be_performed_when_it_is_wanted_again() -> None:
    beginnings, guest = Beginnings(), Guest()

    first = beginnings.get("shared", must_not_begin, 1, at_once=False)
    second = beginnings.get("shared", lambda: guest, 1, at_once=False)  # type: ignore[arg-type,return-value]

    assert (first, second) == (None, guest)


def test_a_beginning_that_failed_is_not_performed_again() -> None:
    def fail() -> Any:
        raise HostError("the first packet left the queue before the run branched")

    beginnings = Beginnings()

    assert beginnings.get("fast", fail, 1) is None
    assert beginnings.get("fast", must_not_begin, 1) is None


def test_a_plan_ends_the_guests_of_beginnings_that_it_does_not_use() -> None:
    templates = Templates(Kernel.model_construct(path=Path("never-booted")), "exact", cpu=0)
    used, unused = begun(templates.beginnings, "used"), begun(templates.beginnings, "unused")

    templates.begin_plan(Counter(["used", "used"]))

    assert templates.beginnings.get("used", must_not_begin, 9) is used
    assert (used.has_ended, unused.has_ended) == (False, True)
    templates.close()


def test_beginnings_that_were_not_used_for_longest_end_first_and_none_in_which_a_run_continues() -> None:
    beginnings = Beginnings()
    busy, oldest, later = (
        begun(beginnings, "busy", has_copies=True),
        begun(beginnings, "oldest"),
        begun(beginnings, "later"),
    )
    beginnings.get("oldest", must_not_begin, most=2)

    latest = begun(beginnings, "latest", most=2)

    assert [each.has_ended for each in (busy, oldest, later, latest)] == [False, False, True, False]


def beginnings_of(plan: Plan, **of_implementation: object) -> dict[tuple[float, int], Run | None]:
    """The beginnings of the runs of a plan of one implementation, by packet error rate and repetition."""
    implementations = {name: each.model_copy(update=of_implementation) for name, each in plan.implementations.items()}
    sharing = Sharing(plan.model_copy(update={"implementations": implementations}))
    return {(run.permutation.packet_error_rate, run.repetition): sharing.beginning_of(run) for run in plan.runs}


def test_repetitions_of_a_deterministic_implementation_share_their_beginning_nine_at_a_time() -> None:
    beginnings = beginnings_of(small_plan("exact", packet_error_rate=0.1, repetitions=12))
    first, second, third, tenth, eleventh = (beginnings[0.1, number] for number in (1, 2, 3, 10, 11))

    assert second is not None
    assert [third, tenth] == [second, second]
    assert None not in (first, eleventh)
    assert second not in (first, eleventh)


def test_repetitions_of_other_implementations_share_their_beginning_with_none() -> None:
    beginnings = beginnings_of(small_plan("exact", packet_error_rate=0.1, repetitions=3), deterministic=False)

    assert beginnings[0.1, 2] != beginnings[0.1, 3]


def test_runs_of_a_deterministic_implementation_share_their_beginning_whatever_the_packet_error_rate() -> None:
    plan = small_plan("exact")
    beginnings = beginnings_of(plan)

    assert beginnings[0, 1] is not None
    assert beginnings[0, 1] == beginnings[0.1, 1] == beginnings[0.2, 1]
    assert beginnings[0, 2] == beginnings[0.1, 2] == beginnings[0.2, 2]


def test_the_channel_of_a_beginning_is_that_of_its_runs_without_packet_errors() -> None:
    plan = small_plan("exact", packet_error_rate=[0.1, 0.2])
    shared = beginnings_of(plan)[0.1, 1]
    errors = {channel.forward.packet_error_rate for channel in plan.channels.values()}

    assert shared is not None
    channel = Sharing(plan).channels[shared.channel_key]
    assert (errors, channel.forward.packet_error_rate) == ({0.1, 0.2}, 0)
    assert channel.forward.delay_ns == 1_000_000


def test_runs_with_other_packet_error_rates_do_not_share_their_beginning_if_a_program_is_given_the_rate() -> None:
    plan = small_plan("exact")
    sender = plan.implementations["cfdp"].sender
    given = sender.model_copy(update={"command": [*sender.command, "{bit_error_rate}"]})
    beginnings = beginnings_of(plan, sender=given)

    assert len({each and each.permutation.packet_error_rate for each in beginnings.values()}) == 3


def test_a_beginning_that_repetitions_share_has_no_faults() -> None:
    assert [each and each.faults for each in beginnings_of(small_plan("exact")).values()] == 6 * [[]]


def test_all_cases_of_a_plan_have_one_seed() -> None:
    plan = planned([], [fault()], [fault("reverse", 3)])

    assert len({run.seed for run in plan.runs} | {batch.seed for batch in plan.batches}) == 1

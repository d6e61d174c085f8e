"""Which changes are tried, where the remaining losses are aimed at, and what the costs of changes show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from owlt.captures.inspection.causes import Cause
from owlt.captures.inspection.critical_path import PROMPT_NS, Part
from owlt.captures.inspection.inspection import Case
from owlt.captures.protocols.ladder import Rung
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.inputs.sweep import Advertised
from owlt.orchestrator.checks.changed_runs import Aim, Effect, Skip, channel_with, effect_in, expected_aim, plan_of
from owlt.orchestrator.checks.costs import (
    Counterfactual,
    conclusive,
    first_changes,
    greedy_order,
    interactions,
    is_indirect,
    is_larger_than_needed,
    is_part_of_larger,
    least_of,
    needed_of,
    with_needed,
    without_search,
    without_useless,
)
from owlt.orchestrator.checks.counterfactuals import (
    MOST_SETS,
    MOST_WAITS,
    Base,
    Change,
    Identity,
    LinkPacket,
    Loss,
    Times,
    changes_of,
    ended_waits,
    losses_among,
    packets_on_link,
)
from owlt.orchestrator.checks.fault_cases import Place, plan_over
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.profiles.catalogue import find_implementation
from owlt.results.waits import TimedWait
from tests.unit.captures.making import SESSION
from tests.unit.captures.test_critical_path import explained, file_of, rung

LINK = LinkSpec(delay_ns=250_000_000, rate_bps=1_000_000, queue_bytes=30_000)
CHANNEL = ChannelSpec(forward=LINK, reverse=LINK)
LAUNCHED_NS = 5_000_000_000


def base_of(rungs: list[Rung], advertised: Advertised | None = None, waits: Sequence[TimedWait] = ()) -> Base:
    """A run with these packets and waits."""
    plan = plan_over("run", find_implementation("ltp"), {"plain": CHANNEL}, 20_000)
    if advertised:
        plan = plan.model_copy(update={"sweep": plan.sweep.model_copy(update={"advertised": {"ltp": advertised}})})
    sent = packets_on_link(rungs)
    return Base(
        plan,
        plan.runs[0],
        CHANNEL,
        LAUNCHED_NS,
        sent,
        losses_among(sent, rungs),
        Times(3.0, 3.0, 3.0),
        tuple(ended_waits(rungs, case_with(waits))),
        {},
    )


def case_with(waits: Sequence[TimedWait], launched_ns: int = 0) -> Case:
    return Case(SESSION, waits=waits, launched_at_ns=launched_ns, prompt_ns=PROMPT_NS)


def with_losses() -> list[Rung]:
    """Two of four packets are lost and sent again behind a report, which is lost at first; so is the last packet."""
    report = [rung("receiver", 400, "of the receiver", lost=True), rung("receiver", 900, "of the receiver")]
    again = [rung("sender", 1200, "data again", data=1000), rung("sender", 1210, "data again", data=2000)]
    return [*file_of(4, lost=[1, 2]), *report, *again, rung("sender", 1300, "of the sender", lost=True)]


def texts(base: Base, causes: list[Cause]) -> list[str]:
    return [change.text for change in changes_of(base, causes) if change.kind == "losses"]


def cause(*lost: int) -> Cause:
    return Cause("waiting", "receiver", "recovery", "", 1, 1, (), lost)


def test_an_icmp_error_has_no_number_on_the_link() -> None:
    error = rung("receiver", 0.5, "of the receiver")
    error = replace(error, message=replace(error.message, name="ICMP port unreachable"))

    assert list(packets_on_link([error, rung("receiver", 1, "of the receiver", lost=True)]).values()) == [
        LinkPacket(1, Identity("reverse", "of the receiver", 1))
    ]


def test_losses_are_numbered_in_each_direction_where_they_enter_the_link() -> None:
    places = [loss.place for loss in base_of(with_losses()).losses]

    assert places == [Place("forward", 2), Place("forward", 3), Place("reverse", 1), Place("forward", 7)]


def test_a_packet_that_a_queue_drops_is_not_numbered() -> None:
    dropped = rung("sender", 20, "new data", lost=True, data=9000)
    dropped = Rung(dropped.message, dropped.left_ns, (), False, "new data", "queue")
    rungs = sorted([*with_losses(), dropped], key=lambda each: each.left_ns)

    assert [loss.place.number for loss in base_of(rungs).losses] == [2, 3, 1, 7]


def test_data_of_a_removed_loss_are_not_sent_again_so_later_losses_have_lower_numbers() -> None:
    base = base_of(with_losses())
    first, second, report, last = base.losses

    places = expected_aim(base, (Change("losses", "", (first,)),)).places

    assert places == {second: second.place, report: report.place, last: Place("forward", 6)}


def test_a_second_copy_of_removed_data_that_was_lost_is_not_aimed_at() -> None:
    again = rung("sender", 1200, "data again", data=1000, lost=True)
    base = base_of([*file_of(4, lost=[1]), again, rung("sender", 2200, "data again", data=1000)])

    assert expected_aim(base, (Change("losses", "", base.losses[:1]),)).places == {}


def test_of_a_cause_with_few_losses_each_is_removed_alone_then_all_and_all_others() -> None:
    assert texts(base_of(with_losses()), [cause(1, 2)]) == [
        "without the first loss (forward #2, new data)",
        "without the second loss (forward #3, new data)",
        "without 2 of 4 losses (forward #2, new data; forward #3, new data)",
        "without 2 of 4 losses (reverse #1, of the receiver; forward #7, of the sender)",
        "without all 4 losses (new data, of the receiver, of the sender)",
    ]


def test_of_a_cause_with_many_losses_none_is_removed_alone() -> None:
    base = base_of(file_of(20, lost=range(5, 15)))

    assert texts(base, [cause(*range(5, 15))]) == ["without all 10 losses (new data)"]


def test_the_delays_and_rates_of_the_channel_are_changed_one_by_one() -> None:
    changes = [change for change in changes_of(base_of(file_of(4)), []) if change.kind != "losses"]

    assert [change.text for change in changes] == [
        "forward delay halved from 250 ms to 125 ms",
        "reverse delay halved from 250 ms to 125 ms",
        "forward rate unlimited instead of 1 Mbit/s",
        "reverse rate unlimited instead of 1 Mbit/s",
    ]


def test_an_advertised_rate_that_is_not_the_channels_is_a_change() -> None:
    base = base_of(file_of(4), Advertised.model_validate({"rate": "500 kbit/s"}))

    assert [change.text for change in changes_of(base, []) if change.kind == "advertised"] == [
        "the channel's own values advertised: 1 Mbit/s instead of 500 kbit/s"
    ]


def test_a_link_without_a_rate_is_one_that_the_emulator_accepts() -> None:
    unlimited = [change for change in changes_of(base_of(file_of(4)), []) if change.kind == "rate"]
    channel = channel_with(base_of(file_of(4)), (unlimited[0],), Aim({}))

    assert ChannelSpec.from_wire(channel.to_wire()) == channel
    assert (channel.forward.rate_bps, channel.reverse) == (None, LINK)


def test_more_losses_than_can_be_aimed_are_refused() -> None:
    base = base_of(file_of(80, lost=range(65)))

    with pytest.raises(OwltError, match="65 losses in one direction, expected at most 64"):
        channel_with(base, (), expected_aim(base, ()))


def test_every_run_of_the_plan_has_the_seed_and_a_name_as_long_as_that_of_the_recorded_one() -> None:
    base = base_of(with_losses())
    plan = plan_of(base, [((), expected_aim(base, ()))] * 3)

    assert {run.seed for run in plan.runs} == {batch.seed for batch in plan.batches} == {base.run.seed}
    assert {len(run.run_id) for run in plan.runs} == {len(base.run.run_id)}
    assert len({run.run_id for run in plan.runs}) == 3


def test_the_remaining_losses_are_faults_of_the_run() -> None:
    base = base_of(with_losses())
    (run,) = plan_of(base, [((), expected_aim(base, ()))]).runs

    assert [(fault["direction"], fault["occurrence"]) for fault in run.faults] == [
        ("forward", [2, 3, 7]),
        ("reverse", 1),
    ]


def test_a_wait_for_a_timer_ends_at_once_in_a_window_around_its_beginning() -> None:
    wait = TimedWait("receiver", "program", "poll", LAUNCHED_NS + 7_000_000, 1_000_000_000)
    part = Part(wait.begin_ns, wait.end_ns, "timer", "receiver", 2, timer=wait)
    base = base_of(with_losses())
    (change,) = [
        each
        for each in changes_of(base, [Cause("timer", "receiver", "closing", "Finished", 1, 1, (part, part))])
        if each.kind == "timer"
    ]
    plan = plan_of(base, [((), Aim({})), ((change,), expected_aim(base, (change,)))])

    assert change.text == "without the timer of 1 s at the receiver before Finished"
    (name,) = plan.sweep.skipped_waits
    assert name == plan.runs[1].permutation.channel_name != plan.runs[0].permutation.channel_name
    (window,) = plan.sweep.skipped_waits[name]
    assert (window.side, window.after, window.before) == ("receiver", 6_999_000, 7_001_000)


def test_of_several_waits_that_end_at_once_the_later_ones_begin_earlier() -> None:
    begins_ns = [LAUNCHED_NS + 7_000_000, LAUNCHED_NS + 1_007_000_100]
    waits = tuple(TimedWait("receiver", "program", "poll", begin_ns, 1_000_000_000) for begin_ns in begins_ns)
    base, changes = base_of(with_losses()), (Change("timer", "2 timers", waits=waits),)
    plan = plan_of(base, [(changes, expected_aim(base, changes))])

    (windows,) = plan.sweep.skipped_waits.values()
    assert [(window.after, window.before) for window in windows] == [(6_999_000, 7_001_000), (6_999_100, 7_001_100)]


def test_a_wait_is_not_aimed_at_before_a_run_with_the_other_changes_shows_that_it_still_occurs() -> None:
    wait = TimedWait("receiver", "program", "poll", LAUNCHED_NS + 7_000_000, 1_000_000_000)
    base = base_of(with_losses())
    skipped, arrived = Change("timer", "the timer", waits=(wait,)), Change("losses", "a loss", base.losses[:1])

    assert len(expected_aim(base, (skipped,)).skips) == 1
    assert expected_aim(base, (skipped, arrived)).skips == ()


def test_pauses_of_different_lengths_have_no_timer_to_skip() -> None:
    def kinds(*lengths_ns: int) -> list[str]:
        waits = [TimedWait("receiver", "program", "poll", LAUNCHED_NS, length_ns) for length_ns in lengths_ns]
        parts = tuple(Part(wait.begin_ns, wait.end_ns, "timer", "receiver", 2, timer=wait) for wait in waits)
        causes = [Cause("timer", "receiver", "closing", "Finished", len(parts), sum(lengths_ns), parts)]
        return [each.kind for each in changes_of(base_of(with_losses()), causes)]

    assert "timer" in kinds(1_000_000, 1_010_000)
    assert "timer" not in kinds(1_000_000, 1_100_000)


def test_a_program_that_polls_has_no_timer_to_skip() -> None:
    wait = TimedWait("receiver", "program", "poll", LAUNCHED_NS + 7_000_000, 1_000_000)
    part = Part(LAUNCHED_NS, wait.end_ns, "timer", "receiver", 2, timer=wait, is_polling=True)
    found = changes_of(base_of(with_losses()), [Cause("timer", "receiver", "closing", "Finished", 1, 1, (part,))])

    assert "timer" not in [each.kind for each in found]


LATE_NS = 1_000_000_000
"""The length of a wait before the last message of `waiting`."""


def waiting(begin_ns: int, length_ns: int = LATE_NS) -> tuple[list[Rung], TimedWait]:
    """A file, and a wait before a last message of the sender."""
    ended_ns = begin_ns + length_ns
    return [*file_of(4), rung("sender", ended_ns / 1e6, "of the sender")], TimedWait(
        "sender", "program", "poll", ended_ns - length_ns, length_ns
    )


SKIPPED = Change("timer", "without it", waits=(waiting(300_000_000)[1],), message="of the sender")


def with_wait() -> Base:
    rungs, wait = waiting(300_000_000)
    return base_of(rungs, waits=[wait])


def effect(rungs: list[Rung], *waits: TimedWait) -> Effect:
    """What the change had for an effect in a run with these packets and waits, launched at 0."""
    base = replace(with_wait(), launched_ns=0)
    return effect_in(base, (SKIPPED,), expected_aim(base, (SKIPPED,)), rungs, case_with(waits))


def test_a_wait_that_is_gone_was_skipped() -> None:
    assert effect(waiting(300_000_000)[0]).problem == ""


def test_a_wait_that_is_in_the_run_was_not_skipped_and_is_aimed_at_where_it_is() -> None:
    found = effect(*waiting(120_000_000))

    assert found.problem == "a wait of 1 s at the sender (poll in program) was not skipped"
    assert found.correct.skips == (Skip("sender", 120_000_000),)


def test_a_wait_of_another_length_for_the_same_timer_was_not_skipped() -> None:
    """The control is a short wait."""
    assert effect(*waiting(300_000_000, 700_000_000)).waits
    assert not effect(*waiting(300_000_000, 100_000_000)).waits


def test_a_wait_much_longer_than_the_recorded_one_is_for_another_timer() -> None:
    """The control is one half as long again."""
    assert effect(*waiting(300_000_000, 1_500_000_000)).waits
    assert not effect(*waiting(300_000_000, 2_500_000_000)).waits


def test_a_wait_before_another_message_is_not_the_one_to_skip() -> None:
    rungs, wait = waiting(300_000_000)

    assert effect([*rungs[:-1], rung("sender", wait.end_ns / 1e6, "data again")], wait).problem == ""


def test_as_many_waits_may_remain_as_were_not_to_be_skipped() -> None:
    rungs, first = waiting(300_000_000)
    second = replace(first, begin_ns=first.end_ns + 1_000_000)
    rungs.append(rung("sender", second.end_ns / 1e6, "of the sender"))
    base = base_of(rungs, waits=[first, second])

    def left(aim: Aim, *waits: TimedWait) -> tuple[TimedWait, ...]:
        return effect_in(base, (SKIPPED,), aim, rungs, case_with(waits)).waits

    skipped = Aim({}, (Skip("sender", first.begin_ns - LAUNCHED_NS),))
    both = (replace(SKIPPED, waits=(first,)), replace(SKIPPED, waits=(second,)))
    assert effect_in(base, both, skipped, rungs, case_with([second])).waits == (second,)
    assert left(skipped, second) == ()
    assert left(skipped, first, second) == (first,)
    assert left(Aim({}), second) == (second,)  # without a skip, nothing has ended at once


def test_of_equal_waits_the_one_at_the_time_of_the_skipped_one_was_not_skipped() -> None:
    rungs, first = waiting(300_000_000)
    second = replace(first, begin_ns=first.end_ns + 1_000_000)
    rungs.append(rung("sender", second.end_ns / 1e6, "of the sender"))
    base = base_of(rungs, waits=[first, second])
    change = replace(SKIPPED, waits=(second,))

    assert effect_in(base, (change,), Aim({}), rungs, case_with([first, second])).waits == (second,)


def test_few_waits_of_a_cause_are_also_skipped_one_by_one() -> None:
    def texts(count: int) -> list[str]:
        waits = [
            TimedWait("receiver", "program", "poll", LAUNCHED_NS + number * LATE_NS, LATE_NS - number * 1_000_000)
            for number in range(count)
        ]
        parts = tuple(Part(wait.begin_ns, wait.end_ns, "timer", "receiver", 2, timer=wait) for wait in waits[::-1])
        found = changes_of(base_of(file_of(4)), [Cause("timer", "receiver", "closing", "ACK", count, 1, parts)])
        assert [change.waits for change in found if len(change.waits) == 1] == [(wait,) for wait in waits[:3]][:count]
        return [change.text for change in found if change.kind == "timer"]

    assert texts(2) == [
        "without 2 timers of 1 s at the receiver before ACK",
        "without the first of 2 timers of 1 s at the receiver before ACK (it expires after 1.000 s)",
        "without the second of 2 timers of 1 s at the receiver before ACK (it expires after 1.999 s)",
    ]
    assert len(texts(3)) == 4


def test_a_change_that_saves_more_than_it_can_by_itself_is_indirect() -> None:
    path = explained([*file_of(4), rung("receiver", 282, "of the receiver", size=100)])
    halved = Change("delay", "", direction="forward")

    def indirect(change: Change, cost_s: float) -> bool:
        return is_indirect(replace(removed(cost_s), changes=(change,)), path, 500_000_000)

    assert [indirect(SKIPPED, cost_s) for cost_s in (1.49, 1.51)] == [False, True]
    assert [indirect(halved, cost_s) for cost_s in (0.24, 0.26)] == [False, True]
    assert not indirect(Change("rate", "", direction="forward"), 9)


def test_of_several_waits_that_remain_the_one_as_long_as_the_skipped_one_was_not_skipped() -> None:
    rungs, longer = waiting(300_000_000, 2 * LATE_NS)
    wait = replace(longer, begin_ns=longer.end_ns + 1_000_000, length_ns=LATE_NS)
    rungs.append(rung("sender", wait.end_ns / 1e6, "of the sender"))
    base = base_of(rungs, waits=[longer, wait])

    assert effect_in(base, (SKIPPED,), Aim({}), rungs, case_with([longer, wait])).waits == (wait,)


def test_a_loss_that_was_to_be_removed_and_is_lost_again_is_a_problem() -> None:
    """The control is a run in which its packet arrives."""
    base = base_of(with_losses())
    changes = (Change("losses", "", base.losses[:1]),)

    def problem(rungs: list[Rung]) -> str:
        return effect_in(base, changes, Aim({}), rungs, case_with(())).problem

    assert problem(file_of(4, lost=[1])) == "the packet forward #2, new data was lost in this run too"
    assert problem(file_of(4)) == ""


def test_a_packet_whose_loss_was_to_be_removed_and_that_a_queue_drops_is_a_problem() -> None:
    base = base_of(with_losses())
    dropped = rung("sender", 5, "new data", lost=True, data=1000)
    rungs = [Rung(dropped.message, dropped.left_ns, (), False, "new data", "queue"), *file_of(4)]

    assert effect_in(base, (Change("losses", "", base.losses[:1]),), Aim({}), rungs, case_with(())).losses


def test_changes_with_more_waits_than_a_run_can_skip_are_not_put_together() -> None:
    waits = [TimedWait("receiver", "program", "poll", number, 1) for number in range(MOST_WAITS + 1)]
    loss, few, many = (
        Change("losses", "L", (ONE,)),
        Change("timer", "F", waits=tuple(waits[:1])),
        Change("timer", "M", waits=tuple(waits[1:])),
    )

    assert first_changes((loss, few, many)) == [(loss, few)]
    assert first_changes((loss, many)) == [(loss, many)]


def test_of_many_causes_only_the_first_ones_have_sets_of_their_own_and_all_losses_are_the_last() -> None:
    base = base_of(file_of(64, lost=range(60)))
    sets = [change.losses for change in changes_of(base, [cause(number) for number in range(60)]) if change.losses]

    assert len(sets) == MOST_SETS + 1
    assert (sets[0], sets[-1]) == ((base.losses[0],), base.losses)


def test_what_keeps_the_file_from_being_delivered_saves_nothing() -> None:
    delivered, without = removed(0.5, ONE), removed(2.0, TWO)
    without = replace(without, times=replace(without.times, delivered_s=None), delivery_cost_s=None)

    assert conclusive([delivered, without], Times(1.0, 3.0, 3.0)) == [delivered]
    assert conclusive([delivered, without], Times(None, 3.0, 3.0)) == [delivered, without]


def removed(cost_s: float, *losses: Loss) -> Counterfactual:
    change = Change("losses", str([loss.number for loss in losses]), losses)
    return Counterfactual((change,), Times(1.0, 3.0 - cost_s, 3.0 - cost_s), cost_s, cost_s, 0, Path("run"))


ONE, TWO, THREE, FOUR = base_of(with_losses()).losses


def test_a_run_in_which_a_change_had_no_effect_saves_nothing() -> None:
    effective, other = removed(0.5, ONE), replace(removed(2.0, TWO), problem="was not skipped")

    assert conclusive([effective, other], Times(1.0, 3.0, 3.0)) == [effective]


def test_losses_whose_costs_add_up_are_taken_one_by_one_the_largest_first() -> None:
    found = [removed(0.5, ONE), removed(0.6, TWO), removed(1.1, ONE, TWO)]

    assert [change.losses for change in greedy_order(found, 0.01)] == [(TWO,), (ONE,)]


def test_a_change_that_saves_nothing_behind_others_is_useless() -> None:
    """Here the timer waits for the first loss, and the second loss has a cost of its own."""
    loss, timer, other = removed(0.5, ONE).changes[0], Change("timer", "T"), removed(0.3, TWO).changes[0]
    costs_s = {(loss,): 0.5, (loss, timer): 0.501, (loss, timer, other): 0.8}

    assert without_useless((loss, timer, other), costs_s.__getitem__, 0.01) == (loss, other)


def test_a_change_whose_cost_is_not_known_is_not_useless() -> None:
    loss, timer = removed(0.5, ONE).changes[0], Change("timer", "T")

    assert without_useless((loss, timer), {(loss,): 0.5, (loss, timer): -inf}.__getitem__, 0.01) == (loss, timer)


def test_a_set_of_losses_is_larger_than_needed_if_fewer_cost_as_much() -> None:
    pair, larger, costly = removed(0.5, ONE, TWO), removed(0.501, ONE, TWO, THREE), removed(0.9, ONE, TWO, FOUR)

    assert [is_larger_than_needed(each, [pair, larger, costly]) for each in (pair, larger, costly)] == [
        False,
        True,
        False,
    ]


def skipping(cost_s: float, *numbers: int) -> Counterfactual:
    waits = tuple(replace(SKIPPED.waits[0], begin_ns=number) for number in numbers)
    return replace(removed(cost_s), changes=(replace(SKIPPED, waits=waits),))


def test_a_set_of_waits_is_larger_than_needed_if_one_of_them_saves_as_much() -> None:
    both, one, other = skipping(0.5, 1, 2), skipping(0.499, 1), skipping(0.2, 2)

    assert [is_larger_than_needed(each, [both, one, other]) for each in (both, one, other)] == [True, False, False]


def test_one_of_several_waits_that_are_all_needed_is_a_part_of_them() -> None:
    both, one, other = skipping(0.5, 1, 2), skipping(0.3, 1), skipping(0.1, 3)

    assert [is_part_of_larger(each, [both, one, other]) for each in (both, one, other)] == [False, True, False]
    assert not is_part_of_larger(one, [skipping(0.3, 1, 2), one])


def test_losses_are_not_larger_than_fewer_of_them_with_another_change() -> None:
    pair = removed(0.5, ONE, TWO)
    mixed = replace(removed(0.5, ONE), changes=(*removed(0.5, ONE).changes, Change("advertised", "a rate")))

    assert not is_larger_than_needed(pair, [pair, mixed])


def test_waits_that_are_skipped_already_are_not_combined_again() -> None:
    found = [skipping(0.9, 1, 2, 3), *(skipping(0.3, number) for number in (1, 2, 3)), removed(0.2, ONE)]

    assert [(len(change.waits), len(change.losses)) for change in greedy_order(found, 0.01)] == [(3, 0), (0, 1)]


def test_losses_are_shown_beside_fewer_others_that_cost_as_much() -> None:
    pair, other = removed(0.5, ONE, TWO), removed(0.5, THREE)

    assert not is_larger_than_needed(pair, [pair, other])


def test_all_losses_are_needed_if_none_of_them_can_be_left_out() -> None:
    found, _ = needed_of((ONE, TWO), lambda subsets: [0.1 for _ in subsets], 0.5, 48)

    assert found == {(ONE, TWO): "all"}


def test_it_is_not_known_which_losses_are_needed_if_a_run_without_some_shows_no_cost() -> None:
    found, _ = needed_of((ONE, TWO), lambda subsets: [-inf if each == (ONE,) else 0.1 for each in subsets], 0.5, 48)

    assert found == {}


def test_a_set_of_losses_whose_subset_costs_as_much_is_not_known_of_all_together_only() -> None:
    pair, larger = removed(0.5, ONE, TWO), removed(0.5, ONE, TWO, THREE)

    assert [with_needed(each, {}, [pair, larger]).needed for each in (pair, larger)] == ["unknown", "some"]


def test_losses_that_cost_something_only_together_are_taken_together() -> None:
    found = [removed(0.001, ONE), removed(0.001, TWO), removed(0.5, ONE, TWO)]

    assert [change.losses for change in greedy_order(found, 0.01)] == [(ONE, TWO)]


def test_the_least_set_is_the_first_that_explains_what_all_losses_explain() -> None:
    found = [removed(0.8, ONE), removed(0.5, TWO), removed(0.005, THREE), removed(1.299, ONE, TWO)]
    found.append(removed(1.301, ONE, TWO, THREE, FOUR))
    least = least_of(found, greedy_order(found, 0.01))

    assert least is not None
    assert (least.losses, least.cost_s) == ((ONE, TWO), 1.299)


def test_the_sets_that_the_search_for_the_fewest_losses_tried_are_no_causes() -> None:
    asked, result, tried = removed(1.1, ONE, TWO, THREE), removed(1.1, ONE, TWO), removed(0.6, ONE, THREE)
    combined = replace(asked, changes=(*removed(0.5, ONE).changes, *removed(0.6, TWO).changes))

    found = without_search([asked, result, tried, combined], [asked.changes], {(ONE, TWO): "all"})

    assert found == [asked, result, combined]


def test_without_a_loss_that_costs_something_there_is_no_least_set() -> None:
    found = [removed(0.001, ONE)]

    assert least_of(found, greedy_order(found, 0.01)) is None


def test_losses_of_which_each_alone_saves_nothing_share_a_round() -> None:
    (found,) = interactions([removed(0.001, ONE), removed(0.002, TWO), removed(0.5, ONE, TWO)], 0.01, 0.25)

    assert (found.is_shared, found.losses, found.cost_s) == (True, (ONE, TWO), 0.5)


def test_losses_of_which_each_alone_saves_all_are_harmless_without_the_other() -> None:
    (found,) = interactions([removed(0.5, ONE), removed(0.5, TWO), removed(0.5, ONE, TWO)], 0.01, 0.25)

    assert (found.is_shared, found.losses) == (False, (ONE, TWO))


def test_losses_whose_costs_add_up_do_not_interact() -> None:
    assert not [*interactions([removed(0.5, ONE), removed(0.6, TWO), removed(1.1, ONE, TWO)], 0.01, 0.25)]


def test_a_set_of_losses_that_is_more_than_an_interaction_is_not_named_again() -> None:
    alone = [removed(0.0, ONE), removed(0.0, TWO), removed(0.0, THREE)]
    found = [*interactions([*alone, removed(0.5, ONE, TWO), removed(0.5, ONE, TWO, THREE)], 0.01, 0.25)]

    assert [each.losses for each in found] == [(ONE, TWO)]

"""Causes of time that are planted in transfers: each is the first cause that the critical path names, with the time
that the same transfer without it is shorter. Runs with one thing changed show the same time."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from owlt.captures.inspection.causes import Cause, causes
from owlt.captures.inspection.critical_path import CriticalPath
from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.inputs.quantities import format_delay
from owlt.inputs.sweep import Advertised
from owlt.orchestrator.checks.changed_runs import Aim, Effect, effect_of, expected_aim, plan_of
from owlt.orchestrator.checks.costs import Costs, Perform, Trials, costs
from owlt.orchestrator.checks.counterfactuals import base_of, changes_of, rounded_wait_ns, without_losses
from owlt.orchestrator.checks.fault_cases import Direction, Hit, Place, aimed_at, plan_over
from owlt.orchestrator.commands.captures import inspected_run
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.profiles.catalogue import find_implementation
from tests.conftest import require
from tests.system.fault_trials import merged, perform, with_defect

FILE_BYTES = 200_000
LINK = LinkSpec(delay_ns=250_000_000, rate_bps=1_000_000)
PLAIN = ChannelSpec(forward=LINK, reverse=LINK)
SLOW_RETURN = ChannelSpec(forward=LINK, reverse=LINK.model_copy(update={"rate_bps": 8000}))
NEAR_LINK = LinkSpec(delay_ns=100_000, rate_bps=10_000_000)
NEAR = ChannelSpec(forward=NEAR_LINK, reverse=NEAR_LINK)
SLOW, FAST = {"rate": "500 kbit/s"}, {"rate": "10 Mbit/s"}


Packet = tuple[Direction, int, str]
"""The n-th packet of a class in a direction."""


def losing(*lost: Packet, queue_ns: int | None = None) -> ChannelSpec:
    """The plain channel, perhaps with a queue, which loses the n-th packet of classes in a direction."""
    hits = tuple(Hit(Place(direction, number, packet)) for direction, number, packet in lost)
    forward = LINK.model_copy(update={"queue_ns": queue_ns})
    return PLAIN.model_copy(update={"forward": forward, "faults": aimed_at(hits)})


LOST_NAK = losing(("forward", 5, "any"), ("reverse", 1, "cfdp.nak"))


@dataclass(frozen=True)
class Transfer:
    """A file that an endpoint, perhaps with a defect, sends over a channel. `sysctls` are the receiver's."""

    endpoint: str
    channel: ChannelSpec = PLAIN
    defect: str = "none"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    advertised: Mapping[str, str] = field(default_factory=dict)
    sysctls: Mapping[str, str] = field(default_factory=dict)


Key = tuple[str, str, str]
"""What took the time, of whom and when."""


@dataclass(frozen=True)
class Plant:
    """A transfer with a planted cause, the same without it, and the cause that has to be the first. `others` are causes
    that follow from the first one: what the plant costs is the sum."""

    planted: Transfer
    without: Transfer
    first: Key
    others: tuple[Key, ...] = ()


def lossy(endpoint: str, *lost: Packet, **changes: Any) -> Transfer:
    """A transfer over the plain channel in which these packets are lost."""
    return Transfer(endpoint, losing(*lost), **changes)


LTP, CFDP, NORM, SARATOGA, TCP = (Transfer(name) for name in ("ltp", "cfdp", "norm", "saratoga", "tcp"))
SOUND = {"ltp": LTP, "cfdp": CFDP, "norm": NORM, "saratoga": SARATOGA, "tcp": TCP}
BLOCKS = {"block_bytes": 150_000}
DOUBLE_DELAY = {"delay": "500 ms"}
CHECKPOINT: Packet = ("forward", 1, "ltp.checkpoint")
REPORT: Packet = ("reverse", 1, "ltp.report")
REPORT_ACK: Packet = ("forward", 1, "ltp.report-ack")
END_OF_DATA: Packet = ("forward", 1, "saratoga.end-of-data")
STATUS: Packet = ("reverse", 1, "saratoga.status")
EOF: Packet = ("forward", 1, "cfdp.eof")
FINISHED: Packet = ("reverse", 1, "cfdp.finished")
ACK_FINISHED: Packet = ("forward", 1, "cfdp.ack-finished")
FLUSH: Packet = ("forward", 1, "norm.flush")
LAST_DATA: Packet = ("forward", 200, "norm.data")
FLUSH_ACK: Packet = ("reverse", 1, "norm.ack-flush")
SYN: Packet = ("forward", 1, "tcp.syn")
FIN: Packet = ("forward", 1, "tcp.fin")
LAST_ACK: Packet = ("forward", 2, "tcp.pure-ack")
SENDER_OPENING, SENDER_CLOSING = ("waiting", "sender", "opening"), ("waiting", "sender", "closing")
SENDER_TRANSFER, SENDER_RECOVERY = ("waiting", "sender", "transfer"), ("waiting", "sender", "recovery")
RECEIVER_CLOSING, ACKNOWLEDGING = ("waiting", "receiver", "closing"), ("serialization", "receiver", "closing")
LATE_RETRANSMISSION = {"net.ipv4.tcp_rto_min_us": "1900000"}
QUEUED = losing(queue_ns=3 * 10**9)
# Which plant applies to which protocol, and why it does not apply to the others:
#
#                                 cfdp  ltp  norm  saratoga  tcp
# aggregation timer of 1 s              x                          the others do not aggregate data
# Nagle, delayed acknowledgements                            x     algorithms of TCP
# timer that is twice too long    x     x    x     x         x
# sleep before the first packet   x     x    x     x         x
# receiver waits for more         x     x          x         x     norm: libnorm answers the first flush
# lost EOF, checkpoint, last data x     x    x     x         x
# lost final acknowledgement      x     x    x     x         x
# queue of 3 s                    x     x          x               norm: a flush that was not needed costs nothing;
#                                                                  tcp: it measures the round trip for its timer
# rate advertised too low         x     x    x     x               tcp: it is not given a rate
# return link of 8 kbit/s         x     x    x     x         x     tcp: see SLOW_ACKS
PLANTS = {
    "ltp: a timer of 1 s that waits for more data": Plant(
        Transfer("ltp", PLAIN, "aggregation-timer", BLOCKS), Transfer("ltp", parameters=BLOCKS), SENDER_TRANSFER
    ),
    "tcp: Nagle's algorithm with delayed acknowledgements": Plant(
        Transfer("tcp", NEAR, "small-writes"),
        Transfer("tcp", NEAR, "small-writes-without-delay"),
        ("waiting", "receiver", "transfer"),
    ),
    "cfdp: a NAK timer that is twice too long": Plant(
        Transfer("cfdp", LOST_NAK, parameters={"nak_timer_s": 1.234}),
        Transfer("cfdp", LOST_NAK),
        ("waiting", "receiver", "recovery"),
    ),
    "ltp: a checkpoint timer that is twice too long": Plant(
        lossy("ltp", CHECKPOINT, parameters={"timer_s": 1.234}), lossy("ltp", CHECKPOINT), SENDER_RECOVERY
    ),
    "norm: a flush timer that is twice too long": Plant(
        lossy("norm", FLUSH_ACK, advertised=DOUBLE_DELAY), lossy("norm", FLUSH_ACK), SENDER_CLOSING
    ),
    "saratoga: a request timer that is twice too long": Plant(
        lossy("saratoga", STATUS, parameters={"timer_margin_s": 0.717}), lossy("saratoga", STATUS), SENDER_CLOSING
    ),
    "tcp: a retransmission timer that is twice too long": Plant(
        lossy("tcp", LAST_ACK, sysctls=LATE_RETRANSMISSION), lossy("tcp", LAST_ACK), RECEIVER_CLOSING
    ),
    **{
        f"{name}: a sleep before the first packet": Plant(
            Transfer(name, defect="late-start"), SOUND[name], SENDER_OPENING
        )
        for name in SOUND
    },
    **{
        f"{name}: a receiver that waits for two requests": Plant(
            Transfer(name, defect="window-of-two"), SOUND[name], SENDER_RECOVERY
        )
        for name in ("cfdp", "ltp", "saratoga")
    },
    "tcp: a receive window of 20 kB": Plant(
        Transfer("tcp", parameters={"buffers": 20_000}), TCP, ("round trips", "sender", "transfer")
    ),
    "cfdp: a lost EOF": Plant(lossy("cfdp", EOF), CFDP, SENDER_RECOVERY),
    "ltp: a lost checkpoint": Plant(lossy("ltp", CHECKPOINT), LTP, SENDER_RECOVERY),
    "ltp: a lost report": Plant(lossy("ltp", REPORT), LTP, SENDER_CLOSING),
    "norm: a lost flush": Plant(lossy("norm", FLUSH), NORM, SENDER_CLOSING),
    "norm: lost last data": Plant(
        lossy("norm", LAST_DATA),
        NORM,
        SENDER_RECOVERY,
        (("round trips", "receiver", "recovery"), ("round trips", "sender", "closing")),
    ),
    "saratoga: lost last data": Plant(lossy("saratoga", END_OF_DATA), SARATOGA, SENDER_RECOVERY),
    "tcp: a lost SYN": Plant(lossy("tcp", SYN), TCP, SENDER_OPENING),
    "tcp: a lost FIN": Plant(
        lossy("tcp", FIN),
        TCP,
        SENDER_RECOVERY,
        (("round trips", "receiver", "recovery"), ("waiting", "receiver", "recovery")),
    ),
    "cfdp: a lost Finished": Plant(lossy("cfdp", FINISHED), CFDP, RECEIVER_CLOSING),
    "cfdp: a lost final acknowledgement": Plant(lossy("cfdp", ACK_FINISHED), CFDP, RECEIVER_CLOSING),
    "ltp: a lost final acknowledgement": Plant(lossy("ltp", REPORT_ACK), LTP, RECEIVER_CLOSING),
    "norm: a lost final acknowledgement": Plant(lossy("norm", FLUSH_ACK), NORM, SENDER_CLOSING),
    "saratoga: a lost final status": Plant(lossy("saratoga", STATUS), SARATOGA, SENDER_CLOSING),
    "tcp: a lost final acknowledgement": Plant(lossy("tcp", LAST_ACK), TCP, RECEIVER_CLOSING),
    **{
        f"{name}: a queue of 3 s, longer than the timer": Plant(
            Transfer(name, QUEUED, parameters=timer, advertised=FAST), SOUND[name], SENDER_CLOSING
        )
        for name, timer in {"cfdp": {}, "ltp": {"timer_s": 2}, "saratoga": {"timer_margin_s": 1.49}}.items()
    },
    **{
        f"{name}: a rate that is advertised too low": Plant(
            Transfer(name, advertised=SLOW), SOUND[name], SENDER_TRANSFER
        )
        for name in ("ltp", "cfdp", "norm", "saratoga")
    },
    **{
        f"{name}: a return link of 8 kbit/s": Plant(Transfer(name, SLOW_RETURN), SOUND[name], ACKNOWLEDGING)
        for name in ("cfdp", "ltp", "norm", "saratoga")
    },
}
LOSSES = lossy("cfdp", ("forward", 5, "any"), ("forward", 6, "any"), ACK_FINISHED)
"""Two packets of data are repaired in one round; the acknowledgement of the end is awaited for a timer."""
SLOW_LINKS = Transfer("ltp", SLOW_RETURN, advertised=SLOW)
AGGREGATED = PLANTS["ltp: a timer of 1 s that waits for more data"]
LOSS_BEFORE_WAIT = lossy("cfdp", EOF, ACK_FINISHED)
"""The receiver's wait for the acknowledgement begins earlier if the EOF arrives."""
SLOW_ACKS = Transfer("tcp", SLOW_RETURN)
"""TCP's acknowledgements release new data, so that their serialization also adds round trips and waits."""
ALONE = [LOSSES, SLOW_LINKS, LOSS_BEFORE_WAIT, SLOW_ACKS]
ALL = list(SOUND.values()) + [each for plant in PLANTS.values() for each in (plant.planted, plant.without)] + ALONE


class Runs:
    """The runs of all transfers, which one plan performs."""

    def __init__(self, folder: Path) -> None:
        self._transfers: list[Transfer] = []
        for each in ALL:
            if each not in self._transfers:
                self._transfers.append(each)
        self._folder, self._results = folder, folder / "results"
        perform(self._plan(), self._results)

    def _plan(self) -> Plan:
        whole = merged([self._plan_of(f"t{number:02d}", each) for number, each in enumerate(self._transfers)])
        advertised = {
            f"t{number:02d}": Advertised.model_validate(each.advertised)
            for number, each in enumerate(self._transfers)
            if each.advertised
        }
        return whole.model_copy(update={"sweep": whole.sweep.model_copy(update={"advertised": advertised})})

    def _plan_of(self, name: str, transfer: Transfer) -> Plan:
        profile = with_defect(transfer.defect, self._folder, transfer.endpoint, transfer.parameters)
        implementation = find_implementation(str(profile))
        receiver = implementation.receiver
        receiver = receiver.model_copy(update={"sysctls": receiver.sysctls | transfer.sysctls})
        implementation = implementation.model_copy(update={"name": name, "receiver": receiver})
        return plan_over(name, implementation, {"channel": transfer.channel}, FILE_BYTES)

    def directory(self, transfer: Transfer) -> Path:
        """The directory of the run of a transfer."""
        number = self._transfers.index(transfer)
        (directory,) = (self._results / "runs").glob(f"t{number:02d}_*")
        return directory

    def path(self, transfer: Transfer) -> CriticalPath:
        """The critical path of the run of a transfer."""
        _, _, inspection = inspected_run(self.directory(transfer))
        assert inspection.path is not None
        return inspection.path

    def costs(self, transfer: Transfer) -> Costs:
        """What the causes of the time of a transfer cost."""
        path = self.path(transfer)
        return costs(self.directory(transfer), path, causes(path), self.performing(transfer))

    def performing(self, transfer: Transfer) -> Perform:
        """Performs plans of a transfer with changes."""
        place = self._folder / "costs" / self.directory(transfer).name

        def performed(plan: Plan, name: str) -> Path:
            perform(plan, place / name)
            return place / name

        return performed


@pytest.fixture(scope="module")
def runs(guest_kernel: Any, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    require(guest_kernel, "the virtual-time kernel")
    return Runs(tmp_path_factory.mktemp("why"))


def kind_of(cause: Cause) -> Key:
    """What took the time, of whom and when; a wait with a known timer is a wait."""
    return "waiting" if cause.what == "timer" else cause.what, cause.host, cause.phase


def total_ns(found: list[Cause], which: Collection[Key]) -> int:
    return sum(cause.total_ns for cause in found if kind_of(cause) in which)


def length_ns(path: CriticalPath) -> int:
    """The session time, and that before it if its start was late."""
    return path.length_ns + (path.late_start.length_ns if path.late_start else 0)


@pytest.mark.parametrize("name", ["ltp", "cfdp", "norm", "saratoga"])
def test_a_transfer_without_a_plant_has_no_cause(runs: Runs, name: str) -> None:
    assert causes(runs.path(SOUND[name])) == []


@pytest.mark.parametrize("name", PLANTS)
def test_a_plant_is_the_first_cause_with_the_time_that_it_costs(runs: Runs, name: str) -> None:
    plant = PLANTS[name]
    planted, without = runs.path(plant.planted), runs.path(plant.without)
    found = causes(planted)
    which = {plant.first, *plant.others}
    cost_ns = total_ns(found, which) - total_ns(causes(without), which)

    assert kind_of(found[0]) == plant.first
    assert cost_ns == pytest.approx(length_ns(planted) - length_ns(without), rel=0.02)


def test_a_run_with_losses_removed_shows_what_they_cost(runs: Runs) -> None:
    found = runs.costs(LOSSES)
    path, without = runs.path(LOSSES), runs.path(CFDP)
    single = [each for each in found.counterfactuals if len(each.changes) == 1]
    removed = {tuple(loss.number for loss in each.losses): each for each in single if each.losses}

    assert found.problem == ""
    assert removed[1, 2, 3].times.session_s == pytest.approx(without.length_ns / 1e9, abs=1e-4)
    assert removed[3,].text == "without the third loss (forward #205, ACK of Finished)"
    assert removed[1, 2].cost_s + removed[3,].cost_s == pytest.approx(
        (path.length_ns - without.length_ns) / 1e9, rel=1e-3
    )
    assert [tuple(loss.number for loss in change.losses) for change in found.least] == [(3,), (1, 2)]
    assert found.least_cost_s == pytest.approx(found.above_bound_s, rel=0.01)
    (shared,) = found.interactions
    assert (shared.is_shared, [loss.number for loss in shared.losses]) == (True, [1, 2])


def test_a_run_with_the_channels_own_rate_advertised_shows_what_the_other_one_cost(runs: Runs) -> None:
    found = runs.costs(SLOW_LINKS)
    by_kind = {(change.kind, change.direction): each for each in found.counterfactuals for change in each.changes}
    own = runs.path(Transfer("ltp", SLOW_RETURN))

    assert found.problem == ""
    assert by_kind["advertised", None].times.session_s == pytest.approx(own.length_ns / 1e9, abs=1e-4)
    assert [change.kind for change in found.least] == ["advertised"]
    slow_return_ns = own.length_ns - runs.path(LTP).length_ns
    assert by_kind["rate", "reverse"].cost_s == pytest.approx(slow_return_ns / 1e9, rel=0.02)


def test_a_slow_return_link_of_tcp_is_the_first_of_the_changes(runs: Runs) -> None:
    slow, plain = runs.path(SLOW_ACKS), runs.path(TCP)
    first, *_ = runs.costs(SLOW_ACKS).counterfactuals

    assert kind_of(causes(slow)[0]) == ("serialization", "receiver", "transfer")
    assert [(change.kind, change.direction) for change in first.changes] == [("rate", "reverse")]
    assert first.cost_s == pytest.approx((slow.length_ns - plain.length_ns) / 1e9, rel=0.02)


def test_a_wait_behind_a_loss_that_is_removed_is_skipped_where_it_then_begins(runs: Runs) -> None:
    path = runs.path(LOSS_BEFORE_WAIT)
    base = base_of(runs.directory(LOSS_BEFORE_WAIT), path.rungs)
    timers = [change for change in changes_of(base, causes(path)) if change.kind == "timer"]
    (wait,) = [change for change in timers if change.waits[0].host == "receiver"]
    both = (without_losses(base, base.losses[:1]), wait)

    def effect(aim: Aim, name: str) -> Effect:
        (again,) = (runs.performing(LOSS_BEFORE_WAIT)(plan_of(base, [(both, aim)]), name) / "runs").iterdir()
        return effect_of(base, both, aim, again)

    expected = expected_aim(base, both)
    with_loss_in_place = replace(expected, places=effect(expected, "expected").correct.places)
    (found,) = Trials(base, runs.performing(LOSS_BEFORE_WAIT)).perform([(), both])

    assert effect(with_loss_in_place, "in place").problem == (
        f"a wait of {format_delay(rounded_wait_ns(wait.waits[0].length_ns))} at the receiver ({wait.waits[0].kind} in "
        f"{wait.waits[0].process}) was not skipped"
    )
    assert found.problem == ""
    assert found.times.session_s == pytest.approx(runs.path(CFDP).length_ns / 1e9, abs=0.01)


def test_a_run_whose_timer_expires_at_once_shows_what_the_timer_cost(runs: Runs) -> None:
    found = runs.costs(AGGREGATED.planted)
    timers = [each for each in found.counterfactuals if each.changes[0].kind == "timer"]
    truth_ns = runs.path(AGGREGATED.planted).length_ns - runs.path(AGGREGATED.without).length_ns

    assert found.problem == ""
    assert found.least == timers[0].changes
    assert timers[0].text == "without the timer of 1 s at the sender before red data"
    assert timers[0].cost_s == pytest.approx(truth_ns / 1e9, rel=0.02)

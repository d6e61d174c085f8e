"""What holds of every emulator, asked of a client: of the one in memory in unit tests, of the real one in a guest.

A fact raises AssertionError if it does not hold. The emulator of each is a new one.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import EmulatorError, InvalidChannel, InvalidLease, LeaseHeld, LeaseLost, TimelineError
from owlt.emulator.service.client import EmulatorClient
from tests.memory.emulator import CAPABILITIES

Fact = Callable[[EmulatorClient], None]
CHANNEL = ChannelSpec.from_wire(
    {"both": {"delay": "25 ms", "rate": "10 Mbit/s", "queue": "50 packets"}, "forward": {"packet_error_rate": 0.5}}
)
STEPS = {"forward": {"delay": "1 ms"}, "timeline": {"steps": [{"at": "1000 s", "forward": {"delay": "2 ms"}}]}}


def refuses(kind: type[EmulatorError], call: Callable[[], object]) -> None:
    """The call raises exactly this."""
    with pytest.raises(EmulatorError) as refusal:
        call()
    assert type(refusal.value) is kind


def a_new_emulator_has_an_unimpaired_channel(client: EmulatorClient) -> None:
    assert client.describe() == ChannelSpec()


def a_channel_is_read_back(client: EmulatorClient) -> None:
    assert client.configure(CHANNEL) == CHANNEL
    assert client.describe() == CHANNEL


def a_snapshot_has_the_channel_and_its_counters(client: EmulatorClient) -> None:
    client.configure(CHANNEL)
    channel, counters = client.snapshot()
    assert (channel, counters) == (client.describe(), client.statistics())
    assert set(counters["forward"]) == {"bottleneck", "pipe"}


def an_error_rate_that_netem_cannot_draw_is_refused(client: EmulatorClient) -> None:
    refuses(InvalidChannel, lambda: client.change("reverse", packet_error_rate=1e-10))


def a_rate_is_rounded_to_whole_bytes(client: EmulatorClient) -> None:
    has = client.configure(ChannelSpec.from_wire({"forward": {"rate": "1000003 bit/s"}}))
    assert has.forward.rate_bps == 1_000_000


def an_error_rate_is_rounded_to_32_bits(client: EmulatorClient) -> None:
    has = client.configure(ChannelSpec.from_wire({"reverse": {"packet_error_rate": 1e-3}}))
    assert 0 < abs(has.reverse.packet_error_rate - 1e-3) < 2**-32


def a_change_leaves_every_other_value(client: EmulatorClient) -> None:
    client.configure(CHANNEL)
    link = CHANNEL.forward.model_copy(update={"delay_ns": 5_000_000})
    assert client.change("forward", delay="5 ms") == CHANNEL.model_copy(update={"forward": link})


def a_change_of_both_changes_both(client: EmulatorClient) -> None:
    client.configure(CHANNEL)
    client.change("both", rate="1 Mbit/s")
    assert [client.describe().link(name).rate_bps for name in ("forward", "reverse")] == [1e6, 1e6]


def a_change_of_each_gives_every_link_its_own_values(client: EmulatorClient) -> None:
    client.configure(CHANNEL)
    client.change("each", forward={"rate": "1 Mbit/s"}, reverse={"rate": "2 Mbit/s"})
    assert [client.describe().link(name).rate_bps for name in ("forward", "reverse")] == [1e6, 2e6]


def a_change_of_each_with_fields_of_no_link_is_refused(client: EmulatorClient) -> None:
    client.configure(CHANNEL)
    refuses(InvalidChannel, lambda: client.change("each", delay="5 ms"))
    refuses(InvalidChannel, lambda: client.change("each", sideways={"delay": "5 ms"}))
    assert client.describe() == CHANNEL


def a_value_can_be_taken_away(client: EmulatorClient) -> None:
    client.configure(CHANNEL)
    assert client.change("forward", packet_error_rate="none").forward.packet_error_rate == 0


def a_change_of_an_unknown_direction_is_refused(client: EmulatorClient) -> None:
    refuses(InvalidChannel, lambda: client.change("sideways", delay="5 ms"))


def a_change_that_makes_no_sense_is_refused_and_changes_nothing(client: EmulatorClient) -> None:
    client.configure(CHANNEL)
    refuses(InvalidChannel, lambda: client.change("forward", delay="-5 ms"))
    assert client.describe() == CHANNEL


def an_outage_that_holds_without_an_end_is_refused(client: EmulatorClient) -> None:
    held = ChannelSpec.from_wire({"forward": {"up": False, "while_down": "hold", "rate": "1 Mbit/s"}})
    refuses(InvalidChannel, lambda: client.configure(held))


def a_cleared_channel_is_unimpaired(client: EmulatorClient) -> None:
    client.configure(CHANNEL)
    client.clear()
    assert client.describe() == ChannelSpec()


def a_bypass_is_one_in_name_until_it_is_changed(client: EmulatorClient) -> None:
    assert client.bypass() == ChannelSpec(bypass=True)
    assert not client.change("forward", delay="5 ms").bypass


def the_stages_of_a_channel_count(client: EmulatorClient) -> None:
    client.configure(ChannelSpec.from_wire({"forward": {"rate": "1 Mbit/s", "delay": "1 ms"}}))
    counted = client.statistics()
    assert {way: set(stages) for way, stages in counted.items()} == {
        "forward": {"bottleneck", "pipe"},
        "reverse": set(),
    }
    counters = {"packets", "bytes", "dropped_packets", "waiting_packets", "waiting_bytes"}
    assert counters <= set(counted["forward"]["pipe"])


def an_unimpaired_channel_counts_nothing(client: EmulatorClient) -> None:
    assert client.statistics() == {"forward": {}, "reverse": {}}


def a_channel_without_a_timeline_starts_none(client: EmulatorClient) -> None:
    client.configure(CHANNEL)
    refuses(TimelineError, client.timeline_start)


def a_timeline_runs_once_it_is_started(client: EmulatorClient) -> None:
    client.configure(ChannelSpec.from_wire(STEPS))
    assert not client.timeline_status()["running"]
    status = client.timeline_start()
    assert (status["running"], status["steps_applied"], status["failure"]) == (True, 0, "")
    refuses(TimelineError, lambda: client.change("forward", delay="5 ms"))


def a_timeline_that_was_stopped_is_gone(client: EmulatorClient) -> None:
    client.configure(ChannelSpec.from_wire(STEPS))
    client.timeline_start()
    keys = set(client.timeline_status())
    assert not client.timeline_stop()["running"]
    assert client.change("forward", delay="5 ms").forward.delay_ns == 5_000_000
    assert set(client.timeline_status()) == keys


def a_lease_keeps_others_away(client: EmulatorClient) -> None:
    refuses(InvalidLease, lambda: client.lease("", 60))
    client.lease("somebody", 60)
    assert client.lease_status()["holder"] == "somebody"
    refuses(LeaseHeld, lambda: client.lease("somebody else", 60))
    client.configure(CHANNEL)


def a_lease_that_is_released_clears_the_channel(client: EmulatorClient) -> None:
    client.lease("somebody", 60)
    client.configure(CHANNEL)
    client.release()
    assert client.describe() == ChannelSpec()
    refuses(LeaseLost, lambda: client.renew(60))


def options_that_certify_does_not_have_are_refused(client: EmulatorClient) -> None:
    refuses(InvalidChannel, lambda: client.certify(CHANNEL, {"speed": 1}))
    refuses(InvalidChannel, lambda: client.certify(CHANNEL, {"alpha": 2}))


def the_capabilities_have_these_names(client: EmulatorClient) -> None:
    assert set(client.capabilities()) == {"kernel", *CAPABILITIES}


def the_versions_have_these_names(client: EmulatorClient) -> None:
    assert set(client.version()) == {"owlt", "api", "kernel"}


FACTS: dict[str, Fact] = {
    name: fact
    for name, fact in list(globals().items())
    if name.startswith(("a_", "an_", "the_", "options_")) and callable(fact)
}

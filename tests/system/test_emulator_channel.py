"""The emulated channel in a guest: what was asked for against what captures, sockets and tc saw of it."""

from __future__ import annotations

import json
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from owlt.emulator.channel.spec import ChannelSpec, LinkSpec

SCRIPTS = Path(__file__).with_name("guest_scripts")
FRAME_BYTES = 14 + 20 + 8 + 1000
"""Ethernet, IPv4 and UDP headers and the payload: what a rate counts."""
DIRECTIONS = {"forward": ("sender", "receiver"), "reverse": ("receiver", "sender")}
"""The host where packets come from and the one where they go."""


@dataclass(frozen=True)
class Observation:
    """What a script printed, and the folder of its captures."""

    told: Any
    folder: Path

    def came_in(self, direction: str) -> list[tuple[int, bytes]]:
        """Time in ns and bytes of the frames of one direction as they came in, at the port of their origin."""
        return read_pcap(self.folder / f"{DIRECTIONS[direction][0]}-in.pcap")

    def went_out(self, direction: str) -> list[tuple[int, bytes]]:
        """The same at the other port, as they went out: the channel keeps their order."""
        return read_pcap(self.folder / f"{DIRECTIONS[direction][1]}-out.pcap")


def read_pcap(path: Path) -> list[tuple[int, bytes]]:
    """Time in ns and bytes of each frame of a little-endian nanosecond pcap."""
    data, frames, offset = path.read_bytes(), [], 24
    assert data[:4] == bytes.fromhex("4d3cb2a1")
    while offset < len(data):
        seconds, nanoseconds, captured, _ = struct.unpack_from("<4I", data, offset)
        frames.append((seconds * 10**9 + nanoseconds, data[offset + 16 : offset + 16 + captured]))
        offset += 16 + captured
    return frames


Watch = Callable[..., Observation]
Over = Callable[[str], Observation]


@pytest.fixture(scope="module")
def observations() -> dict[str, Observation]:
    """What scripts have shown already: several tests look at the same run of a guest."""
    return {}


@pytest.fixture
def watch(guest: Any, observations: dict[str, Observation]) -> Watch:
    """Runs a script in a guest, or returns what it showed before."""

    def run(script: str, *arguments: str, clock: str = "exact") -> Observation:
        if script not in observations:
            done = guest.run(SCRIPTS / f"{script}.py", *arguments, clock=clock, timeout_s=200)
            assert done.returncode == 0, done.stderr
            observations[script] = Observation(json.loads(done.stdout), guest.out_dir)
        return observations[script]

    return run


@pytest.fixture
def over(watch: Watch) -> Over:
    """What packets showed of one of `CHANNELS`; all are observed in one guest, one after the other."""

    def observed(name: str) -> Observation:
        seen = watch("one_channel", json.dumps(CHANNELS))
        return Observation(seen.told[name], seen.folder / name)

    return observed


def spaced(delay_ns: int) -> dict[str, Any]:
    """Packets that never wait for one another."""
    link = {"delay_ns": delay_ns, "rate_bps": 10e6}
    return {"link": link, "count": 50, "size_bytes": 1000, "pause_s": 0.00137}


DELAYS_NS = [25_000_000, 1_250_000_000, 1_342_000_000_000]
CHANNELS: dict[str, dict[str, Any]] = {
    **{f"spaced-{delay_ns}": spaced(delay_ns) for delay_ns in DELAYS_NS},
    "burst": {
        "link": {"delay_ns": 25_000_000, "rate_bps": 10e6, "queue_packets": 3000},
        "count": 3000,
        "size_bytes": 1000,
        "pause_s": 0,
    },
    "overload": {
        "link": {"delay_ns": 1_250_000_000, "rate_bps": 10e6, "queue_packets": 100},
        "count": 500,
        "size_bytes": 1000,
        "pause_s": 0,
    },
    "long-pipe": {
        "link": {"delay_ns": 10_000_000_000, "rate_bps": 10e6, "queue_packets": 10},
        "count": 3000,
        "size_bytes": 1000,
        "pause_s": 0.0008,
    },
    "errors": {
        "link": {"delay_ns": 25_000_000, "packet_error_rate": 0.01, "seed": 1},
        "count": 10_000,
        "size_bytes": 100,
        "pause_s": 20e-6,
    },
}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("delay_ns", DELAYS_NS)
def test_a_packet_takes_its_delay_and_its_serialization_to_a_microsecond(
    over: Over, delay_ns: int, direction: str
) -> None:
    seen = over(f"spaced-{delay_ns}")

    expected_ns = delay_ns + FRAME_BYTES * 8 * 10**9 // 10_000_000
    pairs = zip(seen.came_in(direction), seen.went_out(direction), strict=True)
    delays_ns = [out_ns - in_ns for (in_ns, _), (out_ns, _) in pairs]
    assert min(delays_ns) >= expected_ns
    assert max(delays_ns) < expected_ns + 1000


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_each_port_sees_each_packet_once(over: Over, direction: str) -> None:
    seen = over("spaced-25000000")

    assert [number(frame) for _, frame in seen.came_in(direction)] == list(range(50))
    assert [number(frame) for _, frame in seen.went_out(direction)] == list(range(50))


def test_a_busy_channel_delivers_its_rate_to_a_thousandth(over: Over) -> None:
    times_ns = [at_ns for at_ns, _ in over("burst").went_out("forward")]

    rate_bps = (len(times_ns) - 1) * FRAME_BYTES * 8e9 / (times_ns[-1] - times_ns[0])
    assert rate_bps == pytest.approx(10e6, rel=1e-3)


def test_a_queue_as_long_as_the_burst_loses_nothing(over: Over) -> None:
    assert over("burst").told["received_from"] == {"sender": 3000, "receiver": 3000}


def test_a_pipe_holds_far_more_packets_than_the_queue_before_it(over: Over) -> None:
    assert over("long-pipe").told["received_from"] == {"sender": 3000, "receiver": 3000}


def test_a_queue_holds_as_many_packets_as_was_asked_and_the_rest_are_its_drops(over: Over) -> None:
    told = over("overload").told

    assert told["received_from"] == {"sender": 100, "receiver": 100}
    for stages in told["statistics"].values():
        assert stages["bottleneck"]["dropped_packets"] == 400
        assert stages["pipe"]["dropped_packets"] == 0


def test_the_last_packet_of_a_queue_waits_for_all_before_it(over: Over) -> None:
    seen = over("overload")
    sent, delivered = seen.came_in("forward"), seen.went_out("forward")

    serialization_ns = FRAME_BYTES * 800
    taken_ns = delivered[-1][0] - sent[0][0] - 1_250_000_000
    assert taken_ns == pytest.approx(100 * serialization_ns, abs=1000)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_as_many_packets_are_damaged_as_the_error_rate_says(over: Over, direction: str) -> None:
    damaged = len(damages(over("errors"), direction))

    bound = 5 * sqrt(10_000 * 0.01 * 0.99)  # standard deviations of a binomial count
    assert abs(damaged - 10_000 * 0.01) <= bound
    assert abs(damaged - 10_000 * 0.02) > bound, "twice as many would be told apart"


def test_damage_is_one_bit(over: Over) -> None:
    seen = over("errors")

    assert {bits for direction in DIRECTIONS for bits in damages(seen, direction).values()} == {1}


def test_the_emulator_counts_the_damaged_packets_where_its_kernel_does(over: Over) -> None:
    seen = over("errors")

    for direction in DIRECTIONS:
        pipe = seen.told["statistics"][direction]["pipe"]
        if "corrupted_packets" not in pipe:
            pytest.skip("this kernel's netem keeps no count")
        assert pipe["corrupted_packets"] == len(damages(seen, direction))


def test_what_the_socket_misses_is_damage(over: Over) -> None:
    """A flipped bit in the Ethernet source, the IP ToS or the like does no harm, so not all damage is missed."""
    seen = over("errors")

    for origin, direction in (("sender", "forward"), ("receiver", "reverse")):
        missed = 10_000 - seen.told["received_from"][origin]
        assert 0.8 * len(damages(seen, direction)) <= missed <= len(damages(seen, direction))


def test_tshark_finds_bad_checksums_in_damaged_packets_only(over: Over) -> None:
    seen = over("errors")

    bad = tshark_bad_checksums(seen.folder / "receiver-out.pcap")
    assert 0 < len(bad) <= len(damages(seen, "forward"))
    assert tshark_bad_checksums(seen.folder / "sender-in.pcap") == []


def test_the_same_seed_damages_the_same_packets_and_another_others(watch: Watch) -> None:
    folder = watch("seeds").folder
    first, again, other = (set(damages(Observation(None, folder / name), "forward")) for name in "abc")

    assert first == again
    assert first != other
    assert len(first) > 50


@pytest.mark.parametrize("name", ["burst", "overload", "errors"])
def test_the_statistics_are_those_of_tc(over: Over, name: str) -> None:
    told = over(name).told
    by_tc = {(qdisc["dev"], qdisc["handle"]): qdisc for qdisc in told["tc"]}

    for direction, (entrance, exit) in DIRECTIONS.items():
        stages = told["statistics"][direction]
        pipe = by_tc[f"to-{exit}", "4f57:"]
        assert counters(stages["pipe"]) == tc_counters(pipe)
        if "bottleneck" in stages:
            assert counters(stages["bottleneck"]) in [
                tc_counters(qdisc) for (device, _), qdisc in by_tc.items() if device.startswith("owlt-ifb")
            ], (direction, entrance)


def test_an_unimpaired_channel_puts_nothing_into_the_kernel(watch: Watch) -> None:
    told = watch("reconfiguring").told

    assert told["unimpaired"] == told["before"]


def as_told(channel: ChannelSpec) -> object:
    """A channel as the script tells it, in JSON."""
    return json.loads(json.dumps(channel.model_dump()))


def test_what_is_applied_is_read_back_from_the_kernel(watch: Watch) -> None:
    told = watch("reconfiguring").told

    harsh = LinkSpec(delay_ns=10**9, rate_bps=1e6, packet_error_rate=1.0, queue_packets=7, seed=3)
    assert told["harsh_described"] == as_told(ChannelSpec(forward=harsh, reverse=harsh))
    assert told["meddled_described"]["forward"]["delay_ns"] == 30_000_000
    assert told["meddled_described"]["forward"]["packet_error_rate"] == pytest.approx(0.5)
    assert told["meddled_described"]["reverse"]["delay_ns"] == 25_000_000


def test_nothing_of_a_channel_sticks_to_the_next(watch: Watch) -> None:
    told = watch("reconfiguring").told

    assert "corrupt 100%" in told["harsh"]
    assert "rate 1Mbit" in told["harsh"]
    assert not any(word in told["mild"] for word in ("corrupt", "rate 1Mbit", "owlt-ifb", "clsact"))
    mild = LinkSpec(delay_ns=25_000_000)
    assert told["mild_described"] == as_told(ChannelSpec(forward=mild, reverse=mild))
    assert told["mild_received"] == 100


def test_clearing_leaves_the_kernel_as_it_was(watch: Watch) -> None:
    told = watch("reconfiguring").told

    assert told["cleared"] == told["before"]
    assert told["cleared_described"]["forward"]["delay_ns"] == 0


def test_channels_configured_at_once_never_mix(watch: Watch) -> None:
    """On the real clock: on the exact one nothing interrupts a thread."""
    told = watch("at_once", clock="real").told

    assert told["refusals"] == [""] * 10
    assert told["described"]["forward"] == told["described"]["reverse"]
    assert told["described"]["forward"]["delay_ns"] == told["described"]["forward"]["rate_bps"]


def test_the_capabilities_are_found_and_the_search_leaves_nothing(watch: Watch) -> None:
    told = watch("reconfiguring").told

    found = {name: found["available"] for name, found in told["capabilities"].items() if name != "kernel"}
    assert {name for name, available in found.items() if available} >= {"netem", "ifb", "redirect", "delay_64bit"}
    assert told["probed"] == told["before"]


@pytest.mark.parametrize(
    ("situation", "objection"),
    [
        ("missing", "got no such interface, expected one of: channel, "),
        ("same", "both ports: got to-sender"),
        ("loopback", "is the loopback interface"),
        ("address", "port to-sender: has the address 192.0.2.1"),
        ("bridge", "belongs to channel, which has the address 192.0.2.1"),
        ("route", "port to-receiver: carries a default route"),
        ("qdisc", "has the queueing discipline netem 8:"),
        ("ingress", "has the queueing discipline ingress ffff:"),
        ("clsact", "has the queueing discipline clsact ffff:"),
    ],
    ids=lambda value: value if " " not in value else "",
)
def test_a_port_that_somebody_lives_on_is_refused_and_not_touched(watch: Watch, situation: str, objection: str) -> None:
    seen = watch("refusals").told["ports"][situation]

    assert seen["said"].startswith("PortRefused")
    assert objection in seen["said"]
    assert seen.get("untouched", True)


@pytest.mark.parametrize("situation", ["fit", "link_local"])
def test_a_port_that_nobody_lives_on_is_taken(watch: Watch, situation: str) -> None:
    seen = watch("refusals").told["ports"][situation]

    assert seen["said"] == ""
    assert "fe80" in seen.get("address", "fe80")


def test_a_port_that_somebody_came_to_live_on_keeps_its_channel(watch: Watch) -> None:
    seen = watch("refusals").told["after_start"]

    assert "has the address" in seen["said"]
    assert seen["untouched"]


def test_a_port_that_somebody_came_to_live_on_is_cleared_at_the_end(watch: Watch) -> None:
    left = watch("refusals").told["after_start"]["left"]

    assert "netem" not in left
    assert "owlt-ifb" not in left


def test_a_channel_that_the_kernel_takes_by_half_is_refused_and_both_are_gone(watch: Watch) -> None:
    seen = watch("refusals").told["half_way"]

    assert seen["said"].startswith("ChannelRefused: forward: the kernel says: ")
    assert seen["old_was_there"]
    assert seen["cleared"]
    assert seen["described"]["forward"] == {}


def test_missing_rights_are_named(watch: Watch) -> None:
    assert "CAP_NET_ADMIN" in watch("refusals").told["without_rights"]


@pytest.mark.parametrize("ending", ["terminated", "interrupted"])
def test_a_service_asked_to_end_ends_well(watch: Watch, ending: str) -> None:
    assert watch("endings").told[f"{ending}_status"] == 0


def test_a_service_asked_to_end_leaves_nothing(watch: Watch) -> None:
    told = watch("endings").told

    assert told["terminated"] == told["before"]


def test_a_killed_service_is_cleared_up_by_the_next(watch: Watch) -> None:
    told = watch("endings").told

    assert "netem" in told["killed"]
    assert told["started_again"] == told["before"]


def test_what_is_behind_a_port_that_has_gone_is_cleared(watch: Watch) -> None:
    told = watch("endings").told

    assert "owlt-ifb" in told["port_gone"]
    assert "owlt-ifb" not in told["port_gone_cleared"]


def number(frame: bytes) -> int:
    return int.from_bytes(frame[42:50], "big")


def damages(seen: Observation, direction: str) -> dict[int, int]:
    """The numbers of the packets that came out other than they went in, and how many bits of each are flipped."""
    pairs = zip(seen.came_in(direction), seen.went_out(direction), strict=True)
    return {
        number(sent): (int.from_bytes(sent, "big") ^ int.from_bytes(delivered, "big")).bit_count()
        for (_, sent), (_, delivered) in pairs
        if sent != delivered
    }


def tshark_bad_checksums(pcap: Path) -> list[str]:
    options = ["-o", "ip.check_checksum:TRUE", "-o", "udp.check_checksum:TRUE"]
    wanted = "ip.checksum.status == 0 || udp.checksum.status == 0"
    command = ["tshark", "-r", str(pcap), *options, "-Y", wanted, "-T", "fields", "-e", "frame.number"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def counters(stage: dict[str, int]) -> dict[str, int]:
    """Those that tc shows: what netem counts beside them, tc has no name for."""
    return {name: value for name, value in stage.items() if not name.startswith(("corrupted", "lost", "duplicated"))}


def tc_counters(qdisc: dict[str, int]) -> dict[str, int]:
    return {
        "packets": qdisc["packets"],
        "bytes": qdisc["bytes"],
        "dropped_packets": qdisc["drops"],
        "waiting_packets": qdisc["qlen"],
        "waiting_bytes": qdisc["backlog"],
    }

"""netem's own units, as values and as netlink messages. The recorded messages are those of Linux 7.3, set by tc."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from owlt.emulator.kernel.netem import (
    FourStateThresholds,
    GilbertElliottThresholds,
    Netem,
    differences,
    probability_of,
    threshold_of,
    transition_of,
)
from owlt.emulator.kernel.netem_messages import counters_of, netem_of, options
from owlt.emulator.kernel.rtnetlink import tcmsg

# tc qdisc add ... handle 7: netem limit 77 delay 300ms 5ms 25% loss 1% duplicate 2% corrupt 3% rate 80gbit 4 53 -3
HARSH = (
    "9401000024000200ff0000004c000000000000000400000000000700ffffffff020000000a0001006e6574656d000000880002008c864700"
    "4d000000295c8f020000000052b81e052d3101000c000a0000a3e111000000000c000b00404b4c0000000000100001000000004000000000"
    "000000000c00030000000000000000000c0004007b14ae07000000000c00080000e40b540200000014000600ffffffff0400000035000000"
    "fdffffff0c000e00a343f8d8f14f186205000c00000000006c0007003c000400000000000000000000000000000000000000000000000000"
    "000000000000000000000000000000000000000000000000000000000000000014000100000000000000000000000000000000001800030000"
    "000000000000000000000000000000000000002c000300000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000003c0004000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000"
)
# tc qdisc add ... handle 7: netem limit 78 delay 1s corrupt 1% rate 10mbit; three packets of 142 bytes sent, waiting
WAITING = (
    "8801000024000200ff0000004c000000000000000500000000000700ffffffff020000000a0001006e6574656d0000007c000200286bee00"
    "4e000000000000000000000000000000000000000c000a0000ca9a3b000000000c000b000000000000000000100001000000000000000000"
    "000000000c00030000000000000000000c000400295c8f020000000014000600d01213000000000000000000000000000c000e0017ed2711"
    "717bd62105000c00000000006c0007003c00040003000000000000000000000000000000000000000000000000000000000000000000000000"
    "0000000000000000000000000000000000000014000100000000000000000000000000000000001800030003000000aa01000000000000000000"
    "00000000002c0003000000000000000000000000000000000000000000000000000000000003000000aa010000000000003c000400030000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
)


def decoded(data: bytes) -> Any:
    message = tcmsg.tcmsg(data)
    message.decode()
    return message


def sent_and_decoded(netem: Netem) -> Any:
    message = tcmsg.tcmsg()
    message["attrs"] = [("TCA_KIND", "netem"), ("TCA_OPTIONS", options(netem))]
    message.encode()
    return decoded(bytes(message.data))


@pytest.mark.parametrize(
    ("probability", "threshold"), [(0, 0), (1, 2**32 - 1), (0.5, 2**31 - 1), (2 / 2**32, 1), (0.01, 42_949_672)]
)
def test_a_probability_is_a_threshold_of_32_bits(probability: float, threshold: int) -> None:
    assert threshold_of(probability) == threshold


@given(st.floats(2 / 2**32, 1))
def test_a_probability_comes_back_to_half_of_32_bits(probability: float) -> None:
    assert abs(probability_of(threshold_of(probability)) - probability) <= 0.5 / 2**32


def test_a_threshold_of_zero_hits_nothing() -> None:
    assert probability_of(0) == 0


THRESHOLDS = st.integers(0, 2**32 - 1)


@given(
    st.builds(
        Netem,
        limit_packets=st.integers(1, 2**31 - 1),
        delay_ns=st.integers(0, 86_400 * 10**9),
        jitter_ns=st.integers(0, 2**31 - 1),
        rate_bytes_per_s=st.integers(0, 125 * 10**9),
        overhead_bytes=st.integers(0, 10_000),
        corrupt_threshold=THRESHOLDS,
        loss_threshold=THRESHOLDS,
        loss_model=st.none()
        | st.builds(GilbertElliottThresholds, THRESHOLDS, THRESHOLDS)
        | st.builds(FourStateThresholds, THRESHOLDS, THRESHOLDS, THRESHOLDS, THRESHOLDS, THRESHOLDS),
        duplicate_threshold=THRESHOLDS,
        seed=st.none() | st.integers(0, 2**53 - 1),
    )
)
def test_a_netem_is_decoded_as_it_was_encoded(netem: Netem) -> None:
    assert netem_of(sent_and_decoded(netem)) == netem


def test_a_delay_table_is_sent_as_16_bit_values_in_the_order_given() -> None:
    sent = dict(options(Netem(limit_packets=1, jitter_ns=5, delay_table=(-8192, 0, 8192)))["attrs"])

    assert sent["TCA_NETEM_DELAY_DIST"] == bytes.fromhex("00e000000020")


def test_a_certain_change_of_state_is_met_by_every_draw_but_one() -> None:
    assert transition_of(1) == 2**32 - 1


def test_every_setting_that_could_stick_is_sent() -> None:
    """netem keeps what a change does not mention."""
    sent = {name for name, _ in options(Netem(limit_packets=1))["attrs"]}

    assert sent == {
        f"TCA_NETEM_{name}"
        for name in ("CORR", "REORDER", "CORRUPT", "RATE", "RATE64", "LATENCY64", "JITTER64", "ECN", "SLOT")
    }


def test_what_the_kernel_tells_of_a_harsh_netem_is_understood() -> None:
    assert netem_of(decoded(bytes.fromhex(HARSH))) == Netem(
        limit_packets=77,
        delay_ns=300_000_000,
        jitter_ns=5_000_000,
        rate_bytes_per_s=10_000_000_000,
        overhead_bytes=4,
        corrupt_threshold=128_849_019,
        loss_threshold=42_949_673,
        duplicate_threshold=85_899_346,
        seed=7068487515303855011,
        extras=("cells", "correlation"),
    )


def test_what_the_kernel_tells_of_a_mild_netem_is_understood() -> None:
    assert netem_of(decoded(bytes.fromhex(WAITING))) == Netem(
        limit_packets=78,
        delay_ns=10**9,
        rate_bytes_per_s=1_250_000,
        corrupt_threshold=42_949_673,
        seed=2438271973817052439,
    )


def test_the_kernels_counters_are_understood() -> None:
    assert counters_of(decoded(bytes.fromhex(WAITING))) == {
        "packets": 0,
        "bytes": 0,
        "dropped_packets": 0,
        "waiting_packets": 3,
        "waiting_bytes": 426,
        "corrupted_packets": 0,
        "lost_packets": 0,
        "duplicated_packets": 0,
    }


def test_a_kernel_that_counts_no_corruption_is_not_spoken_for() -> None:
    message = decoded(bytes.fromhex(WAITING))
    counters = message.get_attr("TCA_STATS2")
    counters["attrs"] = [attribute for attribute in counters["attrs"] if attribute[0] != "TCA_STATS_APP"]

    assert "corrupted_packets" not in counters_of(message)


def test_a_netem_read_back_as_it_was_sent_does_not_differ() -> None:
    assert differences(Netem(limit_packets=5, delay_ns=7), Netem(limit_packets=5, delay_ns=7)) == []


def test_a_seed_of_the_kernels_own_is_no_difference() -> None:
    assert differences(Netem(limit_packets=5), Netem(limit_packets=5, seed=99)) == []


def test_a_seed_that_was_asked_for_and_is_not_there_is_a_difference() -> None:
    assert differences(Netem(limit_packets=5, seed=1), Netem(limit_packets=5)) == ["seed: expected 1, got None"]


def test_an_impairment_that_nobody_asked_for_is_a_difference() -> None:
    found = Netem(limit_packets=5, extras=("loss",))

    assert differences(Netem(limit_packets=5), found) == ["extras: expected (), got ('loss',)"]

"""A run's values."""

import sys

import pytest

from owlt.agents.contract.placeholders import RunValues


@pytest.fixture
def run_values() -> RunValues:
    return RunValues(
        python=sys.executable,
        third_party="/var/third-party",
        file="/run/owlt/file",
        received_file="/run/owlt/received",
        file_size_bytes=100_000,
        rate_bps=10e6,
        reverse_rate_bps=10e6,
        one_way_delay_s=0.025,
        rtt_s=0.05,
        channel_rate_bps=10e6,
        channel_one_way_delay_s=0.025,
        mtu_bytes=1500,
        packet_error_rate=0.001,
        bit_error_rate=0,
        reverse_bit_error_rate=0,
        sender_address="10.77.0.1",
        receiver_address="10.77.0.2",
        sender_interface="test0",
        receiver_interface="test0",
        run_dir="/run/owlt",
        seed=4_000_000_000,
    )

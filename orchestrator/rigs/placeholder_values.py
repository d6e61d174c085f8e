"""The values of the {placeholders} that a profile may use: of one run, on one host of a rig.

`agents.contract.placeholders` has their names, units and descriptions.
"""

from __future__ import annotations

from owlt.agents.contract.placeholders import RunValues
from owlt.emulator.channel.spec import ChannelSpec
from owlt.orchestrator.planning.plan import AdvertisedValues, Run
from owlt.orchestrator.planning.run_channel import equivalent_bit_error_rate
from owlt.orchestrator.rigs.rig import Rig

ETHERNET_HEADER_BYTES = 14


def placeholder_values(
    run: Run,
    rig: Rig,
    channel: ChannelSpec,
    advertised: AdvertisedValues,
    file: str | None,
    received_file: str,
    run_dir: str,
) -> dict[str, str]:
    """Return them by name, as text. `file` (None: none is sent), `received_file` and `run_dir` are paths on hosts."""
    point = run.permutation
    mtu_bytes = min(channel.path_mtu_bytes, channel.forward.mtu_bytes or channel.path_mtu_bytes)
    return RunValues(
        python=rig.python,
        third_party=rig.third_party,
        file=file or "",
        received_file=received_file,
        file_size_bytes=point.file_size_bytes or 0,
        duration_s=run.duration_s,
        rate_bps=advertised.rate_bps,
        reverse_rate_bps=channel.reverse.rate_bps,
        one_way_delay_s=advertised.one_way_delay_s,
        rtt_s=advertised.rtt_s,
        channel_rate_bps=point.rate_bps,
        channel_one_way_delay_s=point.delay_ns / 1e9,
        mtu_bytes=mtu_bytes,
        packet_error_rate=point.packet_error_rate,
        bit_error_rate=equivalent_bit_error_rate(channel.forward, ETHERNET_HEADER_BYTES + mtu_bytes),
        reverse_bit_error_rate=equivalent_bit_error_rate(channel.reverse, ETHERNET_HEADER_BYTES + mtu_bytes),
        sender_address=rig.sender.address,
        receiver_address=rig.receiver.address,
        sender_interface=rig.sender.interface,
        receiver_interface=rig.receiver.interface,
        run_dir=run_dir,
        seed=run.seed,
    ).as_text()

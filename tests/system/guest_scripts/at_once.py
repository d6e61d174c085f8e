"""Configures ten channels at the same time, each the same both ways; tells what was refused and what is there."""

import json
from concurrent.futures import ThreadPoolExecutor

from owlt.emulator.channel.spec import ChannelSpec, LinkSpec
from owlt.emulator.faults import EmulatorError
from owlt.emulator.service.client import EmulatorClient
from tests.system.guest_scripts import three_hosts


def configure(delay_ns: int) -> str:
    """What is said against a channel whose rate is the number of its delay."""
    link = LinkSpec(delay_ns=delay_ns, rate_bps=delay_ns)
    try:
        EmulatorClient(three_hosts.URL).configure(ChannelSpec(forward=link, reverse=link))
    except EmulatorError as error:
        return str(error)
    return ""


three_hosts.make()
with three_hosts.service() as emulator, ThreadPoolExecutor(10) as pool:
    refusals = list(pool.map(configure, range(10**6, 11 * 10**6, 10**6)))
    print(json.dumps({"refusals": refusals, "described": emulator.describe().model_dump()}))

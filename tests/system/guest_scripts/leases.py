"""Serves a channel to who has the token and the lease, and to who has not; lets leases expire on the guest's clock."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from signal import SIGTERM
from typing import Any
from xmlrpc.client import Fault, ServerProxy

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.service.client import EmulatorClient
from owlt.emulator.service.methods import CHANGING
from tests.system.guest_scripts import three_hosts

TOKEN = "a-token-of-this-test"
CHANNEL = ChannelSpec.from_wire({"forward": {"delay": "25 ms", "rate": "10 Mbit/s"}, "reverse": {"delay": "1 s"}})
OTHER = ChannelSpec.from_wire({"forward": {"delay": "50 ms"}}).to_wire()
PARAMETERS: dict[str, tuple[Any, ...]] = {
    "configure": (OTHER,),
    "change": ("forward", {"delay": "50 ms"}),
    "faults_replace": ([],),
    "certify": (OTHER, {}),
}


def attempts(**shown: str) -> dict[str, object]:
    """Make every call that changes something; tell the fault of each, and whether anything is other than before."""
    before = three_hosts.shaped()
    found: dict[str, object] = {}
    for method in CHANGING:
        with ServerProxy(three_hosts.URL, headers=list(shown.items())) as service:
            try:
                getattr(service, method)(*PARAMETERS.get(method, ()))
                code = 0
            except Fault as fault:
                code = fault.faultCode
        found[method] = {"code": code, "changed": three_hosts.shaped() != before}
    return found


def there_at(began_s: float, after_s: float) -> bool:
    """Whether the channel is there so long after a moment."""
    time.sleep(began_s + after_s - time.monotonic())
    return "netem" in three_hosts.shaped()


def expiry(client: EmulatorClient, renew: Callable[[], None]) -> dict[str, bool]:
    """Take a lease of ten seconds that `renew` may renew after five; tell when the channel is there."""
    client.lease("night", 10)
    began_s = time.monotonic()
    client.configure(CHANNEL)
    found = {"5 s": there_at(began_s, 5)}
    renew()
    return found | {f"{after_s:g} s": there_at(began_s, after_s) for after_s in (9.99, 10.01, 14.99, 15.01)}


three_hosts.make()
seen: dict[str, object] = {"before": three_hosts.shaped()}
token_file = Path("/run/emulator-token")
token_file.touch(mode=0o600)
token_file.write_text(TOKEN)
command = [*three_hosts.SERVICE[:-1], "--token-file", str(token_file), *three_hosts.PORTS]
with three_hosts.process(three_hosts.on("emulator", command), "listening", "stdout", SIGTERM):
    client = EmulatorClient(three_hosts.URL, token=TOKEN)
    client.configure(CHANNEL)
    seen["without_token"] = attempts()
    seen["wrong_token"] = attempts(Authorization="Bearer another-token-than-this")
    lease = client.lease("night", 600)
    client.configure(CHANNEL)
    seen["without_lease"] = attempts(Authorization=f"Bearer {TOKEN}")
    seen["wrong_lease"] = attempts(**{"Authorization": f"Bearer {TOKEN}", "X-Owlt-Lease": "0123456789abcdef"})
    seen["with_both"] = {}
    for method in ("configure", "change", "bypass", "clear"):
        client.configure(CHANNEL)
        there = three_hosts.shaped()
        with ServerProxy(
            three_hosts.URL, headers=[("Authorization", f"Bearer {TOKEN}"), ("X-Owlt-Lease", lease)]
        ) as service:
            getattr(service, method)(*PARAMETERS.get(method, ()))
        seen["with_both"][method] = three_hosts.shaped() != there  # type: ignore[index]
    client.configure(CHANNEL)
    client.release()
    seen["released"] = three_hosts.shaped()
    seen["expired"] = expiry(client, lambda: None)
    seen["renewed"] = expiry(client, lambda: client.renew(10))
    seen["cleared"] = three_hosts.shaped()
print(json.dumps(seen))

"""Measures channels in a guest, one after the other, and prints what came of each as a line of JSON.

in_guest.py CASES ALPHA, with CASES a JSON list of `name`, `channel`, `truth` (applied instead, or null), `options`;
in_guest.py curve JSON, with `bit_error_rates`, `lengths_bytes`, at least so many `packets` and about so
many `events`: how many frames of each length are hit.
"""

import json
import subprocess
import sys
from typing import Any

from tests.system.guest_scripts import three_hosts

PORTS = ("to-sender", "to-receiver")
MTU_BYTES = 9000
BUDGET_S = 50_000.0
"""As in a sweep on a virtual clock."""


def certify_all(cases: list[dict[str, Any]], alpha: float) -> None:
    """One line a case."""
    from owlt.emulator.certification.certificate import VIRTUAL_TOLERANCE_NS
    from owlt.emulator.certification.certify import certify
    from owlt.emulator.channel.spec import ChannelSpec
    from owlt.emulator.service.emulator import Emulator

    emulator = Emulator(*PORTS)
    for case in cases:
        asked = ChannelSpec.from_wire(case["channel"])
        emulator.configure(case["channel"] if case["truth"] is None else case["truth"])
        options = {"alpha": alpha, "tolerance_ns": VIRTUAL_TOLERANCE_NS, "budget_s": BUDGET_S} | case["options"]
        certificate = certify(asked, PORTS, **options)
        print(json.dumps({"name": case["name"], "certificate": certificate.to_wire()}), flush=True)
    emulator.stop()


def draw_curve(asked: dict[str, Any]) -> None:
    """One line a bit error rate and length."""
    import numpy as np

    from owlt.emulator.certification import probe_statistics
    from owlt.emulator.certification.probing import Probes, prober
    from owlt.emulator.kernel.ports import survey
    from owlt.emulator.kernel.rtnetlink import open_rtnetlink
    from owlt.emulator.service.emulator import Emulator

    emulator = Emulator(*PORTS)
    gap_ns = 10_000
    for rate in asked["bit_error_rates"]:
        for length in asked["lengths_bytes"]:
            emulator.configure({"forward": {"bit_error_rate": rate, "seed": length}})
            with open_rtnetlink() as netlink:
                entrance, exit_ = (survey(netlink).links[port]["index"] for port in PORTS)
                with prober(netlink, entrance, exit_, length) as probing:
                    count = max(asked["packets"], round(asked["events"] / (8 * length * rate)))
                    due_ns = np.arange(count) * gap_ns
                    seen = probing.send(Probes(np.full(count, length), due_ns, 10**7, 1000 * gap_ns, True))
            hit = probe_statistics.damaged(seen)
            print(
                json.dumps({"rate": rate, "length_bytes": length, "hits": hit.hits, "trials": hit.trials}), flush=True
            )
    emulator.stop()


if __name__ == "__main__":
    if sys.argv[1] == "inside":
        if sys.argv[2] == "curve":
            draw_curve(json.loads(sys.argv[3]))
        else:
            certify_all(json.loads(sys.argv[2]), float(sys.argv[3]))
    else:
        three_hosts.make()
        for port in PORTS:
            three_hosts.run(f"ip -n emulator link set {port} mtu {MTU_BYTES}")
        for host in three_hosts.ADDRESSES:
            three_hosts.run(f"ip -n {host} link set test0 mtu {MTU_BYTES}")
        inside = [sys.executable, __file__, "inside", *sys.argv[1:]]
        subprocess.run(three_hosts.on("emulator", inside), check=True)

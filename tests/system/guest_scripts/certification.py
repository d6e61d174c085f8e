"""Applies channels to the emulator's ports, certifies each, perhaps against another one, and prints what came of it.

certification.py JSON: a list of cases, each with `applied` and `certified` (channels as they are written), `options`
(of `certify`), `mtu_bytes` (of the ports) and `fails_at` (the measurement, from 0, in which everything fails). Each
case is a process of its own; the results are printed in the same order.
"""

import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

from tests.system.guest_scripts import three_hosts

PORTS = ("to-sender", "to-receiver")


def state() -> str:
    """All interfaces, queueing disciplines and filters, without counters."""
    filters = "".join(
        three_hosts.run(f"tc filter show dev {port} {way}") for port in PORTS for way in ("ingress", "egress")
    )
    return three_hosts.run("ls /sys/class/net") + three_hosts.run("tc qdisc show") + filters


def certified(asked: dict[str, Any]) -> dict[str, Any]:
    """What came of a case."""
    from owlt.emulator.certification.certificate import VIRTUAL_TOLERANCE_NS
    from owlt.emulator.certification.certify import certify
    from owlt.emulator.certification.probing import Prober, ProbeResult, Probes
    from owlt.emulator.channel.spec import ChannelSpec
    from owlt.emulator.service.emulator import Emulator

    counted = {"sent": 0, "delivered": 0, "measurements": 0}
    send = Prober.send

    def counting(prober: Prober, probes: Probes) -> ProbeResult:
        if counted["measurements"] == asked.get("fails_at"):
            raise KeyboardInterrupt
        seen = send(prober, probes)
        counted["measurements"] += 1
        counted["sent"] += len(seen.sent_ns)
        counted["delivered"] += len(seen.copy_number)
        return seen

    Prober.send = counting  # type: ignore[assignment,method-assign]
    emulator = Emulator(*PORTS)
    emulator.configure(asked["applied"])
    told: dict[str, Any] = {"before": state()}
    try:
        certified = ChannelSpec.from_wire(asked.get("certified", asked["applied"]))
        certificate = certify(certified, PORTS, **{"tolerance_ns": VIRTUAL_TOLERANCE_NS} | asked.get("options", {}))
        told |= {"certificate": certificate.to_wire(), "suspicion": certificate.suspicion()}
    except KeyboardInterrupt:
        told["interrupted"] = True
    told |= {"after": state(), "counted": counted}
    told["tc"] = json.loads(three_hosts.run("tc -s -j qdisc show"))
    emulator.stop()
    return told


def in_a_process(asked: dict[str, Any]) -> Any:
    """What `certified` returns, in a copy of this process; its traceback if it fails."""
    answer = Path(os.environ["OUT_DIR"], "case.json")
    pid = os.fork()
    if pid == 0:
        try:
            answer.write_text(json.dumps(certified(asked)))
        except BaseException:
            answer.write_text(json.dumps(traceback.format_exc()))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    return json.loads(answer.read_text())


def main(cases: list[dict[str, Any]]) -> None:
    """Certify in each case, and print."""
    from owlt.emulator.certification import certify  # noqa: F401  # imported once, before the copies
    from owlt.emulator.service import emulator  # noqa: F401

    told = []
    for asked in cases:
        for port in PORTS:
            three_hosts.run(f"ip link set {port} mtu {asked.get('mtu_bytes', 1500)}")
        told.append(in_a_process(asked))
    print(json.dumps(told))


if __name__ == "__main__":
    if sys.argv[1] == "inside":
        main(json.loads(sys.argv[2]))
    else:
        three_hosts.make()
        inside = [sys.executable, __file__, "inside", sys.argv[1]]
        subprocess.run(three_hosts.on("emulator", inside), check=True)

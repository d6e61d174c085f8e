"""What a run leaves on its hosts does not change the packets of the next run in the same guest, on each clock.

The packets of `programs/leftovers.py` show what it finds. Between each two runs that leave something lies an honest
one: all of these have the same packets, and those between them show that what they left was there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import RawPcapReader

from owlt.agents.contract.implementation import Clock, load_implementation
from owlt.inputs.sweep import Sweep
from owlt.orchestrator.planning.plan import Batch, plan_sweep
from owlt.orchestrator.rigs import guest
from owlt.orchestrator.sweep.campaign import Start, perform_plan
from tests.system.programs.leftovers import OBSERVED

pytestmark = pytest.mark.timeout(900)
"""All runs that these tests examine are performed before the first test."""
PROGRAM = f"{guest.PROJECT}/tests/system/programs/leftovers.py"
GROUPS = ("settings", "forged packets", "broken path", "no path")
CLOCKS: tuple[Clock, ...] = ("exact", "skip", "real")
ALWAYS_THE_SAME = ("connections", "TCP metrics", "clock", "name", "settings of the kernel")
"""Settings that the group "settings" does not change; it changes all others."""
TTL = 77


def profile(group: str, directory: Path) -> Path:
    """An implementation that leaves a group of things."""
    sides = {
        role: {
            "command": ["{python}", PROGRAM, role, f"{{{role}_address}}", f"{{{peer}_address}}", file, group],
            "sysctls": {"net.ipv4.ip_default_ttl": str(TTL)} if group == "settings" else {},
        }
        for role, peer, file in (("sender", "receiver", "{file}"), ("receiver", "sender", "{received_file}"))
    }
    sides["receiver"]["ready"] = {"line": "^ready$"}
    name = f"leaves-{group.replace(' ', '-')}"
    path = directory / f"{name}.yaml"
    path.write_text(
        json.dumps(
            {
                "name": name,
                "title": name,
                "protocol": "NONE",
                "description": "for tests of what a run leaves behind",
                **sides,
                "capabilities": ["NET_ADMIN"],
                "session": {"udp_ports": [5000], "tcp_ports": [5001]},
                "time_limit": {"rtts": 0, "file_times": 0, "extra_s": 30},
            }
        )
    )
    return path


@dataclass(frozen=True)
class Performed:
    """The directories of the runs, in their order."""

    honest: list[Path]
    hostile: dict[str, Path]


@pytest.fixture(scope="module")
def performed(tmp_path_factory: pytest.TempPathFactory, guest_kernel: object) -> Callable[[Clock], Performed]:
    """Performs the runs on a clock, once: all in one guest."""
    known: dict[str, Performed] = {}

    def perform(clock: Clock) -> Performed:
        if clock not in known:
            known[clock] = performed_on(clock, tmp_path_factory.mktemp(clock))
        return known[clock]

    return perform


def performed_on(clock: Clock, directory: Path) -> Performed:
    files = {group: profile(group, directory) for group in ("honest", *GROUPS)}
    implementations = {path.stem: load_implementation(path) for path in files.values()}
    sweep = Sweep.model_validate(
        {
            "name": "leftovers",
            "seed": 7,
            "clock": clock,
            "implementations": [str(path) for path in files.values()],
            "file_size": "4 kB",
            "rate": "10 Mbit/s",
            "delay": "25 ms",
            "packet_error_rate": 0,
            "repetitions": len(files),
            "certify": False,
            "keep_captures": "full",
        }
    )
    drawn = plan_sweep(sweep, implementations)
    runs = {(run.permutation.implementation, run.repetition): run for run in drawn.runs}
    honest = [runs[files["honest"].stem, number] for number in range(1, len(files) + 1)]
    hostile = [runs[files[group].stem, 1] for group in GROUPS]
    order = [run for pair in zip(honest, hostile, strict=False) for run in pair] + honest[-1:]
    plan = drawn.model_copy(update={"batches": [Batch(index=0, seed=1, runs=order)]})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OWLT_PATIENCE_S", "0")  # a run that other work delayed is not repeated in another order
        perform_plan(Start(plan, directory / "results", "again"), lambda *_: lambda _event: None)
    places = directory / "results" / "runs"
    return Performed(
        [places / run.run_id for run in honest],
        {group: places / run.run_id for group, run in zip(GROUPS, hostile, strict=True)},
    )


@cache
def packets(run: Path) -> frozenset[str]:
    """The parts of a run's packets that do not depend on time and chance: all of UDP, sizes and options of TCP."""
    return frozenset(f"{name} {text}" for name in ("sender.pcap", "receiver.pcap") for text in frames(run / name))


def frames(capture: Path) -> Iterator[str]:
    with RawPcapReader(str(capture)) as reader:
        for octets, _ in reader:
            frame = Ether(octets)
            if IP not in frame:
                yield octets.hex()
                continue
            ip = frame[IP]
            shown = f"{frame.src} {frame.dst} {ip.src} {ip.dst} {ip.proto} {ip.ttl} {ip.tos} {ip.flags} {ip.len}"
            if UDP in frame:
                yield f"{shown} {ip[UDP].sport} {ip[UDP].dport} {bytes(ip[UDP].payload)!r}"
            elif TCP in frame:
                options = [(kind, value if kind in ("MSS", "WScale") else "") for kind, value in ip[TCP].options]
                yield f"{shown} {ip[TCP].sport} {ip[TCP].dport} {options}"
            else:
                yield f"{shown} {bytes(ip.payload)!r}"


def record(run: Path) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((run / "record.json").read_text())
    return read


def told_of(name: str, run: Path) -> set[str]:
    """The packets that show one thing that was observed."""
    return {text for text in packets(run) if f": {name} = " in text}


@pytest.mark.parametrize("clock", CLOCKS)
def test_each_honest_run_has_the_same_packets(performed: Callable[[Clock], Performed], clock: Clock) -> None:
    honest = performed(clock).honest
    first = packets(honest[0])

    assert len(first) > 2 * len(OBSERVED)
    for run in honest[1:]:
        assert packets(run) ^ first == set(), run


@pytest.mark.parametrize("clock", CLOCKS)
def test_each_honest_run_completes_without_suspicion(performed: Callable[[Clock], Performed], clock: Clock) -> None:
    records = [record(run) for run in performed(clock).honest]
    doubts = [doubt for each in records for doubt in each["suspect"]]

    assert [each["outcome"] for each in records] == ["completed"] * len(records), [each["reason"] for each in records]
    assert not [doubt for doubt in doubts if clock != "real" or not doubt.startswith("the machine was busy: ")]


@pytest.mark.parametrize("clock", CLOCKS)
def test_the_name_of_a_host_resolves_in_each_run(performed: Callable[[Clock], Performed], clock: Clock) -> None:
    for run in performed(clock).honest:
        assert {text.split(" b'")[1] for text in told_of("name", run)} == {
            "sender: name = sender at 10.77.0.1'",
            "receiver: name = receiver at 10.77.0.2'",
        }


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("name", [name for name in OBSERVED if name not in ALWAYS_THE_SAME])
def test_what_a_run_leaves_is_in_its_own_packets(
    performed: Callable[[Clock], Performed], clock: Clock, name: str
) -> None:
    runs = performed(clock)
    before, own = (told_of(name, run) for run in (runs.honest[0], runs.hostile["settings"]))

    assert len(before) == len(own) == 4
    assert not {text.partition(" = ")[2] for text in own} & {text.partition(" = ")[2] for text in before}


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_setting_of_the_profile_is_in_its_own_packets(performed: Callable[[Clock], Performed], clock: Clock) -> None:
    own = packets(performed(clock).hostile["settings"])

    assert all(f" {TTL} 0 DF " in text for name in OBSERVED for text in own if f": {name} = " in text)


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_process_is_killed_with_its_run(performed: Callable[[Clock], Performed], clock: Clock) -> None:
    run = performed(clock).hostile["settings"]

    assert any("b'left'" in text for text in packets(run))
    assert all(record(run)[role]["left_running"] for role in ("sender", "receiver"))


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize("line", ["date -s", "/proc/sys/kernel/hostname", "/var/log/left"])
def test_what_would_outlast_a_run_elsewhere_is_refused(
    performed: Callable[[Clock], Performed], clock: Clock, line: str
) -> None:
    printed = (performed(clock).hostile["settings"] / "sender.out").read_text()

    assert f"{line}" in printed
    assert [each.endswith("was refused") for each in printed.splitlines() if line in each] == [True]


@pytest.mark.parametrize("clock", CLOCKS)
def test_forged_packets_have_an_effect_in_their_own_run_only(
    performed: Callable[[Clock], Performed], clock: Clock
) -> None:
    run = performed(clock).hostile["forged packets"]
    own = packets(run)

    assert record(run)["outcome"] == "completed", record(run)["reason"]
    assert any("a long packet = " in text for text in own)
    assert [text for text in own if text.startswith("sender.pcap") and b"forged".hex() in text]


@pytest.mark.parametrize("clock", CLOCKS)
def test_the_emulator_does_not_answer_on_the_test_path(performed: Callable[[Clock], Performed], clock: Clock) -> None:
    own = packets(performed(clock).hostile["forged packets"])
    of_arp = [text.split()[1] for text in own if text.split()[1][24:28] == "0806"]

    assert len(of_arp) == 2
    assert {text[12:24] for text in of_arp} == {"020000004d02"}


@pytest.mark.parametrize("clock", CLOCKS)
def test_a_broken_path_is_left_by_its_own_run_only(performed: Callable[[Clock], Performed], clock: Clock) -> None:
    for role in ("sender", "receiver"):
        printed = (performed(clock).hostile["broken path"] / f"{role}.out").read_text()

        assert "DOWN" in printed
        assert "02:00:00:00:4d:77" in printed
        assert "blackhole" in printed


@pytest.mark.parametrize("clock", CLOCKS)
def test_an_honest_run_too_leaves_a_connection_and_metrics(
    performed: Callable[[Clock], Performed], clock: Clock
) -> None:
    printed = (performed(clock).honest[0] / "sender.out").read_text()

    assert "01004D0A:138A 02004D0A:1389" in printed
    assert "10.77.0.2 age" in printed


@pytest.mark.parametrize("clock", CLOCKS)
def test_an_implementation_that_removes_its_interface_has_failed(
    performed: Callable[[Clock], Performed], clock: Clock
) -> None:
    read = record(performed(clock).hostile["no path"])

    assert (read["outcome"], read["reason_code"]) == ("failed", "host_changed"), read["reason"]
    assert read["reason"].startswith("the receiver removed its host's interface test0; ")

"""Three bare machines with systemd become a rig with one command, run a sweep, and are given back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from emulator.service.client import EmulatorClient
from tests.conftest import require, require_command
from tests.lab.rack import BARE, PORT_MACS, ROLES, SERVICE_PORT, Rack, leftovers, rack, wait_until
from tests.system.sweeps import owlt, records, sweep_file

pytestmark = pytest.mark.timeout(2000)
PROTOCOLS = ["cfdp", "ltp", "norm", "tcp"]
RECAP = re.compile(r"^(rack-\w+) +: ok=\d+ +changed=(\d+) +unreachable=0 +failed=0", re.MULTILINE)
PROVISION_S = 800
ROOT = Path(os.environ.get("OWLT_RACK_ROOT", "/"))
"""The tree that the hosts' file systems are made of, such as that of another release of Debian (CONTRIBUTING.md)."""


@dataclass(frozen=True)
class Provisioned:
    """A rack, what check mode said of it before, and what provisioning it said."""

    rack: Rack
    check: subprocess.CompletedProcess[str]
    accounts_after_check: str
    first: subprocess.CompletedProcess[str]


def play(the_rack: Rack, verb: str, *words: object) -> subprocess.CompletedProcess[str]:
    key = the_rack.directory / "root_key"
    return owlt("rig", verb, the_rack.inventory, *words, "--admin-key", key, timeout_s=PROVISION_S)


def changes(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """How many tasks changed each host."""
    return {host: int(count) for host, count in RECAP.findall(done.stdout)}


CPUS, GOVERNOR = "/sys/devices/system/cpu", "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
MAKE_CPUFREQ = f"""mount -t tmpfs cpufreq {CPUS}
echo 0-1 >{CPUS}/online
mkdir -p {CPUS}/cpufreq/policy0
echo performance ondemand powersave >{CPUS}/cpufreq/policy0/scaling_available_governors
echo ondemand >{GOVERNOR}
"""
"""A host whose processor has governors: this machine's may have none."""


@pytest.fixture(scope="module")
def provisioned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provisioned]:
    require(os.geteuid() == 0, "root, to make network namespaces")
    for command in ("sshd", "sudo", "openssl", "systemctl"):
        require_command(command)
    require(Path("/lib/systemd/systemd").exists(), "systemd")
    require((Path(sys.executable).parent / "ansible-playbook").exists(), "ansible-core, owlt's extra 'lab'")
    require(not leftovers(BARE), "a machine on which no rack stands")
    with rack(tmp_path_factory.mktemp("bare"), bare=True, root=ROOT) as made:
        (made.directory / "token").unlink()
        made.check("receiver", "sh", "-ec", MAKE_CPUFREQ)
        check = play(made, "provision", "--check")
        accounts = made.check("emulator", "cat", "/etc/passwd")
        yield Provisioned(made, check, accounts, play(made, "provision"))


def test_check_mode_lists_changes_and_makes_none(provisioned: Provisioned) -> None:
    counted = changes(provisioned.check)

    assert provisioned.check.returncode == 0, provisioned.check.stdout[-3000:]
    assert len(counted) == 3
    assert min(counted.values()) > 3
    assert "owlt:" not in provisioned.accounts_after_check


def test_bare_machines_become_a_rig_with_one_command(provisioned: Provisioned) -> None:
    assert provisioned.first.returncode == 0, provisioned.first.stdout[-3000:]

    done = owlt("doctor", "--rig", provisioned.rack.inventory, "--json")
    missing = [each["name"] for each in json.loads(done.stdout) if not each["found"]]
    assert not [name for name in missing if "kernel:" not in name and "socket buffers" not in name], done.stdout


def test_the_frequency_governor_is_set_and_a_machine_without_one_is_skipped_in_words(provisioned: Provisioned) -> None:
    assert provisioned.rack.check("receiver", "cat", GOVERNOR) == "performance\n"
    skipped = "skipped: test0: it has no interrupts of its own"
    assert provisioned.rack.check("receiver", "owlt-tune", "check", "performance", "card", "test0") == f"{skipped}\n"
    if not Path("/sys/devices/system/cpu/cpufreq/policy0").exists():
        assert "skipped: frequency governor: this machine has no cpufreq" in provisioned.rack.check(
            "sender", "owlt-tune", "check", "performance", "card", "test0"
        )


def test_systemd_networkd_is_kept_from_a_port_by_name_and_from_one_by_address(provisioned: Provisioned) -> None:
    shown = provisioned.rack.check("emulator", "sh", "-c", "cat /etc/systemd/network/10-owlt-*.network")

    assert "Name=to-receiver" in shown.splitlines()
    assert f"MACAddress={PORT_MACS['sender']}" in shown.splitlines()


def addresses(the_rack: Rack) -> dict[str, list[str]]:
    """The addresses of the bridge and its ports."""
    shown = json.loads(the_rack.check("emulator", "ip", "-json", "address", "show"))
    names = ("owlt-channel", "to-sender", "to-receiver")
    return {each["ifname"]: [a["local"] for a in each["addr_info"]] for each in shown if each["ifname"] in names}


def ipv6_of_ports_is_off(the_rack: Rack) -> str:
    settings = [f"/proc/sys/net/ipv6/conf/to-{role}/disable_ipv6" for role in ("sender", "receiver")]
    return the_rack.check("emulator", "cat", *settings)


def test_the_emulators_bridge_and_ports_send_no_packets_of_their_own(provisioned: Provisioned) -> None:
    assert addresses(provisioned.rack) == {"owlt-channel": [], "to-sender": [], "to-receiver": []}
    assert ipv6_of_ports_is_off(provisioned.rack) == "1\n1\n"


def test_a_second_run_changes_nothing(provisioned: Provisioned) -> None:
    again = play(provisioned.rack, "provision")

    assert changes(again) == dict.fromkeys(("rack-sender", "rack-emulator", "rack-receiver"), 0), again.stdout[-3000:]


def test_a_provisioned_rig_performs_a_sweep_of_four_protocols(provisioned: Provisioned, tmp_path: Path) -> None:
    sweep = sweep_file(
        tmp_path, implementations=PROTOCOLS, file_size="1 MB", rate="unlimited", delay="0 s", certify=False
    )
    done = owlt("run", sweep, "--rig", provisioned.rack.inventory, "--results", tmp_path / "results", "--no-report")

    found = {each["implementation"]: each["outcome"] for each in records(tmp_path / "results").values()}
    assert (done.returncode, found) == (0, dict.fromkeys(PROTOCOLS, "completed")), done.stderr


def test_the_emulator_is_started_again_when_it_was_killed(provisioned: Provisioned) -> None:
    before = provisioned.rack.check("emulator", "systemctl", "show", "--value", "-p", "MainPID", "owlt-emulator")
    provisioned.rack.check("emulator", "systemctl", "kill", "--signal=KILL", "owlt-emulator")

    def is_back() -> bool:
        shown = owlt("rig", "status", provisioned.rack.inventory, "--json")
        return "problem" not in json.loads(shown.stdout)["lease"]

    wait_until(is_back, "the emulator's service", 60)
    after = provisioned.rack.check("emulator", "systemctl", "show", "--value", "-p", "MainPID", "owlt-emulator")
    assert before != after


MAKE_OLDER = """cd /opt/owlt
echo older >installed.tar
echo "raise SystemExit(1)" >source/agents/removed_since.py
printf '#!/bin/sh\nexit 1\n' >bin/uv.failing
chmod +x bin/uv.failing
mv bin/uv bin/uv.real
mv bin/uv.failing bin/uv
"""
"""A host with an older owlt, on which installing fails."""


def main_pid(the_rack: Rack) -> str:
    return the_rack.check("emulator", "systemctl", "show", "--value", "-p", "MainPID", "owlt-emulator")


def test_an_update_that_failed_is_repeated_removes_old_modules_and_restarts_the_service(
    provisioned: Provisioned,
) -> None:
    before = main_pid(provisioned.rack)
    provisioned.rack.check("emulator", "sh", "-ec", MAKE_OLDER)
    failed = play(provisioned.rack, "update")
    after_failure = main_pid(provisioned.rack)
    provisioned.rack.check("emulator", "mv", "/opt/owlt/bin/uv.real", "/opt/owlt/bin/uv")
    repeated = play(provisioned.rack, "update")

    assert (failed.returncode != 0, after_failure) == (True, before), failed.stdout[-3000:]
    assert repeated.returncode == 0, repeated.stdout[-3000:] + repeated.stderr
    assert main_pid(provisioned.rack) != before
    assert provisioned.rack.run("emulator", "test", "-e", "/opt/owlt/source/agents/removed_since.py").returncode == 1
    provisioned.rack.check("emulator", "cmp", "/opt/owlt/source.tar", "/opt/owlt/installed.tar")


def test_an_update_is_refused_while_somebody_else_has_the_rig(provisioned: Provisioned) -> None:
    token = (provisioned.rack.directory / "token").read_text().strip()
    url = f"https://{BARE.addresses['emulator']}:{SERVICE_PORT}"
    other = EmulatorClient(url, token=token, ca_file=provisioned.rack.directory / "certificate.pem")
    other.lease("ada@bench: owlt, sweep night", 60)
    try:
        done = play(provisioned.rack, "update")
    finally:
        other.release()

    assert done.returncode == 2
    assert "rack cannot be updated: lease: ada@bench: owlt, sweep night holds it" in done.stderr


def test_a_rig_is_verified_and_what_differs_is_named(provisioned: Provisioned, tmp_path: Path) -> None:
    provisioned.rack.check("receiver", "sh", "-c", f"echo >>/etc/sysctl.d/90-owlt.conf; echo powersave >{GOVERNOR}")
    provisioned.rack.check("emulator", "ethtool", "-K", "to-sender", "gso", "on")
    done = play(provisioned.rack, "verify", "--results", tmp_path, "--json")
    provisioned.rack.check("emulator", "ethtool", "-K", "to-sender", "gso", "off")

    found = {each["name"]: each for each in json.loads(done.stdout)}
    missing = {name for name, each in found.items() if not each["found"]}
    differing = {name for name in missing if ": kernel:" not in name and "socket buffers" not in name}
    impaired = "certificate: terrestrial"
    assert done.returncode == 1
    assert differing - {impaired} == {"rack-receiver: settings", "cable of the sender: offloads"}, done.stdout
    settings = "differs: Allow large socket buffers; Set processor frequency and interrupts"
    assert found["rack-receiver: settings"]["detail"] == settings
    assert "at the emulator: ethtool -K to-sender gso off" in found["cable of the sender: offloads"]["fix"]
    assert (tmp_path / "certificates" / "clean-link.json").exists()
    if not found[impaired]["found"]:
        assert "does not have netem" in found[impaired]["detail"]


def test_the_token_is_the_services_alone(provisioned: Provisioned) -> None:
    paths = provisioned.rack.check(
        "emulator", "sh", "-c", "ls /etc/owlt/token /run/credentials/owlt-emulator.service/token"
    )
    for path in paths.split():
        done = provisioned.rack.run("emulator", "setpriv", "--reuid=owlt", "--clear-groups", "cat", path)
        assert "Permission denied" in done.stderr, path
    token = provisioned.rack.check("emulator", "cat", "/etc/owlt/token").strip()
    assert len(token) == 64
    assert token not in provisioned.first.stdout + provisioned.first.stderr
    assert token not in provisioned.rack.check("emulator", "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null || :")


def test_the_service_is_hardened(provisioned: Provisioned) -> None:
    shown = provisioned.rack.check("emulator", "systemd-analyze", "security", "--no-pager", "owlt-emulator")

    exposure = re.search(r"Overall exposure level for owlt-emulator.service: ([\d.]+)", shown)
    assert exposure is not None, shown
    assert float(exposure[1]) <= 5.0


def test_the_state_of_the_hosts_is_collected(provisioned: Provisioned, tmp_path: Path) -> None:
    done = play(provisioned.rack, "collect", tmp_path / "collected")

    assert done.returncode == 0, done.stdout[-3000:]
    assert "listening on" in (tmp_path / "collected" / "rack-emulator" / "emulator.txt").read_text()
    for role in ROLES:
        assert "mgmt0" in (tmp_path / "collected" / f"rack-{role}" / "addresses.txt").read_text()


def test_the_rig_can_be_removed(provisioned: Provisioned) -> None:
    """The last test of this rack."""
    if Path("/") == ROOT:
        provisioned.rack.check("emulator", "umount", "-l", "/opt/owlt")
    done = play(provisioned.rack, "remove")

    assert done.returncode == 0, done.stdout[-3000:]
    for role in ROLES:
        assert "owlt:" not in provisioned.rack.check(role, "cat", "/etc/passwd")
        left = ["/etc/sudoers.d/owlt", "/usr/local/sbin/owlt-host", "/usr/local/sbin/owlt-tune"]
        left += ["/etc/sysctl.d/90-owlt.conf", "/etc/owlt"]
        assert provisioned.rack.check(role, "sh", "-c", 'for f; do [ ! -e "$f" ] || echo $f; done', "sh", *left) == ""
    assert provisioned.rack.run("emulator", "systemctl", "list-unit-files", "owlt-*", "--no-legend").stdout == ""
    assert "owlt-channel" not in provisioned.rack.check("emulator", "ip", "link")
    assert provisioned.rack.check("receiver", "cat", GOVERNOR) == "ondemand\n"
    assert ipv6_of_ports_is_off(provisioned.rack) == "0\n0\n"

"""Three bare machines with systemd become a rig with one command, run a sweep, and are given back."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.service.client import EmulatorClient
from tests.commands import owlt
from tests.conftest import require, require_command
from tests.lab.rack import BARE, PORT_MACS, ROLES, SERVICE_PORT, Rack, connects, rack, wait_until
from tests.system.sweeps import records, sweep_file

pytestmark = pytest.mark.timeout(2000)
PROTOCOLS = ["cfdp", "ltp", "norm", "tcp"]
RECAP = re.compile(r"^(rack-\w+) +: ok=\d+ +changed=(\d+) +unreachable=0 +failed=0", re.MULTILINE)
PROVISION_S = 800
ROOT = Path(os.environ.get("OWLT_RACK_ROOT", "/"))
"""The tree that the hosts' file systems are made of, such as that of another release of Debian (CONTRIBUTING.md)."""


@dataclass(frozen=True)
class Provisioned:
    """A rack, what check mode said of it before, and what provisioning it said; what this machine and it were like."""

    rack: Rack
    etc_of_this_machine: str
    found: dict[str, set[str]]
    installed_before: str
    check: subprocess.CompletedProcess[str]
    accounts_after_check: str
    first: subprocess.CompletedProcess[str]
    secrets: list[str]


@dataclass
class Watched:
    """What others can see while playbooks run: their output, and the processes of all hosts and of this machine."""

    output: list[str] = field(default_factory=list)
    commands: set[bytes] = field(default_factory=set)
    environments: set[bytes] = field(default_factory=set)

    @contextmanager
    def processes(self) -> Iterator[None]:
        over = threading.Event()
        watching = threading.Thread(target=self._sample, args=(over,), daemon=True)
        watching.start()
        yield
        over.set()
        watching.join()

    def _sample(self, over: threading.Event) -> None:
        while not over.wait(0.5):
            for process in Path("/proc").glob("[0-9]*"):
                for name, seen in (("cmdline", self.commands), ("environ", self.environments)):
                    with suppress(OSError):  # it may end meanwhile
                        seen.add((process / name).read_bytes())


WATCHED = Watched()


def play(the_rack: Rack, verb: str, *words: object) -> subprocess.CompletedProcess[str]:
    key = the_rack.directory / "root_key"
    with WATCHED.processes():
        done = owlt("rig", verb, the_rack.inventory, *words, "--admin-key", key, timeout_s=PROVISION_S)
    WATCHED.output += [done.stdout, done.stderr]
    return done


STATE = r"""cd /etc
find . -type f -exec sha256sum {} +
find . -printf 'file %y %m %U:%G %p %l\n'
for interface in $(ls /sys/class/net); do
  ethtool -k "$interface" 2>/dev/null | sed "s/^/$interface /"
  ip -oneline link show dev "$interface" up | sed -E 's/^[0-9]+: ([^:@]+).*/up \1/'
done
sysctl net.core.rmem_max net.core.wmem_max net.core.netdev_max_backlog 2>/dev/null || :
systemctl list-units --state=active --type=service,timer,socket,path --plain --no-legend |
  sed -E 's/^([^ ]+).*/active \1/'
"""
REWRITTEN = re.compile(r" \./(passwd-|group-|shadow-|gshadow-|\.pwd\.lock)( |$)")
"""Backups of the program that makes and removes accounts."""
ON_DEMAND = "active systemd-timedated.service"
"""D-Bus starts it when timedatectl asks, and it ends 30 s later (systemd-timedated.service(8))."""


def state_of(the_rack: Rack, role: str) -> set[str]:
    """Each file of /etc, each feature of each interface, kernel settings, and active units."""
    lines = the_rack.check(role, "sh", "-c", STATE).splitlines()
    return {line for line in lines if not REWRITTEN.search(line) and line != ON_DEMAND}


def digest_of_etc() -> str:
    """Of all files of this machine's /etc."""
    digest = hashlib.sha256()
    for path in sorted(Path("/etc").rglob("*")):
        digest.update(f"{path} {path.lstat().st_mode} ".encode())
        if path.is_file() and not path.is_symlink():
            digest.update(path.read_bytes())
    return digest.hexdigest()


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
MAKE_PTP = """mkdir -p /etc/linuxptp /etc/systemd/system/chrony.service.d
touch /etc/linuxptp/owlt.conf /etc/systemd/system/chrony.service.d/owlt-ptp.conf
printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' \\
  >/etc/systemd/system/owlt-ptp4l.service
systemctl daemon-reload
systemctl enable --now owlt-ptp4l
systemctl is-active owlt-ptp4l
"""
"""A host whose owlt_clock was ptp before; the unit runs another program, because a namespace cannot set the clock."""
PTP_FILE = re.compile(r"owlt-ptp4l|linuxptp/owlt.conf|owlt-ptp.conf")


def secrets_of(the_rack: Rack) -> list[str]:
    """The lines of the token and of all private keys."""
    made = the_rack.check("emulator", "sh", "-c", "cd /etc/owlt && cat token key.pem ca-key.pem")
    login = [(the_rack.directory / name).read_text() for name in ("user_key", "root_key")]
    lines = "\n".join([made, *login]).splitlines()
    return [line for line in lines if len(line) > 40 and not line.startswith("-----")]


@pytest.fixture(scope="module")
def provisioned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provisioned]:
    require(os.geteuid() == 0, "root, to make network namespaces")
    for command in ("sshd", "sudo", "openssl", "systemctl"):
        require_command(command)
    require(Path("/lib/systemd/systemd").exists(), "systemd")
    require((Path(sys.executable).parent / "ansible-playbook").exists(), "ansible-core, owlt's extra 'lab'")
    with rack(tmp_path_factory.mktemp("bare"), bare=True, root=ROOT) as made:
        (made.directory / "token").unlink()
        made.check("receiver", "sh", "-ec", MAKE_CPUFREQ)
        made.check("sender", "sh", "-ec", MAKE_PTP)
        etc, found = digest_of_etc(), {role: state_of(made, role) for role in ROLES}
        installed_before = made.run("emulator", "ls", "-A", "/opt/owlt").stdout
        check = play(made, "provision", "--check")
        accounts = made.check("emulator", "cat", "/etc/passwd")
        first = play(made, "provision")
        yield Provisioned(made, etc, found, installed_before, check, accounts, first, secrets_of(made))


def test_check_mode_lists_changes_and_makes_none(provisioned: Provisioned) -> None:
    counted = changes(provisioned.check)

    assert provisioned.check.returncode == 0, provisioned.check.stdout[-3000:]
    assert len(counted) == 3
    assert min(counted.values()) > 3
    assert "owlt:" not in provisioned.accounts_after_check


def test_bare_machines_become_a_rig_with_one_command(provisioned: Provisioned) -> None:
    assert provisioned.first.returncode == 0, provisioned.first.stdout[-3000:]
    assert (
        f"next: owlt doctor --rig {provisioned.rack.inventory}" in provisioned.first.stdout + provisioned.first.stderr
    )

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


def test_the_units_and_files_of_ptp_are_removed_if_it_is_no_longer_in_the_inventory(provisioned: Provisioned) -> None:
    left = provisioned.rack.check(
        "sender", "find", "/etc", "-name", "*owlt-ptp*", "-o", "-path", "/etc/linuxptp/owlt.conf"
    )

    assert left == ""
    assert provisioned.rack.run("sender", "systemctl", "is-active", "owlt-ptp4l").stdout == "inactive\n"
    assert any("owlt-ptp4l" in line for line in provisioned.found["sender"])


FOREIGN = f"{BARE.network.rpartition('.')[0]}.199"
"""A network that no host of the rack is in."""


def connects_from(source: str, port: int) -> bool:
    try:
        with socket.create_connection((BARE.addresses["emulator"], port), 2, source_address=(source, 0)):
            return True
    except OSError:
        return False


def test_only_the_management_network_may_reach_the_service(provisioned: Provisioned) -> None:
    subprocess.run(["ip", "addr", "add", f"{FOREIGN}.254/24", "dev", BARE.name], check=True)
    provisioned.rack.check("emulator", "ip", "route", "add", f"{FOREIGN}.0/24", "dev", "mgmt0")
    try:
        reached = {
            source: (connects_from(source, 22), connects_from(source, SERVICE_PORT))
            for source in (BARE.orchestrator, f"{FOREIGN}.254")
        }
    finally:
        subprocess.run(["ip", "addr", "del", f"{FOREIGN}.254/24", "dev", BARE.name], check=True)
        provisioned.rack.check("emulator", "ip", "route", "del", f"{FOREIGN}.0/24", "dev", "mgmt0")

    assert reached == {BARE.orchestrator: (True, True), f"{FOREIGN}.254": (True, False)}


def test_the_certificate_of_the_service_is_signed_by_the_rigs_ca_and_the_doctor_shows_its_end(
    provisioned: Provisioned,
) -> None:
    done = owlt("doctor", "--rig", provisioned.rack.inventory, "--json")
    (shown,) = [each for each in json.loads(done.stdout) if each["name"] == "rack-emulator: certificate"]
    kept = provisioned.rack.check("emulator", "stat", "-c", "%U %a", "/etc/owlt/ca-key.pem")
    context = ssl.create_default_context(cafile=provisioned.rack.directory / "certificate.pem")
    authorities = context.get_ca_certs()

    assert re.fullmatch(r"valid until \d{4}-\d\d-\d\d, 82[45] days left", shown["detail"])
    assert kept == "root 600\n"
    assert [each["subject"] for each in authorities] == [((("commonName", "CA of a lab rig (owlt)"),),)]


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


def qdiscs(the_rack: Rack) -> str:
    return the_rack.check("emulator", "tc", "qdisc", "show")


def client_of(the_rack: Rack) -> EmulatorClient:
    token = (the_rack.directory / "token").read_text().strip()
    url = f"https://{BARE.addresses['emulator']}:{SERVICE_PORT}"
    return EmulatorClient(url, token=token, ca_file=the_rack.directory / "certificate.pem")


def answers(the_rack: Rack) -> bool:
    return connects(BARE.addresses["emulator"], SERVICE_PORT)


def test_stopping_the_service_clears_the_channel_and_it_can_be_started_and_restarted(provisioned: Provisioned) -> None:
    clear = qdiscs(provisioned.rack)
    client = client_of(provisioned.rack)
    client.lease("test", 60)
    client.configure(ChannelSpec.from_wire({"forward": {"mtu": "1000 B"}}))
    impaired = qdiscs(provisioned.rack)
    provisioned.rack.check("emulator", "systemctl", "stop", "owlt-emulator")
    stopped = qdiscs(provisioned.rack)
    pids = []
    for verb in ("start", "restart"):
        provisioned.rack.check("emulator", "systemctl", verb, "owlt-emulator")
        wait_until(lambda: answers(provisioned.rack), "the emulator's service", 60)
        pids.append(main_pid(provisioned.rack))

    assert impaired != clear
    assert stopped == clear
    assert "0" not in pids
    assert pids[0] != pids[1]


def test_bridge_service_and_interrupts_are_back_after_the_emulator_was_started_again(provisioned: Provisioned) -> None:
    units = ["owlt-bridge", "owlt-emulator", "owlt-tune"]
    provisioned.rack.cut("emulator")
    subprocess.run(["ip", "-n", BARE.namespace("emulator"), "link", "del", "owlt-channel"], check=True)
    # a card may have another name after a boot: the inventory has this one's MAC address
    rename = ["ip", "-n", BARE.namespace("emulator"), "link", "set", "to-sender", "down", "name", "renamed"]
    subprocess.run(rename, check=True)
    provisioned.rack.start("emulator")
    wait_until(lambda: answers(provisioned.rack), "the emulator's service", 120)
    provisioned.rack.run("emulator", "systemctl", "is-system-running", "--wait")
    active = provisioned.rack.check("emulator", "systemctl", "is-active", *units)
    ports = json.loads(provisioned.rack.check("emulator", "ip", "-json", "link", "show", "master", "owlt-channel"))
    command = provisioned.rack.check(
        "emulator", "sh", "-c", f"tr '\\0' ' ' </proc/{main_pid(provisioned.rack).strip()}/cmdline"
    )
    provisioned.rack.check("emulator", "systemctl", "stop", "owlt-bridge")
    provisioned.rack.check("emulator", "ip", "link", "set", "renamed", "down", "name", "to-sender")
    provisioned.rack.check("emulator", "systemctl", "start", "owlt-bridge", "owlt-emulator")
    wait_until(lambda: answers(provisioned.rack), "the emulator's service", 60)

    assert active == "active\n" * 3
    assert {each["ifname"] for each in ports} == {"renamed", "to-receiver"}
    assert "--sender-port renamed --receiver-port to-receiver" in command


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
    other = client_of(provisioned.rack)
    other.lease("ada@bench: owlt, sweep night", 60)
    try:
        done = play(provisioned.rack, "update")
    finally:
        other.release()

    assert done.returncode == 2
    assert "rack cannot be updated: it is leased to ada@bench: owlt, sweep night" in done.stderr


def test_a_rig_is_verified_and_what_differs_is_named(provisioned: Provisioned, tmp_path: Path) -> None:
    provisioned.rack.check("receiver", "sh", "-c", f"echo >>/etc/sysctl.d/90-owlt.conf; echo powersave >{GOVERNOR}")
    provisioned.rack.check("emulator", "ethtool", "-K", "to-sender", "gso", "on")
    done = play(provisioned.rack, "verify", "--results", tmp_path, "--json")
    provisioned.rack.check("emulator", "ethtool", "-K", "to-sender", "gso", "off")

    found = {each["name"]: each for each in json.loads(done.stdout)}
    missing = {name for name, each in found.items() if not each["found"]}
    differing = {
        name for name in missing if ": kernel:" not in name and "socket buffers" not in name and ": sysctls" not in name
    }
    impaired = "certificate: terrestrial"
    assert done.returncode == 1
    assert differing - {impaired} == {"rack-receiver: settings", "cable of the sender: offloads"}, done.stdout
    settings = "differs: Allow large socket buffers; Set processor frequency and interrupts"
    assert found["rack-receiver: settings"]["detail"] == settings
    assert "at the emulator: ethtool -K to-sender gso off" in found["cable of the sender: offloads"]["fix"]
    for name in ("test address of the sender", "test address of the receiver", "bridge of the emulator"):
        assert found[name]["found"], found[name]
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
    WATCHED.output += [path.read_text() for path in (tmp_path / "collected").rglob("*.txt")]


def test_the_rig_can_be_removed(provisioned: Provisioned) -> None:
    """Only what reads its traces comes after it."""
    provisioned_state = {role: state_of(provisioned.rack, role) for role in ROLES}
    # this owlt is installed by nobody but the user of this host: owlt_python has another path
    program = "/opt/owlt/third-party/mine/sender"
    if Path("/") == ROOT:
        provisioned.rack.check("sender", "sh", "-ec", f"mkdir -p {Path(program).parent}; touch {program}")
    other = client_of(provisioned.rack)
    other.lease("ada@bench: owlt, sweep night", 60)
    refused = play(provisioned.rack, "remove")
    other.release()
    done = play(provisioned.rack, "remove")

    assert refused.returncode == 2
    assert "rack cannot be removed: it is leased to ada@bench: owlt, sweep night" in refused.stderr
    assert done.returncode == 0, done.stdout[-3000:]
    if Path("/") == ROOT:
        provisioned.rack.check("sender", "test", "-e", program)
        assert provisioned.rack.check("emulator", "ls", "-A", "/opt/owlt") == provisioned.installed_before
    for role in ROLES:
        assert "owlt:" not in provisioned.rack.check(role, "cat", "/etc/passwd")
        assert provisioned_state[role] != provisioned.found[role]
        left = [
            "/usr/local/sbin/owlt-host",
            "/usr/local/sbin/owlt-tune",
            "/usr/local/sbin/owlt-bridge",
            "/var/lib/owlt",
        ]
        assert provisioned.rack.check(role, "sh", "-c", 'for f; do [ ! -e "$f" ] || echo $f; done', "sh", *left) == ""
    assert provisioned.rack.run("emulator", "systemctl", "list-unit-files", "owlt-*", "--no-legend").stdout == ""
    assert "owlt-channel" not in provisioned.rack.check("emulator", "ip", "link")
    assert provisioned.rack.check("receiver", "cat", GOVERNOR) == "ondemand\n"
    assert ipv6_of_ports_is_off(provisioned.rack) == "0\n0\n"


@pytest.mark.parametrize("role", ROLES)
def test_a_removed_rig_leaves_each_machine_as_it_was_found(provisioned: Provisioned, role: str) -> None:
    """/etc, offloads and state of interfaces, kernel settings, active units."""
    left = state_of(provisioned.rack, role)

    assert {line for line in provisioned.found[role] - left if not PTP_FILE.search(line)} == set()
    assert left - provisioned.found[role] == set()


def test_this_machine_is_as_it_was(provisioned: Provisioned) -> None:
    assert digest_of_etc() == provisioned.etc_of_this_machine


def test_no_secret_is_printed_collected_or_shown_by_a_process(provisioned: Provisioned) -> None:
    commands, environments = b"\n".join(WATCHED.commands), b"\n".join(WATCHED.environments)
    output = "\n".join(WATCHED.output)

    assert len(provisioned.secrets) >= 1 + 2 * 2 + 2 * 5
    for secret in provisioned.secrets:
        assert secret not in output
        assert secret.encode() not in commands + environments
    # what is not secret is there: the output, the programs and the environments were looked at
    assert "Write them to this machine" in output
    assert "listening on" in output
    assert b"ansible-playbook" in commands
    assert b"ANSIBLE_CONFIG=" in environments

"""A lab rig of three hosts that are reached over SSH: its doctor, its sweeps, and what goes wrong in a rack."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paramiko
import pytest

from owlt.emulator.channel.link import LinkSpec
from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.service.client import EmulatorClient
from owlt.orchestrator.hosts.host import HostError
from owlt.orchestrator.profiles.inventory import LabRig, read_inventory
from owlt.orchestrator.rigs.lab.emulator import read_reservation
from owlt.orchestrator.rigs.lab.interfaces import forget
from owlt.orchestrator.rigs.lab.session import (
    SSHD_CONFIG_FILE,
    LabHost,
    base_on_host,
    close_session,
    furnishing,
    make_keys,
    open_session,
    renew_session,
    session_seconds_left,
)
from owlt.orchestrator.rigs.lab.ssh_hosts import ManagementHost
from tests.commands import WITHOUT_PATIENCE, owlt
from tests.conftest import require, require_command
from tests.lab.rack import ADDRESSES, SERVICE_PORT, Rack, children, rack, tree_changes, tree_state, wait_until
from tests.system.sweeps import PROJECT, records, sweep_file

PLAIN = {"rate": "unlimited", "delay": "0 s", "certify": False}
"""A channel that needs no netem, which this machine's kernel may not have."""
PROTOCOLS = ["cfdp", "ltp", "norm", "tcp"]
SLOW = {"implementations": ["ltp"], "file_size": "500 kB", "advertised": {"ltp": {"rate": "1 Mbit/s"}}} | PLAIN
"""A transfer that its sender paces to 4 s."""


@pytest.fixture(scope="module")
def the_rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    require(os.geteuid() == 0, "root, to make network namespaces")
    for command in ("sshd", "sudo", "openssl", "tshark"):
        require_command(command)
    with rack(tmp_path_factory.mktemp("rack")) as made:
        yield made


@pytest.fixture
def lab(the_rack: Rack) -> LabRig:
    return read_inventory(the_rack.inventory)["rack"]


def run_sweep(the_rack: Rack, directory: Path, **changes: object) -> subprocess.CompletedProcess[str]:
    sweep = sweep_file(directory, **changes)
    return owlt("run", sweep, "--rig", the_rack.inventory, "--results", directory / "results", "--no-report")


@contextmanager
def sweep_under_way(
    the_rack: Rack, directory: Path, awaited: str = '"transfer"', inventory: Path | None = None, **changes: object
) -> Iterator[subprocess.Popen[str]]:
    """A sweep whose journal has a text, by default that of its transfer phase; ended with the test."""
    sweep = sweep_file(directory, **changes)
    command = [
        str(Path(sys.executable).parent / "owlt"),
        "run",
        str(sweep),
        "--rig",
        str(inventory or the_rack.inventory),
    ]
    command += ["--results", str(directory / "results"), "--no-report"]
    env = WITHOUT_PATIENCE | os.environ
    with subprocess.Popen(
        command, cwd=PROJECT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env
    ) as process:
        try:
            wait_until(lambda: awaited in journal(directory), f"{awaited} in the journal")
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                process.wait(60)


def journal(directory: Path) -> str:
    path = directory / "results" / "journal.jsonl"
    return path.read_text() if path.exists() else ""


def wait_until_idle(lab: LabRig) -> None:
    """Until no session is open."""
    for entry in lab.hosts:
        with closing(ManagementHost(entry)) as host:
            wait_until(lambda host=host: session_seconds_left(host) is None, f"the end of the {entry.role}'s session")


def test_the_doctor_finds_nothing_missing_but_what_this_kernel_does_not_have(the_rack: Rack) -> None:
    done = owlt("doctor", "--rig", the_rack.inventory, "--json")

    missing = [each["name"] for each in json.loads(done.stdout) if not each["found"]]
    assert not [name for name in missing if "kernel:" not in name and "socket buffers" not in name], done.stdout


def test_a_sweep_is_refused_before_it_starts_if_the_emulators_kernel_cannot_make_its_channels(
    the_rack: Rack, tmp_path: Path
) -> None:
    has_netem = other_engineer(the_rack).capabilities()["netem"]["available"]
    sweep = sweep_file(tmp_path, implementations=["tcp"], file_size="1 kB", **PLAIN | {"delay": "25 ms"})
    options = ["--rig", the_rack.inventory, "--results", tmp_path / "results"]
    planned, performed = (owlt(command, sweep, *options) for command in ("plan", "run"))

    expected = 0 if has_netem else 2
    assert (planned.returncode, performed.returncode) == (expected, expected), performed.stderr
    assert (tmp_path / "results").exists() == has_netem
    if not has_netem:
        for done in (planned, performed):
            assert "needs netem at rack-emulator: 1 of 1 cells have a delay" in done.stderr


def test_the_doctor_says_how_to_install_what_a_host_does_not_have(the_rack: Rack) -> None:
    the_rack.check("receiver", "mv", "/etc/sudoers.d/owlt", "/etc/owlt-rule")
    try:
        done = owlt("doctor", "--rig", the_rack.inventory, "--json")
    finally:
        the_rack.check("receiver", "mv", "/etc/owlt-rule", "/etc/sudoers.d/owlt")

    (missing,) = [each for each in json.loads(done.stdout) if each["name"] == "rack-receiver: owlt-host with sudo"]
    assert (missing["found"], done.returncode) == (False, 1)
    assert "owlt ALL=(root) NOPASSWD: /usr/local/sbin/owlt-host" in missing["fix"]


def test_the_doctor_says_which_port_of_the_emulator_has_an_address(the_rack: Rack) -> None:
    setting = "/proc/sys/net/ipv6/conf/to-sender/disable_ipv6"
    the_rack.check("sender", "ip", "link", "set", "test0", "up")  # without a carrier there is no address
    the_rack.check("emulator", "sh", "-ec", f"echo 0 >{setting}")
    try:
        wait_until(lambda: "fe80::" in the_rack.check("emulator", "ip", "address", "show", "to-sender"), "an address")
        done = owlt("doctor", "--rig", the_rack.inventory, "--json")
    finally:
        the_rack.check("emulator", "sh", "-ec", f"echo 1 >{setting}")
        the_rack.check("sender", "ip", "link", "set", "test0", "down")

    (check,) = [each for each in json.loads(done.stdout) if "bridge without addresses" in each["name"]]
    assert (check["found"], done.returncode) == (False, 1)
    assert check["detail"].startswith("to-sender has fe80::")
    assert "net.ipv6.conf.to-sender.disable_ipv6=1" in check["fix"]


def shape(value: Any) -> Any:
    """The keys of a record, without those that depend on its values."""
    if isinstance(value, dict):
        return {
            key: shape(each)
            for key, each in value.items()
            if key not in ("versions", "provenance", "timeline", "counters", "host_captures", "port_drops")
        }
    return type(value).__name__ if isinstance(value, list | str) else "value"


@dataclass(frozen=True)
class Performed:
    """A sweep of four protocols with captures at the hosts, and the hosts' interfaces before it."""

    done: subprocess.CompletedProcess[str]
    results: Path
    interfaces: dict[str, list[str]]

    @property
    def records(self) -> dict[str, dict[str, Any]]:
        """By implementation."""
        return {record["implementation"]: record for record in records(self.results).values()}


@pytest.fixture(scope="module")
def four(the_rack: Rack, tmp_path_factory: pytest.TempPathFactory) -> Performed:
    directory = tmp_path_factory.mktemp("four")
    wait_until_idle(read_inventory(the_rack.inventory)["rack"])
    before = {role: interfaces(the_rack, role) for role in ADDRESSES}
    changes = {"implementations": PROTOCOLS, "file_size": "1 MB", "keep_captures": "full"} | PLAIN
    options = ["--results", directory / "results", "--no-report", "--host-captures"]
    done = owlt("run", sweep_file(directory, **changes), "--rig", the_rack.inventory, *options)
    return Performed(done, directory / "results", before)


def test_a_sweep_of_four_protocols_has_records_of_the_same_shape_as_on_the_local_rig(
    four: Performed, tmp_path: Path
) -> None:
    sweep = sweep_file(tmp_path, implementations=["tcp"], file_size="1 MB", rig="local", clock="real", **PLAIN)
    owlt("run", sweep, "--results", tmp_path / "results", "--no-report")

    assert four.done.returncode == 0, four.done.stdout + four.done.stderr
    found = {name: record["outcome"] for name, record in four.records.items()}
    assert found == dict.fromkeys(PROTOCOLS, "completed")
    (there,) = records(tmp_path / "results").values()
    assert shape(four.records["tcp"]) == shape(there)
    assert {record["rig"] for record in four.records.values()} == {"lab"}


def test_runs_cross_the_test_path_over_ipv6_and_ipv4_in_turn(the_rack: Rack, tmp_path: Path) -> None:
    done = run_sweep(the_rack, tmp_path, implementations=["tcp"], file_size="1 MB", ip=[6, 4], **PLAIN)

    assert done.returncode == 0, done.stdout + done.stderr
    ended = sorted((record["ip"], record["outcome"]) for record in records(tmp_path / "results").values())
    assert ended == [(4, "completed"), (6, "completed")]


def test_what_the_emulators_cards_dropped_is_read_at_both_ports(four: Performed) -> None:
    """The cards are virtual, and drop nothing."""
    counters = ("rx_dropped", "rx_missed_errors", "rx_fifo_errors", "tx_dropped")

    for record in four.records.values():
        assert record["port_drops"] == dict.fromkeys(("sender", "receiver"), dict.fromkeys(counters, 0))


def test_a_sweep_leaves_the_hosts_as_it_found_them(the_rack: Rack, lab: LabRig, four: Performed) -> None:
    wait_until_idle(lab)

    for role in ADDRESSES:
        assert interfaces(the_rack, role) == four.interfaces[role], role
        assert the_rack.check(role, "sh", "-c", "ls /var/lib/owlt").split() == []


def interfaces(the_rack: Rack, role: str) -> list[str]:
    """The names of a host's interfaces. Their states may still change: a bridge without carrier goes down later."""
    lines = the_rack.check(role, "ip", "-brief", "link").splitlines()
    return sorted(line.split()[0].partition("@")[0] for line in lines)


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_host_captures_what_the_emulator_does(four: Performed, role: str) -> None:
    record = four.records["tcp"]
    run = four.results / "runs" / record["run_id"]
    at_host, at_emulator = (Counter(payloads(run / name)) for name in (f"host-{role}.pcap", f"{role}.pcap"))

    assert (record["host_captures"][role]["stamps"], record["host_captures"][role]["problem"]) == ("host", "")
    assert sum(at_emulator.values()) > 600, "a file of 1 MB"
    assert at_host == at_emulator


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_the_clocks_of_hosts_that_have_one_are_found_to_be_one(four: Performed, role: str) -> None:
    """The hosts are namespaces: no offset, and no drift, however long the readings take."""
    clocks = [record["host_captures"][role]["clock"] for record in four.records.values()]

    readings = [clock["readings"] for clock in clocks]
    assert (min(readings), [count % 2 for count in readings]) == (2, [0] * 4), "two of each run"
    assert max(readings) > 2, "of several runs in a block"
    for clock in clocks:
        assert abs(clock["offset_ns"]) <= clock["offset_error_ns"]
        assert clock["drift_ppm"] is None or abs(clock["drift_ppm"]) <= clock["drift_error_ppm"]


def payloads(capture: Path) -> list[str]:
    """The bytes of each TCP segment with data, as tshark reads them."""
    command = ["tshark", "-r", str(capture), "-Y", "tcp.len > 0", "-T", "fields", "-e", "tcp.seq_raw", "-e"]
    done = subprocess.run([*command, "tcp.payload"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def jumping(the_rack: Rack) -> Path:
    """An inventory whose receiver is reached through the emulator."""
    key = json.loads(the_rack.inventory.read_text())["all"]["children"]["rack"]["hosts"]["rack-emulator"][
        "owlt_host_key"
    ]
    jump = {"owlt_jump": f"owlt@{ADDRESSES['emulator']}", "owlt_jump_host_key": key}
    return changed_inventory(the_rack, "rack-receiver", **jump)


def ssh_connections(role: str, inside: Rack | None = None) -> list[str]:
    """The SSH connections to a host that this machine, or the emulator of a rack, has open."""
    command = ["ss", "-Htn", "state", "established", "dst", f"{ADDRESSES[role]}:22"]
    if inside is not None:
        return inside.check("emulator", *command).splitlines()
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_a_run_goes_on_when_the_management_network_is_silent_for_a_while_behind_a_jump_host_too(
    the_rack: Rack, tmp_path: Path
) -> None:
    with sweep_under_way(the_rack, tmp_path, inventory=jumping(the_rack), **SLOW) as process:
        before = len(ssh_connections("sender")), len(ssh_connections("receiver", the_rack))
        direct = ssh_connections("receiver")
        with the_rack.unplugged("sender", "receiver"):
            wait_until(lambda: not ssh_connections("sender"), "the end of the sender's connections", 60)
            wait_until(lambda: not ssh_connections("receiver", the_rack), "the end of the receiver's", 60)
        output, _ = process.communicate(timeout=120)

    (record,) = records(tmp_path / "results").values()
    assert (min(before) > 0, direct) == (True, []), "the receiver is reached through the emulator only"
    assert (process.returncode, record["outcome"], record["attempt"]) == (0, "completed", 1), output
    assert set(record["reconnections"]) == {"sender", "receiver"}
    assert min(min(times_ns) for times_ns in record["reconnections"].values()) > record["started_at_ns"]


def test_another_host_key_is_final_when_a_connection_is_made_again(the_rack: Rack, lab: LabRig) -> None:
    with closing(CountingHost(lab.sender)) as host:
        host.entry = lab.sender.model_copy(update={"host_key": lab.receiver.host_key})
        wait_until(lambda: the_rack.cut_ssh("sender") == 0, "the end of the connection")
        with pytest.raises(HostError, match="presented a host key other than owlt_host_key"):
            host.check(["true"])

    assert host.dials == 2, "the first connection and one other"


class CountingHost(ManagementHost):
    """Counts how often it connects."""

    dials = 0

    def _dial(self) -> socket.socket | paramiko.Channel:
        self.dials += 1
        return super()._dial()


def test_a_run_goes_on_when_all_ssh_connections_are_lost(the_rack: Rack, tmp_path: Path) -> None:
    with sweep_under_way(the_rack, tmp_path, **SLOW) as process:
        cut = [the_rack.cut_ssh(role) for role in ADDRESSES]
        output, _ = process.communicate(timeout=120)

    (record,) = records(tmp_path / "results").values()
    assert all(number > 0 for number in cut), cut
    assert (process.returncode, record["outcome"]) == (0, "completed"), output
    assert "again" not in output.partition("recorded")[0], "no attempt was lost"
    assert set(record["reconnections"]) == set(ADDRESSES)


def test_a_run_is_repeated_when_a_host_was_started_again(the_rack: Rack, tmp_path: Path) -> None:
    with sweep_under_way(the_rack, tmp_path, **SLOW) as process:
        the_rack.cut("receiver")
        the_rack.restore("receiver")
        output, _ = process.communicate(timeout=280)

    (record,) = records(tmp_path / "results").values()
    assert record["outcome"] == "completed", output
    assert "rack-receiver: owlt-host: no session is open: the host was started again" in record["earlier_attempts"][0]


def test_a_run_is_repeated_when_the_emulator_was_killed(the_rack: Rack, tmp_path: Path) -> None:
    with sweep_under_way(the_rack, tmp_path, **SLOW) as process:
        the_rack.stop_emulator(signal.SIGKILL)
        wait_until(lambda: '"outcome": "aborted"' in journal(tmp_path), "the end of the run", 60)
        the_rack.start_emulator()
        output, _ = process.communicate(timeout=200)

    (record,) = records(tmp_path / "results").values()
    assert record["outcome"] == "completed", output
    assert record["earlier_attempts"][0].startswith("aborted (emulator): "), record["earlier_attempts"]
    assert "is the service running" in record["earlier_attempts"][0]


@contextmanager
def small_disk(the_rack: Rack, role: str, size: str) -> Iterator[None]:
    """A host with a small disk for the rig's files."""
    the_rack.check(role, "mkdir", "-p", "/var/lib/owlt")
    the_rack.check(role, "mount", "-t", "tmpfs", "-o", f"size={size}", "small-disk", "/var/lib/owlt")
    try:
        yield
    finally:
        the_rack.check(role, "umount", "-l", "/var/lib/owlt")


def test_a_run_is_not_launched_on_a_host_with_too_little_space_and_repeated(
    the_rack: Rack, lab: LabRig, tmp_path: Path
) -> None:
    wait_until_idle(lab)
    disk, under_way = small_disk(the_rack, "emulator", "1m"), '"outcome": "aborted"'
    with disk, sweep_under_way(the_rack, tmp_path, under_way, **SLOW) as process:
        the_rack.check("emulator", "mount", "-o", "remount,size=100m", "/var/lib/owlt")
        output, _ = process.communicate(timeout=120)

    (record,) = records(tmp_path / "results").values()
    assert record["outcome"] == "completed", output
    (reason,) = set(record["earlier_attempts"])
    assert "not launched: the emulator has 1.0 MB free at /var/lib/owlt/rig/emulator" in reason
    assert "this run may need 2.1 MB: free space in /var/lib" in reason


def test_a_run_is_repeated_when_the_disk_of_the_emulator_was_full(the_rack: Rack, lab: LabRig, tmp_path: Path) -> None:
    wait_until_idle(lab)
    with small_disk(the_rack, "emulator", "5m"), sweep_under_way(the_rack, tmp_path, **SLOW) as process:
        the_rack.run("emulator", "dd", "if=/dev/zero", "of=/var/lib/owlt/other", "bs=1M")
        wait_until(lambda: '"outcome": "aborted"' in journal(tmp_path), "the end of the run", 60)
        the_rack.check("emulator", "rm", "/var/lib/owlt/other")
        output, _ = process.communicate(timeout=120)

    (record,) = records(tmp_path / "results").values()
    assert record["outcome"] == "completed", output
    assert "the disk of the emulator is full (0 bytes free" in record["earlier_attempts"][0]


def test_a_capture_at_a_host_whose_disk_was_full_is_not_called_complete(
    the_rack: Rack, lab: LabRig, tmp_path: Path
) -> None:
    wait_until_idle(lab)
    captured = SLOW | {"host_captures": True}
    with small_disk(the_rack, "receiver", "5m"), sweep_under_way(the_rack, tmp_path, **captured) as process:
        the_rack.run("receiver", "dd", "if=/dev/zero", "of=/var/lib/owlt/other", "bs=1M")
        output, _ = process.communicate(timeout=120)

    (record,) = records(tmp_path / "results").values()
    problems = {role: each["problem"] for role, each in record["host_captures"].items()}
    assert (record["outcome"], problems["sender"]) == ("completed", ""), output
    assert "the disk of the receiver is full (0 bytes free at /run/owlt/receiver" in problems["receiver"]
    assert "so the capture at the receiver is not complete: free space in /var/lib of that host" in problems["receiver"]


@contextmanager
def nearly_full_disk(the_rack: Rack, role: str) -> Iterator[None]:
    """A host with 0.1 GB of disk."""
    the_rack.check(role, "mount", "-t", "tmpfs", "-o", "size=100m", "small-disk", "/var/lib")
    try:
        yield
    finally:
        the_rack.check(role, "umount", "/var/lib")


NEARLY_FULL = "rack-receiver: disk: 0.1 GB free in /var/lib; 0.5 GB are needed"


def test_a_sweep_is_refused_if_the_disk_of_a_host_is_nearly_full(the_rack: Rack, tmp_path: Path) -> None:
    with nearly_full_disk(the_rack, "receiver"):
        message = refused(the_rack.inventory, tmp_path)

    assert NEARLY_FULL in message


def test_a_sweep_is_refused_if_the_captures_of_a_duration_may_fill_the_disk(the_rack: Rack, tmp_path: Path) -> None:
    """The rack's disks have 2 GB. Sender and receiver have no file of such a run."""
    flood = {"implementations": ["udp-blast"], "file_size": None} | PLAIN
    messages = {
        duration: owlt("plan", sweep_file(tmp_path, duration=duration, **flood), "--rig", the_rack.inventory).stderr
        for duration in ("10 min", "1 s")
    }

    assert re.search("rack-emulator: disk: .* GB free in /var/lib; 150.5 GB are needed", messages["10 min"]), messages
    assert "rack-sender: disk" not in messages["10 min"]
    assert "disk" not in messages["1 s"]


def test_the_plan_for_a_lab_rig_says_why_the_sweep_would_be_refused(the_rack: Rack, tmp_path: Path) -> None:
    sweep = sweep_file(tmp_path, implementations=["tcp"], **PLAIN)

    with nearly_full_disk(the_rack, "receiver"):
        planned = owlt("plan", sweep, "--rig", the_rack.inventory)

    assert planned.returncode == 2
    assert "1 run, about " in planned.stdout
    assert NEARLY_FULL in planned.stderr


def test_a_run_during_which_the_clock_of_a_host_was_set_is_suspect(the_rack: Rack, tmp_path: Path) -> None:
    with set_clock(the_rack, "receiver") as step, sweep_under_way(the_rack, tmp_path, **SLOW) as process:
        step(3600)
        output, _ = process.communicate(timeout=120)

    (record,) = records(tmp_path / "results").values()
    assert record["outcome"] == "completed", output
    step_s = re.search(r"the clock of the receiver was set by ([+-][0-9.]+) s", " ".join(record["suspect"]))
    assert step_s, record["suspect"]
    assert float(step_s[1]) == pytest.approx(3600, abs=60)  # read beside other work: each reading takes its time


def test_what_the_hosts_can_transfer_is_measured_before_and_after_a_sweep(the_rack: Rack, tmp_path: Path) -> None:
    sweep = sweep_file(tmp_path, implementations=["tcp"], file_size="100 kB", **PLAIN)
    results = tmp_path / "results"
    inventory = changed_inventory(the_rack, "rack-sender", owlt_third_party="/opt/none")
    inventory = changed_inventory(the_rack, "rack-receiver", inventory, owlt_third_party="/opt/none")
    options = ["--results", results, "--host-baseline", "2 MB", "--no-report"]
    done = owlt("run", sweep, "--rig", inventory, *options)

    baselines = {path.parents[2].relative_to(results): json.loads(path.read_text()) for path in results.glob(BASELINES)}
    assert done.returncode == 0, done.stderr
    assert {str(path): (record["outcome"], record["file_size_bytes"]) for path, record in baselines.items()} == {
        f"host-baselines/1/{moment}/files": ("completed", 2_000_000) for moment in ("before", "after")
    }


BASELINES = "host-baselines/*/*/files/runs/*/record.json"
CLOCK = """#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static long step(void) {
  char text[32] = {0};
  int file = open("/usr/local/lib/owlt-clock-step", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  if (read(file, text, sizeof text - 1) < 0) text[0] = 0;
  close(file);
  return atol(text);
}
int clock_gettime(clockid_t clock, struct timespec *value) {
  long failed = syscall(SYS_clock_gettime, clock, value);
  if (!failed && clock == CLOCK_REALTIME) value->tv_sec += step();
  return failed;
}
"""
"""Namespaces share the machine's clock: all programs of a host get theirs from this library (ld.so(8))."""


@contextmanager
def set_clock(the_rack: Rack, role: str) -> Iterator[Callable[[int], object]]:
    """Sets the clock of a host by some seconds, for all of its programs that start meanwhile."""
    library, step, preload = "/usr/local/lib/owlt-clock.so", "/usr/local/lib/owlt-clock-step", "/etc/ld.so.preload"
    compile_it = 'printf "%s" "$0" | clang -shared -fPIC -o "$1" -x c - && echo "$1" >"$2" && echo 0 >"$3"'
    # all three exist before a session: its view of directories is an overlay, which shows no file that is made later
    the_rack.check(role, "sh", "-c", compile_it, CLOCK, library, preload, step)
    try:
        yield lambda seconds: the_rack.check(role, "sh", "-c", 'echo "$1" >"$0"', step, str(seconds))
    finally:
        the_rack.check(role, "rm", "-f", preload, library, step)


def with_lease(the_rack: Rack, lease_s: int) -> Path:
    """An inventory of a rig whose leases are that short."""
    inventory = the_rack.inventory
    for role in ADDRESSES:
        inventory = changed_inventory(the_rack, f"rack-{role}", inventory, owlt_lease_s=lease_s)
    return inventory


def changed_inventory(the_rack: Rack, host: str, base: Path | None = None, **variables: object) -> Path:
    inventory = json.loads((base or the_rack.inventory).read_text())
    inventory["all"]["children"]["rack"]["hosts"][host] |= variables
    path = the_rack.directory / "changed.yaml"
    path.write_text(json.dumps(inventory))
    return path


def refused(inventory: Path, directory: Path) -> str:
    """The message of a sweep that is refused."""
    sweep = sweep_file(directory, implementations=["tcp"], **PLAIN)
    done = owlt("run", sweep, "--rig", inventory, "--results", directory / "results", "--no-report")

    assert done.returncode == 2, done.stdout + done.stderr
    assert not (directory / "results").exists()
    return done.stderr


def test_a_host_with_another_key_is_refused(the_rack: Rack, tmp_path: Path) -> None:
    other = (the_rack.directory / "host_key_receiver.pub").read_text().strip()

    message = refused(changed_inventory(the_rack, "rack-sender", owlt_host_key=other), tmp_path)

    assert "rack-sender (10.79.0.1:22) presented a host key other than owlt_host_key in the inventory" in message


def test_a_wrong_token_is_refused(the_rack: Rack, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("f" * 32)

    message = refused(changed_inventory(the_rack, "rack-emulator", owlt_service_token_file=str(token)), tmp_path)

    assert "token: got a wrong one" in message
    assert "f" * 32 not in message


def other_engineer(the_rack: Rack) -> EmulatorClient:
    url = f"https://{ADDRESSES['emulator']}:{SERVICE_PORT}"
    token = (the_rack.directory / "token").read_text()
    return EmulatorClient(url, token=token, ca_file=the_rack.directory / "certificate.pem")


def test_a_second_engineer_is_reported_who_has_the_rig(the_rack: Rack, tmp_path: Path) -> None:
    other = other_engineer(the_rack)
    other.lease("ada@bench: owlt, sweep night", 60)
    try:
        message = refused(the_rack.inventory, tmp_path)
    finally:
        other.release()

    assert "ada@bench: owlt, sweep night, for" in message


def test_a_second_sweep_is_reported_who_runs_the_first_one(
    the_rack: Rack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "first").mkdir()
    monkeypatch.setenv("LOGNAME", "ada")
    with sweep_under_way(the_rack, tmp_path / "first", **SLOW | {"file_size": "5 MB"}):
        monkeypatch.setenv("LOGNAME", "bob")
        message = refused(the_rack.inventory, tmp_path)

    assert re.search(r"ada@\S+: owlt, for \d+ s", message), message
    assert len(message.splitlines()) == 1, message


def test_a_rig_of_several_is_named_behind_the_inventory(the_rack: Rack, tmp_path: Path) -> None:
    inventory = json.loads(the_rack.inventory.read_text())
    rigs = inventory["all"]["children"]
    rigs["spare"] = {"hosts": {name.replace("rack", "spare"): host for name, host in rigs["rack"]["hosts"].items()}}
    two = the_rack.directory / "two.yaml"
    two.write_text(json.dumps(inventory))

    sweep = sweep_file(tmp_path, implementations=["tcp"], **PLAIN)
    options = ["--results", tmp_path / "results", "--no-report"]
    done, unnamed = (owlt("run", sweep, "--rig", rig, *options) for rig in (f"{two}:rack", two))
    examined = json.loads(owlt("doctor", "--rig", f"{two}:spare", "--json").stdout)

    assert done.returncode == 0, done.stderr
    assert (unnamed.returncode, "rigs: rack, spare" in unnamed.stderr) == (2, True), unnamed.stderr
    assert {each["name"].partition("-")[0] for each in examined} == {"spare"}


def test_a_leased_rig_is_used_by_its_engineer_and_by_nobody_else(
    the_rack: Rack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    leased = owlt("rig", "lease", the_rack.inventory, "--for", "10 min")
    done = run_sweep(the_rack, tmp_path, implementations=["tcp"], file_size="1 MB", **PLAIN)
    status = json.loads(owlt("rig", "status", the_rack.inventory, "--json").stdout)
    released = owlt("rig", "release", the_rack.inventory)

    assert (leased.returncode, done.returncode, released.returncode) == (0, 0, 0), leased.stderr + done.stderr
    assert status["lease"]["held"], "the sweep gave the lease back to its engineer"
    assert 300 < status["lease"]["seconds_left"] <= 600
    assert not other_engineer(the_rack).lease_status()["held"]


def test_the_channel_of_a_leased_rig_is_changed_by_hand_by_its_engineer_alone(
    the_rack: Rack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = ("channel", "change", "--rig", the_rack.inventory, "forward", "bit_error_rate=1e-9")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "engineer"))
    owlt("rig", "lease", the_rack.inventory, "--for", "10 min")
    changed = owlt(*change)
    now = other_engineer(the_rack).describe().forward
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another engineer"))
    refusal = owlt(*change)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "engineer"))
    owlt("rig", "release", the_rack.inventory)

    assert changed.returncode == 0, changed.stderr
    assert now.bit_error_rate == 1e-9
    assert refusal.returncode == 2
    assert "owlt rig lease holds it" in refusal.stderr


def test_when_the_orchestrator_dies_channel_and_programs_end_with_their_leases(
    the_rack: Rack, lab: LabRig, tmp_path: Path
) -> None:
    lease_s = 10
    emulator = other_engineer(the_rack)

    def state() -> dict[str, bool]:
        return {
            "channel": emulator.describe() != ChannelSpec(),
            "lease": emulator.lease_status()["held"],
            "programs": any("owlt.agents.ltp" in commands(the_rack, role) for role in ("sender", "receiver")),
        }

    channel = tmp_path / "errors.yaml"
    channel.write_text("name: errors\ntitle: bit errors\nforward: {bit_error_rate: 1e-9}\n")
    paced = {"implementations": ["ltp"], "advertised": SLOW["advertised"], "certify": False}
    long = {
        "file_size": "20 MB",
        "channel": str(channel),
        "rate": None,
        "delay": None,
        "packet_error_rate": None,
    } | paced
    with sweep_under_way(the_rack, tmp_path, inventory=with_lease(the_rack, lease_s), **long) as process:
        (worker,) = children(process.pid)
        for each in (worker, process.pid):
            os.kill(each, signal.SIGSTOP)  # so that neither can react to the end of the other
        during = state()
        for each in (worker, process.pid):
            os.kill(each, signal.SIGKILL)
        process.wait()
        left_s = emulator.lease_status()["seconds_left"]
        wait_until(lambda: not any(state().values()), "the end of the leases", lease_s + MARGIN_S)

    assert all(during.values()), during
    assert left_s <= lease_s
    wait_until_idle(lab)


MARGIN_S = 30
"""For a loaded machine: to end programs, and to look whether they have ended."""


def commands(the_rack: Rack, role: str) -> str:
    """The commands of all processes on a host."""
    return the_rack.check(role, "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null || :").replace("\0", " ")


SessionOf = Callable[[str, int], tuple[ManagementHost, LabHost]]


@pytest.fixture
def session(lab: LabRig, tmp_path: Path) -> Iterator[SessionOf]:
    """Opens sessions with a lease; they are closed after the test."""
    opened: list[ManagementHost] = []

    def open_on(role: str, lease_s: int) -> tuple[ManagementHost, LabHost]:
        entry = getattr(lab, role)
        management = ManagementHost(entry)
        opened.append(management)
        keys = make_keys(tmp_path / f"keys-{role}", entry.address)
        lines = "ip link set lo up\nip link set test0 up\n"
        open_session(management, furnishing(role, keys, [], ADDRESSES, lines), lease_s, "test0")
        host = LabHost(management, base_on_host(role), SSHD_CONFIG_FILE, keys.user_key, keys.known_hosts)
        return management, host

    yield open_on
    for management in opened:
        close_session(management)
        management.close()


def test_a_session_sees_the_test_interface_and_not_the_management_network(session: SessionOf) -> None:
    _, host = session("sender", 60)
    with closing(host):
        shown = host.check(["ip", "-brief", "link"]).decode()
        done = host.run(["ping", "-c", "1", "-W", "1", ADDRESSES["receiver"]])

    assert "test0" in shown
    assert "mgmt0" not in shown
    assert done.exit_status != 0


LEFT = """ip route add blackhole 10.99.0.0/16
ip route add 10.98.0.0/16 dev test0 mtu 700 table 77
ip rule add from 10.99.0.1 lookup 77
ip neigh add 10.77.0.9 lladdr 02:00:00:00:00:99 nud permanent dev test0
ip neigh replace {peer} lladdr 02:00:00:00:00:66 nud permanent dev test0
ip address add 10.77.0.3/24 dev test0
ip link add left type veth peer name right
tc qdisc replace dev test0 root pfifo limit 5
tc qdisc add dev test0 clsact
ip link set test0 promisc on"""
"""What a program with NET_ADMIN may leave, a command a line."""
SHOWN = """ip address; ip route show table all | sort; ip rule; ip neigh show nud permanent | sort
tc qdisc show dev test0 | sed 's/qdisc \\([a-z]*\\) [0-9a-f]*:/\\1/'"""


def test_what_a_program_leaves_on_a_host_is_gone_before_the_next_run(session: SessionOf) -> None:
    _, host = session("sender", 60)
    path = ("test0", f"{ADDRESSES['sender']}/24", ADDRESSES["receiver"], "02:00:00:00:00:02")
    with closing(host):
        host.check(["sh", "-c", forget(*path)])
        before = host.check(["sh", "-c", SHOWN])
        changed = []
        for line in LEFT.format(peer=ADDRESSES["receiver"]).splitlines():
            host.check(line.split())
            changed.append(host.check(["sh", "-c", SHOWN]))
        host.check(["sh", "-c", forget(*path)])
        after = host.check(["sh", "-c", SHOWN])

    assert len({before, *changed}) == len(changed) + 1
    assert after.decode() == before.decode()


def test_the_name_of_a_session_resolves(session: SessionOf) -> None:
    _, host = session("sender", 60)
    with closing(host):
        found = host.check(["sh", "-c", 'getent hosts "$(uname -n)"; getent hosts receiver']).decode().split()

    assert found[0] == ADDRESSES["sender"]
    assert found[2] == ADDRESSES["receiver"]


def test_the_programs_of_a_session_end_with_its_lease_and_the_interface_returns(
    the_rack: Rack, session: SessionOf, tmp_path: Path
) -> None:
    management, host = session("sender", 600)
    daemon = "setsid setsid sleep 54321 & sleep 54321"
    host.start(["sh", "-c", daemon], "/", tmp_path / "log")
    assert "54321" in the_rack.check("sender", "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null || :")

    renew_session(management, 1)
    wait_until(lambda: session_seconds_left(management) is None, "the end of the lease", 60)

    assert "54321" not in the_rack.check("sender", "sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null || :")
    assert "test0" in the_rack.check("sender", "ip", "-brief", "link")
    with pytest.raises(HostError, match="no session is open: its lease has ended"):
        host.reconnect_s = 0
        host.close()
        host.check(["true"])


def test_an_interface_with_an_address_is_never_taken(lab: LabRig, the_rack: Rack, tmp_path: Path) -> None:
    with closing(ManagementHost(lab.sender)) as management:
        with pytest.raises(HostError, match="mgmt0 has an address"):
            open_session(management, "true\n", 5, "mgmt0")

        assert session_seconds_left(management) is None


def test_a_second_session_is_refused(session: SessionOf, lab: LabRig) -> None:
    management, host = session("sender", 60)
    with closing(host), pytest.raises(HostError, match="a session is open already"):
        open_session(management, "true\n", 5, None)


def test_an_idle_rig_is_restored_by_command(the_rack: Rack, lab: LabRig, session: SessionOf, tmp_path: Path) -> None:
    _, host = session("sender", 600)
    host.close()
    emulator = other_engineer(the_rack)
    applied = emulator.configure(ChannelSpec(forward=LinkSpec(bit_error_rate=1e-9), reverse=LinkSpec()))

    message = refused(the_rack.inventory, tmp_path)
    status = owlt("rig", "status", the_rack.inventory)
    done = owlt("rig", "clear", the_rack.inventory)

    assert "no other session: one is open" in message
    assert "owlt_test_interface" not in message
    assert "channel: forward: errors" in status.stdout
    assert "nobody has a lease" in status.stdout

    assert done.returncode == 0, done.stderr
    assert (applied != ChannelSpec(), emulator.describe()) == (True, ChannelSpec())
    assert "test0" in the_rack.check("sender", "ip", "-brief", "link")


def test_a_failure_to_furnish_a_session_is_reported_and_leaves_nothing(lab: LabRig, the_rack: Rack) -> None:
    with closing(ManagementHost(lab.sender)) as management:
        with pytest.raises(HostError, match="no such thing"):
            open_session(management, "set -e\necho no such thing >&2\nfalse\n", 5, "test0")

        assert session_seconds_left(management) is None
    assert "test0" in the_rack.check("sender", "ip", "-brief", "link")


@pytest.mark.parametrize("change", ["content", "mode", "new"])
def test_a_change_of_the_machines_files_would_be_found(change: str, tmp_path: Path) -> None:
    """What `rack` compares of /etc when it ends."""
    file = tmp_path / "a" / "file"
    file.parent.mkdir()
    file.write_text("before")
    before, times_ns = tree_state(tmp_path), (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    assert tree_changes(before, tree_state(tmp_path)) == []

    changed = file.with_name("other") if change == "new" else file
    if change == "mode":
        file.chmod(0o600)
    else:
        changed.write_text("beyond")
        os.utime(file, ns=times_ns)

    assert str(changed) in tree_changes(before, tree_state(tmp_path))


def secrets_of(the_rack: Rack) -> list[bytes]:
    """The token, and a line of each private key: of one of OpenSSH the fourth, which is part of the secret number."""
    lines = {"token": 0, "user_key": 4, "root_key": 4, "key.pem": 1}
    return [(the_rack.directory / name).read_bytes().splitlines()[number] for name, number in lines.items()]


def process_texts(roots: list[int]) -> dict[str, bytes]:
    """What /proc shows of these processes and all that they started: commands and environments."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it may end meanwhile
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])

    def is_below(pid: int) -> bool:
        while pid not in roots and pid in parents:
            pid = parents[pid]
        return pid in roots

    texts: dict[str, bytes] = {}
    for pid in filter(is_below, parents):
        for name in ("cmdline", "environ"):
            with suppress(OSError):
                texts[f"/proc/{pid}/{name}"] = Path("/proc", str(pid), name).read_bytes()
    return texts


def holding(secrets: list[bytes], texts: dict[str, bytes]) -> list[str]:
    """Where a secret is."""
    return [where for where, text in texts.items() if any(secret in text for secret in secrets)]


def file_texts(files: Iterable[Path]) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in files if path.is_file() and not path.is_symlink()}


def test_the_scan_finds_a_secret_in_a_file_a_command_and_an_environment(the_rack: Rack, tmp_path: Path) -> None:
    token, *_, key = secrets_of(the_rack)
    record = tmp_path / "record.json"
    record.write_bytes(b'{"token": "' + token + b'"}')
    command = ["sh", "-c", "read -r _", key.decode()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env=os.environ | {"OWLT_TOKEN": token.decode()}) as planted:
        wait_until(lambda: len(process_texts([planted.pid])) == 2, "the process")
        in_processes = holding([token, key], process_texts([planted.pid]))
        planted.communicate(b"end\n")

    assert in_processes == [f"/proc/{planted.pid}/cmdline", f"/proc/{planted.pid}/environ"]
    assert holding([token], file_texts(tmp_path.rglob("*"))) == [str(record)]
    record.unlink()  # what the last test searches has no such file


def test_no_secret_is_in_results_logs_or_processes(
    the_rack: Rack,
    lab: LabRig,
    four: Performed,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It comes last: the results of all tests before it are searched. The lease's id is that of `owlt rig lease`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(the_rack.directory / "cache"))
    owlt("rig", "lease", the_rack.inventory, "--for", "10 min")
    reservation = read_reservation(lab.emulator.service)
    assert reservation is not None
    secrets = [*secrets_of(the_rack), reservation.lease.encode()]

    sampled: dict[str, bytes] = {}
    with sweep_under_way(the_rack, tmp_path, "{", **SLOW) as process:
        roots = [process.pid, *(init.pid for init in the_rack.inits.values())]
        roots += [the_rack.emulator.pid] if the_rack.emulator is not None else []
        while process.poll() is None:
            sampled |= process_texts(roots)
            time.sleep(0.5)
        output = process.communicate()[0]
    owlt("rig", "release", the_rack.inventory)
    racks = set(the_rack.directory.parent.glob("rack*"))  # other modules have racks of their own
    searched = [path for path in tmp_path_factory.getbasetemp().rglob("*") if racks.isdisjoint(path.parents)]
    files = file_texts([*searched, *the_rack.directory.glob("*.log")])

    assert process.returncode == 0, output
    assert [
        key
        for key in ("owlt.agents.ltp", "owlt-host", "sshd")
        if not any(key.encode() in each for each in sampled.values())
    ] == []
    assert sum(path.endswith("record.json") for path in files) > 5
    assert holding(secrets, sampled | files | {"output": output.encode()}) == []

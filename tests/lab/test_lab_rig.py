"""A lab rig of three hosts that are reached over SSH: its doctor, its sweeps, and what goes wrong in a rack."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from emulator.service.client import EmulatorClient
from orchestrator.hosts.host import HostError
from orchestrator.profiles.inventory import LabRig, read_inventory
from orchestrator.rigs.lab.furnishing import SSHD_CONFIG_FILE, base_on_host, furnishing, make_keys
from orchestrator.rigs.lab.lab_host import LabHost
from orchestrator.rigs.lab.management import ManagementHost
from orchestrator.rigs.lab.session import close_session, open_session, renew_session, session_seconds_left
from tests.conftest import require, require_command
from tests.lab.rack import ADDRESSES, RACK, SERVICE_PORT, Rack, leftovers, rack, wait_until
from tests.system.sweeps import PROJECT, owlt, records, sweep_file

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
    require(not leftovers(RACK), "a machine on which no rack stands")
    with rack(tmp_path_factory.mktemp("rack")) as made:
        yield made


@pytest.fixture
def lab(the_rack: Rack) -> LabRig:
    return read_inventory(the_rack.inventory)["rack"]


def run_sweep(the_rack: Rack, directory: Path, **changes: object) -> subprocess.CompletedProcess[str]:
    sweep = sweep_file(directory, **changes)
    return owlt("run", sweep, "--rig", the_rack.inventory, "--results", directory / "results", "--no-report")


@contextmanager
def sweep_under_way(the_rack: Rack, directory: Path, **changes: object) -> Iterator[subprocess.Popen[str]]:
    """A sweep in its transfer phase; ended with the test."""
    sweep = sweep_file(directory, **changes)
    command = [str(Path(sys.executable).parent / "owlt"), "run", str(sweep), "--rig", str(the_rack.inventory)]
    command += ["--results", str(directory / "results"), "--no-report"]
    with subprocess.Popen(
        command, cwd=PROJECT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=os.environ
    ) as process:
        try:
            wait_until(lambda: '"transfer"' in journal(directory), "the transfer")
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
    the_rack.check("emulator", "sh", "-ec", f"echo 0 >{setting}")
    try:
        done = owlt("doctor", "--rig", the_rack.inventory, "--json")
    finally:
        the_rack.check("emulator", "sh", "-ec", f"echo 1 >{setting}")

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
            if key not in ("versions", "provenance", "timeline", "counters", "host_captures")
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


def test_no_secret_is_in_results_or_logs(the_rack: Rack, four: Performed) -> None:
    token = (the_rack.directory / "token").read_bytes()
    key = (the_rack.directory / "user_key").read_bytes().splitlines()[1]
    files = [path for path in four.results.rglob("*") if path.is_file()]
    logs = list(the_rack.directory.glob("*.log"))
    assert len(files) > 5
    assert len(logs) >= 3
    assert [path for path in files + logs if token in path.read_bytes() or key in path.read_bytes()] == []


def test_no_secret_is_in_the_list_of_processes(the_rack: Rack, tmp_path: Path) -> None:
    with sweep_under_way(the_rack, tmp_path, **SLOW):
        listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout

    assert "owlt" in listed
    assert (the_rack.directory / "token").read_text() not in listed


def test_a_run_goes_on_when_all_ssh_connections_are_lost(the_rack: Rack, tmp_path: Path) -> None:
    with sweep_under_way(the_rack, tmp_path, **SLOW) as process:
        cut = [the_rack.cut_ssh(role) for role in ADDRESSES]
        output, _ = process.communicate(timeout=120)

    (record,) = records(tmp_path / "results").values()
    assert all(number > 0 for number in cut), cut
    assert (process.returncode, record["outcome"]) == (0, "completed"), output
    assert "again" not in output.partition("recorded")[0], "no attempt was lost"


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


def test_a_run_is_repeated_when_the_disk_of_the_emulator_was_full(the_rack: Rack, lab: LabRig, tmp_path: Path) -> None:
    wait_until_idle(lab)
    the_rack.check("emulator", "mount", "-t", "tmpfs", "-o", "size=1m", "small-disk", "/var/lib/owlt")
    try:
        with sweep_under_way(the_rack, tmp_path, **SLOW) as process:
            wait_until(lambda: '"outcome": "aborted"' in journal(tmp_path), "the end of the run", 60)
            the_rack.check("emulator", "mount", "-o", "remount,size=100m", "/var/lib/owlt")
            output, _ = process.communicate(timeout=120)
    finally:
        the_rack.check("emulator", "umount", "-l", "/var/lib/owlt")

    (record,) = records(tmp_path / "results").values()
    assert record["outcome"] == "completed", output
    assert "the disk of the emulator is full (0 bytes free" in " ".join(record["earlier_attempts"]), record[
        "earlier_attempts"
    ]


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
    compile_it = 'printf "%s" "$0" | clang -shared -fPIC -o "$1" -x c - && echo "$1" >"$2"'
    the_rack.check(role, "sh", "-c", compile_it, CLOCK, library, preload)
    try:
        yield lambda seconds: the_rack.check(role, "sh", "-c", 'echo "$1" >"$0"', step, str(seconds))
    finally:
        the_rack.check(role, "rm", "-f", preload, library, step)


def changed_inventory(the_rack: Rack, host: str, base: Path | None = None, **variables: str) -> Path:
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

    assert "rack-sender (10.79.0.1:22) shows another host key than owlt_host_key in the inventory" in message


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
        open_session(management, furnishing(role, keys, [], lines), lease_s, "test0")
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

    done = owlt("rig", "clear", the_rack.inventory)

    assert done.returncode == 0, done.stderr
    assert "test0" in the_rack.check("sender", "ip", "-brief", "link")


def test_a_failure_to_furnish_a_session_is_reported_and_leaves_nothing(lab: LabRig, the_rack: Rack) -> None:
    with closing(ManagementHost(lab.sender)) as management:
        with pytest.raises(HostError, match="no such thing"):
            open_session(management, "set -e\necho no such thing >&2\nfalse\n", 5, "test0")

        assert session_seconds_left(management) is None
    assert "test0" in the_rack.check("sender", "ip", "-brief", "link")

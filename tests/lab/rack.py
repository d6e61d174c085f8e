"""Three machines in a rack, as namespaces: each with its own file system (an overlay), users, sshd and sudo.

Nothing of this machine is changed: what a host writes to /etc is in its overlay. A host has its own PID namespace, so
ending its first process is pulling its plug.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from owlt import PACKAGE
from owlt.orchestrator.rigs import namespaces
from owlt.orchestrator.rigs.guest import needed_paths
from owlt.orchestrator.rigs.lab.session import OWLT_HOST, SOURCE, SUDO_RULE

PROJECT = Path(__file__).parents[2]
ROLES = ("sender", "emulator", "receiver")


@dataclass(frozen=True)
class Place:
    """Names and network of a rack: two can stand side by side."""

    name: str
    network: str

    @property
    def orchestrator(self) -> str:
        return f"{self.network}.254"

    @property
    def addresses(self) -> dict[str, str]:
        return {role: f"{self.network}.{number}" for number, role in enumerate(ROLES, 1)}

    def namespace(self, role: str) -> str:
        return f"{self.name}-{role}"

    def cable(self, role: str) -> str:
        """The interface of this machine towards the management interface of a host."""
        return f"{self.name}-{role[:3]}"


RACK, BARE = Place("owlt-rack", "10.79.0"), Place("owlt-bare", "10.80.0")
ADDRESSES = RACK.addresses
TEST_ADDRESSES = {"sender": "10.77.0.1/24", "receiver": "10.77.0.2/24"}
PORT_MACS = {"sender": "02:4f:57:4c:54:01", "receiver": "02:4f:57:4c:54:02"}
"""Of the emulator's ports towards these hosts."""
SERVICE_PORT = 8765
STARTING_S = 90.0
OTHER_RUN_S = 540.0
SSHD_CONFIG = """HostKey /etc/ssh/rack_host_key
PidFile none
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
MaxStartups 100
Subsystem sftp internal-sftp
"""
SYSCTLS = {"net.core.rmem_max": 16777216, "net.core.wmem_max": 16777216}


def cgroup_of(role: str) -> Path:
    """The control group of a bare host, in the unified hierarchy."""
    unified = Path("/sys/fs/cgroup/unified")
    return (unified if unified.is_dir() else Path("/sys/fs/cgroup")) / BARE.namespace(role)


@dataclass
class Rack:
    """The rack; `inventory` is the file that owlt reads, and everything else is below `directory`."""

    directory: Path
    bare: bool = False
    """Its hosts have systemd as their first process, and only root can log in: nothing is installed."""
    root: Path = Path("/")
    """What the hosts' file systems are made of: this machine's, or a tree of another release of its distribution."""
    inits: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    emulator: subprocess.Popen[bytes] | None = None

    @property
    def place(self) -> Place:
        return BARE if self.bare else RACK

    @property
    def inventory(self) -> Path:
        return self.directory / "inventory.yaml"

    def run(self, role: str, *command: str) -> subprocess.CompletedProcess[str]:
        """A command as root on a host."""
        enter = ["nsenter", "--target", str(self._init(role)), "--net", *self._namespaces, "--"]
        return subprocess.run([*enter, *command], capture_output=True, text=True, check=False)

    def check(self, role: str, *command: str) -> str:
        done = self.run(role, *command)
        assert done.returncode == 0, (role, command, done.stdout, done.stderr)
        return done.stdout

    def _init(self, role: str) -> int:
        """The first process of a host, which unshare started."""
        (child,) = children(self.inits[role].pid)
        return child

    @property
    def _namespaces(self) -> list[str]:
        """Of a host, as unshare(1) and nsenter(1) call them; systemd needs control groups of its own."""
        return ["--mount", "--pid", "--uts", "--ipc", *(["--cgroup"] if self.bare else [])]

    def start(self, role: str) -> None:
        """Start a host, with its sshd, on the file system that it had."""
        inside = ["unshare", *self._namespaces, "--fork", "--kill-child=KILL", "sh", "-c", BOOT, "sh"]
        place = str(self.directory / "hosts" / role)
        first = "systemd" if self.bare else "sshd"
        enter = ["ip", "netns", "exec", self.place.namespace(role)]
        address = self.place.addresses[role]
        command = [*enter, *inside, place, role, address, first, sys.prefix, str(self.root), *_paths_below_new_mounts()]
        if self.bare:
            # in a control group of its own, which systemd takes for the root of all
            cgroup = cgroup_of(role)
            wait_until(lambda: _is_removed(cgroup), f"the end of the {role}'s control group")
            cgroup.mkdir()
            command = ["sh", "-ec", 'echo 0 >"$1/cgroup.procs"; shift; exec "$@"', "sh", str(cgroup), *command]
        with (self.directory / f"{role}.log").open("ab") as log:
            self.inits[role] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: connects(address, 22), f"sshd of the {role}")

    def cut(self, role: str) -> None:
        """Pull a host's plug."""
        self.inits[role].kill()
        self.inits[role].wait()

    @contextmanager
    def unplugged(self, *roles: str) -> Iterator[None]:
        """Hosts that no frame of the management network reaches meanwhile, although their links are up."""
        for role in roles:
            subprocess.run(["ip", "link", "set", self.place.cable(role), "nomaster"], check=True)
        try:
            yield
        finally:
            for role in roles:
                subprocess.run(["ip", "link", "set", self.place.cable(role), "master", self.place.name], check=True)

    def restore(self, role: str) -> None:
        """Start a host again whose plug was pulled during a session, which took the test interface along."""
        wait_until(lambda: f"to-{role}" not in self._links("emulator"), f"the end of the {role}'s session", 60)
        _ip("-batch", "-", text=_test_link(self.place, role))
        self.check("emulator", "sh", "-ec", ADD_PORT, "sh", f"to-{role}")
        self.start(role)

    def _links(self, role: str) -> str:
        return subprocess.run(
            ["ip", "-n", self.place.namespace(role), "-brief", "link"], capture_output=True, text=True, check=True
        ).stdout

    def start_emulator(self) -> None:
        """Start the emulator's service on the emulator, with its certificate and token."""
        address = self.place.addresses["emulator"]
        service = [sys.executable, "-m", "owlt.emulator", "--listen", f"{address}:{SERVICE_PORT}"]
        service += ["--sender-port", "to-sender", "--receiver-port", "to-receiver"]
        service += ["--token-file", "/etc/owlt/token"]
        service += ["--tls-certificate", "/etc/owlt/certificate.pem", "--tls-key", "/etc/owlt/key.pem"]
        enter = ["nsenter", "--target", str(self._init("emulator")), "--mount", "--net", "--pid", "--"]
        with (self.directory / "service.log").open("ab") as log:
            self.emulator = subprocess.Popen([*enter, *service], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: connects(address, SERVICE_PORT), "the emulator's service")

    def stop_emulator(self, kind: signal.Signals) -> None:
        """End the service with a signal."""
        if self.emulator is not None:
            # nsenter has forked: the service is its child
            for child in children(self.emulator.pid):
                os.kill(child, kind)
            self.emulator.wait(20)
            self.emulator = None

    def cut_ssh(self, role: str) -> int:
        """Kill the servers of all SSH connections to a host, not the one that listens. Returns their number."""
        listed = self.check(role, "sh", "-c", "grep -l '^sshd: ' /proc/[0-9]*/cmdline || :").split()
        pids = [path.split("/")[2] for path in listed]
        listening = {"1"} | {pid for pid in pids if "listener" in self.run(role, "cat", f"/proc/{pid}/cmdline").stdout}
        cut = [pid for pid in pids if pid not in listening]
        self.run(role, "kill", "-KILL", *cut)
        return len(cut)


BOOT = r"""set -e
place=$1 role=$2 address=$3 first=$4  # $5 the environment, $6 the root, then paths that stay visible
mount --make-rprivate /
mount -t overlay -o "lowerdir=$6,upperdir=$place/upper,workdir=$place/work" owlt-rack "$place/root"
cd "$place/root"
mkdir -p proc sys dev run tmp var/tmp
if [ -d "$place/owlt" ]; then
  mkdir -p opt/owlt
  mount -t overlay -o "lowerdir=$5,upperdir=$place/owlt/upper,workdir=$place/owlt/work" owlt-rack opt/owlt
fi
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount --bind proc/sys proc/sys
for conf in proc/sys/net/ipv4/conf proc/sys/net/ipv6/conf; do [ ! -e $conf ] || mount --bind $conf $conf; done
mount -o remount,bind,ro proc/sys
[ $first = sshd ] || mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"; done
mknod -m 666 dev/tty c 5 0
mknod -m 600 dev/kmsg c 1 11
mkdir dev/pts dev/shm dev/net
mknod -m 666 dev/net/tun c 10 200
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=1777 tmpfs tmp
mount -t tmpfs -o mode=1777 tmpfs var/tmp
shift 6
for path; do mkdir -p "./$path"; mount --rbind "$path" "./$path"; mount -o remount,bind,ro "./$path"; done
mkdir -p .rack-old
pivot_root . .rack-old
cd /
umount -l /.rack-old
hostname "rack-$role"
if [ $first = systemd ]; then
  # at the first boot, none of this machine's own units
  [ -e /etc/systemd/system/rack-sshd.wanted ] || for unit in /etc/systemd/system/*.wants/*; do rm -f "$unit"; done
  touch /etc/systemd/system/rack-sshd.wanted
  mkdir -p /etc/systemd/system/multi-user.target.wants
  ln -sf /etc/systemd/system/rack-sshd.service /etc/systemd/system/multi-user.target.wants
  for unit in console-getty systemd-logind; do ln -sf /dev/null /etc/systemd/system/$unit.service; done
  mount --make-rshared /
  export container=owlt-rack
  exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=journal --show-status=0 3>&-
fi
mkdir -p /run/sshd
exec /usr/sbin/sshd -D -e -f /etc/ssh/rack_sshd_config -o ListenAddress="$address"
"""


def _paths_below_new_mounts() -> list[str]:
    """What hosts need of this machine although they mount a directory above it: this project, with the emulator's
    classes of packets, and its environment, if they are in /tmp."""
    paths = [*needed_paths(), str((PACKAGE / "profiles" / "packets").resolve())]
    return [path for path in paths if path.startswith(("/dev/", "/run/", "/tmp/", "/var/tmp/"))]


@contextmanager
def rack(directory: Path, bare: bool = False, root: Path = Path("/")) -> Iterator[Rack]:
    """A rack that is wired and provisioned by hand, or a bare one: as `owlt rig provision` finds it.

    With another `root`, which only a bare one may have, its /opt/owlt is that of `root`.
    """
    made = Rack(directory, bare, root)
    before = tree_state(ETC)
    with ExitStack() as down:
        down.enter_context(own(made.place))
        down.callback(clear, made.place)
        wire(made.place)
        _make_keys(directory, made.place)
        # upper and work directories of an overlay cannot lie on an overlay or on what it covers
        hosts = str(directory / "hosts")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2g", made.place.name, hosts], check=True)
        down.callback(subprocess.run, ["umount", "-l", hosts], check=False)
        for role in ROLES:
            place = directory / "hosts" / role
            for name in ("upper", "work", "root"):
                (place / name).mkdir(parents=True)
            if bare and role == "emulator" and root == Path("/"):
                # what `owlt rig provision` installs from the package index is there, so that no network is needed
                for name in ("upper", "work"):
                    (place / "owlt" / name).mkdir(parents=True)
            _write_login(directory, role, made.place)
            if not bare:
                _write_files(directory, role)
            down.callback(_end, made, role)
            made.start(role)
        _write_inventory(made)
        if not bare:
            made.check("emulator", "sh", "-ec", EMULATOR_BRIDGE, "sh", "to-sender", "to-receiver")
            down.callback(made.stop_emulator, signal.SIGTERM)
            made.start_emulator()
        yield made
    changed = tree_changes(before, tree_state(ETC))
    assert not changed, f"changed on this machine while the rack was in use: {changed}"


ETC = Path("/etc")


def tree_state(root: Path) -> dict[Path, tuple[object, ...]]:
    """Mode, owner, time of change and content of everything in a directory; of a link its target."""
    state: dict[Path, tuple[object, ...]] = {}
    for path in [root, *root.rglob("*")]:
        with suppress(FileNotFoundError):  # a program may replace a file meanwhile
            status = path.lstat()
            content = str(path.readlink()) if path.is_symlink() else ""
            if stat.S_ISREG(status.st_mode):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            state[path] = (status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, content)
    return state


def tree_changes(before: dict[Path, tuple[object, ...]], after: dict[Path, tuple[object, ...]]) -> list[str]:
    """The paths that differ."""
    return sorted(str(path) for path in before.keys() | after.keys() if before.get(path) != after.get(path))


ADD_PORT = """for port; do
  ethtool -K $port tx off rx off tso off gso off gro off >/dev/null
  ip link set $port master channel up
  ip link set $port type bridge_slave learning off
done
"""
EMULATOR_BRIDGE = f"""for each in all default; do
  setting=/proc/sys/net/ipv6/conf/$each/disable_ipv6
  [ ! -e $setting ] || echo 1 >$setting
done
ip link add channel type bridge stp_state 0 mcast_snooping 0
ip link set channel up
{ADD_PORT}"""


def _test_link(place: Place, role: str) -> str:
    here = f"link add test0 netns {place.namespace(role)} type veth"
    return f"{here} peer name to-{role} address {PORT_MACS[role]} netns {place.namespace('emulator')}"


def wire(place: Place) -> None:
    lines = [f"netns add {place.namespace(role)}" for role in ROLES]
    lines += [
        f"link add {place.name} type bridge stp_state 0 mcast_snooping 0",
        f"addr add {place.orchestrator}/24 dev {place.name}",
        f"link set {place.name} up",
    ]
    for role in ROLES:
        lines += [
            f"link add {place.cable(role)} type veth peer name mgmt0 netns {place.namespace(role)}",
            f"link set {place.cable(role)} master {place.name} up",
        ]
    for role in ("sender", "receiver"):
        lines.append(_test_link(place, role))
    _ip("-batch", "-", text="\n".join(lines))
    for role in ROLES:
        inside = [f"addr add {place.addresses[role]}/24 dev mgmt0", "link set mgmt0 up", "link set lo up"]
        _ip("-n", place.namespace(role), "-batch", "-", text="\n".join(inside))


def _make_keys(directory: Path, place: Place) -> None:
    (directory / "hosts").mkdir()
    for name in ("user_key", "root_key", *(f"host_key_{role}" for role in ROLES)):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", directory / name], check=True)
    address = f"subjectAltName=IP:{place.addresses['emulator']}"
    make = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=rack",
    ]
    files = ["-keyout", directory / "key.pem", "-out", directory / "certificate.pem"]
    subprocess.run([*make, "-addext", address, *files], check=True, capture_output=True)
    token = directory / "token"
    token.touch(mode=0o600)
    token.write_text("0123456789abcdef" * 4)


def _write_login(directory: Path, role: str, place: Place) -> None:
    """What a new machine has: an sshd with its key, and root's key."""
    upper = directory / "hosts" / role / "upper"
    for needed in (upper / "etc" / "ssh", upper / "etc" / "systemd" / "system", upper / "root" / ".ssh"):
        needed.mkdir(parents=True, exist_ok=True)
    upper.chmod(0o755)
    (upper / "root").chmod(0o700)
    (upper / "root" / ".ssh").chmod(0o700)
    (upper / "etc" / "ssh" / "rack_sshd_config").write_text(SSHD_CONFIG)
    host_key = upper / "etc" / "ssh" / "rack_host_key"
    host_key.touch(mode=0o600)
    host_key.write_bytes((directory / f"host_key_{role}").read_bytes())
    (upper / "root" / ".ssh" / "authorized_keys").write_bytes((directory / "root_key.pub").read_bytes())
    unit = upper / "etc" / "systemd" / "system" / "rack-sshd.service"
    unit.write_text(SSHD_UNIT.format(address=place.addresses[role]))
    (upper / "etc" / "hosts").write_text(f"127.0.0.1 localhost rack-{role}\n")
    (upper / "etc" / "hostname").write_text(f"rack-{role}\n")
    # root of a container may be unable to raise a limit that sudo has lowered (sudo.conf(5), sudoers(5))
    (upper / "etc" / "sudo.conf").write_text("Set disable_coredump false\n")
    rule = upper / "etc" / "sudoers.d" / "rack"
    rule.parent.mkdir()
    rule.write_text("Defaults:owlt rlimit_core=default\n")
    rule.chmod(0o440)


SSHD_UNIT = """[Service]
RuntimeDirectory=sshd
ExecStart=/usr/sbin/sshd -D -e -f /etc/ssh/rack_sshd_config -o ListenAddress={address}
[Install]
WantedBy=multi-user.target
"""


def _write_files(directory: Path, role: str) -> None:
    """What an administrator has installed on a host: the user, its key, sudo's rule, owlt-host."""
    upper = directory / "hosts" / role / "upper"
    etc, home = upper / "etc", upper / "home" / "owlt"
    for place in (etc / "ssh", etc / "sudoers.d", home / ".ssh", upper / OWLT_HOST[1:]):
        (place if place.name != "owlt-host" else place.parent).mkdir(parents=True, exist_ok=True)
    for name, line in (
        ("passwd", "owlt:x:990:990::/home/owlt:/bin/sh"),
        ("group", "owlt:x:990:"),
        ("shadow", "owlt:*:20000:0:99999:7:::"),
    ):
        (etc / name).write_text(Path("/etc", name).read_text() + line + "\n")
        (etc / name).chmod(0o600 if name == "shadow" else 0o644)
    (home / ".ssh" / "authorized_keys").write_bytes((directory / "user_key.pub").read_bytes())
    for path in (home, home / ".ssh", home / ".ssh" / "authorized_keys"):
        os.chown(path, 990, 990)
    (home / ".ssh").chmod(0o700)
    (etc / "sudoers.d" / "owlt").write_text(SUDO_RULE.format(user="owlt") + "\n")
    (etc / "sudoers.d" / "owlt").chmod(0o440)
    program = upper / OWLT_HOST[1:]
    program.write_bytes(SOURCE.read_bytes())
    program.chmod(0o755)
    if role == "emulator":
        (etc / "owlt").mkdir(mode=0o700)
        for name in ("token", "certificate.pem", "key.pem"):
            place = etc / "owlt" / name
            place.touch(mode=0o600)
            place.write_bytes((directory / name).read_bytes())


def _write_inventory(made: Rack) -> None:
    directory, place = made.directory, made.place
    hosts: dict[str, dict[str, object]] = {}
    third_party = Path.home() / ".cache/owlt/third-party"
    for role in ROLES:
        kind, key = (directory / f"host_key_{role}.pub").read_text().split()[:2]
        hosts[f"rack-{role}"] = {
            "owlt_role": role,
            "ansible_host": place.addresses[role],
            "owlt_host_key": f"{kind} {key}",
        }
        hosts[f"rack-{role}"] |= {"owlt_python": sys.executable, "ansible_python_interpreter": "/usr/bin/python3"}
        hosts[f"rack-{role}"] |= {"owlt_clock": "none"}
        if role in TEST_ADDRESSES:
            hosts[f"rack-{role}"] |= {
                "owlt_test_interface": "test0",
                "owlt_test_address": TEST_ADDRESSES[role],
            }
            if third_party.is_dir():
                hosts[f"rack-{role}"]["owlt_third_party"] = str(third_party)
    hosts["rack-emulator"] |= {
        "owlt_sender_port": PORT_MACS["sender"],
        "owlt_receiver_port": "to-receiver",
        "owlt_service": f"https://{place.addresses['emulator']}:{SERVICE_PORT}",
        "owlt_admitted": f"{place.orchestrator}/32",
        "owlt_service_ca": "certificate.pem",
        "owlt_service_token_file": "token",
    }
    if made.bare:
        del hosts["rack-emulator"]["owlt_admitted"]  # the management network is, by default
        for role in ROLES if made.root != Path("/") else ["emulator"]:
            del hosts[f"rack-{role}"]["owlt_python"]  # the playbooks install it
    variables = {"ansible_user": "owlt", "ansible_ssh_private_key_file": "user_key"}
    inventory = {"all": {"vars": variables, "children": {"rack": {"hosts": hosts}}}}
    (directory / "inventory.yaml").write_text(json.dumps(inventory, indent=2))


def leftovers(place: Place) -> list[str]:
    """What stands of a rack."""
    spaces = [place.namespace(role) for role in ROLES if Path("/run/netns", place.namespace(role)).exists()]
    return spaces + [place.name] * Path("/sys/class/net", place.name).exists()


@contextmanager
def own(place: Place) -> Iterator[None]:
    """Own a rack's names, after another run of these tests that uses them; what a killed one left is removed."""
    with namespaces.owned(Path("/run", place.name), OTHER_RUN_S):
        if leftovers(place):
            _kill_hosts(place)
            clear(place)
        yield


def pids(place: Place) -> list[int]:
    """The processes in a rack's namespaces."""
    found: list[int] = []
    for role in ROLES:
        inside = ["ip", "netns", "pids", place.namespace(role)]
        found += map(int, subprocess.run(inside, capture_output=True, text=True, check=False).stdout.split())
    return found


def _kill_hosts(place: Place) -> None:
    """End the hosts of a killed run, with the file systems that it mounted for them."""
    for pid in pids(place):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for source, directory, *_ in map(str.split, Path("/proc/mounts").read_text().splitlines()):
        if source == place.name:
            subprocess.run(["umount", "-l", directory], check=False)


def clear(place: Place) -> None:
    """Remove the rack's namespaces and its bridge."""
    for name in (*(place.cable(role) for role in ROLES), place.name):
        subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)
    for role in ROLES:
        subprocess.run(["ip", "netns", "del", place.namespace(role)], check=False, capture_output=True)


def _end(made: Rack, role: str) -> None:
    if role in made.inits:
        made.cut(role)
    if made.bare:
        wait_until(lambda: _is_removed(cgroup_of(role)), f"the end of the {role}'s control group")


def _is_removed(cgroup: Path) -> bool:
    """Remove a control group and those in it; False while processes are left in one."""
    for directory in sorted(cgroup.rglob("*"), reverse=True):
        if directory.is_dir():
            with suppress(OSError):
                directory.rmdir()
    with suppress(OSError):
        cgroup.rmdir()
    return not cgroup.exists()


def _ip(*words: str, text: str) -> None:
    done = subprocess.run(["ip", *words], input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, (shlex.join(words), text, done.stderr)


def children(parent: int) -> list[int]:
    """The processes that a process has started (proc_pid_stat(5))."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it may end meanwhile
            number, _, rest = path.read_text().partition(" ")
            if int(rest.rpartition(")")[2].split()[1]) == parent:
                found.append(int(number))
    return found


def connects(address: str, port: int) -> bool:
    import socket

    try:
        socket.create_connection((address, port), timeout=1).close()
    except OSError:
        return False
    return True


def wait_until(condition: object, awaited: str, limit_s: float = STARTING_S) -> None:
    end_s = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end_s, f"{awaited}: not there after {limit_s:g} s"
        time.sleep(0.02)

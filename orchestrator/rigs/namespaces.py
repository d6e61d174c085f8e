"""The three hosts as network namespaces of the kernel this runs on: the local rig, and the inside of a guest.

Made with ip, tc and ethtool, with sshd in each; needs root. All that is made carries the prefix `owlt-` or
lies within such a namespace, and is taken down by name and handle. The emulator's ports are bridged without
an IP address; the channel between them is shaped by the emulator service, never from here.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from emulator.client import EmulatorClient
from orchestrator.errors import Missing
from orchestrator.exit_status import how_ended
from orchestrator.host import Host, HostError, Login, wait_until_listening
from orchestrator.rigs import rig
from orchestrator.rigs.enclosure import accounts_alone, base_of, enclosure
from orchestrator.rigs.endings import Endings
from orchestrator.rigs.guest import needed_paths
from orchestrator.rigs.rig import Rig, TestHost

ROLES = ("sender", "receiver", "emulator")
MANAGEMENT_BRIDGE = "owlt-mgmt"
READY_DEADLINE_S = 30.0
LOGIN_NAME = "login"
"""What the sshd of a host reads, below the rig's directory: keys, accounts, an empty home."""

MAC = {"sender": "02:00:00:00:4d:01", "receiver": "02:00:00:00:4d:02"}


def namespace(role: str) -> str:
    """The network namespace of a host."""
    return f"owlt-{role}"


def management_port(role: str) -> str:
    """The management bridge's interface towards a host."""
    return f"owlt-{role[:6]}"


def links() -> list[str]:
    """`ip -batch` lines that make the namespaces and wire them.

    On the management network a host reaches the orchestrator alone: what two builds exchange crosses the channel.
    """
    lines = [f"netns add {namespace(role)}" for role in ROLES]
    lines += [
        f"link add {MANAGEMENT_BRIDGE} type bridge stp_state 0 mcast_snooping 0",
        f"addr add {rig.ORCHESTRATOR_ADDRESS}/24 dev {MANAGEMENT_BRIDGE}",
        f"link set {MANAGEMENT_BRIDGE} up",
    ]
    for role in ROLES:
        lines += [
            f"link add {management_port(role)} type veth peer name mgmt0 netns {namespace(role)}",
            f"link set {management_port(role)} master {MANAGEMENT_BRIDGE} up",
            f"link set {management_port(role)} type bridge_slave isolated on",
        ]
    for role, port in (("sender", rig.SENDER_PORT), ("receiver", rig.RECEIVER_PORT)):
        lines.append(
            f"link add {rig.TEST_INTERFACE} netns {namespace(role)} address {MAC[role]} "
            f"type veth peer name {port} netns {namespace('emulator')}"
        )
    return lines


def host_script(role: str) -> str:
    """Shell lines, run inside the sender's or receiver's namespace, that set up its interfaces."""
    other = "receiver" if role == "sender" else "sender"
    address = {"sender": rig.SENDER_ADDRESS, "receiver": rig.RECEIVER_ADDRESS}
    test = rig.TEST_INTERFACE
    return f"""set -e
{_without_ipv6()}
ip -batch - <<END
link set lo up
{_management(role)}
addr add {address[role]}/{rig.TEST_PREFIX} dev {test}
link set {test} up
neigh add {address[other]} lladdr {MAC[other]} dev {test} nud permanent
route add 224.0.0.0/4 dev {test}
END
{_without_offloads(test)}
{shlex.join(rig.card_command(test, rig.CARD_RATE_BPS))}
"""


def emulator_script() -> str:
    """Shell lines, run inside the emulator's namespace: a bridge without an address between its two ports.

    Snooping off, or NORM's groups are lost once a querier is seen; spanning tree off, or the ports wait 30 s.
    """
    ports = (rig.SENDER_PORT, rig.RECEIVER_PORT)
    return f"""set -e
{_without_ipv6()}
ip -batch - <<END
link set lo up
{_management("emulator")}
link add channel type bridge stp_state 0 mcast_snooping 0
link set {ports[0]} master channel up
link set {ports[1]} master channel up
link set channel up
END
{_without_offloads(ports[0])}
{_without_offloads(ports[1])}
"""


def _management(role: str) -> str:
    """`ip -batch` lines in a host: its address, and a route to the orchestrator alone."""
    address = rig.MANAGEMENT_ADDRESSES[role]
    return f"""addr add {address}/32 dev mgmt0
link set mgmt0 up
route add {rig.ORCHESTRATOR_ADDRESS}/32 dev mgmt0 src {address}"""


def _without_ipv6() -> str:
    # router solicitations and the like would be background frames in every capture
    return "for f in all default; do f=/proc/sys/net/ipv6/conf/$f/disable_ipv6; [ ! -e $f ] || echo 1 >$f; done"


def _without_offloads(interface: str) -> str:
    # a super-packet would be hit, dropped and counted as one
    return f"ethtool -K {interface} tx off rx off tso off gso off gro off >/dev/null"


SSHD_CONFIG = """\
HostKey {login}/host_key
AuthorizedKeysFile {login}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
MaxSessions 200
MaxStartups 200
UseDNS no
PrintMotd no
PrintLastLog no
LoginGraceTime 0
ClientAliveInterval 0
Ciphers aes128-gcm@openssh.com
Subsystem sftp internal-sftp
"""


@contextmanager
def raised(directory: Path, logs: Path, builds: Path) -> Iterator[Rig]:
    """Raise the rig, hand it over connected, take it down again.

    `directory` holds its keys and the hosts' files, `logs` what its servers said, `builds` third-party builds.

    Raises Missing without root or where another rig stands, HostError when a host does not come up.
    """
    if os.geteuid() != 0:
        raise Missing("the local rig makes network namespaces, which needs root; run as root, or use 'rig: virtual'")
    if standing := leftovers():
        raise Missing(f"a local rig stands already ({', '.join(standing)}); if nobody uses it, run 'owlt rigs --clear'")
    with ExitStack() as down:
        down.callback(clear)
        _ip_batch(links())
        Path("/proc/sys/net/ipv4/conf", MANAGEMENT_BRIDGE, "forwarding").write_text("0")
        for role in ("sender", "receiver"):
            _in_namespace(role, host_script(role))
        _in_namespace("emulator", emulator_script())
        logins = _make_logins(directory)
        _write_sshd_files(directory)
        for role in ROLES:
            _start_sshd(down, directory, logs, role)
        token = _start_emulator(down, directory, logs)
        hosts = {}
        for role in ROLES:
            wait_until_listening(rig.MANAGEMENT_ADDRESSES[role], 22, READY_DEADLINE_S)
            base = str(directory / role) if role == "emulator" else base_of(role)
            hosts[role] = down.enter_context(Host(logins[role], base))
        channel = EmulatorClient(f"http://{rig.MANAGEMENT_ADDRESSES['emulator']}:{rig.EMULATOR_PORT}/", token=token)
        channel.wait_until_ready(READY_DEADLINE_S)
        _wait_until_bridged()
        endings = Endings()
        down.callback(endings.close)
        yield Rig(
            sender=TestHost(hosts["sender"], rig.SENDER_ADDRESS, rig.TEST_INTERFACE),
            receiver=TestHost(hosts["receiver"], rig.RECEIVER_ADDRESS, rig.TEST_INTERFACE),
            emulator=hosts["emulator"],
            channel=channel,
            sender_port=rig.SENDER_PORT,
            receiver_port=rig.RECEIVER_PORT,
            python=sys.executable,
            watch=str(Path(__file__).parents[2] / "agents" / "watch.py"),
            builds=str(builds),
            endings=endings,
        )


def _wait_until_bridged() -> None:
    """Wait until both ports forward. The kernel passes on that a link is up once a second at most, and until
    then the bridge drops what it is given."""
    end = time.monotonic() + READY_DEADLINE_S
    pause_s = 0.01
    while (ports := _port_states()) != ["forwarding"] * 2:
        if time.monotonic() > end:
            raise HostError(f"the emulator's ports do not forward after {READY_DEADLINE_S:g} s, they are {ports}")
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.2)


def _port_states() -> list[str]:
    command = ["bridge", "-json", "-n", namespace("emulator"), "link", "show"]
    shown = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout or "[]")
    return [port["state"] for port in shown if port["ifname"] in (rig.SENDER_PORT, rig.RECEIVER_PORT)]


def leftovers() -> list[str]:
    """What stands of a rig on this kernel: its namespaces, the management bridge and that one's ports."""
    spaces = [namespace(role) for role in ROLES if Path("/run/netns", namespace(role)).exists()]
    return spaces + [name for name in _management_links() if Path("/sys/class/net", name).exists()]


def clear() -> None:
    """Remove what stands of a rig. Programs are ended by who started them.

    The interfaces go first and by name: those of a removed namespace are gone only some time after it.
    """
    standing = leftovers()
    for name in _management_links():
        if name in standing:
            subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)
    for role in ROLES:
        if namespace(role) in standing:
            subprocess.run(["ip", "netns", "del", namespace(role)], check=False, capture_output=True)


def _management_links() -> list[str]:
    return [*(management_port(role) for role in ROLES), MANAGEMENT_BRIDGE]


def _ip_batch(lines: list[str]) -> None:
    _succeed(["ip", "-batch", "-"], "\n".join(lines))


def _in_namespace(role: str, script: str) -> None:
    _succeed(["ip", "netns", "exec", namespace(role), "sh", "-s"], script)


def _succeed(command: list[str], told: str) -> None:
    done = subprocess.run(command, input=told, text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise HostError(
            f"{' '.join(command)} {how_ended(done.returncode)}: {done.stderr.strip()}; it was told:\n{told}"
        )


def _make_logins(directory: Path) -> dict[str, Login]:
    """One host key and one user key, of this rig alone, and what each host is known by."""
    login = directory / LOGIN_NAME
    login.mkdir(parents=True, exist_ok=True)
    for path in (login / "host_key", directory / "user_key"):
        path.unlink(missing_ok=True)
        _succeed(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)], "")
    shutil.copy(directory / "user_key.pub", login)
    shown = (login / "host_key.pub").read_text().strip()
    known_hosts = directory / "known_hosts"
    known_hosts.write_text("".join(f"{address} {shown}\n" for address in rig.MANAGEMENT_ADDRESSES.values()))
    return {
        role: Login(role, address, 22, "root", directory / "user_key", known_hosts)
        for role, address in rig.MANAGEMENT_ADDRESSES.items()
    }


def _write_sshd_files(directory: Path) -> None:
    """What all three sshds read, written before the first starts.

    root has an empty home and a plain shell in them: start-up files of a user's shell would run before every
    command, and differ from machine to machine. As an ordinary user's guest sees the machine, its own shadow
    file cannot be read, and root would count as locked.
    """
    login = directory / LOGIN_NAME
    (login / "sshd_config").write_text(SSHD_CONFIG.format(login=login))
    (login / "home").mkdir(exist_ok=True)
    accounts = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith("root:")]
    accounts.insert(0, f"root:x:0:0:root:{login}/home:/bin/sh")
    (login / "passwd").write_text("\n".join(accounts) + "\n")
    (login / "shadow").write_text("root:*:20000:0:99999:7:::\n")
    Path("/run/sshd").mkdir(exist_ok=True)


def _start_sshd(down: ExitStack, directory: Path, logs: Path, role: str) -> None:
    """sshd in the host's namespace, and in a mount namespace that is what the host sees of this machine."""
    (directory / role).mkdir(exist_ok=True)
    login = directory / LOGIN_NAME
    seen = accounts_alone(login) if role == "emulator" else enclosure(directory, role, login, needed_paths())
    sshd = ["/usr/sbin/sshd", "-D", "-e", "-f", str(login / "sshd_config")]
    script = f"{seen}exec {shlex.join(sshd)} -o ListenAddress={rig.MANAGEMENT_ADDRESSES[role]}\n"
    log = down.enter_context((logs / f"sshd-{role}.log").open("wb"))
    _hold(down, ["ip", "netns", "exec", namespace(role), "sh", "-c", script], log.fileno())


def _start_emulator(down: ExitStack, directory: Path, logs: Path) -> str:
    """The emulator service, and the token that it wants: whoever has a shell on this machine reaches it."""
    token = secrets.token_hex()
    token_file = directory / "emulator_token"
    token_file.touch(mode=0o600)
    token_file.write_text(token)
    listen = f"{rig.MANAGEMENT_ADDRESSES['emulator']}:{rig.EMULATOR_PORT}"
    service = [sys.executable, "-m", "emulator", "--listen", listen, "--token-file", str(token_file)]
    service += ["--sender-port", rig.SENDER_PORT, "--receiver-port", rig.RECEIVER_PORT]
    log = down.enter_context((logs / "emulator.log").open("wb"))
    _hold(down, ["ip", "netns", "exec", namespace("emulator"), *service], log.fileno())
    return token


def _hold(down: ExitStack, command: list[str], log: int) -> None:
    """Start a program that lasts as long as the rig, in a process group of its own."""
    program = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    down.callback(_end, program)


def _end(program: subprocess.Popen[bytes]) -> None:
    program.terminate()
    try:
        program.wait(5)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()

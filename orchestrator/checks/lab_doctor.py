"""What the hosts of a lab rig have and what is missing, with how to fix it. Changes nothing on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing

from agents.contract.implementation import Implementation, Role
from agents.inputs.mistake import Mistake
from emulator.faults import EmulatorError, LeaseLost, NotAllowed
from emulator.service.client import EmulatorClient
from orchestrator.checks.doctor import Requirement
from orchestrator.checks.service_certificate import certificate_text
from orchestrator.errors import Missing
from orchestrator.hosts.binaries import MissingProgram, find_programs
from orchestrator.hosts.host import Host, HostError, last_line
from orchestrator.planning.variants import base_name
from orchestrator.profiles.inventory import EmulatorEntry, LabHostEntry, LabRig, LabRole, TestHostEntry
from orchestrator.rigs.lab.clocks import clock_offset
from orchestrator.rigs.lab.emulator import token_of
from orchestrator.rigs.lab.interfaces import Interface, find_interface, interfaces_of
from orchestrator.rigs.lab.management import ManagementHost
from orchestrator.rigs.lab.reservations import read_reservation
from orchestrator.rigs.lab.session import ON_HOST, OWLT_HOST, SOURCE, SUDO_RULE, VERSION, session_seconds_left

LEAST_FREE_BYTES = 500_000_000
SOCKET_BUFFER_BYTES = 16_777_216
"""As in the virtual rig: the largest socket buffer that an implementation may ask for."""
LARGEST_OFFSET_NS = 100_000_000
COMMANDS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ethtool": "ethtool",
    "sysctl": "procps",
    **dict.fromkeys(("flock", "mount", "nsenter", "prlimit", "setpriv", "setsid", "unshare", "findmnt"), "util-linux"),
    "tail": "coreutils",
    "sshd": "openssh-server",
}
TEST_HOST_COMMANDS = {"dmesg": "util-linux"}
CAPTURE_COMMANDS = {"tcpdump": "tcpdump"}
KERNEL, SOCKET_BUFFERS, OTHER_SESSION = "kernel:", "socket buffers", "no other session"
CAVEATS = (KERNEL, SOCKET_BUFFERS, OTHER_SESSION)
"""What a sweep may do without; a session without a lease of the emulator is one that was left behind."""
NEEDED_BY_MOST = {"netem": "all channels with a delay", "programs": "bit errors, MTUs and certificates"}
"""Capabilities of the emulator's kernel, and what needs them."""
_FIND = 'PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; for c; do command -v "$c" >/dev/null || echo "$c"; done'

Connect = Callable[[LabHostEntry], ManagementHost]


def examine_lab(
    lab: LabRig,
    implementations: Mapping[str, Implementation] | None = None,
    needed_bytes: Mapping[LabRole, int] | None = None,
    connect: Connect = ManagementHost,
    host_captures: bool = False,
) -> list[Requirement]:
    """Everything that the rig needs, whether its hosts have it or not; with the programs of `implementations`.

    `needed_bytes`: the disk space that a run needs, by the host's role; `host_captures`: whether sender and receiver
    capture too.
    """
    requirements: list[Requirement] = []
    for entry in lab.hosts:
        try:
            with closing(connect(entry)) as host:
                requirements.append(_requirement(entry, "login", True, f"{entry.user}@{entry.address}:{entry.port}"))
                requirements += _host(
                    entry, host, implementations or {}, (needed_bytes or {}).get(entry.role, 0), host_captures
                )
        except HostError as problem:
            fix = "fix this first: nothing else on this host was checked"
            requirements.append(_requirement(entry, "login", False, str(problem), fix))
    return [*requirements, *_service(lab.emulator)]


def missing_in_lab(
    lab: LabRig,
    implementations: Mapping[str, Implementation],
    needed_bytes: Mapping[LabRole, int],
    host_captures: bool = False,
) -> list[Mistake]:
    """What a sweep of these implementations is missing on the rig, each with how to fix it.

    A channel that the emulator's kernel cannot make is refused when it is applied: others may be in the sweep.
    """
    return [
        Mistake(f"{each.name}: {each.detail}", fix=each.fix)
        for each in examine_lab(lab, implementations, needed_bytes, host_captures=host_captures)
        if not each.found and not any(caveat in each.name for caveat in CAVEATS)
    ]


def _requirement(entry: LabHostEntry, name: str, found: bool, detail: str, fix: str = "") -> Requirement:
    return Requirement(f"{entry.name}: {name}", found, detail, f"the {entry.role}", fix)


def _host(
    entry: LabHostEntry,
    host: ManagementHost,
    implementations: Mapping[str, Implementation],
    needed_bytes: int,
    host_captures: bool,
) -> Iterator[Requirement]:
    yield from _owlt_host(entry, host)
    yield _commands(entry, host, host_captures)
    yield _disk(entry, host, LEAST_FREE_BYTES + needed_bytes)
    yield _clock(entry, host)
    if isinstance(entry, TestHostEntry):
        yield _python(entry, host)
        yield _socket_buffers(entry, host)
        yield _test_interface(entry, host)
        yield from _programs(entry, host, implementations)
    elif isinstance(entry, EmulatorEntry):
        yield from _ports(entry, host)


def _owlt_host(entry: LabHostEntry, host: ManagementHost) -> Iterator[Requirement]:
    """The program that makes sessions, and whether one is open."""
    done = host.run([*ON_HOST, "version"])
    version = done.stdout.decode(errors="replace").strip()
    rule = SUDO_RULE.format(user=entry.user)
    fix = (
        f"as root on the host: install {SOURCE.name} (from {SOURCE}) as {OWLT_HOST}, owned by root, mode 755, and "
        f"write '{rule}' to /etc/sudoers.d/owlt"
    )
    found = done.exit_status == 0 and version == VERSION
    yield _requirement(entry, "owlt-host with sudo", found, version or last_line(done), "" if found else fix)
    if found:
        left_s = session_seconds_left(host)
        detail = "none is open" if left_s is None else f"one is open, {left_s} s of its lease are left"
        fix = "wait until it ends; if nobody uses the rig, run: owlt rig clear"
        yield _requirement(entry, OTHER_SESSION, left_s is None, detail, fix if left_s is not None else "")


def _commands(entry: LabHostEntry, host: Host, host_captures: bool) -> Requirement:
    packages = COMMANDS | (TEST_HOST_COMMANDS if entry.role != "emulator" else {})
    packages |= CAPTURE_COMMANDS if host_captures or entry.role == "emulator" else {}
    missing = host.check(["sh", "-c", _FIND, "sh", *packages]).decode().split()
    fix = f"apt-get install {' '.join(sorted({packages[name] for name in missing}))}" if missing else ""
    detail = f"missing: {', '.join(missing)}" if missing else f"{len(packages)} programs"
    return _requirement(entry, "commands", not missing, detail, fix)


def _disk(entry: LabHostEntry, host: Host, least_bytes: int) -> Requirement:
    free_bytes = int(host.check(["df", "--output=avail", "-B1", "/var/lib"]).split()[-1])
    found = free_bytes >= least_bytes
    detail = f"{free_bytes / 1e9:.1f} GB free in /var/lib"
    return _requirement(entry, "disk", found, detail, "" if found else f"{least_bytes / 1e9:.1f} GB are needed")


def _clock(entry: LabHostEntry, host: Host) -> Requirement:
    offset = clock_offset(host)
    found = abs(offset.ahead_ns) <= LARGEST_OFFSET_NS + offset.error_ns
    detail = f"{offset.ahead_ns / 1e6:+.0f} ms from this machine's, to {offset.error_ns / 1e6:.0f} ms"
    fix = "" if found else "synchronise the clocks of all machines, for example with chrony"
    return _requirement(entry, "clock", found, detail, fix)


def _python(entry: TestHostEntry, host: Host) -> Requirement:
    program = "import agents.probes.watch, orchestrator.own_version as own; print(own.own_version())"
    done = host.run([entry.python, "-c", program])
    found = done.exit_status == 0
    detail = f"{entry.python}: {last_line(done)}"
    fix = "" if found else f"install owlt there, so that {entry.python} imports it, or set owlt_python"
    return _requirement(entry, "owlt", found, detail, fix)


def _socket_buffers(entry: LabHostEntry, host: Host) -> Requirement:
    names = ["net.core.rmem_max", "net.core.wmem_max"]
    values = [
        int(text) for text in host.check(["cat", *(f"/proc/sys/{name.replace('.', '/')}" for name in names)]).split()
    ]
    found = min(values) >= SOCKET_BUFFER_BYTES
    detail = ", ".join(f"{name} {value}" for name, value in zip(names, values, strict=True))
    lines = " and ".join(f"'{name} = {SOCKET_BUFFER_BYTES}'" for name in names)
    fix = "" if found else f"write {lines} to /etc/sysctl.d/90-owlt.conf, then run 'sysctl --system'"
    return _requirement(entry, SOCKET_BUFFERS, found, detail, fix)


def _test_interface(entry: TestHostEntry, host: Host) -> Requirement:
    try:
        interface = find_interface(host, entry.test_interface)
    except HostError as problem:
        return _requirement(entry, "test interface", False, str(problem), "correct owlt_test_interface")
    if interface.addresses:
        fix = "remove its addresses: a session gives it owlt_test_address in a network namespace of its own"
        return _requirement(entry, "test interface", False, f"{_shown(interface)} has {interface.addresses[0]}", fix)
    return _requirement(entry, "test interface", True, _shown(interface))


def _shown(interface: Interface) -> str:
    link = "link" if interface.has_carrier else "no link"
    return f"{interface.name}, {interface.mac}, MTU {interface.mtu}, {link}"


def _programs(entry: TestHostEntry, host: Host, implementations: Mapping[str, Implementation]) -> Iterator[Requirement]:
    role: Role = "sender" if entry.role == "sender" else "receiver"
    for name, implementation in implementations.items():
        try:
            find_programs(implementation, role, host, entry.third_party)
        except MissingProgram as missing:
            for mistake in missing.mistakes:
                yield _requirement(entry, base_name(name), False, mistake.problem, mistake.fix)


def _ports(entry: EmulatorEntry, host: Host) -> Iterator[Requirement]:
    ports: list[Interface] = []
    for key, wanted in (("owlt_sender_port", entry.sender_port), ("owlt_receiver_port", entry.receiver_port)):
        try:
            ports.append(find_interface(host, wanted))
        except HostError as problem:
            yield _requirement(entry, "ports", False, str(problem), f"correct {key}")
    if len(ports) != 2:
        return
    bridges = {port.bridge for port in ports}
    found = len(bridges) == 1 and "" not in bridges and not any(port.addresses for port in ports)
    detail = "; ".join(f"{_shown(port)}, {'port of ' + port.bridge if port.bridge else 'no bridge'}" for port in ports)
    fix = "" if found else "make both ports of one bridge, without addresses (docs/lab.md, 'Provision')"
    yield _requirement(entry, "ports", found, detail, fix)
    if found:
        yield _without_addresses(entry, host, bridges | {port.name for port in ports})


def _without_addresses(entry: EmulatorEntry, host: Host, names: set[str]) -> Requirement:
    """Whether bridge and ports have no address, IPv6 included: the kernel would send packets into the test path."""
    members = [each for each in interfaces_of(host) if each.name in names]
    addresses = [f"{each.name} has {address}" for each in members for address in each.addresses + each.link_addresses]
    commands = "; ".join(f"sysctl net.ipv6.conf.{name}.disable_ipv6=1" for name in sorted(names))
    fix = (
        "" if not addresses else f"owlt rig provision turns IPv6 off there; by hand: {commands}; remove other addresses"
    )
    return _requirement(entry, "bridge without addresses", not addresses, ", ".join(addresses) or "none", fix)


def _service(entry: EmulatorEntry) -> Iterator[Requirement]:
    """The emulator's service: its certificate, the token, the lease, what its kernel can do."""
    try:
        client = EmulatorClient(entry.service, token=token_of(entry), ca_file=entry.service_ca)
        version = client.version()
        detail = f"{entry.service}, owlt {version['owlt']}, Linux {version['kernel']}"
        yield _requirement(entry, "service", True, detail)
        yield _requirement(entry, "certificate", True, certificate_text(entry.service, entry.service_ca, time.time()))
        yield _token(entry)
        status = client.lease_status()
        mine = read_reservation(entry.service) is not None
        free = mine or not status["held"]
        detail = "free" if not status["held"] else f"{status['holder']}, for {status['seconds_left']:.0f} s more"
        yield _requirement(entry, "lease", free, detail, "" if free else "wait until it ends, or ask the holder")
        for name, capability in client.capabilities().items():
            if name in NEEDED_BY_MOST:
                fix = "" if capability["available"] else f"use a kernel with it; {NEEDED_BY_MOST[name]} need it"
                yield _requirement(
                    entry, f"{KERNEL} {name}", capability["available"], capability["reason"] or "yes", fix
                )
    except OSError as problem:
        fix = "copy the certificate of the rig's CA to owlt_service_ca"
        yield _requirement(entry, "service", False, f"{entry.service_ca}: {problem.strerror or problem}", fix)
    except (EmulatorError, Missing) as problem:
        fix = "start the service there; owlt_service, owlt_service_ca and owlt_service_token_file must be its own"
        yield _requirement(entry, "service", False, str(problem), fix)


def _token(entry: EmulatorEntry) -> Requirement:
    """Whether the service takes the token: a call with an unknown lease changes nothing either way."""
    client = EmulatorClient(entry.service, token=token_of(entry), ca_file=entry.service_ca)
    try:
        client.adopt("no lease")
        client.renew(1.0)
    except LeaseLost:
        return _requirement(entry, "token", True, f"{entry.token_file}")
    except NotAllowed as problem:
        fix = "copy the token that the service was started with into this file"
        return _requirement(entry, "token", False, f"{entry.token_file}: {problem}", fix)
    raise EmulatorError("the service renewed a lease that it never granted")

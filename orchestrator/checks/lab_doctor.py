"""What the hosts of a lab rig have and what is missing, with how to fix it. Changes nothing on them.

The emulator's service is examined too: certificate, token, lease, and what its kernel can do.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from owlt.agents.contract.implementation import Implementation, Role
from owlt.emulator.faults import EmulatorError, LeaseLost, NotAllowed
from owlt.emulator.kernel.capabilities import NEEDED_FOR
from owlt.emulator.service.access import API
from owlt.emulator.service.client import EmulatorClient
from owlt.inputs.axes import base_name
from owlt.inputs.mistake import Mistake
from owlt.orchestrator.checks.doctor import (
    LIST_CONGESTION_CONTROLS,
    Requirement,
    kernel_fix,
    kernel_parameters,
    unavailable_congestion_controls,
    unsupported_channels,
)
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.hosts.binaries import MissingProgram, find_programs
from owlt.orchestrator.hosts.host import Host, HostError, last_line
from owlt.orchestrator.hosts.host_clock import clock_offset
from owlt.orchestrator.planning.plan import Plan
from owlt.orchestrator.profiles.inventory import EmulatorEntry, LabHostEntry, LabRig, LabRole, TestHostEntry
from owlt.orchestrator.rigs.lab.emulator import read_reservation, token_of
from owlt.orchestrator.rigs.lab.interfaces import Interface, find_interface, interfaces_of
from owlt.orchestrator.rigs.lab.session import ON_HOST, OWLT_HOST, SOURCE, SUDO_RULE, VERSION, session_seconds_left
from owlt.orchestrator.rigs.lab.ssh_hosts import ManagementHost

LIMIT_S = 10.0
RENEWED_S = 30 * 86_400
"""`owlt rig provision` issues a certificate again that ends within this time."""
LEAST_FREE_BYTES = 500_000_000
SOCKET_BUFFER_BYTES = 16_777_216
"""The largest socket buffer that an implementation may request, as in the virtual rig."""
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
SYSCTL_FILE = "/etc/sysctl.d/90-owlt.conf"
"""The file that provisioning writes."""
BUFFER_SETTINGS = ("net.core.rmem_max", "net.core.wmem_max")
SOCKET_BUFFERS = "socket buffers"
OTHER_SESSION = "no other session"
LEASE = "lease"
SHOWN_CAPABILITIES = ("netem", "programs")
"""The capabilities that most channels need."""
_FIND = 'PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin; for c; do command -v "$c" >/dev/null || echo "$c"; done'
Connect = Callable[[LabHostEntry], ManagementHost]
ClientOf = Callable[[EmulatorEntry], EmulatorClient]


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
                requirements.append(requirement_of(entry, "login", True, f"{entry.user}@{entry.address}:{entry.port}"))
                requirements += _host(
                    entry, host, implementations or {}, (needed_bytes or {}).get(entry.role, 0), host_captures
                )
        except HostError as problem:
            fix = "fix this first: nothing else on this host was checked"
            requirements.append(requirement_of(entry, "login", False, str(problem), fix))
    return [*requirements, *examine_service(lab.emulator)]


def missing_in_lab(
    lab: LabRig, plan: Plan, needed_bytes: Mapping[LabRole, int], connect: Connect = ManagementHost
) -> list[Mistake]:
    """What the rig is missing for the runs of a plan, each with how to fix it; while others use it, only that."""
    examined = examine_lab(lab, plan.implementations, needed_bytes, connect, plan.sweep.host_captures)
    if taken := in_use(examined):
        return taken
    missing = [_mistake(each) for each in examined if each.stops_sweeps]
    capabilities = emulator_capabilities(lab.emulator)
    return missing + ([] if capabilities is None else unsupported_channels(plan, capabilities, lab.emulator.name))


def in_use(examined: Iterable[Requirement]) -> list[Mistake]:
    """Who else uses the rig: the holder of the lease, or sessions that are open; [] if it is idle."""
    stopping = [each for each in examined if each.stops_sweeps]
    for name in (LEASE, OTHER_SESSION):
        if found := [_mistake(each) for each in stopping if each.name.endswith(f": {name}")]:
            return found
    return []


def _mistake(requirement: Requirement) -> Mistake:
    return Mistake(f"{requirement.name}: {requirement.detail}", fix=requirement.fix)


def conclusion(requirements: Iterable[Requirement]) -> str:
    """What the missing items mean for a sweep, in one line."""
    examined = list(requirements)
    missing = [each for each in examined if not each.found]
    if not missing:
        return f"0 of {len(examined)} missing"
    stopping = [each.name for each in missing if each.stops_sweeps]
    limits = "; ".join(dict.fromkeys(each.limits for each in missing if each.limits))
    stopped = (
        f"'owlt run' does not start without {', '.join(stopping)}" if stopping else "none of them stops 'owlt run'"
    )
    return f"{len(missing)} of {len(examined)} missing: {stopped}{'; but ' if limits else ''}{limits}"


def requirement_of(
    entry: LabHostEntry, name: str, found: bool, detail: str, fix: str = "", limits: str = ""
) -> Requirement:
    """An item of a host of the rig, or of its service. `limits`: as in Requirement."""
    return Requirement(f"{entry.name}: {name}", found, detail, f"the {entry.role}", fix, limits)


def _host(
    entry: LabHostEntry,
    host: ManagementHost,
    implementations: Mapping[str, Implementation],
    needed_bytes: int,
    host_captures: bool,
) -> Iterator[Requirement]:
    owlt_host = list(_owlt_host(entry, host))
    yield from owlt_host
    yield _commands(entry, host, host_captures)
    yield _disk(entry, host, LEAST_FREE_BYTES + needed_bytes)
    yield _clock(entry, host)
    if isinstance(entry, TestHostEntry):
        yield _python(entry, host)
        yield _socket_buffers(entry, host)
        in_session = any(each.name.endswith(OTHER_SESSION) and not each.found for each in owlt_host)
        yield from examine_test_interface(entry, interfaces_of(host), in_session)
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
    yield requirement_of(entry, "owlt-host with sudo", found, version or last_line(done), "" if found else fix)
    if found:
        left_s = session_seconds_left(host)
        yield other_session(entry, left_s)


def other_session(entry: LabHostEntry, left_s: int | None) -> Requirement:
    """`left_s`: the rest of the open session's lease; None: no session is open."""
    if left_s is None:
        return requirement_of(entry, OTHER_SESSION, True, "none is open")
    detail = f"one is open, {left_s} s of its lease are left"
    fix = "wait until it ends; if nobody uses the rig, run: owlt rig clear"
    # without a lease of the emulator it was left behind; only one with a test interface is in the way
    limits = "" if isinstance(entry, TestHostEntry) else "a sweep ends the session of the emulator"
    return requirement_of(entry, OTHER_SESSION, False, detail, fix, limits)


def _commands(entry: LabHostEntry, host: Host, host_captures: bool) -> Requirement:
    packages = COMMANDS | (TEST_HOST_COMMANDS if entry.role != "emulator" else {})
    packages |= CAPTURE_COMMANDS if host_captures or entry.role == "emulator" else {}
    missing = host.check(["sh", "-c", _FIND, "sh", *packages]).decode().split()
    fix = f"apt-get install {' '.join(sorted({packages[name] for name in missing}))}" if missing else ""
    detail = f"missing: {', '.join(missing)}" if missing else f"{len(packages)} programs"
    return requirement_of(entry, "commands", not missing, detail, fix)


def _disk(entry: LabHostEntry, host: Host, least_bytes: int) -> Requirement:
    free_bytes = int(host.check(["df", "--output=avail", "-B1", "/var/lib"]).split()[-1])
    found = free_bytes >= least_bytes
    detail = f"{free_bytes / 1e9:.1f} GB free in /var/lib"
    return requirement_of(entry, "disk", found, detail, "" if found else f"{least_bytes / 1e9:.1f} GB are needed")


def _clock(entry: LabHostEntry, host: Host) -> Requirement:
    offset = clock_offset(host)
    found = abs(offset.ahead_ns) <= LARGEST_OFFSET_NS + offset.error_ns
    detail = f"{offset.ahead_ns / 1e6:+.0f} ms from this machine's, to {offset.error_ns / 1e6:.0f} ms"
    fix = "" if found else "synchronise the clocks of all machines, for example with chrony"
    return requirement_of(entry, "clock", found, detail, fix)


def _python(entry: TestHostEntry, host: Host) -> Requirement:
    program = "import owlt.agents.probes.watch; from owlt.installation import own_version; print(own_version())"
    done = host.run([entry.python, "-c", program])
    found = done.exit_status == 0
    detail = f"{entry.python}: {last_line(done)}"
    how = "install this version of owlt there (on a provisioned rig: owlt rig update), or set owlt_python"
    fix = "" if found else f"{how}, so that {entry.python} imports it"
    return requirement_of(entry, "owlt", found, detail, fix)


def _socket_buffers(entry: LabHostEntry, host: Host) -> Requirement:
    values = [
        int(text)
        for text in host.check(["cat", *(f"/proc/sys/{name.replace('.', '/')}" for name in BUFFER_SETTINGS)]).split()
    ]
    return socket_buffers(entry, values, host.run(["cat", SYSCTL_FILE]).stdout.decode(errors="replace"))


def socket_buffers(entry: LabHostEntry, values: list[int], file: str) -> Requirement:
    """`values` are those of BUFFER_SETTINGS in the kernel, `file` is the text of SYSCTL_FILE."""
    detail = ", ".join(f"{name} {value}" for name, value in zip(BUFFER_SETTINGS, values, strict=True))
    if min(values) >= SOCKET_BUFFER_BYTES:
        return requirement_of(entry, SOCKET_BUFFERS, True, detail)
    limits = "implementations may get smaller socket buffers than on the virtual rig"
    written = {"".join(line.split()) for line in file.splitlines()}
    if all(f"{name}={SOCKET_BUFFER_BYTES}" in written for name in BUFFER_SETTINGS):
        detail += f"; {SYSCTL_FILE} has {SOCKET_BUFFER_BYTES}, and the kernel does not"
        fix = (
            "run 'sysctl --system' as root; if the values stay, the kernel refuses them, as in a container, where only "
            "its host can set them"
        )
    else:
        lines = " and ".join(f"'{name} = {SOCKET_BUFFER_BYTES}'" for name in BUFFER_SETTINGS)
        fix = f"write {lines} to {SYSCTL_FILE}, then run 'sysctl --system'"
    return requirement_of(entry, SOCKET_BUFFERS, False, detail, fix, limits)


def examine_test_interface(
    entry: TestHostEntry, interfaces: list[Interface], in_session: bool
) -> Iterator[Requirement]:
    """Nothing if the interface is not visible while a session is open, which has it for itself."""
    name = "test interface"
    interface = next((each for each in interfaces if entry.test_interface in (each.name, each.mac)), None)
    if interface is None:
        if not in_session:
            names = ", ".join(f"{each.name} ({each.mac})" for each in interfaces)
            detail = f"the {entry.role} has no interface {entry.test_interface}; it has {names}"
            yield requirement_of(entry, name, False, detail, "correct owlt_test_interface")
    elif interface.addresses:
        fix = "remove its addresses: a session gives it owlt_test_address in a network namespace of its own"
        yield requirement_of(entry, name, False, f"{_shown(interface)} has {interface.addresses[0]}", fix)
    else:
        more = "" if interface.is_up else ": owlt raises it for a run"
        yield requirement_of(entry, name, True, f"{_shown(interface)}{more}")


def _shown(interface: Interface) -> str:
    link = "link" if interface.has_carrier else "no link" if interface.is_up else "down"
    return f"{interface.name}, {interface.mac}, MTU {interface.mtu}, {link}"


def _programs(entry: TestHostEntry, host: Host, implementations: Mapping[str, Implementation]) -> Iterator[Requirement]:
    role: Role = "sender" if entry.role == "sender" else "receiver"
    for name, implementation in implementations.items():
        try:
            find_programs(implementation.of(role), role, host, entry.third_party)
        except MissingProgram as missing:
            for mistake in missing.mistakes:
                yield requirement_of(entry, base_name(name), False, mistake.problem, mistake.fix)
    if role == "sender" and any(map(kernel_parameters, implementations.values())):
        yield from congestion_controls(entry, host, implementations)


def congestion_controls(
    entry: LabHostEntry, host: Host, implementations: Mapping[str, Implementation]
) -> Iterator[Requirement]:
    """The congestion controls of implementations that the sender's kernel does not have; none if it does not tell."""
    done = host.run(["sh", "-c", LIST_CONGESTION_CONTROLS])
    offered = {"reno", *done.stdout.decode(errors="replace").split()}
    for each in unavailable_congestion_controls(implementations, offered, "its kernel") if not done.exit_status else ():
        yield requirement_of(entry, "congestion control", False, f"{each.problem}, expected {each.expected}", each.fix)


def _ports(entry: EmulatorEntry, host: Host) -> Iterator[Requirement]:
    ports: list[Interface] = []
    for key, wanted in (("owlt_sender_port", entry.sender_port), ("owlt_receiver_port", entry.receiver_port)):
        try:
            ports.append(find_interface(host, wanted))
        except HostError as problem:
            yield requirement_of(entry, "ports", False, str(problem), f"correct {key}")
    if len(ports) != 2:
        return
    bridges = {port.bridge for port in ports}
    found = len(bridges) == 1 and "" not in bridges and not any(port.addresses for port in ports)
    detail = "; ".join(f"{_shown(port)}, {'port of ' + port.bridge if port.bridge else 'no bridge'}" for port in ports)
    fix = "" if found else "make both ports of one bridge, without addresses (docs/lab.md, 'Provision')"
    yield requirement_of(entry, "ports", found, detail, fix)
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
    return requirement_of(entry, "bridge without addresses", not addresses, ", ".join(addresses) or "none", fix)


def service_client(entry: EmulatorEntry) -> EmulatorClient:
    """A client of the service. Raises OSError for its certificate, Missing for the token."""
    return EmulatorClient(entry.service, token=token_of(entry), ca_file=entry.service_ca)


def emulator_capabilities(entry: EmulatorEntry, client_of: ClientOf = service_client) -> dict[str, Any] | None:
    """The capabilities of the emulator's kernel; None if the service does not answer: `examine_service` has the
    reason."""
    try:
        return client_of(entry).capabilities()
    except (OSError, EmulatorError, Missing):
        return None


def examine_service(entry: EmulatorEntry) -> Iterator[Requirement]:
    """Everything that a sweep needs of the service, whether it is there or not."""
    try:
        client = service_client(entry)
        yield service_requirement(entry, client.version())
        yield requirement_of(entry, "certificate", True, certificate_text(entry.service, entry.service_ca, time.time()))
        yield _token(entry)
        yield lease_requirement(entry, client)
        yield from capability_requirements(entry, client)
    except OSError as problem:
        fix = "copy the certificate of the rig's CA to owlt_service_ca"
        yield requirement_of(entry, "service", False, f"{entry.service_ca}: {problem.strerror or problem}", fix)
    except (EmulatorError, Missing) as problem:
        fix = "start the service there; owlt_service, owlt_service_ca and owlt_service_token_file must be its own"
        yield requirement_of(entry, "service", False, str(problem), fix)


def service_requirement(entry: EmulatorEntry, version: Mapping[str, Any]) -> Requirement:
    """Whether the service is as new as this owlt, from its `version`: an older one does not have all methods."""
    detail = f"{entry.service}, owlt {version['owlt']}, Linux {version['kernel']}"
    if int(version["api"]) >= API:
        return requirement_of(entry, "service", True, detail)
    detail += f": got version {version['api']} of its methods, expected {API} or later"
    return requirement_of(entry, "service", False, detail, "install this version of owlt there: owlt rig provision")


def certificate_text(service: str, ca: Path, now_s: float) -> str:
    """When the certificate ends, and how many days are left. Raises OSError if it is not valid."""
    end_s = certificate_end_s(service, ca)
    left_s = end_s - now_s
    text = f"valid until {time.strftime('%Y-%m-%d', time.gmtime(end_s))}, {left_s / 86_400:.0f} days left"
    return text if left_s > RENEWED_S else f"{text}; owlt rig provision issues a new one"


def certificate_end_s(service: str, ca: Path) -> float:
    """When the certificate that a service shows ends, in seconds since 1970. Raises OSError."""
    parts = urlsplit(service)
    host = str(parts.hostname)
    context = ssl.create_default_context(cafile=ca)
    with (
        socket.create_connection((host, parts.port or 443), LIMIT_S) as connection,
        context.wrap_socket(connection, server_hostname=host) as wrapped,
    ):
        shown = wrapped.getpeercert()
    assert shown, "a verified certificate"
    return ssl.cert_time_to_seconds(str(shown["notAfter"]))


def _token(entry: EmulatorEntry) -> Requirement:
    """Whether the service takes the token: a call with an unknown lease changes nothing either way."""
    client = service_client(entry)
    try:
        client.adopt("no lease")
        client.renew(1.0)
    except LeaseLost:
        return requirement_of(entry, "token", True, f"{entry.token_file}")
    except NotAllowed as problem:
        fix = "copy the token that the service was started with into this file"
        return requirement_of(entry, "token", False, f"{entry.token_file}: {problem}", fix)
    raise EmulatorError("the service renewed a lease that it never granted")


def lease_requirement(entry: EmulatorEntry, client: EmulatorClient) -> Requirement:
    """Whether nobody else has the lease. Raises EmulatorError."""
    status = client.lease_status()
    free = not status["held"] or read_reservation(entry.service) is not None
    detail = "free" if not status["held"] else f"{status['holder']}, for {status['seconds_left']:.0f} s more"
    return requirement_of(entry, LEASE, free, detail, "" if free else "wait until it ends, or ask the holder")


def capability_requirements(entry: EmulatorEntry, client: EmulatorClient) -> Iterator[Requirement]:
    """What the emulator's kernel can do of SHOWN_CAPABILITIES. Raises EmulatorError."""
    capabilities = client.capabilities()
    for name in SHOWN_CAPABILITIES:
        found, reason = capabilities[name]["available"], capabilities[name]["reason"]
        limits = f"channels with {NEEDED_FOR[name]} are not possible"
        limits += ", and none can be certified" if name == "programs" else ""
        fix = "" if found else f"{kernel_fix(name)}; without it, {limits}"
        yield requirement_of(entry, f"kernel: {name}", found, reason or "yes", fix, "" if found else limits)

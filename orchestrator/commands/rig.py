"""`owlt rig`: who has a lab rig, what is installed on its hosts, and whether it is as it should be.

What is done on hosts belongs to `orchestrator.rigs`, what they are checked for to `orchestrator.checks`; the commands
that list and check rigs are in `machine`.
"""

from __future__ import annotations

import shlex
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.output import Printer, print_requirements, verbosity
from owlt.orchestrator.commands.usage import Inventory, Json, add_command, new_app, parse_for_s
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.rigs.lab.exclusive_change import Change, leased, require_no_session, session_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from owlt.emulator.channel.spec import ChannelSpec
    from owlt.emulator.service.client import EmulatorClient
    from owlt.orchestrator.checks.doctor import Requirement
    from owlt.orchestrator.profiles.inventory import LabRig
    from owlt.orchestrator.rigs.lab.emulator import LabEmulator
    from owlt.orchestrator.rigs.rig import Rig

rig_app = new_app("Install, verify, lease and clear a lab rig.")
Admin = Annotated[
    str, typer.Option(metavar="USER", help="User to log in as: root, or one that may use sudo without a password.")
]
AdminKey = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Private key of that user; default: the keys in the inventory.")
]
Check = Annotated[
    bool, typer.Option("--check", help="Only show what would change; with --verbose, each line of files too.")
]
CLEARING_S = 120.0
CLEAN = "clean link"
CERTIFYING_S = 3600.0
"""The emulator's lease: longer than two certificates take on the real clock."""


@add_command(rig_app, "status")
def rig_status(inventory: Inventory, as_json: Json = False) -> None:
    """Show who has a lab rig and what runs on it.

    The channel is shown if it is not clear.
    """
    from owlt.emulator.faults import EmulatorError
    from owlt.orchestrator.commands.channel_text import channel_line
    from owlt.orchestrator.rigs.lab.emulator import read_reservation

    printer = Printer(as_json)
    rig = rig_of(inventory)
    hosts = [_host_state(entry) for entry in rig.hosts]
    lease: dict[str, Any] = {}
    channel = None
    try:
        emulator = emulator_of(rig)
        lease = emulator.lease_status()
        channel = emulator.describe()
    except EmulatorError as problem:
        lease = lease or {"problem": str(problem)}
    lease["yours"] = read_reservation(rig.emulator.service) is not None
    wire = channel.to_wire() if channel is not None else None
    printer.json({"rig": rig.name, "hosts": hosts, "lease": lease, "channel": wire})
    printer.table(
        ("host", "role", "reachable", "session"),
        ((each["name"], each["role"], not each["problem"], each["problem"] or each["session"]) for each in hosts),
    )
    printer.text(f"lease: {_lease_text(lease)}")
    if channel is not None and (line := channel_line(channel)):
        printer.text(f"channel: {line}{left_behind(lease)}")


@add_command(rig_app, "lease")
def lease_rig(
    inventory: Inventory,
    duration: Annotated[str, typer.Option("--for", metavar="DURATION", help='How long, such as 8h or "90 min".')],
    as_json: Json = False,
) -> None:
    """Lease a lab rig, so that only your sweeps use it.

    Until then, 'owlt run --rig' of this user on this machine uses the lease, and all others are refused. At its end,
    the channel is cleared.
    """
    from owlt.emulator.faults import EmulatorError

    printer = Printer(as_json)
    rig = rig_of(inventory)
    seconds = parse_for_s(duration)
    try:
        emulator_of(rig).reserve(seconds)
    except EmulatorError as problem:
        raise OwltError(Mistake(f"{rig.name} cannot be leased: {problem}")) from problem
    until_s = time.time() + seconds
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(until_s))
    printer.note(f"{rig.name} is leased to you until {until}; end it with: owlt rig release {inventory}")
    printer.json({"rig": rig.name, "until_s": until_s})


@add_command(rig_app, "release")
def release_rig(inventory: Inventory) -> None:
    """End your lease of a lab rig; the channel is cleared."""
    rig = rig_of(inventory)
    had_lease = release(rig, emulator_of)
    Printer().note(f"{rig.name}: {'released' if had_lease else without_lease(rig, emulator_of)}")


@add_command(rig_app, "clear")
def clear_rig(inventory: Inventory) -> None:
    """Restore a lab rig that an interrupted sweep left behind.

    Ends all programs of its sessions, gives the test interfaces back and clears the channel. Refused while somebody
    else has the lease, or a sweep runs. The lease of a sweep that was killed ends by itself.
    """
    from owlt.emulator.faults import EmulatorError
    from owlt.orchestrator.hosts.host import HostError
    from owlt.orchestrator.rigs.lab.session import close_session
    from owlt.orchestrator.rigs.lab.ssh_hosts import ManagementHost

    rig, printer = rig_of(inventory), Printer()
    emulator = emulator_of(rig)
    problems = []
    try:
        emulator.lease("owlt rig clear", CLEARING_S)
        for entry in rig.hosts:
            try:
                with closing(ManagementHost(entry)) as host:
                    close_session(host)
            except HostError as problem:
                problems.append(Mistake(str(problem)))
        emulator.clear()
        emulator.give_back()
    except EmulatorError as problem:
        raise OwltError(Mistake(f"{rig.name} cannot be cleared: {problem}")) from problem
    if problems:
        raise OwltError(*problems)
    printer.note(f"{rig.name}: sessions are closed and the channel is clear")


@add_command(rig_app, "provision")
def provision(inventory: Inventory, admin: Admin = "root", admin_key: AdminKey = None, check: Check = False) -> None:
    """Install what a lab rig needs on its hosts.

    Uses Ansible (the extra 'lab' of owlt). A second run changes nothing. Leases the rig meanwhile: refused while
    somebody else has the lease, or a sweep runs. Exit status: that of ansible-playbook.
    """

    _play_leased("provision", inventory, admin, admin_key, check, Change("owlt rig provision", "provisioned"))
    if not check:
        Printer().note(f"next: owlt doctor --rig {shlex.quote(inventory)}")


@add_command(rig_app, "verify")
def verify(
    inventory: Inventory,
    admin: Admin = "root",
    admin_key: AdminKey = None,
    read_back: Annotated[bool, typer.Option(help="Compare all settings with the playbook (needs Ansible).")] = True,
    channel: Annotated[
        str, typer.Option(metavar="CHANNEL", help="The impaired channel that is certified: a name or a path.")
    ] = "terrestrial",
    results: Annotated[
        Path | None, typer.Option(metavar="DIRECTORY", help="Where certificates go; default: results/verify-RIG.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check all of a lab rig: settings, test path, clocks, channels.

    Reads every setting back, then opens sessions on the hosts and checks rates, duplex, MTUs, offloads, addresses,
    neighbours, bridge and clocks, and certifies the clean link and an impaired channel. Nothing is changed.

    Exit status: 0 if nothing is missing or limited, 1 otherwise.
    """
    from owlt.orchestrator.checks.lab_doctor import examine_lab
    from owlt.orchestrator.profiles.catalogue import find_channel
    from owlt.orchestrator.profiles.inventory import lab_rig

    path, lab = lab_rig(inventory)
    impaired = find_channel(channel)
    directory = results or Path("results", f"verify-{lab.name}")
    requirements = examine_lab(lab)
    is_fit = not any(each.stops_sweeps for each in requirements)
    if read_back:
        requirements += _settings(path, lab, admin, admin_key)
    requirements += _running(lab, is_fit)
    requirements += _measured(lab, {CLEAN: _bypass(), impaired.name: impaired.channel}, directory, is_fit)
    printer = Printer(as_json)
    printer.json(requirements)
    print_requirements(printer, requirements)
    raise typer.Exit(0 if all(requirement.found for requirement in requirements) else 1)


@add_command(rig_app, "update")
def update(inventory: Inventory, admin: Admin = "root", admin_key: AdminKey = None, check: Check = False) -> None:
    """Install this version of owlt on a provisioned lab rig.

    Leases the rig meanwhile: refused while somebody else has the lease, or a sweep runs. The emulator's service is
    restarted if its owlt has changed; your lease is kept. Exit status: that of ansible-playbook.
    """

    change = Change("owlt rig update", "updated", needs_service=True)
    _play_leased("update", inventory, admin, admin_key, check, change)


@add_command(rig_app, "collect")
def collect(
    inventory: Inventory,
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where the files go.")],
    admin: Admin = "root",
    admin_key: AdminKey = None,
) -> None:
    """Copy logs and the state of the hosts here, to explain a fault.

    Exit status: that of ansible-playbook.
    """
    _play("collect", inventory, admin, admin_key, collected=directory)


@add_command(rig_app, "remove")
def remove(inventory: Inventory, admin: Admin = "root", admin_key: AdminKey = None, check: Check = False) -> None:
    """Remove what 'owlt rig provision' installed; packages stay.

    Leases the rig meanwhile: refused while somebody else has the lease, or a sweep runs. A service that does not
    answer has no lease. Exit status: that of ansible-playbook.
    """

    change = Change("owlt rig remove", "removed", removes_service=True)
    _play_leased("remove", inventory, admin, admin_key, check, change)


def rig_of(inventory: str) -> LabRig:
    """The rig of INVENTORY or INVENTORY:RIG. Raises ProfileError or OwltError."""
    from owlt.orchestrator.profiles.inventory import lab_rig

    return lab_rig(inventory)[1]


def emulator_of(rig: LabRig) -> LabEmulator:
    """The emulator, with the lease that the user has reserved. Raises Missing."""
    from owlt.orchestrator.rigs.lab.emulator import LabEmulator

    return LabEmulator(rig.emulator)


def _host_state(entry: Any) -> dict[str, object]:
    from owlt.orchestrator.hosts.host import HostError
    from owlt.orchestrator.rigs.lab.session import session_seconds_left
    from owlt.orchestrator.rigs.lab.ssh_hosts import ManagementHost

    state: dict[str, object] = {"name": entry.name, "role": entry.role, "session": "none", "problem": ""}
    try:
        with closing(ManagementHost(entry)) as host:
            left_s = session_seconds_left(host)
            if left_s is not None:
                state["session"] = f"open, {left_s} s of its lease are left"
    except HostError as problem:
        state["problem"] = str(problem)
    return state


def left_behind(lease: dict[str, Any]) -> str:
    """What to add about a channel that is not clear: without a lease, nothing will clear it."""
    return "" if lease["held"] else "; nobody has a lease, so it was set by hand: 'owlt rig clear' clears it"


def _lease_text(lease: dict[str, Any]) -> str:
    if "problem" in lease:
        return str(lease["problem"])
    if not lease["held"]:
        return "free"
    return f"{lease['holder']}, for {lease['seconds_left']:.0f} s more" + (" (yours)" if lease["yours"] else "")


def without_lease(rig: LabRig, client_of: Callable[[LabRig], EmulatorClient]) -> str:
    """Why there was nothing to release, with who has the lease."""
    from owlt.emulator.faults import EmulatorError

    try:
        status = client_of(rig).lease_status()
    except EmulatorError as problem:
        return f"you have no lease; who has one is not known: {problem}"
    if not status["held"]:
        return "you have no lease, and nobody else has one"
    return (
        f"you have no lease; it is that of {status['holder']}, for {status['seconds_left']:.0f} s more: only they "
        "can release it"
    )


def release(rig: LabRig, client_of: Callable[[LabRig], EmulatorClient]) -> bool:
    """End the user's lease of a lab rig, if there is one: whether there was. Raises OwltError."""
    from contextlib import suppress

    from owlt.emulator.faults import EmulatorError, LeaseLost
    from owlt.orchestrator.rigs.lab.emulator import forget_reservation, read_reservation

    reserved = read_reservation(rig.emulator.service)
    if reserved is not None:
        emulator = client_of(rig)
        emulator.adopt(reserved.lease)
        try:
            with suppress(LeaseLost):
                emulator.release()
        except EmulatorError as problem:
            raise OwltError(Mistake(f"{rig.name} cannot be released: {problem}")) from problem
    forget_reservation(rig.emulator.service)
    return reserved is not None


def _play_leased(name: str, inventory: str, admin: str, admin_key: Path | None, check: bool, change: Change) -> None:
    """Run a playbook while nobody else uses the rig. `check`: nothing changes, so only the host keys matter.

    Raises OwltError, or typer.Exit with the exit status of ansible-playbook.
    """
    from owlt.orchestrator.profiles.inventory import lab_rig

    _, rig = lab_rig(inventory)
    with nullcontext() if check else leased(rig, change, emulator_of):
        require_no_session(rig.hosts, session_of, only_keys=check)
        _play(name, inventory, admin, admin_key, check)


def _play(
    name: str,
    inventory: str,
    admin: str,
    admin_key: Path | None,
    check: bool = False,
    collected: Path | None = None,
) -> None:
    """Run a playbook. Raises typer.Exit with its exit status if that is not 0."""
    from owlt.orchestrator.profiles.inventory import lab_rig
    from owlt.orchestrator.rigs.lab.playbooks import Administrator, run_playbook

    path, rig = lab_rig(inventory)
    administrator = Administrator(admin, admin_key)
    for host in rig.hosts:
        if not host.provision:
            Printer().note(f"{host.name}: not changed, because owlt_provision is false")
    status = run_playbook(name, path, rig, administrator, check, collected or Path(), verbosity.verbose)
    if status != 0:
        raise typer.Exit(status)


def _bypass() -> ChannelSpec:
    from owlt.emulator.channel.spec import ChannelSpec

    return ChannelSpec(bypass=True)


def _settings(inventory: Path, lab: LabRig, admin: str, admin_key: Path | None) -> Iterator[Requirement]:
    from owlt.orchestrator.checks.lab_verification import check_settings
    from owlt.orchestrator.rigs.lab.playbooks import Administrator, check_playbook

    yield from check_settings(lab, check_playbook("provision", inventory, lab, Administrator(admin, admin_key)))


def _running(lab: LabRig, is_fit: bool) -> Iterator[Requirement]:
    """What the kernels of the hosts have now, if the doctor has reached them."""
    from owlt.orchestrator.checks.doctor import Requirement
    from owlt.orchestrator.checks.lab_verification import check_sysctls
    from owlt.orchestrator.hosts.host import HostError
    from owlt.orchestrator.rigs.lab.ssh_hosts import ManagementHost

    if is_fit:
        try:
            yield from check_sysctls(lab, ManagementHost)
        except HostError as problem:
            yield Requirement("sysctls", False, str(problem), "every run", "fix this, then verify again")


def _measured(lab: LabRig, channels: dict[str, ChannelSpec], directory: Path, is_fit: bool) -> Iterator[Requirement]:
    """The test path in a session, if nothing is missing for one."""
    import tempfile

    from owlt.emulator.faults import EmulatorError
    from owlt.orchestrator.checks.doctor import Requirement
    from owlt.orchestrator.checks.lab_verification import check_path
    from owlt.orchestrator.hosts.host import HostError
    from owlt.orchestrator.own_directories import third_party_directory
    from owlt.orchestrator.rigs.lab.raising import raising

    if not is_fit:
        yield Requirement("test path", False, "not measured", "every run", "fix what is missing above first")
        return
    with tempfile.TemporaryDirectory(prefix="owlt-verify-") as place:
        try:
            with raising(lab)(Path(place, "rig"), Path(place), third_party_directory()) as rig:
                yield from check_path(rig, lab)
                rig.channel.renew(CERTIFYING_S)
                for name, channel in channels.items():
                    yield _certified(rig, name, channel, directory)
        except (HostError, EmulatorError) as problem:
            yield Requirement("test path", False, str(problem), "every run", "fix this, then verify again")


def _certified(rig: Rig, name: str, channel: ChannelSpec, directory: Path) -> Requirement:
    """Whether the emulator carries out a channel as specified, as it measures it on the test path."""
    from owlt.emulator.kernel.capabilities import missing_capabilities, missing_reasons
    from owlt.orchestrator.checks.doctor import Requirement, kernel_fix
    from owlt.orchestrator.run.worker import certify
    from owlt.results.certificates import read_certificate
    from owlt.results.files import CERTIFICATES

    what, needed_by = f"certificate: {name}", "every run" if name == CLEAN else "channels with impairments"
    capabilities = rig.channel.capabilities()
    kernel = capabilities.pop("kernel")
    if missing := missing_reasons(channel, capabilities):
        absent = "; ".join(missing_capabilities(channel, capabilities))
        detail = f"not measured: the emulator's kernel, Linux {kernel}, does not have {absent}"
        return Requirement(what, False, detail, needed_by, kernel_fix(next(iter(missing))))
    directory.mkdir(parents=True, exist_ok=True)
    key = name.replace(" ", "-")
    verdict = certify(channel, key, rig, "real", bool(capabilities["seed"]["available"]), directory / CERTIFICATES)
    certificate = read_certificate(directory, key)
    assert certificate is not None, "it was just written"
    reasons = [
        *certificate.suspicion(),
        *(check.reason for check in certificate.checks if check.verdict == "not measured"),
    ]
    file = directory / CERTIFICATES / f"{key}.json"
    detail = "; ".join(
        [f"{verdict}, {len(certificate.checks)} checks in {certificate.duration_s:.0f} s", *reasons, str(file)]
    )
    fix = "" if verdict == "ok" else "free the emulator of other work, and check its cards; then verify again"
    return Requirement(what, verdict == "ok", detail, needed_by, fix)

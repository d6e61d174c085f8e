"""`owlt rig verify`: whether a lab rig is as it was provisioned, and whether its test path keeps its promises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.orchestrator.commands.rigs.options import Admin, AdminKey
from owlt.orchestrator.terminal.options import Inventory, Json
from owlt.orchestrator.terminal.output import Printer
from owlt.orchestrator.terminal.requirements import print_requirements

if TYPE_CHECKING:
    from collections.abc import Iterator

    from owlt.emulator.channel.spec import ChannelSpec
    from owlt.orchestrator.checks.doctor import Requirement
    from owlt.orchestrator.profiles.inventory import LabRig
    from owlt.orchestrator.rigs.rig import Rig

CLEAN = "clean link"
CERTIFYING_S = 3600.0
"""The emulator's lease: longer than two certificates take on the real clock."""


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


def _bypass() -> ChannelSpec:
    from owlt.emulator.channel.spec import ChannelSpec

    return ChannelSpec(bypass=True)


def _settings(inventory: Path, lab: LabRig, admin: str, admin_key: Path | None) -> Iterator[Requirement]:
    from owlt.orchestrator.checks.lab_settings import check_settings
    from owlt.orchestrator.rigs.lab.playbooks import Administrator, check_playbook

    yield from check_settings(lab, check_playbook("provision", inventory, lab, Administrator(admin, admin_key)))


def _running(lab: LabRig, is_fit: bool) -> Iterator[Requirement]:
    """What the kernels of the hosts have now, if the doctor has reached them."""
    from owlt.orchestrator.checks.doctor import Requirement
    from owlt.orchestrator.checks.lab_path import check_sysctls
    from owlt.orchestrator.hosts.host import HostError
    from owlt.orchestrator.rigs.lab.management import ManagementHost

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
    from owlt.orchestrator.checks.lab_path import check_path
    from owlt.orchestrator.hosts.host import HostError
    from owlt.orchestrator.rigs.lab.raising import raising
    from owlt.orchestrator.third_party.places import third_party_directory

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
    from owlt.orchestrator.checks.channel_support import kernel_fix
    from owlt.orchestrator.checks.doctor import Requirement
    from owlt.orchestrator.results.certificates import DIRECTORY_NAME, read_certificate
    from owlt.orchestrator.workers.worker import certify

    what, needed_by = f"certificate: {name}", "every run" if name == CLEAN else "channels with impairments"
    capabilities = rig.channel.capabilities()
    kernel = capabilities.pop("kernel")
    if missing := missing_reasons(channel, capabilities):
        absent = "; ".join(missing_capabilities(channel, capabilities))
        detail = f"not measured: the emulator's kernel, Linux {kernel}, does not have {absent}"
        return Requirement(what, False, detail, needed_by, kernel_fix(next(iter(missing))))
    directory.mkdir(parents=True, exist_ok=True)
    key = name.replace(" ", "-")
    verdict = certify(channel, key, rig, "real", bool(capabilities["seed"]["available"]), directory / DIRECTORY_NAME)
    certificate = read_certificate(directory, key)
    assert certificate is not None, "it was just written"
    reasons = [
        *certificate.suspicion(),
        *(check.reason for check in certificate.checks if check.verdict == "not measured"),
    ]
    file = directory / DIRECTORY_NAME / f"{key}.json"
    detail = "; ".join(
        [f"{verdict}, {len(certificate.checks)} checks in {certificate.duration_s:.0f} s", *reasons, str(file)]
    )
    fix = "" if verdict == "ok" else "free the emulator of other work, and check its cards; then verify again"
    return Requirement(what, verdict == "ok", detail, needed_by, fix)

"""What the service of a lab rig's emulator shows: certificate, token, lease, and what its kernel can do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from owlt.emulator.faults import EmulatorError, LeaseLost, NotAllowed
from owlt.emulator.kernel.capabilities import NEEDED_FOR
from owlt.emulator.service.client import EmulatorClient
from owlt.orchestrator.checks.channel_support import kernel_fix
from owlt.orchestrator.checks.doctor import Requirement
from owlt.orchestrator.checks.service_certificate import certificate_text
from owlt.orchestrator.errors import Missing
from owlt.orchestrator.profiles.inventory import EmulatorEntry, LabHostEntry
from owlt.orchestrator.rigs.lab.emulator import token_of
from owlt.orchestrator.rigs.lab.reservations import read_reservation

LEASE = "lease"
SHOWN_CAPABILITIES = ("netem", "programs")
"""Those that most channels need."""

ClientOf = Callable[[EmulatorEntry], EmulatorClient]


def service_client(entry: EmulatorEntry) -> EmulatorClient:
    """A client of the service. Raises OSError for its certificate, Missing for the token."""
    return EmulatorClient(entry.service, token=token_of(entry), ca_file=entry.service_ca)


def emulator_capabilities(entry: EmulatorEntry, client_of: ClientOf = service_client) -> dict[str, Any] | None:
    """What the emulator's kernel can do; None if the service does not say: `examine_service` has the reason."""
    try:
        return client_of(entry).capabilities()
    except (OSError, EmulatorError, Missing):
        return None


def examine_service(entry: EmulatorEntry) -> Iterator[Requirement]:
    """Everything that a sweep needs of the service, whether it is there or not."""
    try:
        client = service_client(entry)
        version = client.version()
        detail = f"{entry.service}, owlt {version['owlt']}, Linux {version['kernel']}"
        yield requirement_of(entry, "service", True, detail)
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


def requirement_of(
    entry: LabHostEntry, name: str, found: bool, detail: str, fix: str = "", limits: str = ""
) -> Requirement:
    """An item of a host of the rig, or of its service. `limits`: as in Requirement."""
    return Requirement(f"{entry.name}: {name}", found, detail, f"the {entry.role}", fix, limits)


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

"""`owlt rig status`, `lease`, `release` and `clear`: who has a lab rig, and how it is made idle again."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any

import typer

from owlt.inputs.mistake import Invalid, Mistake, keys_below
from owlt.orchestrator.errors import OwltError
from owlt.orchestrator.terminal.options import Inventory, Json
from owlt.orchestrator.terminal.output import Printer, yes_or_no

if TYPE_CHECKING:
    from collections.abc import Callable

    from owlt.emulator.service.client import EmulatorClient
    from owlt.orchestrator.profiles.inventory import LabRig
    from owlt.orchestrator.rigs.lab.emulator import LabEmulator


def rig_status(inventory: Inventory, as_json: Json = False) -> None:
    """Show who has a lab rig and what runs on it.

    The channel is shown if it is not clear.
    """
    from owlt.emulator.faults import EmulatorError
    from owlt.orchestrator.commands.channel.text import channel_line
    from owlt.orchestrator.rigs.lab.reservations import read_reservation

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
        (
            (
                str(each["name"]),
                str(each["role"]),
                yes_or_no(not each["problem"]),
                str(each["problem"] or each["session"]),
            )
            for each in hosts
        ),
    )
    printer.text(f"lease: {_lease_text(lease)}")
    if channel is not None and (line := channel_line(channel)):
        printer.text(f"channel: {line}{left_behind(lease)}")


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
    seconds = _seconds(duration)
    try:
        emulator_of(rig).reserve(seconds)
    except EmulatorError as problem:
        raise OwltError(Mistake(f"{rig.name} cannot be leased: {problem}")) from problem
    until_s = time.time() + seconds
    until = time.strftime("%Y-%m-%d %H:%M", time.localtime(until_s))
    printer.note(f"{rig.name} is leased to you until {until}; end it with: owlt rig release {inventory}")
    printer.json({"rig": rig.name, "until_s": until_s})


def release_rig(inventory: Inventory) -> None:
    """End your lease of a lab rig; the channel is cleared."""
    rig = rig_of(inventory)
    had_lease = release(rig, emulator_of)
    Printer().note(f"{rig.name}: {'released' if had_lease else without_lease(rig, emulator_of)}")


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
    from owlt.orchestrator.rigs.lab.reservations import forget_reservation, read_reservation

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


def clear_rig(inventory: Inventory) -> None:
    """Restore a lab rig that an interrupted sweep left behind.

    Ends all programs of its sessions, gives the test interfaces back and clears the channel. Refused while somebody
    else has the lease, or a sweep runs. The lease of a sweep that was killed ends by itself.
    """
    from owlt.emulator.faults import EmulatorError
    from owlt.orchestrator.hosts.host import HostError
    from owlt.orchestrator.rigs.lab.management import ManagementHost
    from owlt.orchestrator.rigs.lab.session import close_session

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


CLEARING_S = 120.0


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
    from owlt.orchestrator.rigs.lab.management import ManagementHost
    from owlt.orchestrator.rigs.lab.session import session_seconds_left

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


def _seconds(duration: str) -> float:
    from owlt.inputs.quantities import parse_delay_ns

    try:
        with keys_below("--for"):
            return parse_delay_ns(duration, "20 min", ("min", "h")) / 1e9
    except Invalid as problem:
        raise OwltError(*problem.mistakes) from problem

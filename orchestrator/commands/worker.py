"""`owlt worker`: offer this machine to sweeps of `owlt run --dask`."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from pathlib import Path
from typing import Annotated

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.commands.output import Printer
from owlt.orchestrator.commands.performing import Tls, WithoutAuthentication, require_dask
from owlt.orchestrator.commands.usage import Guests
from owlt.orchestrator.errors import OwltError


def worker(
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="The Dask scheduler, such as tls://lab1:8786.")
    ] = None,
    slots: Guests = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="The machine's name; default: its host name.")] = "",
    port: Annotated[
        int, typer.Option(metavar="PORT", help="The port at which the scheduler reaches this machine; 0: any.")
    ] = 0,
    tls: Tls = None,
    make_certificates: Annotated[
        Path | None,
        typer.Option(metavar="DIRECTORY", help="Make a key and a certificate for all machines, and do nothing else."),
    ] = None,
    without_authentication: WithoutAuthentication = False,
) -> None:
    """Offer this machine's cores to 'owlt run --dask'.

    It runs until Ctrl-C. The machine takes runs only if its kernel for guests, owlt, Python, packages, system libraries
    and programs are the same as those of 'owlt run'; otherwise it names what differs.
    """
    require_dask()
    from owlt.orchestrator.sweep import cluster_security as security

    printer = Printer(False)
    if make_certificates:
        security.make_certificates(make_certificates)
        _print_next_steps(make_certificates, printer)
        return
    if not scheduler:
        raise OwltError(Mistake.of("--scheduler", "is missing", "the address of a Dask scheduler: tls://HOST:8786"))
    settings = security.security_for(scheduler, tls, without_authentication)
    from owlt.orchestrator.sweep.cluster_service import Service, serve
    from owlt.orchestrator.sweep.machine import THIS_MACHINE

    cpus = sorted(os.sched_getaffinity(0))
    if slots and slots > len(cpus):
        raise OwltError(Mistake.of("--slots", f"got {slots}", f"at most {len(cpus)}, the number of cores"))
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is noted
    machine = name or socket.gethostname()

    def note(text: str) -> None:
        printer.note(f"{machine} {text}")

    service = Service(machine, THIS_MACHINE, cpus[:slots], note=note)
    asyncio.run(serve(scheduler, settings, service, len(cpus[:slots]), port, note, without_authentication))


def _print_next_steps(directory: Path, printer: Printer) -> None:
    plain = "--no-dashboard --dashboard-address 127.0.0.1:0"
    files = f"--tls-ca-file {directory}/ca.pem --tls-cert {directory}/cert.pem --tls-key {directory}/key.pem"
    printer.text(f"{directory}: a key and a certificate, valid for a year. Anyone who has them can use all machines.")
    printer.text("Copy the directory to each machine, then:")
    printer.text(f"  on one machine:  dask scheduler --protocol tls --port 8786 {plain} {files}")
    printer.text(f"  on each machine: owlt worker --scheduler tls://HOST:8786 --tls {directory}")
    printer.text(f"  then:            owlt run SWEEP --dask tls://HOST:8786 --tls {directory}")

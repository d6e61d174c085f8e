"""The options of a connection to a Dask scheduler."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from owlt.inputs.mistake import Mistake
from owlt.orchestrator.errors import Missing, OwltError

if TYPE_CHECKING:
    from owlt.orchestrator.sweep.machine import Machine

Dask = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Perform the runs on the machines of a Dask scheduler: tls://HOST:8786."),
]
Tls = Annotated[
    Path | None,
    typer.Option(metavar="DIRECTORY", help="Certificates of all machines; default: those of Dask's configuration."),
]
WithoutAuthentication = Annotated[
    bool,
    typer.Option(
        "--without-authentication",
        help="Accept tcp:// beyond this machine: anyone who reaches the scheduler can run any program on all machines.",
    ),
]


def require_dask() -> None:
    """Raise Missing without the library."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        fix = "install owlt with its extra dask: pip install 'owlt[dask]'"
        raise Missing(Mistake("the Python package distributed is missing", fix=fix)) from None


def cluster_of(
    address: str | None, tls: Path | None, accepts_plain: bool, guests: int | None, rig: str | None
) -> Machine | None:
    """The machines of --dask; None without it. Raises OwltError for options that do not go together."""
    if address is None:
        if tls or accepts_plain:
            option = "--tls" if tls else "--without-authentication"
            raise OwltError(Mistake.of(option, "got it without --dask", "both, or neither"))
        return None
    if rig:
        raise OwltError(Mistake.of("--rig", "got it with --dask", "one of them"))
    if guests:
        fix = "limit each machine with 'owlt worker --slots'"
        raise OwltError(Mistake.of("--guests", "got it with --dask", "one of them", fix))
    require_dask()
    from owlt.orchestrator.sweep.campaign import warn
    from owlt.orchestrator.sweep.cluster import Cluster

    return Cluster(address, tls, accepts_plain, warn)

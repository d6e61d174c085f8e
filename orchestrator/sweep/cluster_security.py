"""Who may connect: TLS certificates for all machines, and the refusal of connections without them.

Anyone who can connect to the scheduler or to a worker can run any program on that machine, so a connection without
authentication is only made if both listen on loopback, or if the user accepts the risk.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
from distributed import Security

from owlt.inputs.mistake import Mistake, Place
from owlt.orchestrator.errors import OwltError

CA, CERTIFICATE, KEY = "ca.pem", "cert.pem", "key.pem"
PLAIN_OPTION = "--without-authentication"


def make_certificates(directory: Path) -> None:
    """Write a key and a certificate for all roles, which is its own authority, valid for a year.

    Raises OwltError if one of the files exists, or they cannot be written.
    """
    if existing := [name for name in (CA, CERTIFICATE, KEY) if (directory / name).exists()]:
        problem, fix = f"has {existing[0]} already", "choose another directory, or remove the files"
        raise OwltError(Mistake(problem, fix=fix, where=Place(str(directory))))
    made = Security.temporary()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        (directory / KEY).touch(mode=0o600)
        for name, text in ((KEY, made.tls_worker_key), (CERTIFICATE, made.tls_worker_cert), (CA, made.tls_ca_file)):
            (directory / name).write_text(text)
    except OSError as problem:
        fix = "name a directory in which you can create files"
        reason = f"cannot be written: {problem.strerror}"
        raise OwltError(Mistake(reason, fix=fix, where=Place(str(directory)))) from problem


def security_for(address: str, tls: Path | None, accepts_plain: bool) -> Security:
    """The settings of a connection to a scheduler. Without `tls`, a directory of certificates, those of Dask's
    configuration (distributed.comm.tls) count.

    Raises OwltError if a connection would have no authentication, or files are missing.
    """
    scheme, host, _ = _parts(address)
    if scheme == "tcp":
        if not (accepts_plain or _is_loopback(host)):
            problem = f"{address} has no authentication: anyone who reaches it can run any program on all machines"
            fix = f"use tls://, or accept the risk with {PLAIN_OPTION}"
            raise OwltError(Mistake(problem, "tls://HOST:PORT", fix))
        return Security()
    if tls is None:
        security = Security(require_encryption=True)
        if not (security.tls_ca_file and security.tls_worker_cert and security.tls_client_cert):
            problem = f"{address} needs certificates, and none are given"
            fix = "name their directory with --tls; 'owlt worker --make-certificates DIRECTORY' makes them"
            raise OwltError(Mistake(problem, fix=fix))
        return security
    for name in (CA, CERTIFICATE, KEY):
        if not (tls / name).is_file():
            fix = f"make certificates once with 'owlt worker --make-certificates {tls}', and copy them to all machines"
            raise OwltError(Mistake(f"{name} is missing", fix=fix, where=Place(str(tls))))
    certificate, key = str(tls / CERTIFICATE), str(tls / KEY)
    return Security(
        require_encryption=True,
        tls_ca_file=str(tls / CA),
        **{f"tls_{role}_cert": certificate for role in ("client", "worker", "scheduler")},
        **{f"tls_{role}_key": key for role in ("client", "worker", "scheduler")},
    )


def address_to_bind(scheduler: str) -> str | None:
    """The address on which a worker listens: loopback if its scheduler is there, else None (all addresses)."""
    scheme, host, _ = _parts(scheduler)
    return f"{scheme}://{f'[{host}]' if ':' in host else host}" if _is_loopback(host) else None


def require_loopback_only(address: str, accepts_plain: bool, services: Mapping[str, Any] | None = None) -> None:
    """Raise OwltError if a scheduler without authentication on this machine also listens beyond loopback.

    `services` are the ports of its other servers, such as its dashboard, which it reports after the connection.
    """
    scheme, host, port = _parts(address)
    if scheme != "tcp" or accepts_plain or not _is_loopback(host):
        return
    ports = {port, *(number for number in (services or {}).values() if isinstance(number, int))}
    listening = [found.laddr for found in psutil.net_connections("tcp") if found.status == psutil.CONN_LISTEN]
    open_to_others = sorted({f"{ip} (port {at})" for ip, at in listening if at in ports and not _is_loopback(ip)})
    if open_to_others:
        problem = f"the scheduler of {address} has no authentication and listens on {', '.join(open_to_others)}"
        options = "--host 127.0.0.1 --dashboard-address 127.0.0.1:0"
        command = f"dask scheduler --port {port} {options}"
        fix = f"start it with '{command}', use tls://, or accept the risk with {PLAIN_OPTION}"
        raise OwltError(Mistake(problem, "loopback addresses only", fix))


def _parts(address: str) -> tuple[str, str, int]:
    try:
        parts = urlsplit(address)
        if parts.scheme in ("tls", "tcp") and parts.hostname and parts.port:
            return parts.scheme, parts.hostname, parts.port
    except ValueError:
        pass
    raise OwltError(Mistake(f"got '{address}'", "the address of a Dask scheduler, such as tls://lab1:8786"))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

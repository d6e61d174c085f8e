"""A client of the emulator service: methods that take and return channels, and raise the exceptions of `faults`."""

import re
import ssl
import time
import xmlrpc.client
from collections.abc import Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from defusedxml import DefusedXmlException
from defusedxml.xmlrpc import DefusedExpatParser

from owlt.emulator.channel.spec import ChannelSpec
from owlt.emulator.faults import EmulatorError, EmulatorUnreachable, LeaseLost, error_from_fault
from owlt.emulator.service.access import LEASE_HEADER

_PAUSE_S = 0.01
_LONGEST_CERTIFICATION_S = 7 * 24 * 3600.0
_CERTIFICATE_EXPIRED = 10  # X509_V_ERR_CERT_HAS_EXPIRED
_BUSY_STATUSES = (429, 503)

Counters = dict[str, dict[str, dict[str, int]]]
"""By direction, stage and name."""


class EmulatorClient:
    """Calls the emulator at a URL such as http://10.78.0.3:8765. One client serves one thread.

    `token` is the service's token; it may also be part of the URL, http://owlt:TOKEN@HOST:PORT. `ca_file` has the
    certificates that an https URL is checked against, instead of the system's. A `transport` replaces HTTP
    (`tests.memory.emulator` has one). Every method raises EmulatorUnreachable if no answer arrives within `timeout_s`.
    Methods that change something raise NotAllowed without the token, LeaseHeld if another client holds the lease, and
    LeaseLost if the client's own lease has ended.
    """

    def __init__(
        self,
        url: str,
        timeout_s: float = 10.0,
        token: str | None = None,
        ca_file: Path | str | None = None,
        transport: "Transport | None" = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or (ca_file is not None and parts.scheme != "https"):
            expected = "https://..." if ca_file is not None else "http://... or https://..."
            raise ValueError(f"emulator URL: got {_without_token(url)!r}, expected {expected}")
        self.url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        """The URL without the token."""
        self._token = token if token is not None else unquote(parts.password) if parts.password else None
        self._lease: str | None = None
        self._timeout_s = timeout_s
        self._ca_file = ca_file
        self._transport = transport or _Http(
            ssl.create_default_context(cafile=ca_file) if parts.scheme == "https" else None
        )
        self._proxy = xmlrpc.client.ServerProxy(self.url, self._transport, use_builtin_types=True)

    def configure(self, channel: ChannelSpec) -> ChannelSpec:
        """Apply a channel instead of the previous one; return it as the kernel has it, checked by the service.

        It differs from the specified channel only in the kernel's resolution: the rate is in bytes a second, the error
        rate has 32 bits. Raises ChannelRefused.
        """
        return ChannelSpec.from_wire(self._call("configure", channel.to_wire()))

    def change(self, direction: str, /, **fields: Any) -> ChannelSpec:
        """Change some values of the "forward" or "reverse" link or of "both", as in a profile, or values of "each":
        forward={...}, reverse={...}; return the channel.

        Packets in flight and all other values stay. Raises ChannelRefused.
        """
        return ChannelSpec.from_wire(self._call("change", direction, fields))

    def bypass(self) -> ChannelSpec:
        """Remove the channel and become a transparent bridge (bypass); return the channel."""
        return ChannelSpec.from_wire(self._call("bypass"))

    def describe(self) -> ChannelSpec:
        """Return the channel that the kernel has now."""
        return ChannelSpec.from_wire(self._call("describe"))

    def clear(self) -> None:
        """Remove the channel; all packets in flight are lost."""
        self._call("clear")

    def statistics(self) -> Counters:
        """Return the counters since the channel was applied: by direction, stage (bottleneck, pipe) and name."""
        return _counters(self._call("statistics"))

    def snapshot(self) -> tuple[ChannelSpec, Counters]:
        """Return the channel that the kernel has, and the counters, both of the same moment."""
        answer = self._call("snapshot")
        return ChannelSpec.from_wire(answer["channel"]), _counters(answer["statistics"])

    def timeline_start(self) -> dict[str, Any]:
        """Start the channel's timeline now; return its status. Raises TimelineError if the channel has none."""
        return dict(self._call("timeline_start"))

    def timeline_stop(self) -> dict[str, Any]:
        """Stop the channel's timeline at its present step; return its status."""
        return dict(self._call("timeline_stop"))

    def timeline_status(self) -> dict[str, Any]:
        """Return whether the timeline is `running`, its `elapsed_s`, `steps_applied`, `late_ns` and `failure`."""
        return dict(self._call("timeline_status"))

    def faults_start(self) -> dict[str, Any]:
        """Let the channel's aimed faults count and hit packets from now on; return their status."""
        return dict(self._call("faults_start"))

    def faults_replace(self, faults: Sequence[Mapping[str, Any]]) -> ChannelSpec:
        """Aim other faults in place of those that were started, before the first packet; return the channel.

        Raises FaultsNotReplaced, or InvalidChannel.
        """
        return ChannelSpec.from_wire(self._call("faults_replace", list(faults)))

    def faults_status(self) -> dict[str, Any]:
        """Return for each fault what it has `seen` and its `hits`, the `hits` one by one, `held` and `failure`."""
        return dict(self._call("faults_status"))

    def certify(self, channel: ChannelSpec, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Measure how the emulator carries out a channel; return the certificate. Waits for it up to a week."""
        return dict(self._call("certify", channel.to_wire(), dict(options or {}), timeout_s=_LONGEST_CERTIFICATION_S))

    def capabilities(self) -> dict[str, Any]:
        """Return what the emulator's kernel can do: each capability's `available`, and the `reason` if not."""
        return dict(self._call("capabilities"))

    def version(self) -> dict[str, Any]:
        """Return the versions of owlt, of the interface and of the kernel at the emulator."""
        return dict(self._call("version"))

    def lease(self, holder: str, seconds: float) -> str:
        """Take exclusive access for so long; return the lease's id, which every further call of this client carries.

        The channel is cleared if the lease is not renewed in time. Raises LeaseHeld or InvalidLease.
        """
        self._lease = str(self._call("lease", holder, float(seconds))["lease"])
        return self._lease

    def adopt(self, lease: str) -> None:
        """Continue with a lease that another client took: every further call of this client carries its id."""
        self._lease = lease

    def renew(self, seconds: float) -> None:
        """Let the lease end so many seconds from now. Raises LeaseLost."""
        self._call("renew", self._own_lease(), float(seconds))

    def release(self) -> None:
        """End the lease and clear the channel. Raises LeaseLost."""
        lease, self._lease = self._own_lease(), None
        self._call("release", lease)

    def lease_status(self) -> dict[str, Any]:
        """Return whether a lease is `held`, its `holder` and the `seconds_left`."""
        return dict(self._call("lease_status"))

    def wait_until_ready(self, deadline_s: float) -> None:
        """Return as soon as the service answers; EmulatorUnreachable if it does not within `deadline_s`."""
        end_s = time.monotonic() + deadline_s
        while True:
            try:
                self._call("version", timeout_s=max(end_s - time.monotonic(), _PAUSE_S))
                return
            except EmulatorUnreachable as error:
                if time.monotonic() >= end_s:
                    raise EmulatorUnreachable(f"waited {deadline_s:g} s: {error}") from None
                time.sleep(_PAUSE_S)

    def _own_lease(self) -> str:
        if self._lease is None:
            raise LeaseLost(f"emulator at {self.url}: this client has no lease: take one")
        return self._lease

    def _call(self, method: str, *parameters: Any, timeout_s: float | None = None) -> Any:
        self._transport.timeout_s = timeout_s if timeout_s is not None else self._timeout_s
        self._transport.set_credentials(self._token, self._lease)
        end_s = time.monotonic() + self._transport.timeout_s
        try:
            while True:
                try:
                    return getattr(self._proxy, method)(*parameters)
                except xmlrpc.client.ProtocolError as error:
                    pause_s = _pause_s(error)
                    if pause_s is None or time.monotonic() + pause_s > end_s:
                        raise
                    time.sleep(pause_s)
        except xmlrpc.client.Fault as fault:
            raise error_from_fault(fault.faultCode, fault.faultString) from None
        except (OSError, HTTPException) as error:
            step = _step(error, self._ca_file)
            reason = getattr(error, "strerror", None) or error
            raise EmulatorUnreachable(f"emulator at {self.url}: no answer to {method}: {reason}; {step}") from error
        except (xmlrpc.client.Error, DefusedXmlException, SyntaxError, ValueError) as error:
            raise EmulatorError(f"emulator at {self.url}: the answer to {method} is not XML-RPC: {error}") from error
        finally:
            self._transport.close()


def _counters(answer: Mapping[str, Any]) -> Counters:
    return {
        direction: {stage: {name: int(value) for name, value in counters.items()} for stage, counters in stages.items()}
        for direction, stages in answer.items()
    }


def _step(error: Exception, ca_file: Path | str | None) -> str:
    """The next step for the user after a call without an answer."""
    if not isinstance(error, ssl.SSLCertVerificationError) or error.verify_code == _CERTIFICATE_EXPIRED:
        return "is the service running, and is the URL right?"
    if ca_file is None:
        return "use --ca-file with the certificate of the service's CA"
    return f"is {ca_file} the certificate of the service's CA (--ca-file), and is the URL right?"


def _pause_s(error: xmlrpc.client.ProtocolError) -> float | None:
    """The time after which a service that was too busy wants the call again; None for any other error."""
    seconds = dict(error.headers).get("Retry-After", "")
    return float(seconds) if error.errcode in _BUSY_STATUSES and seconds.isdecimal() else None


class Transport(xmlrpc.client.Transport):
    """Carries a client's calls to the service, each with the client's token and lease."""

    timeout_s: float = 0.0

    def __init__(self) -> None:
        super().__init__(use_builtin_types=True)

    def set_credentials(self, token: str | None, lease: str | None) -> None:
        """Send these with all further calls."""
        raise NotImplementedError


def _without_token(url: str) -> str:
    """A URL that may be wrong in any way, without what stands before its last "@"."""
    return re.sub(r"(?s)^(\w*://)?.*@", r"\1", url)


class _Http(Transport):
    """HTTP or HTTPS with a time-out for connecting and for each wait; answers are read without DTDs and entities.

    Each call has its own connection, because the service would wait for more requests on one that stays open.
    """

    accept_gzip_encoding = False  # a compressed answer may be a thousand times larger than what was received

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._tls = tls
        self._call_headers: list[tuple[str, str]] = []

    def set_credentials(self, token: str | None, lease: str | None) -> None:
        """Send these with all further calls."""
        headers = {"Connection": "close", "Authorization": token and f"Bearer {token}", LEASE_HEADER: lease}
        self._call_headers = [(name, value) for name, value in headers.items() if value]

    def send_headers(self, connection: HTTPConnection, headers: Any) -> None:
        super().send_headers(connection, [*headers, *self._call_headers])

    def getparser(self) -> tuple[Any, Any]:
        """The parser that answers are fed to, and what builds values from what it reads."""
        values = xmlrpc.client.Unmarshaller(use_builtin_types=True)
        return DefusedExpatParser(values, forbid_dtd=True), values

    def parse_response(self, response: HTTPResponse) -> Any:
        encoding = response.getheader("Content-Encoding", "identity")
        if encoding != "identity":
            raise xmlrpc.client.ResponseError(f"expected an uncompressed answer, got Content-Encoding: {encoding:.50}")
        return super().parse_response(response)

    def make_connection(self, host: Any) -> HTTPConnection:
        connection = (
            HTTPConnection(host, timeout=self.timeout_s)
            if self._tls is None
            else HTTPSConnection(host, timeout=self.timeout_s, context=self._tls)
        )
        self._connection = host, connection  # where the standard library's close() looks for it
        return connection

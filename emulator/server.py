"""The emulator over XML-RPC: what is let in, and what goes out when something is wrong.

Requests come from strangers: they are limited in size and time, parsed without XML entities, and each ends
in an answer, a fault with a stable code (`faults`) or an HTTP error. There is no authentication yet, so it
listens on a loopback or private address only.
"""

import ipaddress
import logging
import socket
import sys
import xmlrpc.client
from collections.abc import Callable
from http import HTTPStatus
from inspect import signature
from socketserver import ThreadingMixIn
from typing import Any
from xmlrpc.client import Fault
from xmlrpc.server import SimpleXMLRPCRequestHandler, SimpleXMLRPCServer

from defusedxml.xmlrpc import monkey_patch

from emulator.faults import INTERNAL_ERROR, INVALID_PARAMETERS, NOT_WELL_FORMED, UNKNOWN_METHOD, EmulatorError
from emulator.service import Emulator

LARGEST_REQUEST_BYTES = 64 * 1024
"""A channel takes about 1 kB."""
SLOWEST_REQUEST_S = 30.0
METHODS = ("configure", "describe", "clear", "statistics", "capabilities", "version")

log = logging.getLogger(__name__)

monkey_patch()


def parse_listen_address(text: str) -> tuple[str, int]:
    """Return host and port of "ADDRESS:PORT" (an IPv6 address in brackets).

    Raises ValueError unless the address is loopback, private or link-local: who reaches the service can
    stop traffic.
    """
    host, separator, port = text.rpartition(":")
    wanted = "wanted ADDRESS:PORT, as in 127.0.0.1:8765 or [::1]:8765"
    if not separator or not port.isdecimal() or not 0 <= int(port) < 2**16:
        raise ValueError(f"listen address: got {text!r}, {wanted}")
    try:
        address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        address = getattr(address, "ipv4_mapped", None) or address
    except ValueError:
        raise ValueError(f"listen address: got {host!r}, which is no IP address; {wanted}") from None
    if address.is_unspecified or not (address.is_loopback or address.is_private or address.is_link_local):
        raise ValueError(
            f"listen address: got {address}, wanted a loopback address or that of the management interface: "
            "everybody who reaches the service can stop the traffic"
        )
    return str(address), int(port)


class EmulatorServer(ThreadingMixIn, SimpleXMLRPCServer):
    """Serves an emulator's methods, and introspection, at an address; bound when made, or OSError."""

    daemon_threads = True

    def __init__(self, emulator: Emulator, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Request, logRequests=False, use_builtin_types=True)
        self.register_introspection_functions()
        for name in METHODS:
            self.register_function(getattr(emulator, name), name)

    @property
    def address(self) -> str:
        """Where it listens, as ADDRESS:PORT; port 0 has become the one that the kernel chose."""
        host, port = self.socket.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def serve(self) -> None:
        """Answer for ever. (`serve_forever` would wake twice a second of a virtual time that has very many.)"""
        while True:
            self.handle_request()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a request that broke off; the next one is served."""
        log.warning("request from %s: %r", client_address[0], sys.exception())

    def _marshaled_dispatch(  # type: ignore[override]  # the standard library returns bytes, its stubs say str
        self, data: Any, dispatch_method: Callable[..., Any] | None = None, path: Any | None = None
    ) -> bytes:
        answer: Fault | tuple[Any]
        try:
            answer = (self._call(*_parsed(data)),)
        except Fault as fault:
            answer = fault
        text = xmlrpc.client.dumps(answer, methodresponse=True, encoding="utf-8")
        return text.encode("utf-8", "xmlcharrefreplace")

    def _call(self, method: str, parameters: tuple[Any, ...]) -> Any:
        function = self.funcs.get(method)
        if function is None:
            raise Fault(UNKNOWN_METHOD, f"method: got {method!r:.100}, wanted one of {', '.join(sorted(self.funcs))}")
        try:
            signature(function).bind(*parameters)
        except TypeError as error:
            raise Fault(INVALID_PARAMETERS, f"{method}: {error}; wanted {method}{signature(function)}") from None
        return _answered(function, parameters)


class _Request(SimpleXMLRPCRequestHandler):
    timeout = SLOWEST_REQUEST_S
    rpc_paths = ("/", "/RPC2")

    def do_POST(self) -> None:
        refusal = self._refusal()
        if refusal is None:
            super().do_POST()
            return
        self.close_connection = True
        self.send_error(*refusal)

    def _refusal(self) -> tuple[HTTPStatus, str] | None:
        """Among the rest: a page in a browser can post to us, but not as text/xml unless we had allowed it first."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal():
            return HTTPStatus.LENGTH_REQUIRED, "Wanted a Content-Length"
        if len(length) > 9 or int(length) > LARGEST_REQUEST_BYTES:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"Wanted at most {LARGEST_REQUEST_BYTES} bytes"
        if self.headers.get("Content-Encoding", "identity") != "identity":
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Wanted an unpacked body"
        if self.headers.get_content_type() != "text/xml":
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Wanted Content-Type: text/xml"
        return None


def _parsed(data: Any) -> tuple[str, tuple[Any, ...]]:
    try:
        parameters, method = xmlrpc.client.loads(data, use_builtin_types=True)
    except Exception as error:  # the parser has no common class for what strangers can send
        raise Fault(NOT_WELL_FORMED, f"request: not XML-RPC: {type(error).__name__}: {error!s:.200}") from None
    if not method:
        raise Fault(NOT_WELL_FORMED, "request: got no methodCall, wanted one")
    return method, parameters


def _answered(function: Callable[..., Any], parameters: tuple[Any, ...]) -> Any:
    try:
        return function(*parameters)
    except EmulatorError as error:
        raise Fault(error.code, str(error)) from None
    except Exception as error:
        log.exception("a call failed")
        raise Fault(INTERNAL_ERROR, f"{type(error).__name__}: {error}; see the emulator's log") from None

"""Protects the dashboard: checks the names of hosts, and sends headers that confine its pages to their own server."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import re
from collections.abc import Collection

from flask import Flask, Response, abort, redirect, request
from werkzeug.wrappers import Response as AnyResponse

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
FILE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline' 'self'; img-src 'self' data:; sandbox allow-popups; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The policy of files from a results directory, whose text the compared programs wrote: no script runs in them."""


def report_policy(script: str) -> str:
    """The policy of the page of a report: only this script of it runs, which loads figures from the same server.

    Its styles are inline. The page cannot send a form or ask for data.
    """
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'self' 'sha256-{digest}'; style-src 'unsafe-inline'; img-src 'self' data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


READING = ("GET", "HEAD", "OPTIONS")
"""Methods of requests that change nothing."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


def protect(app: Flask, names: Collection[str]) -> None:
    """Answer only requests to these names of the server, to localhost and to addresses; add the headers.

    A page of another site whose name was made to point to this machine (DNS rebinding) sends its own name, and is
    refused. An address cannot be rebound.
    """
    allowed = {name.lower() for name in names} | {"localhost"}

    @app.before_request
    def refuse_foreign_names() -> None:
        name = host_name(request.headers.get("Host", ""))
        if not (name in allowed or _is_address(name)):
            abort(
                403,
                f"Host: got {name!r:.80}, expected {', '.join(sorted(allowed))} or an address; "
                "start owlt dashboard with --name to allow another name",
            )

    @app.after_request
    def add_headers(response: Response) -> Response:
        response.headers.setdefault("Content-Security-Policy", POLICY)
        for name, value in _HEADERS.items():
            response.headers.setdefault(name, value)
        response.headers.setdefault("Cache-Control", "no-cache")
        return response


def host_name(header: str) -> str:
    """The name in a Host header, without its port and without the brackets of IPv6."""
    return re.sub(r":\d+$", "", header.strip()).strip("[]").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def require_same_origin() -> None:
    """Refuse a request that starts or changes something unless one of the dashboard's own pages sent it.

    Browsers state in two headers where a request comes from; older ones send only Origin.
    """
    here = request.host_url.rstrip("/")
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
    if (origin is None and site is None) or origin not in (None, here) or site not in (None, "same-origin"):
        abort(403, f"Origin: got {origin!r:.80}, expected {here!r}; use the dashboard's own pages")


class Token:
    """The right to change something: a secret that its owner brings in an address once, then in a cookie."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._cookie = f"owlt-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def protect(self, app: Flask) -> None:
        """Take the token out of the address with which a page is opened, and keep it in a cookie of this site only.

        Every request that may start or change something needs it, and must come from the dashboard's own pages.
        """

        @app.before_request
        def protect_changes() -> None:
            if request.method not in READING:
                require_same_origin()
                self.require()

        @app.before_request
        def take_from_address() -> AnyResponse | None:
            given = request.args.get("token")
            if given is None or request.method != "GET":
                return None
            if not self._is_it(given):
                abort(403, "token: wrong; use the address that this start of owlt dashboard printed")
            answer = redirect(request.path, 303)
            answer.set_cookie(self._cookie, given, httponly=True, samesite="Strict", path="/")
            return answer

    def is_given(self) -> bool:
        """Whether a request carries the token."""
        return self._is_it(request.cookies.get(self._cookie, ""))

    def require(self) -> None:
        """Refuse a request without the token."""
        if not self.is_given():
            abort(403, "token: is missing; open the address with the token that owlt dashboard printed")

    def _is_it(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self._text.encode())

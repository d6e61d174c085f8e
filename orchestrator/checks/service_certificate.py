"""Until when the certificate of an emulator's service is valid."""

from __future__ import annotations

import socket
import ssl
import time
from pathlib import Path
from urllib.parse import urlsplit

LIMIT_S = 10.0
RENEWED_S = 30 * 86_400
"""`owlt rig provision` issues a certificate again that ends within this time."""


def certificate_text(service: str, ca: Path, now_s: float) -> str:
    """When the certificate ends, and how many days are left. Raises OSError if it is not valid."""
    end_s = certificate_end_s(service, ca)
    left_s = end_s - now_s
    text = f"valid until {time.strftime('%Y-%m-%d', time.gmtime(end_s))}, {left_s / 86_400:.0f} days left"
    return text if left_s > RENEWED_S else f"{text}; owlt rig provision issues a new one"


def certificate_end_s(service: str, ca: Path) -> float:
    """When the certificate that a service shows ends, in seconds since 1970. Raises OSError."""
    parts = urlsplit(service)
    host = str(parts.hostname)
    context = ssl.create_default_context(cafile=ca)
    with (
        socket.create_connection((host, parts.port or 443), LIMIT_S) as connection,
        context.wrap_socket(connection, server_hostname=host) as wrapped,
    ):
        shown = wrapped.getpeercert()
    assert shown, "a verified certificate"
    return ssl.cert_time_to_seconds(str(shown["notAfter"]))

"""Who may change the channel: a client that sends the service's token, a secret in a file.

The token is sent with each HTTP request, as `Authorization: Bearer TOKEN`, or Basic with any user name and the token as
password, so that http://owlt:TOKEN@HOST works as a URL in any client (RFC 6750 section 2.1, RFC 7617).
"""

import binascii
import hmac
import os
import stat
from base64 import b64decode
from dataclasses import dataclass
from email.message import Message
from pathlib import Path

from owlt.emulator.faults import NotAllowed
from owlt.inputs.mistake import Mistake

LEASE_HEADER = "X-Owlt-Lease"
API = 3
"""The version of the methods: counts up with each that is new, and with each change that breaks older clients."""
SHORTEST_TOKEN = 16
_LONGEST_TOKEN = 1000
_NEW_TOKEN = "python3 -c 'import secrets; print(secrets.token_hex())'"


@dataclass(frozen=True)
class Credentials:
    """The token and the lease that a request carries; None if it carries none."""

    token: str | None = None
    lease: str | None = None


def read_token(path: Path) -> str:
    """Return the token in a file. Raises ValueError if others may read the file, or if it has no token, and OSError."""
    with path.open(encoding="utf-8", errors="replace") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        token = file.read(_LONGEST_TOKEN + 2).strip()
    if mode & (stat.S_IRWXG | stat.S_IRWXO) and not _guarded_by_systemd(path):
        raise ValueError(
            f"token file {path}: others may read it (mode {mode:04o}); expected a file that only its owner can read: "
            f"chmod 600 {path}, and write a new token to it if others may have read it"
        )
    if not SHORTEST_TOKEN <= len(token) <= _LONGEST_TOKEN or not _goes_in_a_header(token):
        raise ValueError(
            f"token file {path}: expected one line of {SHORTEST_TOKEN} to {_LONGEST_TOKEN} ASCII characters without "
            f"spaces, got {len(token)} characters: {_NEW_TOKEN} > {path}"
        )
    return token


def credentials_of(headers: Message) -> Credentials:
    """Return the credentials in the headers of a request."""
    return Credentials(_token_of(headers.get("Authorization", "")), headers.get(LEASE_HEADER))


def check_token(expected: str | None, sent: str | None) -> None:
    """Raise NotAllowed unless the token is the expected one, or none is expected. Takes equally long for any token."""
    if expected is None:
        return
    if sent is None:
        raise NotAllowed(Mistake.of("token", "got none", "that of the service", "send 'Authorization: Bearer TOKEN'"))
    if not hmac.compare_digest(expected.encode(), sent.encode(errors="replace")):
        raise NotAllowed(Mistake.of("token", "got a wrong one", "that of the service, which is in its --token-file"))


def _token_of(authorization: str) -> str | None:
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return b64decode(value.strip(), validate=True).decode("utf-8", "replace").partition(":")[2]
        except (binascii.Error, ValueError):
            return None
    return None


def _goes_in_a_header(token: str) -> bool:
    return token.isascii() and token.isprintable() and " " not in token


def _guarded_by_systemd(path: Path) -> bool:
    """LoadCredential may give the file an access list, whose mask shows as the group's bits; the directory is the
    service's alone (systemd.exec(5)).
    """
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    return directory is not None and path.parent == Path(directory)

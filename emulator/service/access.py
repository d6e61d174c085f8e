"""Who may change the channel: whoever knows the token of the service, a secret in a file.

It comes with each HTTP request, as `Authorization: Bearer TOKEN`, or Basic with any user name and the token as
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

from emulator.faults import NotAllowed

LEASE_HEADER = "X-Owlt-Lease"
SHORTEST_TOKEN = 16
_LONGEST_TOKEN = 1000
_NEW_TOKEN = "python3 -c 'import secrets; print(secrets.token_hex())'"


@dataclass(frozen=True)
class Credentials:
    """What a request says of who sends it; None: nothing."""

    token: str | None = None
    lease: str | None = None


def read_token(path: Path) -> str:
    """Return the token in a file. Raises ValueError if others may read it, or if it is none, and OSError."""
    with path.open(encoding="utf-8", errors="replace") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        token = file.read(_LONGEST_TOKEN + 2).strip()
    if mode & (stat.S_IRWXG | stat.S_IRWXO) and not _guarded_by_systemd(path):
        raise ValueError(
            f"token file {path}: got mode {mode:04o}, wanted a file that its owner alone may read: chmod 600 {path}, "
            "and a new token in it if others may have read it"
        )
    if not SHORTEST_TOKEN <= len(token) <= _LONGEST_TOKEN or not _goes_in_a_header(token):
        raise ValueError(
            f"token file {path}: got {len(token)} characters, wanted one line of {SHORTEST_TOKEN} to {_LONGEST_TOKEN} "
            f"ASCII characters without spaces: {_NEW_TOKEN} > {path}"
        )
    return token


def credentials_of(headers: Message) -> Credentials:
    """Return what the headers of a request say."""
    return Credentials(_token_of(headers.get("Authorization", "")), headers.get(LEASE_HEADER))


def check_token(wanted: str | None, got: str | None) -> None:
    """Let pass who knows the token; everybody if there is none. Raises NotAllowed. The time taken tells nothing."""
    if wanted is None:
        return
    if got is None:
        raise NotAllowed("token: got none, wanted that of the service: send 'Authorization: Bearer TOKEN'")
    if not hmac.compare_digest(wanted.encode(), got.encode(errors="replace")):
        raise NotAllowed("token: got a wrong one, wanted that of the service, which is in its --token-file")


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

"""The receiver's key and self-signed certificate: made from the seed alone, so that runs repeat. Proves nothing."""

import hashlib
from datetime import UTC, datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509 import Certificate, CertificateBuilder, Name, NameAttribute
from cryptography.x509.oid import NameOID

BEGINS, ENDS = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)


def identity(seed: int) -> tuple[Certificate, Ed25519PrivateKey]:
    """Certificate and key. Ed25519, whose signatures are of one length and need no random numbers (RFC 8032)."""
    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"owlt {seed}".encode()).digest())
    name = Name([NameAttribute(NameOID.COMMON_NAME, "owlt receiver")])
    unsigned = (
        CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(BEGINS)
        .not_valid_after(ENDS)
    )
    return unsigned.sign(key, None), key

"""Seeds that follow from other seeds and from what they are for."""

import hashlib


def derived_seed(*parts: object) -> int:
    """A 31-bit seed that depends on every part and on nothing else."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1

"""Checksums of complete files as METADATA carries them: kind, code and length (draft-wood-tsvwg-saratoga-20,
METADATA)."""

import hashlib
import zlib
from io import BufferedReader

CODES = {"none": 0, "crc32": 1, "md5": 2, "sha1": 3}
"""Bits 28 to 31 of METADATA. The CRC-32 is that of IEEE 802.3, as the public implementations compute it."""

DIGEST_BYTES = {"none": 0, "crc32": 4, "md5": 16, "sha1": 20}

_BLOCK_BYTES = 1 << 20


def digest(file: BufferedReader, kind: str) -> bytes:
    """The checksum of a file, open at its begin, `DIGEST_BYTES[kind]` long."""
    if kind == "none":
        return b""
    if kind == "crc32":
        crc = 0
        while block := file.read(_BLOCK_BYTES):
            crc = zlib.crc32(block, crc)
        return crc.to_bytes(4)
    return hashlib.file_digest(file, lambda: hashlib.new(kind, usedforsecurity=False)).digest()

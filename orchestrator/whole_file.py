"""Files that are there whole or not at all, whenever somebody looks and however this machine ends."""

from __future__ import annotations

import errno
import os
from pathlib import Path

DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)


def write_whole(path: Path, text: str) -> Path:
    """Write a file by way of a draft beside it, and return its path."""
    draft = path.with_name(f".{path.name}.draft")
    with draft.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return draft.rename(path)

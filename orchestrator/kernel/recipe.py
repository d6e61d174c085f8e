"""What is made of a kernel source: the configuration fragment, the patches, and the digest of both."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

HERE = Path(__file__).parent
FRAGMENT = HERE / "guest.config"
PATCHES = sorted(HERE.glob("*.patch"))

RENAMED = {"CONFIG_PROC_SYSCTL": "CONFIG_SYSCTL"}
"""Options that a later kernel knows by another name; asked for under both."""


def digest() -> str:
    """Changes whenever the fragment or a patch does."""
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in [FRAGMENT, *PATCHES]]
    return hashlib.sha256("".join(sums).encode()).hexdigest()[:16]


def options_not_taken(fragment: str, config: str) -> list[str]:
    """The options that the fragment asks for and a finished configuration does not have."""
    have = set(re.findall(r"^(CONFIG_\w+)=y$", config, re.MULTILINE))
    asked = re.findall(r"^(CONFIG_\w+)=y$", fragment, re.MULTILINE)
    return [option for option in asked if option not in have and RENAMED.get(option) not in have]


def timer_hz(config: str) -> int:
    """The timer frequency of a finished configuration. It moves delayed acknowledgements and time-outs."""
    match = re.search(r"^CONFIG_HZ=(\d+)$", config, re.MULTILINE)
    return int(match[1]) if match else 100

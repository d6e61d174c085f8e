"""What is made of a kernel source: the configuration fragment, the patches, and the digest of both."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

HERE = Path(__file__).parent
FRAGMENT = HERE / "guest.config"
PATCHES = sorted(HERE.glob("*.patch"))

OPTIONAL_SECTION = "# Not every version knows these"


def digest() -> str:
    """Changes whenever the fragment or a patch does."""
    sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in [FRAGMENT, *PATCHES]]
    return hashlib.sha256("".join(sums).encode()).hexdigest()[:16]


def options_not_taken(fragment: str, config: str) -> list[str]:
    """What the fragment asks for and a finished configuration does not have, but for its optional section."""
    have = set(re.findall(r"^CONFIG_\w+=.*$", config, re.MULTILINE))
    required = fragment.partition(OPTIONAL_SECTION)[0]
    required_options = re.findall(r"^(CONFIG_\w+)=(.*)$", required, re.MULTILINE)
    return [
        f"{name}={value}"
        for name, value in required_options
        if (value != "n" and f"{name}={value}" not in have) or (value == "n" and f"{name}=y" in have)
    ]


def patch_choices(paths: list[Path]) -> list[list[Path]]:
    """The patches by purpose: of those that differ only in the version in their name the first that fits is
    applied, the newest before the others."""
    purposes: dict[str, list[Path]] = {}
    for path in paths:
        purposes.setdefault(re.sub(r"-\d+\.\d+$", "", path.stem), []).append(path)
    return [sorted(choices, key=_version, reverse=True) for _, choices in sorted(purposes.items())]


def timer_hz(config: str) -> int:
    """The timer frequency of a finished configuration. It moves delayed acknowledgements and time-outs."""
    match = re.search(r"^CONFIG_HZ=(\d+)$", config, re.MULTILINE)
    return int(match[1]) if match else 100


def _version(path: Path) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", path.stem)]

"""The virtual-time kernel as a value: where it is and what it can do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from orchestrator.clock import Clock

Observe = Callable[[str, float | None, str], None]
"""Told the phase of a build, how much of it is done (0 to 1, None when unknown), and a word on it."""


class Kernel(BaseModel):
    """A User-Mode Linux kernel that guests boot. What it can do was seen in a guest on this machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    version: str
    package: str
    """Debian's source package and its version, or the tarball it was built from."""
    recipe: str
    """The digest of the configuration fragment and the patches."""
    patches: list[str]
    """Those that fitted this version."""
    hz: int
    seccomp: bool
    """Whether guests run their programs under seccomp here; ptrace takes twice as long."""
    clocks: list[Clock]
    """Those on which a guest came up and time went as it should."""
    ends_spins: bool
    """Whether a program that loops until another has done something ends on the exact clock (the spin patch)."""
    netem_seed: bool
    """Whether netem takes a seed (Linux 6.7 and later)."""
    bpf: bool
    """Whether programs can be loaded with bpf(2)."""

    @property
    def told(self) -> str:
        """One line for people."""
        mode = "seccomp" if self.seccomp else "ptrace"
        return (
            f"Linux {self.version} ({self.package}), {mode}, {self.hz} Hz, clocks {', '.join(self.clocks)}, "
            f"patches {', '.join(self.patches) or 'none'}"
            + ("" if not self.lacks else f"; lacks {', '.join(self.lacks)}")
        )

    @property
    def lacks(self) -> list[str]:
        """What a better kernel would have, named."""
        wanted = {
            "seccomp mode (Linux 6.16)": self.seccomp,
            "netem's seed (Linux 6.7)": self.netem_seed,
            "an end to loops that wait (the spin patch)": self.ends_spins,
            "bpf()": self.bpf,
        }
        return [name for name, has in wanted.items() if not has]

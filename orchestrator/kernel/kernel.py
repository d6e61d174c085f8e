"""The virtual-time kernel as a value: where it is and what it can do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from owlt.agents.contract.implementation import Clock

Observe = Callable[[str, float | None, str], None]
"""Gets the phase of a kernel build, the part of it that is done (0 to 1, None if unknown), and a word on it."""


class Kernel(BaseModel):
    """A User-Mode Linux kernel that guests boot. Its features were tested in a guest on this machine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path
    version: str
    package: str
    """Debian's source package and its version, or the name of the tarball."""
    recipe: str
    """The digest of the configuration fragment and the patches."""
    patches: list[str]
    """The patches that apply to this version."""
    hz: int
    seccomp: bool
    """Whether guests run their programs in seccomp mode here; with ptrace they take twice as long."""
    clocks: list[Clock]
    """The clocks on which a guest starts and time passes correctly."""
    ends_spins: bool
    """Whether a program that busy-waits for another one ends on the exact clock (the spin patch)."""
    virtual_tsc: bool
    """Whether RDTSC and RDTSCP show virtual time on `exact` and `skip` (the tsc patch)."""
    templates: bool
    """Whether a prepared guest can be copied (the template patch); without it, every run boots a guest."""
    netem_seed: bool
    """Whether netem takes a seed (Linux 6.7 and later)."""
    bpf: bool
    """Whether programs can be loaded with bpf(2)."""

    @property
    def summary(self) -> str:
        """Version, features and missing features in one line."""
        mode = "seccomp" if self.seccomp else "ptrace"
        return (
            f"Linux {self.version} ({self.package}), {mode}, {self.hz} Hz, clocks {', '.join(self.clocks)}, "
            f"patches {', '.join(self.patches) or 'none'}"
            + ("" if not self.missing_features else f"; missing: {', '.join(self.missing_features)}")
        )

    @property
    def missing_features(self) -> list[str]:
        """The features that a better kernel has."""
        features = {
            "seccomp mode (Linux 6.16)": self.seccomp,
            "netem's seed (Linux 6.7)": self.netem_seed,
            "an end of busy-waiting (the spin patch)": self.ends_spins,
            "a time stamp counter of virtual time (the tsc patch)": self.virtual_tsc,
            "copies of a prepared guest (the template patch)": self.templates,
            "bpf()": self.bpf,
        }
        return [name for name, is_there in features.items() if not is_there]

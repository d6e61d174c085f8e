"""Third-party implementations that a package registry offers: what they are, whether they are installed, installing.

`installable` defines the files of profiles/third-party/ and `load` reads them, `places` defines where programs are
installed, `toolchains` finds the compilers, `installing` runs them. Launching an implementation belongs to
`agents.contract`.
"""

from __future__ import annotations

from owlt.orchestrator.third_party.installable import Installable
from owlt.orchestrator.third_party.installing import Installation, how_to_install, install
from owlt.orchestrator.third_party.load import all_installables, find_installables, load_installable
from owlt.orchestrator.third_party.places import home, is_installed, third_party_directory

__all__ = [
    "Installable",
    "Installation",
    "all_installables",
    "find_installables",
    "home",
    "how_to_install",
    "install",
    "is_installed",
    "load_installable",
    "third_party_directory",
]

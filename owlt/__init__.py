"""One-way light time: compares implementations of reliable space-link protocols over emulated channels.

For programs and notebooks: `load` results, `run` a sweep, `save` a figure that a `Table` has drawn (`owlt.analysis`).

In the repository the folders of this package are links to those at its top: a clone and an installation have the same
modules and the same data at the same place.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from owlt.analysis import Table, load, run, save

__all__ = ["PACKAGE", "Table", "load", "run", "save"]

PACKAGE = Path(__file__).parent
"""This package's directory: its modules, `profiles` and `playbooks`."""


def __getattr__(name: str) -> Any:
    """The interface of `owlt.analysis`, imported when it is used.

    Each endpoint imports this package, and on the exact clock every module that it imports delays its first packet.
    """
    if name not in __all__:
        raise AttributeError(f"module 'owlt' has no attribute {name!r}")
    from owlt import analysis

    return getattr(analysis, name)

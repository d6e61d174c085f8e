"""One-way light time: compares implementations of reliable space-link protocols over emulated channels.

In the repository the folders of this package are links to those at its top: a clone and an installation have the same
modules and the same data at the same place.
"""

from __future__ import annotations

from owlt.installation import PACKAGE

__all__ = ["PACKAGE"]

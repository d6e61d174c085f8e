"""Whether this host has what an implementation needs. Looks at the machine; changes nothing."""

import ctypes
import importlib.util
import shutil
from collections.abc import Iterable
from pathlib import Path

from owlt.agents.contract.requirements import Need


def unmet(needs: Iterable[Need]) -> list[Need]:
    """The needs that this host does not meet, in the order given. `need.fix` is the command that installs one."""
    return [need for need in needs if not _is_met(need)]


def _is_met(need: Need) -> bool:
    if need.file is not None:
        return Path(need.file).exists()
    if need.command is not None:
        return shutil.which(need.command) is not None
    if need.python_module is not None:
        return importlib.util.find_spec(need.python_module) is not None
    return need.library is not None and _loads(need.library)


def _loads(soname: str) -> bool:
    try:
        ctypes.CDLL(soname)
    except OSError:
        return False
    return True

"""Build commands of third parties: when root runs them, they cannot change or replace a device, such as /dev/null.

Compilers, linkers and their tests write to /dev/null, and some change the mode of their output or replace it with
another file. An ordinary user's commands cannot do this. Root's commands have a read-only /dev, in which programs can
still write to the devices.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

_READ_ONLY = "command -p mount --rbind /dev /dev && command -p mount -o remount,bind,ro /dev"
_SCRIPT = f"""command -p unshare --mount /bin/sh -c '{_READ_ONLY}' >/dev/null 2>&1 || exec "$@"
exec "$(command -pv unshare)" --mount /bin/sh -c '{_READ_ONLY} && exec "$@"' sh "$@\""""


def with_own_devices(command: Sequence[str]) -> list[str]:
    """The command; for root, in a mount namespace with a read-only /dev.

    The command's PATH does not need to contain the programs that are used here. If root may not mount, as in some
    containers, the command runs unchanged.
    """
    return ["/bin/sh", "-c", _SCRIPT, "sh", *command] if os.geteuid() == 0 else list(command)

"""Commands of others that compile: what root runs there cannot change or replace a device, such as /dev/null.

Compilers, linkers and their tests write to /dev/null, and some change the mode of what they wrote, or put another file
in its place. An ordinary user's commands cannot; root's get a /dev in which only the devices themselves can be written.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

_READ_ONLY = "command -p mount --rbind /dev /dev && command -p mount -o remount,bind,ro /dev"
_SCRIPT = f"""command -p unshare --mount /bin/sh -c '{_READ_ONLY}' >/dev/null 2>&1 || exec "$@"
exec "$(command -pv unshare)" --mount /bin/sh -c '{_READ_ONLY} && exec "$@"' sh "$@\""""


def with_own_devices(command: Sequence[str]) -> list[str]:
    """The command, for root in a mount namespace with a /dev that is read-only. Its PATH may have none of the programs
    that are used here. Where root may not mount, as in some containers, the command is unchanged.
    """
    return ["/bin/sh", "-c", _SCRIPT, "sh", *command] if os.geteuid() == 0 else list(command)

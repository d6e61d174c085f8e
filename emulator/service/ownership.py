"""One emulator a port: whoever serves it holds a socket of its name, which the kernel lets go when the process ends.

Abstract Unix sockets belong to a network namespace, as interfaces do (unix(7)).
"""

import errno
import socket
from collections.abc import Sequence

from emulator.faults import PortRefused
from emulator.kernel.ports import Port


def take(ports: Sequence[Port]) -> list[socket.socket]:
    """Return sockets that are to be kept as long as the ports are served.

    Raises PortRefused if another emulator serves one.
    """
    return [_taken(port) for port in ports]


def _taken(port: Port) -> socket.socket:
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(f"\0owlt-emulator-{port.index}")
    except OSError as error:
        held.close()
        if error.errno != errno.EADDRINUSE:
            raise
        raise PortRefused(
            f"port {port.name}: got an emulator that serves it already, wanted none: end that one first, or ask it"
        ) from None
    return held

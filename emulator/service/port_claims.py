"""One emulator for each port: it holds a socket named after the port, which the kernel releases when the process ends.

Abstract Unix sockets belong to a network namespace, as interfaces do (unix(7)).
"""

import errno
import socket
from collections.abc import Sequence

from owlt.emulator.faults import PortRefused
from owlt.emulator.kernel.ports import Port
from owlt.inputs.mistake import Mistake


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
        problem, fix = "got an emulator that serves it already", "end that one first, or use it"
        raise PortRefused(Mistake.of(f"port {port.name}", problem, "none", fix)) from None
    return held

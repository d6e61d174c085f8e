"""A socket to the kernel's routing netlink, from pyroute2, without loading the rest of pyroute2.

The package's front imports every protocol it speaks (nftables, WLAN, a database of interfaces), half of its
start-up time, and the service starts in every guest. So its submodules are loaded below an empty package,
which is then removed again: a later import of pyroute2 gets all of it.
"""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def _front_left_out(package: str) -> Iterator[None]:
    spec = importlib.util.find_spec(package) if package not in sys.modules else None
    if spec is None:
        yield
        return
    sys.modules[package] = importlib.util.module_from_spec(spec)
    try:
        yield
    finally:
        del sys.modules[package]


with _front_left_out("pyroute2"):
    from pyroute2.iproute.linux import IPRoute
    from pyroute2.netlink import nla
    from pyroute2.netlink.exceptions import NetlinkError
    from pyroute2.netlink.rtnl import tcmsg

__all__ = ["IPRoute", "NetlinkError", "nla", "open_rtnetlink", "tcmsg"]


def open_rtnetlink() -> IPRoute:
    """Return a new socket (a context manager) in the caller's network namespace; errors carry the kernel's words.

    Opening one takes a third of a millisecond, so each operation opens its own: a socket belongs to its thread.
    """
    return IPRoute(ext_ack=True)

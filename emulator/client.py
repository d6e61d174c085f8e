"""The other end of the emulator service: channels in and out, errors as the exceptions of `faults`."""

import time
import xmlrpc.client
from http.client import HTTPConnection, HTTPException
from typing import Any

from defusedxml import DefusedXmlException
from defusedxml.xmlrpc import monkey_patch

from emulator.channel import ChannelSpec
from emulator.faults import EmulatorError, EmulatorUnreachable, error_from_fault

_PAUSE_S = 0.01

monkey_patch()


class EmulatorClient:
    """Calls the emulator at a URL such as http://10.78.0.3:8765. One client serves one thread.

    Every method raises EmulatorUnreachable if no answer comes within `timeout_s`.
    """

    def __init__(self, url: str, timeout_s: float = 10.0) -> None:
        self.url = url
        self._timeout_s = timeout_s
        self._transport = _Transport(use_builtin_types=True)
        self._proxy = xmlrpc.client.ServerProxy(url, self._transport, use_builtin_types=True)

    def configure(self, channel: ChannelSpec) -> ChannelSpec:
        """Apply a channel in place of the one before; return it as the kernel has it, compared by the service.

        It differs from the one asked for only where the kernel counts more coarsely: the rate in bytes a
        second, the error rate in 32 bits. Raises ChannelRefused.
        """
        return ChannelSpec.from_wire(self._call("configure", channel.to_wire()))

    def describe(self) -> ChannelSpec:
        """Return the channel that the kernel has at this moment."""
        return ChannelSpec.from_wire(self._call("describe"))

    def clear(self) -> None:
        """Take the channel away; all that is in flight is lost."""
        self._call("clear")

    def statistics(self) -> dict[str, dict[str, dict[str, int]]]:
        """Return the counters since the channel was applied: by direction, stage (bottleneck, pipe) and name."""
        return {
            direction: {
                stage: {name: int(value) for name, value in counters.items()} for stage, counters in stages.items()
            }
            for direction, stages in self._call("statistics").items()
        }

    def capabilities(self) -> dict[str, Any]:
        """Return what the emulator's kernel can do: each capability's `available`, and the `reason` if not."""
        return dict(self._call("capabilities"))

    def version(self) -> dict[str, Any]:
        """Return the versions of owlt, of the interface and of the kernel at the emulator."""
        return dict(self._call("version"))

    def wait_until_ready(self, deadline_s: float) -> None:
        """Return as soon as the service answers; EmulatorUnreachable if it does not within `deadline_s`."""
        end_s = time.monotonic() + deadline_s
        while True:
            try:
                self._call("version", timeout_s=max(end_s - time.monotonic(), _PAUSE_S))
                return
            except EmulatorUnreachable as error:
                if time.monotonic() >= end_s:
                    raise EmulatorUnreachable(f"waited {deadline_s:g} s: {error}") from None
                time.sleep(_PAUSE_S)

    def _call(self, method: str, *parameters: Any, timeout_s: float | None = None) -> Any:
        self._transport.timeout_s = timeout_s if timeout_s is not None else self._timeout_s
        try:
            return getattr(self._proxy, method)(*parameters)
        except xmlrpc.client.Fault as fault:
            raise error_from_fault(fault.faultCode, fault.faultString) from None
        except (OSError, HTTPException) as error:
            step = "is the service running, and is this its address?"
            raise EmulatorUnreachable(f"emulator at {self.url}: no answer to {method}: {error}; {step}") from error
        except (xmlrpc.client.Error, DefusedXmlException, SyntaxError, ValueError) as error:
            raise EmulatorError(f"emulator at {self.url}: got no XML-RPC answer to {method}: {error}") from error


class _Transport(xmlrpc.client.Transport):
    """HTTP with a time-out for connecting and for each wait."""

    timeout_s: float = 0.0

    def make_connection(self, host: Any) -> HTTPConnection:
        connection = super().make_connection(host)
        connection.timeout = self.timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(self.timeout_s)
        return connection

"""What can go wrong, as exceptions that stay what they are across XML-RPC: each has a fault code that never changes.

    EmulatorError
    +-- ChannelRefused            the channel is not applied
    |   +-- InvalidChannel        ... because what was asked makes no sense; the channel before is still there
    |   +-- PortRefused           ... because an interface is not the emulator's to shape; nothing was touched
    +-- ServiceStopped            the service is clearing up to end
    +-- EmulatorUnreachable       no answer (raised by the client only)

The codes below -32000 are those of "Specification for Fault Code Interoperability" (D. Libby, 2001).
"""

from typing import ClassVar

NOT_WELL_FORMED = -32700
UNKNOWN_METHOD = -32601
INVALID_PARAMETERS = -32602
INTERNAL_ERROR = -32603


class EmulatorError(Exception):
    """Something that the emulator could not do. The text says what was got, what was wanted and what to do next."""

    code: ClassVar[int] = INTERNAL_ERROR


class ChannelRefused(EmulatorError):
    """The kernel did not take the channel. Neither it nor the one before is in force: packets pass unimpaired."""

    code = 1


class InvalidChannel(ChannelRefused, ValueError):
    """What was asked for is no channel: an unknown key, a wrong type, a value out of range."""

    code = INVALID_PARAMETERS


class PortRefused(ChannelRefused):
    """A port is not there or not the emulator's to shape: it has an address, a default route or a foreign qdisc."""

    code = 2


class ServiceStopped(EmulatorError):
    """The service was told to end and takes no more channels."""

    code = 3


class EmulatorUnreachable(EmulatorError):
    """No service answers at the address."""


_BY_CODE = {error.code: error for error in (ChannelRefused, InvalidChannel, PortRefused, ServiceStopped)}


def error_from_fault(code: int, text: str) -> EmulatorError:
    """Return the exception that a fault stands for; an unknown code gives a plain EmulatorError."""
    return _BY_CODE.get(code, EmulatorError)(text)

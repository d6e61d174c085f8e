"""What can go wrong, as exceptions that stay what they are across XML-RPC: each has a fault code that never changes.

    EmulatorError
    +-- ChannelRefused            the channel is not applied
    |   +-- InvalidChannel        ... because what was asked makes no sense; the channel before is still there
    |   +-- PortRefused           ... because an interface is not the emulator's to shape; nothing was touched
    |   +-- NotCapable            ... because this kernel lacks what it needs
    +-- TimelineError             there is no timeline, or one is running
    +-- ServiceStopped            the service is clearing up to end
    +-- NotAllowed                the token is missing or wrong
    +-- LeaseHeld                 somebody else holds the emulator
    +-- LeaseLost                 the lease named is unknown or has ended
    +-- InvalidLease              what was asked for is no lease
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


class NotAllowed(EmulatorError):
    """The call changes something, and came without the service's token or with a wrong one. Nothing has changed."""

    code = 4


class LeaseHeld(EmulatorError):
    """Somebody else holds the emulator, or a call of somebody before is still running. Nothing has changed."""

    code = 5


class LeaseLost(EmulatorError):
    """The lease named is unknown, was released or has expired; if it expired, the channel was cleared."""

    code = 6


class NotCapable(ChannelRefused):
    """The emulator's kernel lacks what the channel needs. Neither it nor the one before is in force."""

    code = 7


class TimelineError(EmulatorError):
    """There is no timeline to start, or one is running that must be stopped first. Nothing has changed."""

    code = 8


class InvalidLease(EmulatorError, ValueError):
    """What was asked for is no lease: a holder without a name, no time or too long a one."""

    code = 9


class EmulatorUnreachable(EmulatorError):
    """No service answers at the address."""


_RAISED = (
    *(ChannelRefused, InvalidChannel, PortRefused, ServiceStopped, NotAllowed, LeaseHeld, LeaseLost),
    *(NotCapable, TimelineError, InvalidLease),
)
CODES: dict[int, type[EmulatorError]] = {error.code: error for error in _RAISED}
"""Every code that stands for an exception of its own; the four above and any other are a plain EmulatorError."""


def error_from_fault(code: int, text: str) -> EmulatorError:
    """Return the exception that a fault stands for; an unknown code gives a plain EmulatorError."""
    return CODES.get(code, EmulatorError)(text)

"""The errors of the emulator, as exceptions that XML-RPC preserves: each has a fault code that never changes.

    EmulatorError
    +-- ChannelRefused            the channel is not applied
    |   +-- InvalidChannel        ... because the specification is wrong; the channel before is still there
    |   +-- PortRefused           ... because an interface is not the emulator's to shape; nothing was touched
    |   +-- NotCapable            ... because this kernel does not support it
    +-- TimelineError             there is no timeline, or one is running
    +-- FaultsNotReplaced         other faults cannot take the place of the started ones
    +-- ServiceStopped            the service is stopping
    +-- NotAllowed                the token is missing or wrong
    +-- LeaseHeld                 another client holds the emulator
    +-- LeaseLost                 the lease is unknown or has ended
    +-- InvalidLease              the specification of a lease is wrong
    +-- EmulatorUnreachable       no answer (raised by the client only)

The codes below -32000 are those of "Specification for Fault Code Interoperability" (D. Libby, 2001).
"""

from typing import ClassVar

from owlt.inputs.mistake import Invalid, MistakeError

NOT_WELL_FORMED = -32700
UNKNOWN_METHOD = -32601
INVALID_PARAMETERS = -32602
INTERNAL_ERROR = -32603


class EmulatorError(MistakeError):
    """Something that the emulator could not do. Over XML-RPC it is its text; the client has that as one mistake."""

    code: ClassVar[int] = INTERNAL_ERROR


class ChannelRefused(EmulatorError):
    """The kernel refused the channel. Neither it nor the previous one is in force: packets pass unimpaired."""

    code = 1


class InvalidChannel(ChannelRefused, Invalid):
    """The specification is not a channel: an unknown key, a wrong type, a value out of range."""

    code = INVALID_PARAMETERS


class PortRefused(ChannelRefused):
    """A port does not exist, or is used for something else: it has an address, a default route or a foreign qdisc."""

    code = 2


class ServiceStopped(EmulatorError):
    """The service is ending and accepts no more channels."""

    code = 3


class NotAllowed(EmulatorError):
    """A call that changes something has no token or a wrong one. Nothing has changed."""

    code = 4


class LeaseHeld(EmulatorError):
    """Another client holds the emulator, or its last call is still running. Nothing has changed."""

    code = 5


class LeaseLost(EmulatorError):
    """The lease is unknown, was released or has expired; if it expired, the channel was cleared."""

    code = 6


class NotCapable(ChannelRefused):
    """The emulator's kernel does not support the channel. Neither it nor the one before is in force."""

    code = 7


class TimelineError(EmulatorError):
    """There is no timeline to start, or one is running that must be stopped first. Nothing has changed."""

    code = 8


class InvalidLease(EmulatorError, ValueError):
    """The specification of a lease is wrong: a holder without a name, no duration or one that is too long."""

    code = 9


class FaultsNotReplaced(EmulatorError):
    """The started faults have counted a packet, or do not count packets of a new one's class. Nothing has changed."""

    code = 10


class EmulatorUnreachable(EmulatorError):
    """No service answers at the address."""


_RAISED = (
    *(ChannelRefused, InvalidChannel, PortRefused, ServiceStopped, NotAllowed, LeaseHeld, LeaseLost),
    *(NotCapable, TimelineError, InvalidLease, FaultsNotReplaced),
)
CODES: dict[int, type[EmulatorError]] = {error.code: error for error in _RAISED}
"""The exception of each code; the four codes above and any other are a plain EmulatorError."""


def error_from_fault(code: int, text: str) -> EmulatorError:
    """Return the exception of a fault; an unknown code gives a plain EmulatorError."""
    return CODES.get(code, EmulatorError)(text)

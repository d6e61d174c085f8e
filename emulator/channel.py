"""What is asked of a channel: one link each way, checked when it is made, in units that never change.

How the kernel is told is left to `stages` and `netem`; how people write a delay or a rate, to `quantities`.
"""

from collections.abc import Mapping
from reprlib import repr as short_repr
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from emulator.faults import InvalidChannel

LONGEST_DELAY_NS = 24 * 3600 * 10**9
SLOWEST_RATE_BPS = 8.0
"""One byte a second: netem counts whole bytes, and takes zero for "no limit"."""
FASTEST_RATE_BPS = 1e12
LARGEST_SEED = 2**53 - 1
"""What a double, and so XML-RPC, carries exactly."""
SMALLEST_ERROR_RATE = 2 / 2**32
"""netem draws 32 bits for every packet and damages it if they are not above a threshold; 0 means "never"."""

_INTEGERS = ("delay_ns", "queue_packets", "seed")


def _expressible(packet_error_rate: float) -> float:
    if 0 < packet_error_rate < SMALLEST_ERROR_RATE:
        raise ValueError(f"0 or at least {SMALLEST_ERROR_RATE:.3g}, the smallest that netem can draw")
    return packet_error_rate


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class LinkSpec(_Value):
    """One direction of a channel. As it stands it does nothing: no delay, no limit, no errors."""

    delay_ns: int = Field(default=0, ge=0, le=LONGEST_DELAY_NS)
    """Propagation delay: from the last bit into the link to the last bit out of it."""

    rate_bps: float | None = Field(default=None, ge=SLOWEST_RATE_BPS, le=FASTEST_RATE_BPS)
    """Bit rate, counting whole Ethernet frames without the checksum; None: unlimited."""

    packet_error_rate: Annotated[float, AfterValidator(_expressible)] = Field(default=0.0, ge=0, le=1)
    """Probability that one bit of a frame, headers included, is flipped (a packet's, not a bit's)."""

    queue_packets: int = Field(default=1000, ge=1, le=2**31 - 1)
    """Places before the rate limit, the packet being sent included; without a rate it means nothing."""

    seed: int | None = Field(default=None, ge=0, le=LARGEST_SEED)
    """Which packets are hit (not which bit): the same seed, the same packets, on Linux 6.7 and later.
    None: the kernel draws one. Without errors it means nothing."""

    @property
    def unimpaired(self) -> bool:
        """True if packets pass as they come."""
        return self.delay_ns == 0 and self.rate_bps is None and self.packet_error_rate == 0


class ChannelSpec(_Value):
    """Both directions: forward is from the sender's port to the receiver's, reverse the way back."""

    forward: LinkSpec = LinkSpec()
    reverse: LinkSpec = LinkSpec()

    @property
    def unimpaired(self) -> bool:
        """True if nothing is asked for in either direction, so that the kernel needs to do nothing."""
        return self.forward.unimpaired and self.reverse.unimpaired

    def to_wire(self) -> dict[str, dict[str, int | float]]:
        """Return plain values that XML-RPC carries exactly.

        Its integers end at 2^31 - 1, so all but `queue_packets` travel as doubles; None is left out.
        """
        return {
            direction: {name: value if name == "queue_packets" else float(value) for name, value in link.items()}
            for direction, link in self.model_dump(exclude_none=True).items()
        }

    @classmethod
    def from_wire(cls, wire: object) -> Self:
        """Return the channel that `to_wire` wrote.

        Raises InvalidChannel, which names every key that is wrong, what was got and what was wanted.
        """
        try:
            return cls.model_validate(_with_integers(wire))
        except ValidationError as error:
            raise InvalidChannel("; ".join(map(_told, error.errors()))) from None


def _with_integers(wire: object) -> object:
    """Turn the doubles that stand for integers back; whatever is wrong stays for the model to judge."""
    if not isinstance(wire, Mapping):
        return wire
    return {direction: _link_with_integers(link) for direction, link in wire.items()}


def _link_with_integers(link: object) -> object:
    if not isinstance(link, Mapping):
        return link
    return {
        name: int(value) if name in _INTEGERS and isinstance(value, float) and value.is_integer() else value
        for name, value in link.items()
    }


def _told(error: Any) -> str:
    where = ".".join(map(str, error["loc"])) or "channel"
    wanted = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    if error["type"] == "extra_forbidden":
        known = LinkSpec.model_fields if len(error["loc"]) > 1 else ChannelSpec.model_fields
        wanted = f"no such key but {', '.join(known)}"
    return f"{where}: got {short_repr(error['input'])}, wanted {wanted}"

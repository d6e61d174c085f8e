"""Which frames a link takes at its entrance: how long they may be, and how long they may wait."""

from dataclasses import dataclass

ETHERNET_HEADER_BYTES = 14


@dataclass(frozen=True)
class Admission:
    """The rule of a link's entrance; None if there is none.

    `queue_ns` is how far ahead of now the link may be busy after it took a frame; an idle link takes any. A frame
    keeps it busy for its bytes and the overhead at `rate_bytes_per_s`; without a rate (0) it is never busy.
    """

    mtu_bytes: int | None
    queue_ns: int | None
    rate_bytes_per_s: int
    overhead_bytes: int = 0

    def __post_init__(self) -> None:
        """Refuse what is no rule."""
        for name in ("mtu_bytes", "queue_ns", "rate_bytes_per_s", "overhead_bytes"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"admission: {name}: expected 0 or more, got {value}")

    @property
    def longest_frame_bytes(self) -> int | None:
        """A frame with its Ethernet header and without its checksum."""
        return None if self.mtu_bytes is None else self.mtu_bytes + ETHERNET_HEADER_BYTES

    def serialization_ns(self, frame_bytes: int) -> int:
        """Return how long a frame keeps the link busy, as netem has it: cut off, not rounded."""
        if not self.rate_bytes_per_s:
            return 0
        return (frame_bytes + self.overhead_bytes) * 10**9 // self.rate_bytes_per_s

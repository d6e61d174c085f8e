"""A point of a sweep's grid, of which a plan has the runs and a record one."""

from __future__ import annotations

from math import inf

from pydantic import BaseModel, ConfigDict

from owlt.inputs.axes import AXES
from owlt.inputs.quantities import (
    UNLIMITED,
    IpVersion,
    format_delay,
    format_rate,
    format_rate_or_unlimited,
    format_size,
)


def duration_text(duration_ns: int) -> str:
    """A duration for which data is sent, in s: ten minutes are "600 s"."""
    return f"{duration_ns / 10**9:.6g} s"


def size_text(size_bytes: int) -> str:
    """A size in decimal units: 100,000 bytes are 100 kB."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.6g} {unit}"
    return f"{size_bytes} B"


FASTEST_BPS = 1e9
"""The rate of the hosts' interfaces in a rig, which limits a channel of unlimited rate."""


class Permutation(BaseModel):
    """One point of the grid: a box in a plot. `rate_bps` None is an unlimited channel.

    Of a channel that has a name, rate, delay and packet error rate are those of its forward link at the beginning.
    Those of the reverse link are None where they are the forward link's, or the sweep leaves them to the profile; an
    unlimited rate of its own is infinite.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    implementation: str
    file_size_bytes: int | None = None
    """None if data is sent for a duration."""
    duration_ns: int | None = None
    """None if a file is sent."""
    channel_name: str = ""
    ip: IpVersion = 4
    """The version of IP on the test path."""
    rate_bps: float | None
    reverse_rate_bps: float | None = None
    delay_ns: int
    reverse_delay_ns: int | None = None
    packet_error_rate: float
    reverse_packet_error_rate: float | None = None

    @property
    def without_errors(self) -> Permutation:
        """The point with a packet error rate of 0; programs that are given no error rate start at both alike."""
        return self.model_copy(update={"packet_error_rate": 0.0, "reverse_packet_error_rate": None})

    @property
    def load(self) -> int:
        """The size of the file in bytes, or the duration in ns: a sweep has one of them."""
        return self.duration_ns if self.duration_ns is not None else self.file_size_bytes or 0

    @property
    def load_text(self) -> str:
        """The load in words: the size, "100 kB", or the duration, "600 s"."""
        return size_text(self.load) if self.duration_ns is None else duration_text(self.duration_ns)

    @property
    def most_bytes(self) -> int:
        """The size of the file; without one, what the channel carries in the duration, or the hosts' interfaces."""
        if self.duration_ns is None:
            return self.file_size_bytes or 0
        return int((self.rate_bps or FASTEST_BPS) / 8 * self.duration_ns / 1e9)

    @property
    def slug(self) -> str:
        """The permutation as a file name, for users; no code parses it."""
        return f"{self.implementation}_{self.cell}"

    @property
    def cell(self) -> str:
        """The point of the grid that it shares with other implementations, as a part of a file name."""
        exact = format_size(self.load) if self.duration_ns is None else format_delay(self.duration_ns)
        load = exact.replace(" ", "")
        channel = f"{self.channel_name}_" if self.channel_name else ""
        channel += "" if self.ip == 4 else f"ipv{self.ip}_"
        errors = f"_per{self.packet_error_rate:g}" if self.packet_error_rate or not self.channel_name else ""
        back = "".join(f"_reverse-{text}" for text in self.reverse_texts)
        slug = f"{load}_{channel}{format_rate_or_unlimited(self.rate_bps)}_{format_delay(self.delay_ns)}{errors}{back}"
        return slug.replace("bit/s", "bps").replace("PER ", "per").replace(" ", "")

    @property
    def reverse_texts(self) -> list[str]:
        """The values of the reverse link that are its own, as in a sweep file: "64 kbit/s", "10 ms", "PER 0"."""
        rate_bps, delay_ns, error_rate = self.reverse_rate_bps, self.reverse_delay_ns, self.reverse_packet_error_rate
        return [
            *([] if rate_bps is None else [UNLIMITED if rate_bps == inf else format_rate(rate_bps)]),
            *([] if delay_ns is None else [format_delay(delay_ns)]),
            *([] if error_rate is None else [f"PER {error_rate:g}"]),
        ]

    def places(self, *keys: str) -> tuple[float, ...]:
        """The values on some axes of the links, for an order of points; no value is the highest."""
        return tuple(inf if (value := AXES[key].of(self)) is None else value for key in keys)

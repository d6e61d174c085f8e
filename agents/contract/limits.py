"""Limits of a run of an implementation: its time, its space, and conditions that it does not support."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from owlt.agents.contract.pairing import Parameter
from owlt.agents.contract.placeholders import as_text
from owlt.agents.contract.side import Number, Text, Value
from owlt.inputs.quantities import IpVersion


class TimeLimit(Value):
    """The longest duration of a run: `rtts` round trips, `file_times` ideal transfers and `extra_s` seconds.

    A run for a given time has that time in place of the transfers.
    """

    rtts: Annotated[Number, Field(description="a number of round trips at the propagation delay")]
    file_times: Annotated[
        Number, Field(description="a number: multiples of the file's transmission time at the channel's rate")
    ]
    extra_s: Annotated[
        Number, Field(description="a number of additional seconds, for timers that do not depend on the channel")
    ]

    def deadline_s(
        self, rtt_s: float, file_size_bytes: int | None, rate_bps: float | None, duration_s: float = 0.0
    ) -> float:
        """Seconds of run time. An unlimited rate adds nothing for the file."""
        file_time_s = 8 * file_size_bytes / rate_bps if rate_bps and file_size_bytes else 0.0
        return self.rtts * rtt_s + self.file_times * file_time_s + duration_s + self.extra_s


class Limits(Value):
    """What the implementation cannot do: a run beyond these limits is "unsupported", and nothing is launched."""

    largest_file_bytes: int | None = Field(
        default=None, ge=1, description="size of the largest file that it accepts, in bytes; default: no limit"
    )
    slowest_rate_bps: Number | None = Field(
        default=None, description="lowest rate of the forward channel, in bit/s; default: no limit"
    )
    longest_one_way_delay_s: Number | None = Field(
        default=None, description="longest delay of the forward channel, in s; default: no limit"
    )
    ip_versions: tuple[IpVersion, ...] = Field(
        default=(4,), min_length=1, description="versions of IP that it can use; default: [4]"
    )

    def exceeded(
        self, file_size_bytes: int | None, rate_bps: float | None, one_way_delay_s: float, ip: int = 4
    ) -> str | None:
        """Why a run is beyond the limits; None if it is within. `file_size_bytes` None: it sends no file."""
        if ip not in self.ip_versions:
            known = " and ".join(f"IPv{version}" for version in self.ip_versions)
            return f"IPv{ip}; the profile's ip_versions are {known}"
        largest_bytes = self.largest_file_bytes
        if file_size_bytes is not None and largest_bytes is not None and file_size_bytes > largest_bytes:
            return f"a file of {file_size_bytes} bytes; the profile's largest_file_bytes is {largest_bytes}"
        if self.slowest_rate_bps is not None and rate_bps is not None and rate_bps < self.slowest_rate_bps:
            return f"{rate_bps:g} bit/s; the profile's slowest_rate_bps is {self.slowest_rate_bps:g}"
        if self.longest_one_way_delay_s is not None and one_way_delay_s > self.longest_one_way_delay_s:
            longest_s = self.longest_one_way_delay_s
            return f"{one_way_delay_s:g} s one way; the profile's longest_one_way_delay_s is {longest_s:g}"
        return None


Failure = Literal[
    "part_of_file",
    "wrong_file",
    "no_file",
    "unusable_file",
    "ended_early",
    "nothing_reported",
    "not_ready",
    "exited",
    "reported_failure",
    "killed",
    "flooded",
    "time_limit",
    "hung",
]
"""Reason codes of runs that fail because of the implementation: see `results.record`."""
INCOMPLETE_TRANSFER: tuple[Failure, ...] = ("part_of_file", "no_file", "time_limit")


class KnownLimit(Value):
    """Conditions under which the implementation is known to fail, how, and why. All that are given must be met."""

    why: Annotated[Text, Field(description="the reason, a sentence")]
    fails_with: tuple[Failure, ...] = Field(
        default=INCOMPLETE_TRANSFER,
        min_length=1,
        description="reason codes of the failures that it explains; default: part_of_file, no_file, time_limit",
    )
    file_bytes_above: Number | None = Field(
        default=None, description="it fails with files larger than this, in bytes; default: any size"
    )
    one_way_delay_s_above: Number | None = Field(
        default=None, description="it fails if the forward channel's delay is longer, in s; default: any delay"
    )
    packet_error_rate_above: Number | None = Field(
        default=None, description="it fails if the forward channel loses more, 0 to 1; default: any rate"
    )
    parameters: dict[Text, list[Parameter]] = Field(
        default={}, description="it fails if each of these parameters has one of these values; default: any values"
    )
    side: Literal["sender", "receiver"] | None = Field(
        default=None, description="the side that fails, for pairs with the other side; default: either"
    )

    def covers(
        self,
        code: str | None,
        file_size_bytes: int | None,
        one_way_delay_s: float,
        packet_error_rate: float,
        parameters: Mapping[str, Parameter],
    ) -> bool:
        """Whether a run with these conditions failed in this way."""
        bounds = (
            (self.file_bytes_above, file_size_bytes or 0),
            (self.one_way_delay_s_above, one_way_delay_s),
            (self.packet_error_rate_above, packet_error_rate),
        )
        is_beyond = all(bound is None or value > bound for bound, value in bounds)
        return code in self.fails_with and is_beyond and self.applies_to(parameters)

    def applies_to(self, parameters: Mapping[str, Parameter]) -> bool:
        """Whether an implementation with these parameters has the limit."""
        return all(
            name in parameters and as_text(parameters[name]) in map(as_text, values)
            for name, values in self.parameters.items()
        )


class Space(Value):
    """How much a side may write into its run directory: a multiple of the file size, plus a number of bytes."""

    file_sizes: Annotated[Number, Field(description="space for this many times the file size; default: 3")] = 3.0
    extra_bytes: Annotated[int, Field(ge=1, description="plus this many bytes; default: 64000000")] = 64_000_000

    def bytes_for(self, file_size_bytes: int) -> int:
        """The size of the run directory for a file."""
        return int(self.file_sizes * file_size_bytes) + self.extra_bytes

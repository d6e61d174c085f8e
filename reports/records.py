"""The files of a results directory that a report reads, checked: the plan, a run's record, a channel's certificate.

Only what a report needs is named here; whatever else the orchestrator writes is left unread.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

Outcome = Literal["completed", "incomplete", "corrupt", "unsupported", "failed", "timed_out", "aborted"]


class ReportError(Exception):
    """A results directory from which no report can be made; its text says what to do."""


class DamagedFile(ReportError):
    """A file that cannot be read, whichever version of owlt wrote it."""


class _FromFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    @classmethod
    def read(cls, path: Path) -> Self:
        """The value in a JSON file. Raises FileNotFoundError when there is none, DamagedFile when it cannot be read,
        ReportError, naming the file and the key, when another version of owlt wrote it."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise
        except OSError as problem:
            raise DamagedFile(f"{path}: damaged ({problem.strerror})") from None
        except ValidationError as problem:
            first = problem.errors()[0]
            if not first["loc"]:
                raise DamagedFile(f"{path}: damaged ({first['msg']})") from None
            where = ".".join(map(str, first["loc"]))
            raise ReportError(
                f"{path}: {where}: {first['msg']}; make the report with the version of owlt that wrote it"
            ) from None


class Permutation(_FromFile):
    """One point of the grid: a box in a plot. `rate_bps` None is an unlimited channel.

    Of a channel that has a name, rate, delay and packet error rate are those of its forward link at the beginning.
    """

    implementation: str
    file_size_bytes: int
    channel_name: str = ""
    rate_bps: float | None
    delay_ns: int
    packet_error_rate: float


class PlannedRun(_FromFile):
    """One repetition that was asked for."""

    run_id: str
    permutation: Permutation
    channel_key: str


class _Batch(_FromFile):
    runs: tuple[PlannedRun, ...]


class Sweep(_FromFile):
    """What the user asked for, as far as a report names it.

    Where `channel` names profiles, rate, delay and packet error rate that are None are each channel's own.
    """

    name: str
    title: str = ""
    seed: int
    implementations: tuple[str, ...]
    repetitions: int
    channel: tuple[str, ...] | None = None
    rate: tuple[str, ...] | None = None
    delay: tuple[str, ...] | None = None
    packet_error_rate: tuple[float, ...] | None = None
    parameters: dict[str, dict[str, Any]] = {}
    """Of implementations, by name: the parameters that it gives or varies."""
    queue_packets: int | None = None
    certify: bool = True

    @property
    def channel_names(self) -> tuple[str, ...]:
        """The names of the channels in their order; () where rate, delay and packet error rate make them."""
        return tuple(dict.fromkeys(re.sub(r".*/|\.ya?ml$", "", name) for name in self.channel or ()))


class Step(_FromFile):
    """What changes with a channel, and when, in the written form."""

    at: str
    forward: dict[str, Any] = {}
    reverse: dict[str, Any] = {}


class Timeline(_FromFile):
    """How a channel changes; `loop_after` None: its last step is held."""

    steps: tuple[Step, ...]
    loop_after: str | None = None


class WrittenChannel(_FromFile):
    """What was asked of a channel, in the written form: what a link does not do is left out."""

    forward: dict[str, Any] = {}
    reverse: dict[str, Any] = {}
    bypass: bool = False
    timeline: Timeline | None = None


class Check(_FromFile):
    """One quantity of one direction. `low` and `high` enclose what the channel may be, given what was measured."""

    direction: str
    quantity: str
    """With its unit at the end, after a comma, if it has one."""
    verdict: Literal["ok", "failed", "not measured"]
    asked: float | None = None
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    count: int = 0
    reason: str = ""
    detectable_low: float | None = None
    """With `detection_probability` the sample finds this value and any below wrong; `detectable_high`: any above."""
    detectable_high: float | None = None
    detection_probability: float | None = None
    aim_low: float | None = None
    """What the sample was to find wrong, where its size was chosen for that."""
    aim_high: float | None = None

    @property
    def falls_short(self) -> bool:
        """Whether the sample finds less wrong than it was to."""
        low, high = self.detectable_low, self.detectable_high
        return self.verdict != "not measured" and (
            (self.aim_low is not None and (low is None or low < self.aim_low * (1 - 1e-6)))
            or (self.aim_high is not None and (high is None or high > self.aim_high * (1 + 1e-6)))
        )


class Certificate(_FromFile):
    """certificates/KEY.json: what a channel was measured to be before its first run.

    `alpha` is with which probability at most a channel that is as asked would have failed.
    """

    verdict: Literal["ok", "failed", "incomplete"]
    checks: tuple[Check, ...]
    kernel: str
    alpha: float


NOT_DELIVERED = ("failed", "timed_out", "incomplete", "corrupt")
"""Outcomes that a build can be known for; the others but "completed" are the rig's, or the profile's."""


class Limits(_FromFile):
    """Beyond what a build is not launched: its runs there are unsupported."""

    largest_file_bytes: int | None = None
    slowest_rate_bps: float | None = None
    longest_one_way_delay_s: float | None = None


class KnownLimit(_FromFile):
    """Where a build is launched and known to fail, and why: beyond all that is given."""

    why: str
    file_bytes_above: float | None = None
    one_way_delay_s_above: float | None = None
    packet_error_rate_above: float | None = None

    def covers(self, point: Permutation) -> bool:
        """Whether a point of the grid lies there."""
        bounds = (
            (self.file_bytes_above, point.file_size_bytes),
            (self.one_way_delay_s_above, point.delay_ns / 1e9),
            (self.packet_error_rate_above, point.packet_error_rate),
        )
        return all(bound is None or value > bound for bound, value in bounds)


class Profile(_FromFile):
    """What the plan keeps of an implementation's profile that a reader is told."""

    description: str = ""
    limits: Limits = Limits()
    not_repeatable: str | None = None
    known_limits: tuple[KnownLimit, ...] = ()

    def known_failure(self, record: Record) -> str:
        """Why the build is known to fail as a run did; "" where it is not, or where it was not the build's failure."""
        point = record.permutation
        if record.outcome not in NOT_DELIVERED:
            return ""
        return next((limit.why for limit in self.known_limits if limit.covers(point)), "")


class Plan(_FromFile):
    """plan.json: the sweep, every run of it, and its channels by their keys."""

    schema_version: Literal[1]
    sweep: Sweep
    implementations: dict[str, Profile]
    """By name, in the order of the sweep; a variant for each value of a parameter that it varies."""
    channels: dict[str, WrittenChannel]
    batches: tuple[_Batch, ...]

    @model_validator(mode="after")
    def _has_every_channel(self) -> Self:
        if missing := sorted({run.channel_key for run in self.runs} - set(self.channels)):
            raise ValueError(f"runs are on the channel {missing[0]}, which is not among its channels")
        return self

    @property
    def runs(self) -> list[PlannedRun]:
        """All runs in their order."""
        return [run for batch in self.batches for run in batch.runs]

    def place(self, permutation: Permutation, implementations: Sequence[str]) -> tuple[float, ...]:
        """Where a permutation stands in tables: channel by channel, the implementations side by side in this order."""
        channels = self.sweep.channel_names
        return (
            channels.index(permutation.channel_name) if permutation.channel_name in channels else len(channels),
            math.inf if permutation.rate_bps is None else permutation.rate_bps,
            permutation.delay_ns,
            permutation.file_size_bytes,
            permutation.packet_error_rate,
            implementations.index(permutation.implementation),
        )


class Event(_FromFile):
    """A line of journal.jsonl: something happened, at a time of this world's clock, in seconds since 1970."""

    at_s: float


class Side(_FromFile):
    """What ran on one host: the rate its card was set to, if it does not pace itself; commands it left behind."""

    card_rate_bps: float | None = None
    left_running: tuple[str, ...] = ()


class HostTcp(_FromFile):
    """What the kernel's TCP on one host says of a run: totals of the run's sockets (struct tcp_info, linux/tcp.h), and
    by how much the host's counters have grown, as nstat names them.

    `problem` says why there are none. `others_retransmitted` segments in the counters are not of the run. `dsack`: this
    host tells the other what came twice.
    """

    problem: str = ""
    sockets: tuple[dict[str, bool | int | str | None], ...] = ()
    counters: dict[str, int] = {}
    others_retransmitted: int = 0
    dsack: bool = False
    period_ns: int = 0


class Withheld(_FromFile):
    """What the machine withheld from a run while its session lasted (docs/measures.md).

    None is what was not measured, or, of a channel that varies, cannot be.
    """

    session_ns: int
    overdue_ns: int | None = None
    waited_ns: int | None = None
    dispatches: int | None = None


class Record(Permutation):
    """record.json: how a run ended. Times are ns since 1970 of the rig's clock, virtual or not."""

    schema_version: Literal[2]
    run_id: str
    title: str
    protocol: str
    repetition: int
    order: int
    seed: int
    clock: str
    rig: str
    outcome: Outcome
    reason: str = ""
    attempt: int = 1
    """Counts from 1."""
    earlier_attempts: tuple[str, ...] = ()
    """Why each earlier attempt was repeated, oldest first."""
    alone: bool = False
    """Performed in a guest of its own, because the batch was interrupted repeatedly."""
    suspect: tuple[str, ...] = ()
    started_at_ns: int | None = None
    ended_at_ns: int | None = None
    file_whole_at_ns: int | None = None
    sender: Side = Side()
    receiver: Side = Side()
    parameters: dict[str, int | float | str] = {}
    told: dict[str, float | None] = {}
    """`rate_bps` (None: unlimited), `one_way_delay_s` and `rtt_s`, as the build was told them."""
    versions: dict[str, str] = {}
    kernel_hz: int | None = None
    channel_key: str = ""
    certificate: Literal["ok", "failed", "incomplete", ""] = ""
    session: dict[str, Any] = {}
    """What belongs to the run in the captures (captures.session); {}: it ended before that was known."""
    tcp: dict[Literal["sender", "receiver"], HostTcp] = {}
    """Of a run over TCP."""
    withheld: Withheld | None = None
    """None on the exact clock, from which a machine can withhold nothing."""

    @property
    def permutation(self) -> Permutation:
        """The point of the grid that the run repeats."""
        return Permutation(**{name: getattr(self, name) for name in Permutation.model_fields})
